/* Every op's backward rule against finite differences of its forward, through graph, plan and the CPU device. */
#include "golden.h"
#include "net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* sum(y * gy) with the values as they are now. */
static double objective(net *n, tensor_ref y, tensor_ref gy) {
    net_run(n);
    float *out = net_read(n, y);
    double sum = 0.0;
    for (size_t i = 0; i < net_count(n, y); i++) sum += (double)out[i] * (double)n->value[gy][i];
    free(out);
    return sum;
}

/* The derivative along a random direction of one input or parameter, both ways. */
static void direction_check(net *n, tensor_ref t, tensor_ref y, tensor_ref gy, double step, double tolerance) {
    const size_t count = net_count(n, t);
    float *direction = malloc(count * sizeof *direction), *kept = malloc(count * sizeof *kept);
    golden_hash("direction", direction, count, -1.0, 1.0);
    memcpy(kept, n->value[t], count * sizeof *kept);
    net_run(n);
    float *grad = net_read(n, n->grad[t]);
    double expected = 0.0, size = 0.0;
    for (size_t i = 0; i < count; i++) {
        expected += (double)grad[i] * (double)direction[i];
        size += fabs((double)grad[i] * (double)direction[i]);
    }
    double side[2];
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < count; i++) n->value[t][i] = kept[i] + (float)(s == 0 ? step : -step) * direction[i];
        side[s] = objective(n, y, gy);
    }
    memcpy(n->value[t], kept, count * sizeof *kept);
    const double found = (side[0] - side[1]) / (2.0 * step);
    if (!(fabs(found - expected) <= tolerance * (size / sqrt((double)count) + fabs(expected)) + 1e-4))
        fail_msg("tensor %s: gradient says %g, differences say %g", n->g->tensors[t].name, expected, found);
    free(grad);
    free(kept);
    free(direction);
}

static void finish(net *n, tensor_ref y, double step, double tolerance) {
    const tensor_ref gy = net_derive(n, y);
    const size_t before = n->g->n_tensors;
    net_plan(n);
    int checked = 0;
    for (size_t t = 0; t < before; t++) {
        if (n->g->tensors[t].role != ROLE_PARAM && n->g->tensors[t].role != ROLE_INPUT) continue;
        if ((tensor_ref)t == gy || n->grad[t] == TENSOR_NONE) continue;
        direction_check(n, (tensor_ref)t, y, gy, step, tolerance);
        checked++;
    }
    assert_true(checked > 0);
    net_destroy(n);
}

static tensor_ref map_input(net *n, const char *name, int64_t c, int64_t h, int64_t w) {
    return net_tensor(n, name, ROLE_INPUT, shape_4d(2, c, h, w), -1.0, 1.0);
}

typedef struct conv_case {
    int c, k, size[2], kernel[2], stride[2], pad[2], dilation[2], groups;
} conv_case;

