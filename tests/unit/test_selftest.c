/* The self-test on the CPU (or the device that tests run on): covers every op, finds nothing wrong, notices an error.
 */
#include "api/selftest_exact.h"
#include "device/device.h"
#include "device/selftest.h"
#include "golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_line(void *user, const selftest_line *line) {
    int *n = user;
    (*n)++;
    if (!line->ok)
        print_error("%s: error %g of %g in %d cases %s\n", op_info_of(line->kind)->name, line->error, line->limit,
                    line->n_cases, line->message);
    assert_true(line->n_cases > 0);
    assert_true(isfinite(line->error) && line->milliseconds >= 0);
}

static void every_op_is_right(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    device *dev = NULL;
    int n = 0, n_wrong = -1;
    assert_int_equal(device_open(ctx, test_device_name(), &dev), OL_OK);
    assert_int_equal(device_selftest(ctx, dev, DTYPE_F32, &(selftest_listener){check_line, NULL, &n}, &n_wrong), OL_OK);
    assert_int_equal(n, OP_KIND_COUNT);
    assert_int_equal(n_wrong, 0);
    device_close(dev);
    ol_context_destroy(ctx);
}

static void check_exact(void *user, const exact_line *line) {
    int *n_wrong = user;
    assert_true(line->n_cases >= 4 && line->milliseconds >= 0);
    *n_wrong += line->n_wrong;
}

static void rows_and_pictures_are_right(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    device *dev = NULL;
    int n_wrong = 0;
    assert_int_equal(device_open(ctx, test_device_name(), &dev), OL_OK);
    assert_int_equal(selftest_exact(ctx, dev, check_exact, &n_wrong), OL_OK);
    assert_int_equal(n_wrong, 0);
    device_close(dev);
    ol_context_destroy(ctx);
}

static const device_api *honest;

static ol_status select_wrong(device *dev, const decoded_batch *batch, const nms_options *o, detection_list *rows) {
    const ol_status status = honest->select(dev, batch, o, rows);
    if (status == OL_OK && !batch->corners) rows[1].count--;
    return status;
}

static ol_status select_never(device *dev, const decoded_batch *batch, const nms_options *o, detection_list *rows) {
    (void)batch, (void)o, (void)rows;
    return ctx_fail(dev->ctx, OL_ERROR_DEVICE, "the card is gone");
}

static void count_exact(void *user, const exact_line *line) {
    if (strcmp(line->name, "detections") != 0) return;
    *(int *)user += line->n_wrong;
    if (line->n_wrong == line->n_cases) assert_string_equal(line->message, "the card is gone");
}

static ol_status read_wrong(device *dev, const void *address, const op_operand *t, void *host) {
    const ol_status status = honest->tensor_read(dev, address, t, host);
    if (status == OL_OK && t->type == DTYPE_F32 && t->shape.rank == 4) ((float *)host)[0] += 0.25f;
    return status;
}

static ol_status launch_never(device *dev, kernel *k, const kernel_memory *memory) {
    (void)k, (void)memory;
    return ctx_fail(dev->ctx, OL_ERROR_DEVICE, "the card is gone");
}

static void count_wrong(void *user, const selftest_line *line) {
    int *kinds = user;
    kinds[line->kind] = line->ok ? 0 : 1;
    if (line->kind == OP_IMAGE_FLOAT && line->n_cases == 0)
        assert_string_equal(line->message, "layer image_float (image_float): the card is gone");
}

/* A device that answers wrongly, and one that fails at once. */
static void a_bad_device_is_noticed(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    device *dev = NULL;
    int n_wrong = 0, wrong[OP_KIND_COUNT];
    assert_int_equal(device_open(ctx, "cpu", &dev), OL_OK);
    honest = dev->api;
    device_api bad = *honest;
    bad.tensor_read = read_wrong;
    dev->api = &bad;
    assert_int_equal(device_selftest(ctx, dev, DTYPE_F32, &(selftest_listener){count_wrong, NULL, wrong}, &n_wrong),
                     OL_OK);
    assert_true(wrong[OP_CONV2D] && wrong[OP_MAX_POOL] && wrong[OP_CONV2D_GRAD_X] && !wrong[OP_DETECT_LOSS]);
    int n_exact = 0;
    bad = *honest;
    bad.select = select_wrong;
    assert_int_equal(selftest_exact(ctx, dev, count_exact, &n_exact), OL_OK);
    assert_int_equal(n_exact, 2);
    bad.select = select_never;
    assert_int_equal(selftest_exact(ctx, dev, count_exact, &n_exact), OL_OK);
    assert_int_equal(n_exact, 2 + 4);
    bad = *honest;
    bad.launch = launch_never;
    assert_int_equal(device_selftest(ctx, dev, DTYPE_F32, &(selftest_listener){count_wrong, NULL, wrong}, &n_wrong),
                     OL_OK);
    assert_int_equal(n_wrong, OP_KIND_COUNT);
    dev->api = honest;
    device_close(dev);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_is_right),
        cmocka_unit_test(rows_and_pictures_are_right),
        cmocka_unit_test(a_bad_device_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
