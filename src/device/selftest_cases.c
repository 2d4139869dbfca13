#include "device/selftest_cases.h"

#define MAP(n, c, h, w)                                                                                                \
    { .shape = {4, {n, c, h, w}}, .role = ROLE_INPUT, .lo = -1, .hi = 1 }
#define ROWS(n, c, a, lo_, hi_)                                                                                        \
    { .shape = {3, {n, c, a}}, .role = ROLE_INPUT, .lo = lo_, .hi = hi_ }
#define PARAM(n, ...)                                                                                                  \
    { .shape = {n, {__VA_ARGS__}}, .role = ROLE_PARAM, .lo = -0.5, .hi = 0.5 }
#define SCALE(role_, n)                                                                                                \
    { .shape = {1, {n}}, .role = role_, .lo = 0.5, .hi = 1.5 }
#define SHIFT(role_, n)                                                                                                \
    { .shape = {1, {n}}, .role = role_, .lo = -0.5, .hi = 0.5 }
#define BYTES(n, c, h, w)                                                                                              \
    { .shape = {4, {n, c, h, w}}, .role = ROLE_INPUT, .type = DTYPE_U8, .lo = 0, .hi = 256 }
#define CONV(k, s, p, g, act_)                                                                                         \
    { .kernel = {k, k}, .stride = {s, s}, .pad = {p, p}, .groups = g, .act = act_ }
#define NORM(act_, frozen_)                                                                                            \
    { .eps = 1e-3f, .momentum = 0.03f, .act = act_, .frozen = frozen_ }
#define NORM_IN(n, c, h, w)                                                                                            \
    { MAP(n, c, h, w), SCALE(ROLE_PARAM, c), SHIFT(ROLE_PARAM, c), SHIFT(ROLE_BUFFER, c), SCALE(ROLE_BUFFER, c) }
#define LEVELS .n_levels = 2, .level_h = {5, 3}, .level_w = {7, 2}, .level_stride = {8, 16}

/* Widths that fill the matrix tiles and widths that do not; odd sizes; batches of one and more. */
const selftest_case selftest_cases[] = {
    {OP_IMAGE_FLOAT, {.eps = 0}, 1, {BYTES(2, 3, 7, 11)}, false},
    {OP_CONV2D,
     CONV(3, 2, 1, 1, ACT_SILU),
     3,
     {MAP(1, 3, 13, 17), PARAM(4, 16, 3, 3, 3), SHIFT(ROLE_BUFFER, 16)},
     false},
    {OP_CONV2D,
     CONV(3, 1, 1, 1, ACT_SILU),
     4,
     {MAP(2, 16, 7, 5), PARAM(4, 32, 16, 3, 3), SHIFT(ROLE_BUFFER, 32), MAP(2, 32, 7, 5)},
     false},
    {OP_CONV2D,
     CONV(1, 1, 0, 1, ACT_RELU),
     3,
     {MAP(1, 64, 3, 11), PARAM(4, 4, 64, 1, 1), SHIFT(ROLE_BUFFER, 4)},
     false},
    {OP_CONV2D,
     CONV(3, 1, 1, 32, ACT_SIGMOID),
     3,
     {MAP(2, 32, 5, 6), PARAM(4, 32, 1, 3, 3), SHIFT(ROLE_BUFFER, 32)},
     false},
    {OP_CONV2D, CONV(3, 1, 1, 1, ACT_NONE), 3, {MAP(2, 8, 7, 5), PARAM(4, 16, 8, 3, 3), PARAM(1, 16)}, true},
    {OP_CONV2D, CONV(3, 2, 1, 1, ACT_NONE), 2, {MAP(3, 16, 13, 10), PARAM(4, 32, 16, 3, 3)}, true},
    {OP_CONV2D, CONV(1, 1, 0, 1, ACT_NONE), 3, {MAP(2, 37, 3, 5), PARAM(4, 20, 37, 1, 1), PARAM(1, 20)}, true},
    {OP_CONV2D, CONV(3, 1, 1, 16, ACT_NONE), 2, {MAP(2, 16, 7, 5), PARAM(4, 16, 1, 3, 3)}, true},
    {OP_BATCH_NORM, NORM(ACT_SILU, false), 5, NORM_IN(3, 16, 7, 5), true},
    {OP_BATCH_NORM, NORM(ACT_NONE, true), 5, NORM_IN(2, 37, 3, 3), true},
    {OP_ACTIVATE, {.act = ACT_SILU}, 1, {MAP(3, 13, 5, 7)}, true},
    {OP_ACTIVATE, {.act = ACT_SIGMOID}, 1, {MAP(1, 16, 5, 7)}, true},
    {OP_ACTIVATE, {.act = ACT_RELU}, 1, {MAP(1, 32, 5, 7)}, false},
    {OP_ADD, {.eps = 0}, 2, {MAP(3, 17, 5, 7), MAP(3, 17, 5, 7)}, true},
    {OP_CONCAT, {.eps = 0}, 3, {MAP(2, 16, 5, 3), MAP(2, 32, 5, 3), MAP(2, 5, 5, 3)}, true},
    {OP_SLICE, {.begin = 16, .size = 32}, 1, {MAP(2, 64, 5, 3)}, true},
    {OP_SLICE, {.begin = 1, .size = 3, .groups = 2}, 1, {MAP(3, 10, 5, 3)}, true},
    {OP_UPSAMPLE2, {.eps = 0}, 1, {MAP(3, 17, 3, 5)}, true},
    {OP_MAX_POOL,
     {.kernel = {5, 5}, .pad = {2, 2}},
     1,
     {{.shape = {4, {2, 19, 7, 3}}, .role = ROLE_INPUT, .distinct = true}},
     true},
    {OP_ATTENTION, {.heads = 2, .key_dim = 16, .head_dim = 32, .scale = 0.25f}, 1, {MAP(1, 128, 5, 7)}, true},
    {OP_FLATTEN_CONCAT, {.eps = 0}, 3, {MAP(2, 20, 9, 5), MAP(2, 20, 3, 4), MAP(2, 20, 1, 1)}, true},
    {OP_DETACH, {.eps = 0}, 1, {MAP(2, 5, 3, 3)}, false},
    {OP_DETECT_DECODE, {LEVELS}, 2, {ROWS(2, 4, 41, -1, 1), ROWS(2, 13, 41, -9, 9)}, false},
    {OP_DETECT_DECODE, {LEVELS, .corners = true}, 2, {ROWS(1, 4, 41, -1, 1), ROWS(1, 3, 41, -1, 1)}, false},
    {OP_DETECT_LOSS,
     {LEVELS, .topk = 10, .topk2 = 10, .alpha = 0.5f, .beta = 6.0f},
     5,
     {ROWS(2, 4, 41, 0.2, 2),
      ROWS(2, 3, 41, -1, 1),
      ROWS(2, 3, 5, 0.2, 0.8),
      {.shape = {1, {2}}, .role = ROLE_INPUT, .type = DTYPE_I32, .lo = 1, .hi = 3},
      {.shape = {1, {8}}, .role = ROLE_INPUT, .lo = 0.5, .hi = 1.5}},
     false},
};

const size_t selftest_n_cases = sizeof selftest_cases / sizeof *selftest_cases;
