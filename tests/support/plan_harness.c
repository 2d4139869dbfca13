#include "plan_harness.h"

#include "golden.h"
#include "guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const plan_harness *h, ol_status status, const char *what) {
    if (status != OL_OK) fail_msg("%s: %s", what, ol_context_message(h->ctx));
}

static size_t bytes_of(const plan_harness *h, tensor_ref t) {
    return (size_t)shape_elements(graph_shape(h->g, t)) * dtype_bytes(h->g->tensors[t].type);
}

void plan_harness_init(plan_harness *h, ol_context *ctx, const graph *g, const tensor_list *state) {
    *h = (plan_harness){.ctx = ctx, .g = g};
    h->buffers = calloc(g->n_tensors, sizeof *h->buffers);
    assert_non_null(h->buffers);
    check(h, device_open(ctx, test_device_name(), &h->dev), "device_open");
    guard_device(h->dev);
    check(h, plan_create(ctx, h->dev, g, &h->p), "plan_create");
    for (size_t i = 0; i < g->n_tensors; i++) {
        const graph_tensor *t = &g->tensors[i];
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER && t->role != ROLE_GRAD) continue;
        const size_t bytes = bytes_of(h, (tensor_ref)i);
        check(h, device_buffer_create(h->dev, bytes, &h->buffers[i]), t->name);
        if (t->role != ROLE_GRAD) {
            const tensor *from = tensor_list_find(state, t->name);
            if (from == NULL || !shape_equal(&from->shape, &t->shape)) fail_msg("no state for '%s'", t->name);
            check(h, device_buffer_write(h->buffers[i], 0, from->data, bytes), t->name);
        }
        check(h, plan_bind(h->p, (tensor_ref)i, h->buffers[i], 0), t->name);
    }
}

void plan_harness_deinit(plan_harness *h) {
    plan_destroy(h->p);
    for (size_t i = 0; i < h->g->n_tensors; i++) {
        if (h->buffers[i] != NULL) device_buffer_destroy(h->buffers[i]);
    }
    free(h->buffers);
    device_close(h->dev);
}

void plan_harness_write(plan_harness *h, tensor_ref t, const void *data) {
    check(h, plan_write(h->p, t, data, bytes_of(h, t)), h->g->tensors[t].name);
}

void plan_harness_run(plan_harness *h) {
    check(h, plan_run(h->p), "plan_run");
}

float *plan_harness_read(plan_harness *h, tensor_ref t) {
    const size_t bytes = bytes_of(h, t);
    float *out = malloc(bytes);
    assert_non_null(out);
    if (h->buffers[t] != NULL)
        check(h, device_buffer_read(h->buffers[t], 0, out, bytes), h->g->tensors[t].name);
    else
        check(h, plan_read(h->p, t, out, bytes), h->g->tensors[t].name);
    return out;
}

float *plan_harness_read_named(plan_harness *h, const char *name) {
    const tensor_ref t = graph_find(h->g, name);
    if (t == TENSOR_NONE) fail_msg("no tensor '%s'", name);
    return plan_harness_read(h, t);
}
