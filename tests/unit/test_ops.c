/* Every row of graph/ops.def on a device against its plain C reference: odd and prime sizes, batches of one and more,
 * operands that lie by themselves and operands that are views into larger maps.
 * Environment: ONELOOK_TEST_DEVICE names the device; ONELOOK_TEST_COMPUTE (f16, bf16) the type of maps on a device that
 * has it; ONELOOK_TEST_OPS ("conv2d,concat") chooses ops;
 * ONELOOK_TEST_PART ("1/4") takes the cases whose number leaves 1 when it is divided by 4, for runs side by side;
 * ONELOOK_TEST_LARGEST (elements) leaves out cases with a larger operand, for a device that is interpreted;
 * ONELOOK_TEST_TIMES=1 prints the time of every case. */
#include "device/device.h"
#include "golden.h"
#include "guard.h"
#include "net.h"
#include "ops/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

typedef struct case_input {
    shape shape;
    tensor_role role; /* ROLE_TEMP (0): an input of the graph */
    dtype type;
    double lo, hi; /* both 0: -1 … 1 */
} case_input;

typedef struct op_case {
    op_kind kind;
    op_attr attr;
    int n_in;
    case_input in[6];
    tensor_role out_role[3]; /* ROLE_GRAD: the output is added to */
} op_case;

#define NO_ATTR                                                                                                        \
    { .eps = 0 }
#define MAP(n, c, h, w)                                                                                                \
    {                                                                                                                  \
        .shape = { 4, {n, c, h, w} }                                                                                   \
    }
#define PARAM(...)                                                                                                     \
    { .shape = {4, {__VA_ARGS__}}, .role = ROLE_PARAM }
#define VECTOR(n, lo_, hi_)                                                                                            \
    { .shape = {1, {n}}, .role = ROLE_BUFFER, .lo = lo_, .hi = hi_ }
#define CONV(kh, kw, s, p, g, act_)                                                                                    \
    { .kernel = {kh, kw}, .stride = {s, s}, .pad = {p, p}, .groups = g, .act = act_ }
#define NORM(act_, frozen_)                                                                                            \
    { .eps = 1e-3f, .momentum = 0.03f, .act = act_, .frozen = frozen_ }
#define NORM_IN(n, c, h, w)                                                                                            \
    { MAP(n, c, h, w), VECTOR(c, 0.5, 1.5), VECTOR(c, -0.5, 0.5), VECTOR(c, -0.5, 0.5), VECTOR(c, 0.5, 1.5) }
#define NORM_GRAD_IN(n, c, h, w)                                                                                       \
    {                                                                                                                  \
        MAP(n, c, h, w), MAP(n, c, h, w), VECTOR(c, 0.5, 1.5), VECTOR(c, -0.5, 0.5), VECTOR(c, -0.25, 0.5),            \
            VECTOR(c, 0.5, 2.0)                                                                                        \
    }
#define LEVELS .n_levels = 2, .level_h = {5, 3}, .level_w = {7, 2}, .level_stride = {8, 16}

