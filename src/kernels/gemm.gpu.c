/* Batched matrix products C = alpha * A * B (+ C), for attention and for Newton-Schulz steps: each operand either has
 * the reduction as its contiguous index ("rows": A[m][k], B[n][k]) or as its slow one ("columns": A[k][m], B[k][n]). */
#include "args.h"
#include "tile.h"

enum { GEMM_BM = 64, GEMM_BN = 64 };

template <typename T, bool A_COLUMNS, bool B_COLUMNS> DEVICE void gemm_body(const gemm_args &a) {
    constexpr int BK = sizeof(T) == 4 ? 16 : 32, ROW = tile_row<T, BK>::value, TILE = (GEMM_BM + GEMM_BN) * ROW;
    SHARED __attribute__((aligned(16))) T memory[2 * TILE];
    const i32 outer = (i32)block_z() / a.inner, inner = (i32)block_z() % a.inner;
    const i32 m0 = (i32)block_x() * GEMM_BM, n0 = (i32)block_y() * GEMM_BN;
    const T *pa = (const T *)a.a + outer * a.a_outer + inner * a.a_inner,
            *pb = (const T *)a.b + outer * a.b_outer + inner * a.b_inner;
    T *pc = (T *)a.c + outer * a.c_outer + inner * a.c_inner;
    gemm_operand<T, GEMM_BM, BK, A_COLUMNS> oa;
    gemm_operand<T, GEMM_BN, BK, B_COLUMNS> ob;
    typename block_choice<T, GEMM_BM, GEMM_BN, BK>::type acc;
    acc.clear(thread_x());
    const i32 steps = (a.k + BK - 1) / BK;
    oa.fetch(pa, a.ld_a, m0, a.m, 0, a.k);
    ob.fetch(pb, a.ld_b, n0, a.n, 0, a.k);
    oa.deposit(memory);
    ob.deposit(memory + GEMM_BM * ROW);
    barrier();
#pragma unroll 1
    for (i32 s = 0; s < steps; s++) {
        T *now = memory + (s & 1) * TILE, *next = memory + (1 - (s & 1)) * TILE;
        if (s + 1 < steps) {
            oa.fetch(pa, a.ld_a, m0, a.m, (s + 1) * BK, a.k);
            ob.fetch(pb, a.ld_b, n0, a.n, (s + 1) * BK, a.k);
        }
        acc.multiply(now, now + GEMM_BM * ROW);
        if (s + 1 < steps) {
            oa.deposit(next);
            ob.deposit(next + GEMM_BM * ROW);
        }
        barrier();
    }
    acc.each([&](i32 row, i32 column, float v) {
        if (m0 + row >= a.m || n0 + column >= a.n) return;
        T *to = pc + (i64)(m0 + row) * a.ld_c + n0 + column;
        v *= a.alpha;
        if (a.beta != 0.0f) v += a.beta * to_float(*to);
        *to = (T)v;
    });
}

#define GEMM(type, name)                                                                                               \
    KERNEL(256) gemm_rr_##name(gemm_args a) {                                                                          \
        gemm_body<type, false, false>(a);                                                                              \
    }                                                                                                                  \
    KERNEL(256) gemm_rc_##name(gemm_args a) {                                                                          \
        gemm_body<type, false, true>(a);                                                                               \
    }                                                                                                                  \
    KERNEL(256) gemm_cc_##name(gemm_args a) {                                                                          \
        gemm_body<type, true, true>(a);                                                                                \
    }
GEMM(f16, f16)
GEMM(bf16, bf16)
GEMM(float, f32)

/* Rows of a square matrix of probabilities: one wave a row; elements from `n` to the padded length become zero. */
template <typename T> DEVICE void softmax_body(const softmax_args &a) {
    const i32 row = (i32)(block_x() * (256 / WAVE) + thread_x() / WAVE), lane = (i32)lane_id();
    if (row >= a.rows) return; /* whole waves leave together */
    T *p = (T *)a.p + (i64)row * a.ld;
    const T *d = (const T *)a.dp + (i64)row * a.ld;
    if (a.dp) { /* gradient: ds = p * (dp - sum(dp * p)), into dp */
        float dot = 0.0f;
        for (i32 i = lane; i < a.n; i += WAVE) dot += to_float(p[i]) * to_float(d[i]);
        dot = wave_sum(dot);
        for (i32 i = lane; i < a.ld; i += WAVE)
            ((T *)a.dp)[(i64)row * a.ld + i] = i < a.n ? (T)(to_float(p[i]) * (to_float(d[i]) - dot)) : (T)0.0f;
        return;
    }
    float top = -INFINITY_F, sum = 0.0f;
    for (i32 i = lane; i < a.n; i += WAVE) top = max_f(top, to_float(p[i]));
    top = wave_max(top);
    for (i32 i = lane; i < a.n; i += WAVE) sum += exp_f(to_float(p[i]) - top);
    sum = wave_sum(sum);
    for (i32 i = lane; i < a.ld; i += WAVE) p[i] = i < a.n ? (T)(exp_f(to_float(p[i]) - top) / sum) : (T)0.0f;
}
KERNEL_TYPES(256, softmax, softmax_body, softmax_args)