static void conv_gradients(void **state) {
    (void)state;
    static const conv_case cases[] = {
        {3, 8, {9, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},   {16, 16, {5, 6}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
        {16, 32, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, {16, 16, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 16},
        {6, 4, {7, 9}, {3, 2}, {2, 1}, {1, 0}, {1, 2}, 2},   {24, 5, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
        {8, 16, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const conv_case *c = &cases[i];
        net *n = net_create();
        op_attr attr = {.groups = c->groups};
        memcpy(attr.kernel, c->kernel, sizeof attr.kernel);
        memcpy(attr.stride, c->stride, sizeof attr.stride);
        memcpy(attr.pad, c->pad, sizeof attr.pad);
        memcpy(attr.dilation, c->dilation, sizeof attr.dilation);
        const tensor_ref x = map_input(n, "x", c->c, c->size[0], c->size[1]);
        const tensor_ref w =
            net_tensor(n, "w", ROLE_PARAM, shape_4d(c->k, c->c / c->groups, c->kernel[0], c->kernel[1]), -0.5, 0.5);
        const tensor_ref b = net_tensor(n, "b", ROLE_PARAM, shape_1d(c->k), -0.5, 0.5);
        finish(n, net_op(n, OP_CONV2D, &attr, (tensor_ref[]){x, w, b}, 3), 1e-2, 1e-3);
    }
}

static tensor_ref batch_norm(net *n, tensor_ref x, activation act, bool frozen) {
    const int64_t c = graph_shape(n->g, x)->dim[1];
    const tensor_ref gamma = net_tensor(n, "gamma", ROLE_PARAM, shape_1d(c), 0.5, 1.5);
    const tensor_ref beta = net_tensor(n, "beta", ROLE_PARAM, shape_1d(c), -0.5, 0.5);
    const tensor_ref mean = net_tensor(n, "mean", ROLE_BUFFER, shape_1d(c), -0.5, 0.5);
    const tensor_ref var = net_tensor(n, "var", ROLE_BUFFER, shape_1d(c), 0.5, 1.5);
    const op_attr attr = {.eps = 1e-3f, .momentum = 0.03f, .act = act, .frozen = frozen};
    return net_op(n, OP_BATCH_NORM, &attr, (tensor_ref[]){x, gamma, beta, mean, var}, 5);
}

static void batch_norm_gradients(void **state) {
    (void)state;
    for (int variant = 0; variant < 6; variant++) {
        net *n = net_create();
        const activation acts[3] = {ACT_NONE, ACT_SILU, ACT_SIGMOID};
        const tensor_ref x = map_input(n, "x", variant % 2 ? 5 : 16, 5, 3);
        finish(n, batch_norm(n, x, acts[variant % 3], variant >= 3), 1e-2, 3e-3);
    }
}

static void activation_gradients(void **state) {
    (void)state;
    for (int act = ACT_NONE; act <= ACT_SIGMOID; act++) {
        if (act == ACT_RELU) continue; /* has a kink */
        net *n = net_create();
        const tensor_ref x = map_input(n, "x", 5, 4, 3);
        finish(n, net_op(n, OP_ACTIVATE, &(op_attr){.act = (activation)act}, &x, 1), 1e-2, 1e-3);
    }
}

static void slice_concat_gradients(void **state) {
    (void)state;
    for (int c = 3; c <= 16; c += 13) {
        net *n = net_create(); /* halves, a sum, and everything joined: the shape of a C3k2 */
        const tensor_ref x = map_input(n, "x", 2 * c, 4, 5);
        const tensor_ref scaled = net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SILU}, &x, 1);
        const tensor_ref a = net_op(n, OP_SLICE, &(op_attr){.begin = 0, .size = c}, &scaled, 1);
        const tensor_ref b = net_op(n, OP_SLICE, &(op_attr){.begin = c, .size = c}, &scaled, 1);
        const tensor_ref s = net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SIGMOID}, &b, 1);
        const tensor_ref sum = net_op(n, OP_ADD, NULL, (tensor_ref[]){b, s}, 2);
        const tensor_ref joined = net_op(n, OP_CONCAT, NULL, (tensor_ref[]){a, b, sum}, 3);
        finish(n, net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SIGMOID}, &joined, 1), 1e-2, 1e-3);
    }
}

static void grouped_slice_gradients(void **state) {
    (void)state;
    net *n = net_create();
    const tensor_ref x = map_input(n, "x", 12, 4, 5);
    const tensor_ref a = net_op(n, OP_SLICE, &(op_attr){.begin = 2, .size = 3, .groups = 2}, &x, 1);
    const tensor_ref b = net_op(n, OP_SLICE, &(op_attr){.begin = 1, .size = 6, .groups = 1}, &x, 1);
    const tensor_ref sum = net_op(n, OP_ADD, NULL, (tensor_ref[]){a, b}, 2);
    finish(n, net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SIGMOID}, &sum, 1), 1e-2, 1e-3);
}

static void resample_gradients(void **state) {
    (void)state;
    for (int c = 3; c <= 16; c += 13) {
        net *n = net_create();
        const tensor_ref x = map_input(n, "x", c, 5, 3);
        finish(n, net_op(n, OP_UPSAMPLE2, NULL, &x, 1), 1e-2, 1e-3);
        n = net_create();
        const tensor_ref z = map_input(n, "x", c, 7, 6);
        const op_attr pool = {.kernel = {5, 5}, .pad = {2, 2}};
        finish(n, net_op(n, OP_MAX_POOL, &pool, &z, 1), 1e-5, 2e-2); /* a small step: maxima must not change places */
    }
}

static void attention_gradients(void **state) {
    (void)state;
    static const int dims[3][3] = {{1, 4, 8}, {2, 8, 16}, {2, 3, 5}};
    for (int i = 0; i < 3; i++) {
        net *n = net_create();
        const op_attr attr = {.heads = dims[i][0], .key_dim = dims[i][1], .head_dim = dims[i][2], .scale = 0.5f};
        const tensor_ref x = map_input(n, "x", attr.heads * (2 * attr.key_dim + attr.head_dim), 4, 3);
        finish(n, net_op(n, OP_ATTENTION, &attr, &x, 1), 1e-2, 2e-3);
    }
}

static void flatten_gradients(void **state) {
    (void)state;
    for (int c = 4; c <= 16; c += 12) {
        net *n = net_create();
        const tensor_ref a = map_input(n, "a", c, 4, 6), b = map_input(n, "b", c, 3, 1);
        const tensor_ref sa = net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SILU}, &a, 1);
        const tensor_ref sb = net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SILU}, &b, 1);
        finish(n, net_op(n, OP_FLATTEN_CONCAT, NULL, (tensor_ref[]){sa, sb}, 2), 1e-2, 1e-3);
    }
}

