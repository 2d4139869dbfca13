#include "device_case.h"

#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

int device_case_open(void **state) {
    device_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->ctx = test_context();
    if (device_open(c->ctx, test_device_name(), &c->dev) != OL_OK) fail_msg("%s", ol_context_message(c->ctx));
    *state = c;
    return 0;
}

int device_case_close(void **state) {
    device_case *c = *state;
    device_close(c->dev);
    ol_context_destroy(c->ctx);
    free(c);
    return 0;
}
