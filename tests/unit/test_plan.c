/* Plans: memory sharing, bindings, repacked weights, refused requests, threads, and every failing allocation. */
#include "golden.h"
#include "net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Counts live blocks and makes the n-th allocation fail. */
typedef struct failing_heap {
    long until_failure; /* -1: never */
    long live;
    bool failed;
} failing_heap;

static void *failing_realloc(void *user, void *block, size_t bytes) {
    failing_heap *heap = user;
    if (bytes == 0) {
        heap->live -= block != NULL;
        free(block);
        return NULL;
    }
    if (heap->until_failure == 0) {
        heap->failed = true;
        return NULL;
    }
    if (heap->until_failure > 0) heap->until_failure--;
    void *grown = realloc(block, bytes);
    if (grown != NULL && block == NULL) heap->live++;
    return grown;
}

static ol_status map_add(graph *g, const char *name, tensor_role role, shape s, tensor_ref *out) {
    return graph_tensor_add(g, name, role, DTYPE_F32, s, out);
}

/* One op of each sort, derived when `train`. */
static ol_status block_build(graph *g, bool train) {
    const op_attr conv = {.kernel = {3, 3}, .pad = {1, 1}}, norm = {.eps = 1e-3f, .momentum = 0.03f, .act = ACT_SILU};
    const op_attr pool = {.kernel = {5, 5}, .pad = {2, 2}},
                  attention = {.heads = 1, .key_dim = 8, .head_dim = 16, .scale = 1};
    tensor_ref x, w, v[4], bias, gy, y, n[3], p[2], a[2], parts[3];
    ol_status status = map_add(g, "x", ROLE_INPUT, shape_4d(2, 8, 8, 8), &x);
    if (status == OL_OK) status = map_add(g, "w", ROLE_PARAM, shape_4d(32, 8, 3, 3), &w);
    if (status == OL_OK) status = map_add(g, "bias", ROLE_PARAM, shape_1d(32), &bias);
    const char *names[4] = {"gamma", "beta", "mean", "var"};
    for (int i = 0; i < 4 && status == OL_OK; i++)
        status = map_add(g, names[i], i < 2 ? ROLE_PARAM : ROLE_BUFFER, shape_1d(32), &v[i]);
    if (status == OL_OK) status = graph_op_add(g, OP_CONV2D, &conv, (tensor_ref[]){x, w, bias}, 3, &y);
    if (status == OL_OK)
        status = graph_op_add(g, OP_BATCH_NORM, &norm, (tensor_ref[]){y, v[0], v[1], v[2], v[3]}, 5, n);
    if (status == OL_OK) status = graph_op_add(g, OP_MAX_POOL, &pool, n, 1, p);
    if (status == OL_OK) status = graph_op_add(g, OP_ATTENTION, &attention, n, 1, a);
    if (status == OL_OK) status = graph_op_add(g, OP_SLICE, &(op_attr){.size = 16}, p, 1, &parts[0]);
    parts[1] = a[0];
    if (status == OL_OK) status = graph_op_add(g, OP_CONCAT, NULL, parts, 2, &y);
    if (status == OL_OK) status = graph_op_add(g, OP_FLATTEN_CONCAT, NULL, (tensor_ref[]){y, n[0]}, 2, &y);
    if (status != OL_OK) return status;
    graph_output_mark(g, y, "y");
    if (!train) return OL_OK;
    status = map_add(g, "gy", ROLE_INPUT, shape_3d(2, 32, 128), &gy);
    tensor_ref grads[64];
    assert_true(g->n_tensors < 64);
    return status == OL_OK ? graph_backward(g, &y, &gy, 1, NULL, grads) : status;
}

static ol_status block_run(ol_context *ctx, bool train) {
    graph *g = NULL;
    device *dev = NULL;
    plan *p = NULL;
    device_buffer *memory = NULL;
    ol_status status = graph_create(ctx, &g);
    if (status == OL_OK) status = block_build(g, train);
    if (status == OL_OK) status = device_open(ctx, "cpu", &dev);
    if (status == OL_OK) status = plan_create(ctx, dev, g, &p);
    if (status == OL_OK) status = device_buffer_create(dev, 1 << 20, &memory);
    for (size_t t = 0; status == OL_OK && t < g->n_tensors; t++) {
        const tensor_role role = g->tensors[t].role;
        if (role == ROLE_PARAM || role == ROLE_BUFFER || role == ROLE_GRAD)
            status = plan_bind(p, (tensor_ref)t, memory, t * 16384);
    }
    if (status == OL_OK) status = plan_run(p);
    plan_destroy(p);
    device_buffer_destroy(memory);
    device_close(dev);
    graph_destroy(g);
    return status;
}