/* x + detach(silu(x)): the detached way gives no gradient. */
static void detach_stops(void **state) {
    (void)state;
    net *n = net_create();
    const tensor_ref x = map_input(n, "x", 3, 4, 4);
    const tensor_ref s = net_op(n, OP_ACTIVATE, &(op_attr){.act = ACT_SILU}, &x, 1);
    const tensor_ref d = net_op(n, OP_DETACH, NULL, &s, 1);
    const tensor_ref y = net_op(n, OP_ADD, NULL, (tensor_ref[]){x, d}, 2);
    const tensor_ref gy = net_derive(n, y);
    net_plan(n);
    net_run(n);
    float *grad = net_read(n, n->grad[x]);
    assert_close("gradient past detach", grad, n->value[gy], net_count(n, x), 0.0, 0.0);
    free(grad);
    net_destroy(n);
}

/* Gradients of parameters are added to what is there; unwanted ones get no op. */
static void gradients_accumulate(void **state) {
    (void)state;
    net *n = net_create();
    const tensor_ref x = map_input(n, "x", 3, 5, 5);
    const tensor_ref w = net_tensor(n, "w", ROLE_PARAM, shape_4d(4, 3, 3, 3), -0.5, 0.5);
    const tensor_ref y = net_op(n, OP_CONV2D, &(op_attr){.kernel = {3, 3}, .pad = {1, 1}}, (tensor_ref[]){x, w}, 2);
    net_derive(n, y);
    net_plan(n);
    net_run(n);
    float *once = net_read(n, n->grad[w]);
    if (plan_run(n->p) != OL_OK) fail_msg("%s", ol_context_message(n->ctx));
    float *twice = net_read(n, n->grad[w]);
    for (size_t i = 0; i < net_count(n, w); i++) once[i] *= 2.0f;
    assert_close("gradient after two runs", twice, once, net_count(n, w), 1e-6, 1e-6);
    free(once);
    free(twice);
    net_destroy(n);
}

static void frozen_parameters_end_the_backward(void **state) {
    (void)state;
    net *n = net_create();
    const op_attr conv = {.kernel = {3, 3}, .pad = {1, 1}};
    const tensor_ref x = map_input(n, "x", 3, 5, 5);
    const tensor_ref w0 = net_tensor(n, "w0", ROLE_PARAM, shape_4d(4, 3, 3, 3), -0.5, 0.5);
    const tensor_ref w1 = net_tensor(n, "w1", ROLE_PARAM, shape_4d(4, 4, 3, 3), -0.5, 0.5);
    const tensor_ref a = net_op(n, OP_CONV2D, &conv, (tensor_ref[]){x, w0}, 2);
    const tensor_ref y = net_op(n, OP_CONV2D, &conv, (tensor_ref[]){a, w1}, 2);
    const tensor_ref gy = net_tensor(n, "gy", ROLE_INPUT, *graph_shape(n->g, y), -1.0, 1.0);
    bool wanted[NET_MAX_TENSORS] = {0};
    wanted[w1] = true;
    assert_int_equal(graph_backward(n->g, &y, &gy, 1, wanted, n->grad), OL_OK);
    assert_int_equal(n->grad[w0], TENSOR_NONE);
    assert_int_equal(n->g->n_ops, 3);
    net_destroy(n);
}

/* One value a channel (imgsz 32, batch 1): the running statistics serve and stay. */
static void batch_of_one_value(void **state) {
    (void)state;
    net *n = net_create();
    const tensor_ref x = net_tensor(n, "x", ROLE_INPUT, shape_4d(1, 5, 1, 1), -1.0, 1.0);
    const tensor_ref y = batch_norm(n, x, ACT_NONE, false);
    net_derive(n, y);
    net_plan(n);
    net_run(n);
    const tensor_ref mean = graph_find(n->g, "mean"), var = graph_find(n->g, "var");
    const tensor_ref gamma = graph_find(n->g, "gamma"), beta = graph_find(n->g, "beta");
    float *found = net_read(n, y), *kept = net_read(n, mean), expected[5];
    for (int c = 0; c < 5; c++)
        expected[c] = (n->value[x][c] - n->value[mean][c]) / sqrtf(n->value[var][c] + 1e-3f) * n->value[gamma][c] +
                      n->value[beta][c];
    assert_close("normalised", found, expected, 5, 1e-6, 1e-5);
    assert_close("running mean", kept, n->value[mean], 5, 0.0, 0.0);
    free(found);
    free(kept);
    net_destroy(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_gradients),         cmocka_unit_test(batch_norm_gradients),
        cmocka_unit_test(batch_of_one_value),     cmocka_unit_test(activation_gradients),
        cmocka_unit_test(slice_concat_gradients), cmocka_unit_test(grouped_slice_gradients),
        cmocka_unit_test(resample_gradients),     cmocka_unit_test(attention_gradients),
        cmocka_unit_test(flatten_gradients),      cmocka_unit_test(detach_stops),
        cmocka_unit_test(gradients_accumulate),   cmocka_unit_test(frozen_parameters_end_the_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
