/* What moves in an optimizer step: every parameter in one pass, and Newton-Schulz for MuSGD over all matrices at once.
 * What the step does and by which numbers stands on the board (step.gpu.c). */
#include "args.h"
#include "tile.h"

/* Numbers of optimizer_kind. */
enum { KIND_SGD, KIND_MUSGD, KIND_ADAM, KIND_ADAMW, KIND_ADAMAX, KIND_NADAM, KIND_RADAM, KIND_RMSPROP };

/* One rounding of its own, whatever is done with the product. */
DEVICE float scaled(float x, float factor) {
#pragma clang fp contract(off)
    return x * factor;
}

DEVICE const board_range &range_of(const step_board &board) {
    i32 i = board.n_ranges - 1;
    while (i > 0 && (i32)block_x() < board.ranges[i].block) i--;
    return board.ranges[i];
}

/* The value after one step of `kind` with gradient g; states move. */
DEVICE float moved(i32 kind, const board_rule &r, float value, float g, float *sa, float *sb) {
    const float d = g + r.decay * value;
    if (kind == KIND_SGD || kind == KIND_MUSGD) {
        const float m = r.mu * *sa + d;
        *sa = m;
        return value - r.lr * (d + r.mu * m);
    }
    if (kind == KIND_RMSPROP) {
        const float v = *sa * 0.99f + 0.01f * d * d, m = r.mu * *sb + d / (sqrt_exact(v) + 1e-8f);
        *sa = v;
        *sb = m;
        return value - r.lr * m;
    }
    const float m = *sa + (d - *sa) * r.one_minus_mu;
    *sa = m;
    float v = *sb * r.beta2;
    if (kind == KIND_ADAMAX)
        v = max_f(v, abs_f(d) + 1e-8f);
    else
        v += r.one_minus_beta2 * d * d;
    *sb = v;
    if (kind == KIND_ADAMAX) return value - r.step_size * (m / v);
    if (kind == KIND_RADAM) return value - r.step_size * (r.rectified ? m / (sqrt_exact(v) + 1e-8f) : m);
    const float root = sqrt_exact(v) / r.root2 + 1e-8f;
    if (kind == KIND_NADAM) return value - r.grad_size * (d / root) - r.step_size * (m / root);
    return scaled(value, r.shrink) - r.step_size * (m / root);
}

/* One pass over everything that moves: gradients are clipped and cleared, states, values and averages go on. */
KERNEL(256) step_update(step_args a) {
    const step_board &board = *(const step_board *)a.board;
    const i32 mode = board.decision.mode;
    if (mode == STEP_REST) return;
    const board_range &range = range_of(board);
    const bool trained = range.group >= 0;
    if (mode == STEP_CLEAR && !trained) return;
    const board_rule &rule = board.decision.rules[trained ? range.group : 0];
    const float factor = board.decision.factor, rest = board.decision.ema_rest;
    float *p = (float *)a.values, *grads = (float *)a.grads, *ema = (float *)a.ema;
    float *sa = (float *)a.a, *sb = (float *)a.b;
    const u64 first = range.begin + (u64)(block_x() - (u32)range.block) * STEP_SPAN;
    for (u32 q = 0; q < STEP_SPAN / 256; q++) {
        const u64 i = first + q * 256 + thread_x();
        if (i >= range.end) return;
        if (mode == STEP_CLEAR) {
            grads[i] = 0.0f;
            continue;
        }
        float x = p[i];
        if (trained) {
            x = moved(a.kind, rule, x, scaled(grads[i], factor), sa + i, sb + i);
            p[i] = x;
            grads[i] = 0.0f;
        }
        const float y = ema[i];
        ema[i] = y + rest * (x - y);
    }
}

/* m <- mu*m + (1-mu)*g; u = mu*m + (1-mu)*g, over the groups of matrices. */
KERNEL(256) muon_momentum(step_args a) {
    const step_board &board = *(const step_board *)a.board;
    if (board.decision.mode != STEP_MOVE) return;
    const board_range &range = range_of(board);
    if (range.group < 0 || !((a.muon_groups >> range.group) & 1)) return;
    float *m = (float *)a.m, *u = (float *)a.u;
    const float *grads = (const float *)a.grads;
    const float mu = board.decision.rules[range.group].mu, rest = 1.0f - mu, factor = board.decision.factor;
    const u64 first = range.begin + (u64)(block_x() - (u32)range.block) * STEP_SPAN;
    for (u32 q = 0; q < STEP_SPAN / 256; q++) {
        const u64 i = first + q * 256 + thread_x();
        if (i >= range.end) return;
        const float g = scaled(grads[i], factor), now = mu * m[i] + rest * g;
        m[i] = now;
        u[i] = mu * now + rest * g;
    }
}

/* ---- Newton-Schulz: item z of the table is a matrix; X has rows <= cols, both padded to multiples of 8 by zeros ----
 */

DEVICE const ns_item &item_of(const ns_args &a) {
    return ((const ns_item *)a.items)[block_z()];
}

DEVICE bool rests(const ns_args &a) {
    return ((const step_board *)a.board)->decision.mode != STEP_MOVE;
}

/* X = u / (norm + 1e-7) in bf16, transposed when u has more rows than columns. One block a matrix finds the norm, all
 * blocks write. */
KERNEL(256) ns_norm(ns_args a) {
    SHARED float scratch[256];
    if (rests(a)) return;
    const ns_item &m = item_of(a);
    const u32 t = thread_x();
    const float *u = (const float *)a.u + m.offset;
    const i32 n = m.rows * m.cols;
    float sum = 0.0f;
    for (i32 i = (i32)t; i < n; i += 256) {
        const float v = to_float((bf16)u[i]);
        sum += v * v;
    }
    scratch[t] = sum;
    barrier();
    for (u32 step = 128; step > 0; step >>= 1) {
        if (t < step) scratch[t] += scratch[t + step];
        barrier();
    }
    if (t == 0) ((float *)a.norms)[block_z()] = sqrt_exact(scratch[0]);
}