static const op_case cases[] = {
    {OP_IMAGE_FLOAT, NO_ATTR, 1, {{{4, {1, 3, 7, 11}}, ROLE_TEMP, DTYPE_U8, 0, 256}}, {ROLE_TEMP}},
    {OP_IMAGE_FLOAT, NO_ATTR, 1, {{{4, {2, 5, 7, 11}}, ROLE_TEMP, DTYPE_U8, 0, 256}}, {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 2, 1, 1, ACT_SILU),
     3,
     {MAP(1, 3, 13, 17), PARAM(16, 3, 3, 3), VECTOR(16, -1, 1)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 1, 1, 1, ACT_SILU),
     4,
     {MAP(1, 16, 7, 5), PARAM(32, 16, 3, 3), VECTOR(32, -1, 1), MAP(1, 32, 7, 5)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 1, 1, 1, ACT_SILU),
     4,
     {MAP(3, 8, 7, 5), PARAM(16, 8, 3, 3), VECTOR(16, -1, 1), MAP(3, 16, 7, 5)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(1, 1, 1, 0, 1, ACT_NONE),
     3,
     {MAP(2, 37, 1, 3), PARAM(80, 37, 1, 1), VECTOR(80, -1, 1)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(1, 1, 1, 0, 1, ACT_RELU),
     3,
     {MAP(1, 64, 3, 11), PARAM(4, 64, 1, 1), VECTOR(4, -1, 1)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 1, 1, 32, ACT_SIGMOID),
     3,
     {MAP(2, 32, 5, 6), PARAM(32, 1, 3, 3), VECTOR(32, -1, 1)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 2, 1, 1, ACT_SILU),
     4,
     {MAP(2, 37, 13, 49), PARAM(80, 37, 3, 3), VECTOR(80, -1, 1), MAP(2, 80, 7, 25)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 2, 1, 1, ACT_RELU),
     3,
     {MAP(1, 16, 2, 1), PARAM(48, 16, 3, 3), VECTOR(48, -1, 1)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 2, 1, 1, ACT_SILU),
     3,
     {MAP(2, 3, 8, 39), PARAM(48, 3, 3, 3), VECTOR(48, -1, 1)},
     {ROLE_TEMP}},
    {OP_CONV2D, CONV(3, 3, 2, 0, 1, ACT_NONE), 2, {MAP(1, 17, 9, 46), PARAM(3, 17, 3, 3)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(2, 2, 2, 0, 1, ACT_SILU), 2, {MAP(1, 32, 6, 34), PARAM(33, 32, 2, 2)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(1, 3, 2, 1, 1, ACT_SILU), 2, {MAP(1, 16, 5, 9), PARAM(16, 16, 1, 3)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(1, 1, 2, 0, 1, ACT_SILU), 2, {MAP(3, 16, 5, 22), PARAM(32, 16, 1, 1)}, {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(1, 1, 1, 0, 1, ACT_SILU),
     4,
     {MAP(2, 40, 9, 23), PARAM(112, 40, 1, 1), VECTOR(112, -1, 1), MAP(2, 112, 9, 23)},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 1, 1, 48, ACT_SILU),
     4,
     {MAP(2, 48, 6, 14), PARAM(48, 1, 3, 3), VECTOR(48, -1, 1), MAP(2, 48, 6, 14)},
     {ROLE_TEMP}},
    {OP_CONV2D, CONV(3, 3, 1, 1, 5, ACT_SILU), 2, {MAP(1, 5, 1, 1), PARAM(5, 1, 3, 3)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(5, 5, 2, 2, 16, ACT_SILU), 2, {MAP(2, 16, 9, 11), PARAM(16, 1, 5, 5)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(3, 2, 2, 0, 2, ACT_NONE), 2, {MAP(3, 6, 9, 8), PARAM(10, 3, 3, 2)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(3, 3, 1, 1, 17, ACT_NONE), 2, {MAP(1, 17, 5, 6), PARAM(17, 1, 3, 3)}, {ROLE_TEMP}},
    {OP_BATCH_NORM, NORM(ACT_SILU, false), 5, NORM_IN(3, 16, 7, 5), {ROLE_TEMP}},
    {OP_BATCH_NORM, NORM(ACT_NONE, false), 5, NORM_IN(1, 37, 1, 1), {ROLE_TEMP}},
    {OP_BATCH_NORM, NORM(ACT_SIGMOID, false), 5, NORM_IN(2, 5, 3, 3), {ROLE_TEMP}},
    {OP_BATCH_NORM, NORM(ACT_SILU, true), 5, NORM_IN(2, 48, 71, 67), {ROLE_TEMP}},
    {OP_ACTIVATE, {.act = ACT_SILU}, 1, {MAP(3, 13, 5, 7)}, {ROLE_TEMP}},
    {OP_ACTIVATE, {.act = ACT_RELU}, 1, {MAP(1, 32, 5, 7)}, {ROLE_TEMP}},
    {OP_ACTIVATE, {.act = ACT_SIGMOID}, 1, {MAP(1, 3, 5, 7)}, {ROLE_TEMP}},
    {OP_ADD, NO_ATTR, 2, {MAP(3, 17, 5, 7), MAP(3, 17, 5, 7)}, {ROLE_TEMP}},
    {OP_ADD, NO_ATTR, 2, {MAP(1, 64, 41, 37), MAP(1, 64, 41, 37)}, {ROLE_TEMP}},
    {OP_CONCAT, NO_ATTR, 3, {MAP(2, 16, 5, 3), MAP(2, 32, 5, 3), MAP(2, 5, 5, 3)}, {ROLE_TEMP}},
    {OP_CONCAT, NO_ATTR, 2, {MAP(1, 3, 5, 3), MAP(1, 7, 5, 3)}, {ROLE_TEMP}},
    {OP_SLICE, {.begin = 16, .size = 32}, 1, {MAP(2, 64, 5, 3)}, {ROLE_TEMP}},
    {OP_SLICE, {.begin = 16, .size = 16, .groups = 2}, 1, {MAP(2, 96, 5, 3)}, {ROLE_TEMP}},
    {OP_SLICE, {.begin = 1, .size = 3, .groups = 2}, 1, {MAP(3, 10, 5, 3)}, {ROLE_TEMP}},
    {OP_UPSAMPLE2, NO_ATTR, 1, {MAP(1, 16, 7, 3)}, {ROLE_TEMP}},
    {OP_UPSAMPLE2, NO_ATTR, 1, {MAP(3, 5, 1, 13)}, {ROLE_TEMP}},
    {OP_MAX_POOL, {.kernel = {5, 5}, .pad = {2, 2}}, 1, {MAP(2, 19, 7, 3)}, {ROLE_TEMP}},
    {OP_MAX_POOL, {.kernel = {3, 2}, .stride = {2, 2}, .pad = {1, 0}}, 1, {MAP(1, 16, 11, 6)}, {ROLE_TEMP}},
    {OP_ATTENTION, {.heads = 2, .key_dim = 16, .head_dim = 32, .scale = 0.25f}, 1, {MAP(2, 128, 5, 7)}, {ROLE_TEMP}},
    {OP_ATTENTION, {.heads = 3, .key_dim = 3, .head_dim = 5, .scale = 0.5f}, 1, {MAP(1, 33, 2, 3)}, {ROLE_TEMP}},
    {OP_FLATTEN_CONCAT, NO_ATTR, 3, {MAP(2, 80, 9, 5), MAP(2, 80, 3, 4), MAP(2, 80, 1, 1)}, {ROLE_TEMP}},
    {OP_FLATTEN_CONCAT, NO_ATTR, 2, {MAP(1, 4, 9, 5), MAP(1, 4, 3, 4)}, {ROLE_TEMP}},
    {OP_FLATTEN_CONCAT, NO_ATTR, 2, {MAP(2, 37, 13, 11), MAP(2, 37, 1, 3)}, {ROLE_TEMP}},
    {OP_DETACH, NO_ATTR, 1, {MAP(2, 5, 3, 3)}, {ROLE_TEMP}},
    {OP_DETECT_DECODE,
     {LEVELS},
     2,
     {{.shape = {3, {2, 4, 41}}}, {.shape = {3, {2, 13, 41}}, .lo = -9, .hi = 9}},
     {ROLE_TEMP}},
    {OP_DETECT_DECODE,
     {LEVELS, .corners = true},
     2,
     {{.shape = {3, {1, 4, 41}}}, {.shape = {3, {1, 1, 41}}}},
     {ROLE_TEMP}},
    {OP_DETECT_LOSS,
     {LEVELS, .topk = 10, .topk2 = 10, .alpha = 0.5f, .beta = 6.0f},
     5,
     {{.shape = {3, {2, 4, 41}}, .lo = 0.2, .hi = 2},
      {.shape = {3, {2, 3, 41}}},
      {.shape = {3, {2, 3, 5}}, .lo = 0.2, .hi = 0.8},
      {{1, {2}}, ROLE_TEMP, DTYPE_I32, 1, 3},
      {.shape = {1, {8}}, .lo = 0.5, .hi = 1.5}},
     {ROLE_TEMP}},
    /* one target only in the second assignment: the one-to-one head's */
    {OP_DETECT_LOSS,
     {LEVELS, .topk = 7, .topk2 = 1, .alpha = 0.5f, .beta = 6.0f},
     5,
     {{.shape = {3, {2, 4, 41}}, .lo = 0.2, .hi = 2},
      {.shape = {3, {2, 3, 41}}},
      {.shape = {3, {2, 6, 5}}, .lo = 0.2, .hi = 0.8},
      {{1, {2}}, ROLE_TEMP, DTYPE_I32, 2, 6},
      {.shape = {1, {8}}, .lo = 0.5, .hi = 1.5}},
     {ROLE_TEMP}},
    {OP_CONV2D,
     CONV(3, 3, 1, 1, 1, ACT_SILU),
     3,
     {MAP(2, 48, 41, 43), PARAM(8, 48, 3, 3), VECTOR(8, -1, 1)},
     {ROLE_TEMP}},
    /* many pixels and many outputs: wide tiles on small GPUs */
    {OP_CONV2D, CONV(1, 1, 1, 0, 1, ACT_SILU), 2, {MAP(1, 16, 33, 32), PARAM(60, 16, 1, 1)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(1, 1, 1, 0, 1, ACT_NONE), 2, {MAP(1, 8, 33, 32), PARAM(75, 8, 1, 1)}, {ROLE_TEMP}},
    {OP_CONV2D, CONV(3, 3, 1, 1, 1, ACT_NONE), 2, {MAP(2, 20, 1, 3), PARAM(33, 20, 3, 3)}, {ROLE_TEMP}},
    {OP_CONV2D_GRAD_X,
     {.kernel = {3, 3}, .pad = {1, 1}, .extent = {13, 10}},
     2,
     {MAP(3, 17, 13, 10), PARAM(17, 8, 3, 3)},
     {ROLE_TEMP}},
    {OP_CONV2D_GRAD_X,
     {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .extent = {13, 10}},
     2,
     {MAP(3, 32, 7, 5), PARAM(32, 16, 3, 3)},
     {ROLE_TEMP}},
    {OP_CONV2D_GRAD_X,
     {.kernel = {3, 3}, .pad = {1, 1}, .groups = 48, .extent = {7, 5}},
     2,
     {MAP(2, 48, 7, 5), PARAM(48, 1, 3, 3)},
     {ROLE_TEMP}},
    {OP_CONV2D_GRAD_X, {.kernel = {1, 1}, .extent = {3, 3}}, 2, {MAP(1, 5, 3, 3), PARAM(5, 8, 1, 1)}, {ROLE_TEMP}},
    {OP_CONV2D_GRAD_W, CONV(3, 3, 2, 1, 1, ACT_NONE), 2, {MAP(2, 3, 13, 9), MAP(2, 16, 7, 5)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(3, 3, 1, 1, 1, ACT_NONE), 2, {MAP(3, 8, 7, 5), MAP(3, 16, 7, 5)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(3, 3, 1, 1, 32, ACT_NONE), 2, {MAP(2, 32, 7, 5), MAP(2, 32, 7, 5)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(1, 1, 1, 0, 1, ACT_NONE), 2, {MAP(2, 33, 7, 5), MAP(2, 17, 7, 5)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(1, 1, 1, 0, 1, ACT_NONE), 2, {MAP(2, 9, 17, 13), MAP(2, 77, 17, 13)}, {ROLE_GRAD}},
    /* several pieces of the picture, several slices of channels, kernels of other sizes */
    {OP_CONV2D_GRAD_W, CONV(3, 3, 1, 1, 1, ACT_NONE), 2, {MAP(2, 40, 21, 19), MAP(2, 24, 21, 19)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(3, 3, 2, 1, 1, ACT_NONE), 2, {MAP(1, 16, 33, 21), MAP(1, 35, 17, 11)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(1, 1, 1, 0, 1, ACT_NONE), 2, {MAP(2, 72, 9, 17), MAP(2, 40, 9, 17)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(1, 1, 2, 0, 1, ACT_NONE), 2, {MAP(2, 8, 9, 7), MAP(2, 16, 5, 4)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(5, 5, 1, 2, 1, ACT_NONE), 2, {MAP(1, 8, 9, 7), MAP(1, 16, 9, 7)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(5, 5, 1, 2, 1, ACT_NONE), 2, {MAP(1, 8, 6, 5), MAP(1, 70, 6, 5)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(5, 5, 2, 2, 16, ACT_NONE), 2, {MAP(2, 16, 9, 11), MAP(2, 16, 5, 6)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_W, CONV(3, 3, 1, 1, 72, ACT_NONE), 2, {MAP(2, 72, 9, 6), MAP(2, 72, 9, 6)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_BIAS, NO_ATTR, 1, {MAP(3, 13, 7, 5)}, {ROLE_GRAD}},
    {OP_CONV2D_GRAD_BIAS, NO_ATTR, 1, {MAP(1, 80, 1, 1)}, {ROLE_GRAD}},
    {OP_BATCH_NORM_GRAD, NORM(ACT_SILU, false), 6, NORM_GRAD_IN(3, 16, 7, 5), {ROLE_TEMP, ROLE_GRAD, ROLE_GRAD}},
    {OP_BATCH_NORM_GRAD, NORM(ACT_NONE, true), 6, NORM_GRAD_IN(1, 37, 3, 1), {ROLE_TEMP, ROLE_GRAD, ROLE_TEMP}},
    {OP_BATCH_NORM_GRAD, NORM(ACT_SIGMOID, false), 6, NORM_GRAD_IN(2, 48, 71, 67), {ROLE_TEMP, ROLE_GRAD, ROLE_GRAD}},
    {OP_ACTIVATE_GRAD, {.act = ACT_SILU}, 2, {MAP(3, 13, 5, 7), MAP(3, 13, 5, 7)}, {ROLE_TEMP}},
    {OP_ACTIVATE_GRAD, {.act = ACT_SIGMOID}, 2, {MAP(1, 16, 5, 7), MAP(1, 16, 5, 7)}, {ROLE_TEMP}},
    {OP_SLICE_GRAD, {.begin = 16, .size = 16, .groups = 2, .channels = 96}, 1, {MAP(2, 32, 5, 3)}, {ROLE_TEMP}},
    {OP_SLICE_GRAD, {.begin = 1, .size = 3, .channels = 7}, 1, {MAP(2, 3, 5, 3)}, {ROLE_TEMP}},
    {OP_UPSAMPLE2_GRAD, NO_ATTR, 1, {MAP(3, 17, 6, 10)}, {ROLE_TEMP}},
    {OP_MAX_POOL_GRAD,
     {.kernel = {5, 5}, .pad = {2, 2}, .extent = {7, 5}},
     2,
     {MAP(2, 19, 7, 5), {{4, {2, 19, 7, 5}}, ROLE_TEMP, DTYPE_I32, 0, 35}},
     {ROLE_TEMP}},
    {OP_ATTENTION_GRAD,
     {.heads = 2, .key_dim = 16, .head_dim = 32, .scale = 0.25f},
     3,
     {MAP(1, 64, 5, 7), MAP(1, 128, 5, 7), {.shape = {4, {1, 2, 35, 35}}, .lo = 0, .hi = 0.05}},
     {ROLE_TEMP}},
    {OP_ATTENTION_GRAD,
     {.heads = 3, .key_dim = 3, .head_dim = 5, .scale = 0.5f},
     3,
     {MAP(2, 15, 2, 3), MAP(2, 33, 2, 3), {.shape = {4, {2, 3, 6, 6}}, .lo = 0, .hi = 0.3}},
     {ROLE_TEMP}},
    {OP_FLATTEN_CONCAT_GRAD, {.begin = 6, .extent = {5, 3}}, 1, {{.shape = {3, {3, 21, 29}}}}, {ROLE_TEMP}},
    {OP_FLATTEN_CONCAT_GRAD, {.begin = 5, .extent = {13, 11}}, 1, {{.shape = {3, {2, 37, 149}}}}, {ROLE_TEMP}},
};

#define N_CASES (sizeof cases / sizeof cases[0])

/* Channels that stand before an input's own in the larger map of a view: whole blocks on every instruction set. */
#define VIEW_OFFSET 16

static dtype compute_type(void) {
    const char *named = getenv("ONELOOK_TEST_COMPUTE");
    if (named == NULL || strcmp(named, "f32") == 0) return DTYPE_F32;
    return strcmp(named, "f16") == 0 ? DTYPE_F16 : DTYPE_BF16;
}

/* The reference gets a map's values as the device holds them. */
static void map_round(net *n, tensor_ref t) {
    const dtype type = n->g->compute;
    const size_t count = net_count(n, t);
    if (type == DTYPE_F32 || n->g->tensors[t].type != DTYPE_F32 || graph_shape(n->g, t)->rank != 4) return;
    for (size_t i = 0; i < count; i++) {
        float *v = &n->value[t][i];
        *v = type == DTYPE_F16 ? half_to_float(float_to_half(*v)) : bf16_to_float(float_to_bf16(*v));
    }
}

static tensor_ref map_make(net *n, const char *name, tensor_role role, dtype type, shape s, double lo, double hi) {
    const tensor_ref t = net_tensor_typed(n, name, role, type, s, lo, hi);
    if (role == ROLE_INPUT) map_round(n, t);
    return t;
}

/* An input of the case; with `view` a slice of a larger map whose values are copied to `n->value` of the slice. */
static tensor_ref input_make(net *n, const op_case *c, int i, bool view) {
    char name[32];
    snprintf(name, sizeof name, "in%d", i);
    const case_input *in = &c->in[i];
    const double lo = in->lo < in->hi ? in->lo : -1.0, hi = in->lo < in->hi ? in->hi : 1.0;
    const tensor_role role = in->role == ROLE_TEMP ? ROLE_INPUT : in->role;
    if (!view || role != ROLE_INPUT || in->type != DTYPE_F32 || in->shape.rank != 4)
        return map_make(n, name, role, in->type, in->shape, lo, hi);
    shape whole = in->shape;
    whole.dim[1] += VIEW_OFFSET;
    const tensor_ref large = map_make(n, name, ROLE_INPUT, DTYPE_F32, whole, lo, hi);
    const tensor_ref slice =
        net_op(n, OP_SLICE, &(op_attr){.begin = VIEW_OFFSET, .size = (int)in->shape.dim[1]}, &large, 1);
    const size_t plane = (size_t)(whole.dim[2] * whole.dim[3]), own = (size_t)in->shape.dim[1] * plane;
    n->value[slice] = malloc(net_count(n, slice) * sizeof(float));
    for (size_t b = 0; b < (size_t)whole.dim[0]; b++)
        memcpy(n->value[slice] + b * own, n->value[large] + b * (own + VIEW_OFFSET * plane) + VIEW_OFFSET * plane,
               own * sizeof(float));
    return slice;
}

/* What max_pool and attention hand to their gradients (output 1: positions of maxima, probabilities) GPUs keep in a
 * form of their own, which only their gradient kernel reads. */
static bool is_handed_on(const net *n, op_kind kind, int out) {
    return out == 1 && (kind == OP_MAX_POOL || kind == OP_ATTENTION) && strcmp(n->dev->api->name, "gpu") == 0;
}

static void *copy_of(const void *bytes, size_t n) {
    void *copy = malloc(n + 1);
    memcpy(copy, bytes, n);
    return copy;
}

/* The error's norm relative to the reference's; for narrow types the only criterion. */
static void norm_compare(const char *what, const float *a, const float *b, size_t count) {
    const dtype type = compute_type();
    const double limit = type == DTYPE_F32 ? 1e-5 : type == DTYPE_F16 ? 2e-3 : 1e-2;
    double error = 0.0, norm = 0.0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(error) <= limit * sqrt(norm)))
        fail_msg("%s: norm of the error %.3g, of the reference %.3g", what, sqrt(error), sqrt(norm));
}

static void values_compare(const char *what, const float *a, const float *b, size_t count, double absolute,
                           double relative) {
    norm_compare(what, a, b, count);
    if (compute_type() == DTYPE_F32) assert_close(what, a, b, count, absolute, relative);
}

static void outputs_compare(net *n, const op_case *c, const graph_op *op, const op_args *args) {
    for (int i = 0; i < op->n_out; i++) {
        char what[64];
        snprintf(what, sizeof what, "case %d (%s) output %d", (int)(c - cases), op_info_of(c->kind)->name, i);
        const size_t count = net_count(n, op->out[i]);
        if (is_handed_on(n, c->kind, i)) continue;
        float *found = net_read(n, op->out[i]);
        if (n->g->tensors[op->out[i]].type == DTYPE_I32) {
            if (memcmp(found, args->out[i].data, count * sizeof(int32_t)) != 0) fail_msg("%s differs", what);
        } else {
            values_compare(what, found, args->out[i].data, count, 2e-5, 1e-4);
        }
        free(found);
    }
}

/* The gradient's last input in the device's own form comes from its own forward op; the reference computes the dense
 * one into `n->value`. */
static tensor_ref handed_on_make(net *n, const op_case *c, op_kind forward, const tensor_ref *before) {
    const shape out_shape = c->in[0].shape; /* of the forward op as of its gradient */
    const tensor_ref x =
        forward == OP_ATTENTION ? before[1] : map_make(n, "pooled", ROLE_INPUT, DTYPE_F32, out_shape, -1.0, 1.0);
    graph_output_mark(n->g, net_op(n, forward, &c->attr, &x, 1), "forward");
    const graph_op op = n->g->ops[n->g->n_ops - 1];
    const tensor_ref made = op.out[1];
    const shape made_shape = *graph_shape(n->g, made);
    float *values = malloc(net_count(n, op.out[0]) * sizeof *values);
    n->value[made] = malloc(net_count(n, made) * sizeof(float));
    op_args args = {.attr = &op.attr, .n_in = 1, .n_out = 2, .n_threads = 1};
    args.in[0] = tensor_view(DTYPE_F32, *graph_shape(n->g, x), n->value[x]);
    args.out[0] = tensor_view(DTYPE_F32, out_shape, values);
    args.out[1] = tensor_view(n->g->tensors[made].type, made_shape, n->value[made]);
    args.scratch = aligned_alloc(64, (op_scratch_bytes(forward, &args) + 127) / 64 * 64);
    op_reference_of(forward)->run(&args);
    free(args.scratch);
    free(values);
    return made;
}

static tensor_ref case_input_make(net *n, const op_case *c, int i, bool view, const tensor_ref *before) {
    static const op_kind of[][2] = {{OP_MAX_POOL_GRAD, OP_MAX_POOL}, {OP_ATTENTION_GRAD, OP_ATTENTION}};
    for (int k = 0; k < 2; k++)
        if (c->kind == of[k][0] && i == c->n_in - 1 && is_handed_on(n, of[k][1], 1))
            return handed_on_make(n, c, of[k][1], before);
    return input_make(n, c, i, view);
}

static void case_run(const op_case *c, bool view) {
    net *n = net_create();
    n->g->compute = compute_type();
    tensor_ref in[6];
    for (int i = 0; i < c->n_in; i++) in[i] = case_input_make(n, c, i, view, in);
    net_op(n, c->kind, &c->attr, in, c->n_in);
    const graph_op op = n->g->ops[n->g->n_ops - 1];
    op_args args = {.attr = &op.attr, .n_in = op.n_in, .n_out = op.n_out, .n_threads = 1};
    for (int i = 0; i < c->n_in; i++) {
        const size_t bytes = net_count(n, in[i]) * dtype_bytes(c->in[i].type);
        args.in[i] = tensor_view(c->in[i].type, c->in[i].shape, copy_of(n->value[in[i]], bytes));
        if (n->g->tensors[in[i]].role == ROLE_TEMP) { /* a slice: the plan makes its values */
            free(n->value[in[i]]);
            n->value[in[i]] = NULL;
        }
    }
    for (int i = 0; i < op.n_out; i++) {
        char name[16];
        snprintf(name, sizeof name, "out%d", i);
        graph_output_mark(n->g, op.out[i], name);
        if (i < 3 && c->out_role[i] == ROLE_GRAD) n->g->tensors[op.out[i]].role = ROLE_GRAD;
        args.out_adds[i] = i < 3 && c->out_role[i] == ROLE_GRAD;
        args.out[i] = tensor_view(n->g->tensors[op.out[i]].type, *graph_shape(n->g, op.out[i]),
                                  calloc(net_count(n, op.out[i]) + 1, sizeof(float)));
    }
    args.scratch = aligned_alloc(64, (op_scratch_bytes(c->kind, &args) + 127) / 64 * 64);
    op_reference_of(c->kind)->run(&args);
    net_plan(n);
    net_run(n);
    outputs_compare(n, c, &op, &args);
    for (int i = 0; i < c->n_in; i++) {
        if (n->g->tensors[in[i]].role != ROLE_BUFFER) { /* running statistics are updated on both sides */
            free(args.in[i].data);
            continue;
        }
        float *found = net_read(n, in[i]);
        values_compare("buffer", found, args.in[i].data, net_count(n, in[i]), 1e-6, 1e-5);
        free(found);
        free(args.in[i].data);
    }
    for (int i = 0; i < op.n_out; i++) free(args.out[i].data);
    free(args.scratch);
    net_destroy(n);
}

static bool is_in_part(size_t number) {
    const char *part = getenv("ONELOOK_TEST_PART");
    size_t which = 0, parts = 1;
    if (part != NULL && sscanf(part, "%zu/%zu", &which, &parts) == 2 && parts > 0) return number % parts == which;
    return true;
}

static bool is_chosen(const op_case *c) {
    const char *largest = getenv("ONELOOK_TEST_LARGEST"), *ops = getenv("ONELOOK_TEST_OPS");
    for (int i = 0; largest != NULL && i < c->n_in; i++)
        if (shape_elements(&c->in[i].shape) > atol(largest)) return false;
    if (ops == NULL || ops[0] == '\0') return true;
    const char *name = op_info_of(c->kind)->name;
    const size_t length = strlen(name);
    for (const char *at = strstr(ops, name); at != NULL; at = strstr(at + 1, name))
        if ((at == ops || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

static double seconds_now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void chosen_run(bool view) {
    int n = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        if (!is_in_part(i) || !is_chosen(&cases[i])) continue;
        const double start = seconds_now();
        case_run(&cases[i], view);
        n++;
        if (getenv("ONELOOK_TEST_TIMES") != NULL)
            printf("case %2d %-24s%s %7.2f s\n", (int)i, op_info_of(cases[i].kind)->name, view ? " view" : "",
                   seconds_now() - start);
    }
    printf("%d of %d cases\n", n, (int)N_CASES);
    assert_true(n > 0);
}

static void operands_by_themselves(void **state) {
    (void)state;
    chosen_run(false);
}

static void operands_in_larger_maps(void **state) {
    (void)state;
    chosen_run(true);
}

static void every_row_has_a_case(void **state) {
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        bool found = false;
        for (size_t i = 0; i < N_CASES; i++) found = found || cases[i].kind == (op_kind)kind;
        if (!found) fail_msg("op %s has no case here", op_info_of((op_kind)kind)->name);
        assert_non_null(op_reference_of((op_kind)kind)->run);
    }
}

/* Raw boxes and scores, the convolutions whose outputs only go into the detection maps, are not rounded to the type of
 * the maps: within f32's error of the reference, which gets inputs and weights as the device holds them. */
static void head_maps_keep_f32(void **state) {
    (void)state;
    static const struct { int k, kernel; } rows[] = {{4, 1}, {13, 3}, {80, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int k = rows[i].k, kernel = rows[i].kernel;
        const op_attr attr = CONV(kernel, kernel, 1, kernel / 2, 1, ACT_NONE);
        net *n = net_create();
        n->g->compute = compute_type();
        const shape map = shape_4d(2, 24, 5, 7), y_map = shape_4d(2, k, 5, 7);
        const tensor_ref x = map_make(n, "x", ROLE_INPUT, DTYPE_F32, map, -1.0, 1.0);
        const tensor_ref w = net_tensor(n, "w", ROLE_PARAM, shape_4d(k, 24, kernel, kernel), -1.0, 1.0);
        const tensor_ref bias = net_tensor(n, "b", ROLE_PARAM, shape_1d(k), 5.0, 9.0);
        map_round(n, w);
        const tensor_ref raw = net_op(n, OP_CONV2D, &attr, (tensor_ref[]){x, w, bias}, 3);
        const tensor_ref y = net_op(n, OP_FLATTEN_CONCAT, &(op_attr){.eps = 0}, &raw, 1);
        graph_output_mark(n->g, y, "y");
        op_args args = {.attr = &n->g->ops[0].attr, .n_in = 3, .n_out = 1, .n_threads = 1};
        const tensor_ref in[3] = {x, w, bias};
        for (int j = 0; j < 3; j++) args.in[j] = tensor_view(DTYPE_F32, *graph_shape(n->g, in[j]), n->value[in[j]]);
        args.out[0] = tensor_view(DTYPE_F32, y_map, calloc(net_count(n, raw) + 1, sizeof(float)));
        args.scratch = aligned_alloc(64, (op_scratch_bytes(OP_CONV2D, &args) + 127) / 64 * 64);
        op_reference_of(OP_CONV2D)->run(&args);
        net_plan(n);
        net_run(n);
        float *found = net_read(n, y); /* one level: as the dense map lies */
        assert_close("raw map", found, args.out[0].data, net_count(n, y), 1e-5, 1e-5);
        free(found);
        free(args.out[0].data);
        free(args.scratch);
        net_destroy(n);
    }
}

/* The watch over a launch's operands (support/guard.h) sees a kernel that goes on where its operand ends. */
static void accesses_are_watched(void **state) {
    (void)state;
    net *n = net_create();
    n->g->compute = compute_type();
    const tensor_ref x = map_make(n, "x", ROLE_INPUT, DTYPE_F32, shape_4d(1, 16, 5, 7), -1.0, 1.0);
    graph_output_mark(n->g, net_op(n, OP_UPSAMPLE2, &(op_attr){.eps = 0}, &x, 1), "y");
    net_plan(n);
    net_run(n);
    const bool watched = guard_shrink(n->dev, 4);
    if (watched) {
        assert_int_equal(plan_run(n->p), OL_ERROR_DEVICE);
        if (strstr(ol_context_message(n->ctx), "out of bounds") == NULL) fail_msg("%s", ol_context_message(n->ctx));
        ctx_clear(n->ctx);
        guard_shrink(n->dev, 0);
        net_run(n);
    }
    net_destroy(n);
    if (!watched) skip();
}

static int device_keep(void **state) {
    (void)state;
    net_device_keep();
    return 0;
}

static int device_release(void **state) {
    (void)state;
    net_device_release();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_case),    cmocka_unit_test(operands_by_themselves),
        cmocka_unit_test(operands_in_larger_maps), cmocka_unit_test(head_maps_keep_f32),
        cmocka_unit_test(accesses_are_watched),
    };
    return cmocka_run_group_tests(tests, device_keep, device_release);
}