static void every_failing_allocation(void **state) {
    (void)state;
    for (int train = 0; train < 2; train++) {
        bool finished = false;
        for (long n = 1; !finished; n++) {
            failing_heap heap = {-1, 0, false};
            const ol_context_options options = {.struct_bytes = sizeof options,
                                                .realloc_block = failing_realloc,
                                                .realloc_user = &heap,
                                                .n_threads = 1};
            ol_context *ctx = NULL;
            assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
            heap.until_failure = n;
            const ol_status status = block_run(ctx, train == 1);
            finished = !heap.failed;
            assert_int_equal(status, finished ? OL_OK : OL_ERROR_MEMORY);
            if (!finished) assert_string_not_equal(ol_context_message(ctx), "");
            heap.until_failure = -1;
            assert_int_equal(heap.live, 1); /* the context itself */
            ol_context_destroy(ctx);
            assert_true(n < 10000);
        }
    }
}

/* A chain of many activations needs the memory of its ends only, whatever its length. */
static void dead_memory_is_used_again(void **state) {
    (void)state;
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        net *n = net_create();
        tensor_ref t = net_tensor(n, "x", ROLE_INPUT, shape_4d(1, 32, 16, 16), -1, 1);
        for (int k = 0; k < (i == 0 ? 2 : 20); k++) {
            t = net_op(n, OP_UPSAMPLE2, NULL, &t, 1);
            t = net_op(n, OP_MAX_POOL, &(op_attr){.kernel = {2, 2}, .stride = {2, 2}}, &t, 1);
        }
        graph_output_mark(n->g, t, "y");
        net_plan(n);
        bytes[i] = plan_memory_bytes(n->p);
        net_destroy(n);
    }
    assert_true(bytes[1] <= bytes[0] + bytes[0] / 2);
}

static void weights_are_packed_anew_when_told(void **state) {
    (void)state;
    net *n = net_create();
    const tensor_ref x = net_tensor(n, "x", ROLE_INPUT, shape_4d(1, 16, 5, 5), -1, 1);
    const tensor_ref w = net_tensor(n, "w", ROLE_PARAM, shape_4d(16, 16, 1, 1), -1, 1);
    const tensor_ref y = net_op(n, OP_CONV2D, &(op_attr){.kernel = {1, 1}}, (tensor_ref[]){x, w}, 2);
    graph_output_mark(n->g, y, "y");
    net_plan(n);
    net_run(n);
    float *before = net_read(n, y), weights[256]; /* the only bound tensor */
    assert_int_equal(device_buffer_read(n->memory, 0, weights, sizeof weights), OL_OK);
    for (size_t i = 0; i < net_count(n, w); i++) weights[i] *= 2.0f;
    assert_int_equal(device_buffer_write(n->memory, 0, weights, sizeof weights), OL_OK);
    plan_params_changed(n->p);
    assert_int_equal(plan_run(n->p), OL_OK);
    float *after = net_read(n, y);
    for (size_t i = 0; i < net_count(n, y); i++) before[i] *= 2.0f;
    assert_close("doubled weights", after, before, net_count(n, y), 1e-6, 1e-6);
    free(before);
    free(after);
    net_destroy(n);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    net *n = net_create();
    const tensor_ref x = net_tensor(n, "x", ROLE_INPUT, shape_4d(1, 3, 5, 5), -1, 1);
    const tensor_ref w = net_tensor(n, "w", ROLE_PARAM, shape_4d(4, 3, 3, 3), -1, 1);
    tensor_ref out;
    n->g->scope = "model.7";
    assert_int_equal(graph_op_add(n->g, OP_CONV2D, &(op_attr){.kernel = {5, 5}}, (tensor_ref[]){x, w}, 2, &out),
                     OL_ERROR_ARGUMENT);
    assert_non_null(strstr(ol_context_message(n->ctx), "layer model.7"));
    assert_non_null(strstr(ol_context_message(n->ctx), "(1,3,5,5) (4,3,3,3)"));
    ol_context *ctx = n->ctx;
    const tensor_ref y = net_op(n, OP_CONV2D, &(op_attr){.kernel = {3, 3}}, (tensor_ref[]){x, w}, 2);
    graph_output_mark(n->g, y, "y");
    plan *p = NULL;
    ctx_clear(ctx);
    assert_int_equal(plan_create(ctx, n->dev, n->g, &p), OL_OK);
    assert_int_equal(plan_run(p), OL_ERROR_INTERNAL);
    assert_non_null(strstr(ol_context_message(ctx), "'w'"));
    float values[75] = {0};
    ctx_clear(ctx);
    assert_int_equal(plan_write(p, x, values, sizeof values - 4), OL_ERROR_INTERNAL);
    assert_int_equal(plan_write(p, y, values, sizeof values), OL_ERROR_INTERNAL);
    device_buffer *small = NULL;
    assert_int_equal(device_buffer_create(n->dev, 64, &small), OL_OK);
    assert_int_equal(plan_bind(p, w, small, 0), OL_ERROR_INTERNAL);
    assert_int_equal(device_buffer_write(small, 60, values, 8), OL_ERROR_INTERNAL);
    device *none = NULL;
    ctx_clear(ctx);
    assert_int_equal(device_open(ctx, "abacus", &none), OL_ERROR_NOT_FOUND);
    device_buffer_destroy(small);
    plan_destroy(p);
    net_destroy(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation),
        cmocka_unit_test(dead_memory_is_used_again),
        cmocka_unit_test(weights_are_packed_anew_when_told),
        cmocka_unit_test(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