KERNEL(256) ns_load(ns_args a) {
    if (rests(a)) return;
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 r = flip ? m.cols : m.rows, c = flip ? m.rows : m.cols, r8 = (r + 7) / 8 * 8, c8 = (c + 7) / 8 * 8;
    const float *u = (const float *)a.u + m.offset;
    const float norm = to_float((bf16)(to_float((bf16)((const float *)a.norms)[block_z()]) + 1e-7f));
    for (i32 i = (i32)(block_x() * 256 + thread_x()); i < r8 * c8; i += (i32)a.blocks * 256) {
        const i32 y = i / c8, x = i % c8;
        float v = 0.0f;
        if (y < r && x < c) v = to_float((bf16)u[flip ? x * m.cols + y : y * m.cols + x]) / norm;
        ((bf16 *)m.x)[i] = (bf16)v;
    }
}

/* One product of all matrices: kind 0: A = X X^T; 1: B = b A + c A A; 2: Y = a X + B X. Tiles of 64 x 64, blocks beyond
 * a matrix leave. */
template <bool B_COLUMNS>
DEVICE void ns_product(const bf16 *pa, const bf16 *pb, const bf16 *add, bf16 *out, i32 m, i32 n, i32 k, i32 ld_a,
                       i32 ld_b, i32 ld_out, float alpha, float beta) {
    constexpr int BK = 32, ROW = tile_row<bf16, BK>::value, TILE = 128 * ROW;
    SHARED __attribute__((aligned(16))) bf16 memory[2 * TILE];
    const i32 m0 = (i32)block_x() * 64, n0 = (i32)block_y() * 64;
    if (m0 >= m || n0 >= n) return;
    gemm_operand<bf16, 64, BK, false> oa;
    gemm_operand<bf16, 64, BK, B_COLUMNS> ob;
    typename block_choice<bf16, 64, 64, BK>::type acc;
    acc.clear(thread_x());
    const i32 steps = (k + BK - 1) / BK;
    oa.fetch(pa, ld_a, m0, m, 0, k);
    ob.fetch(pb, ld_b, n0, n, 0, k);
    oa.deposit(memory);
    ob.deposit(memory + 64 * ROW);
    barrier();
#pragma unroll 1
    for (i32 s = 0; s < steps; s++) {
        bf16 *now = memory + (s & 1) * TILE, *next = memory + (1 - (s & 1)) * TILE;
        if (s + 1 < steps) {
            oa.fetch(pa, ld_a, m0, m, (s + 1) * BK, k);
            ob.fetch(pb, ld_b, n0, n, (s + 1) * BK, k);
        }
        acc.multiply(now, now + 64 * ROW);
        if (s + 1 < steps) {
            oa.deposit(next);
            ob.deposit(next + 64 * ROW);
        }
        barrier();
    }
    acc.each([&](i32 row, i32 column, float v) {
        if (m0 + row >= m || n0 + column >= n) return;
        const i64 at = (i64)(m0 + row) * ld_out + n0 + column;
        v *= alpha;
        if (add) v += beta * to_float(add[at]);
        out[at] = (bf16)v;
    });
}
KERNEL(256) ns_gram(ns_args a) {
    if (rests(a)) return;
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 r8 = ((flip ? m.cols : m.rows) + 7) / 8 * 8, c8 = ((flip ? m.rows : m.cols) + 7) / 8 * 8;
    const bf16 *x = (const bf16 *)(a.swapped ? m.y : m.x);
    ns_product<false>(x, x, nullptr, (bf16 *)m.a, r8, r8, c8, c8, c8, r8, 1.0f, 0.0f);
}
KERNEL(256) ns_square(ns_args a) {
    if (rests(a)) return;
    const ns_item &m = item_of(a);
    const i32 r8 = ((m.rows > m.cols ? m.cols : m.rows) + 7) / 8 * 8;
    const bf16 *x = (const bf16 *)m.a; /* symmetric: A A = A A^T */
    ns_product<false>(x, x, x, (bf16 *)m.b, r8, r8, r8, r8, r8, r8, 2.0315f, -4.7750f);
}
KERNEL(256) ns_advance(ns_args a) {
    if (rests(a)) return;
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 r8 = ((flip ? m.cols : m.rows) + 7) / 8 * 8, c8 = ((flip ? m.rows : m.cols) + 7) / 8 * 8;
    const bf16 *x = (const bf16 *)(a.swapped ? m.y : m.x);
    ns_product<true>((const bf16 *)m.b, x, x, (bf16 *)(a.swapped ? m.x : m.y), r8, c8, r8, r8, c8, c8, 1.0f, 3.4445f);
}

/* p <- p - lr[group] * 0.2 * scale * O. */
KERNEL(256) ns_apply(ns_args a) {
    if (rests(a)) return;
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 c8 = ((flip ? m.rows : m.cols) + 7) / 8 * 8, n = m.rows * m.cols;
    const bf16 *o = (const bf16 *)(a.swapped ? m.y : m.x);
    const float factor = ((const step_board *)a.board)->decision.rules[m.group].muon_rate * m.scale;
    float *p = (float *)a.values + m.offset;
    for (i32 i = (i32)(block_x() * 256 + thread_x()); i < n; i += (i32)a.blocks * 256) {
        const i32 row = i / m.cols, column = i % m.cols;
        p[i] -= factor * to_float(o[flip ? column * c8 + row : row * c8 + column]);
    }
}
