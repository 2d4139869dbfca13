/* The optimizer's kernels over flat f32 ranges, and Newton-Schulz for MuSGD over all matrices at once. */
#include "args.h"
#include "tile.h"

/* ---- flat ranges: 1024 elements a block ---- */

/* Numbers of optimizer_kind. */
enum { KIND_SGD, KIND_MUSGD, KIND_ADAM, KIND_ADAMW, KIND_ADAMAX, KIND_NADAM, KIND_RADAM, KIND_RMSPROP };

KERNEL(256) optim_update(optim_args a) {
    float *p = (float *)a.p, *sa = (float *)a.a, *sb = (float *)a.b;
    const float *g = (const float *)a.g;
    for (u32 q = 0; q < 4; q++) {
        const u64 i = (u64)block_x() * 1024 + q * 256 + thread_x();
        if (i >= a.count) return;
        const float value = p[i], d = g[i] + a.decay * value;
        if (a.kind == KIND_SGD || a.kind == KIND_MUSGD) {
            const float m = a.mu * sa[i] + d;
            sa[i] = m;
            p[i] = value - a.lr * (d + a.mu * m);
        } else if (a.kind == KIND_RMSPROP) {
            const float v = sa[i] * 0.99f + 0.01f * d * d, m = a.mu * sb[i] + d / (sqrt_exact(v) + 1e-8f);
            sa[i] = v;
            sb[i] = m;
            p[i] = value - a.lr * m;
        } else {
            const float m = sa[i] + (d - sa[i]) * a.one_minus_mu;
            sa[i] = m;
            float v = sb[i] * a.beta2;
            if (a.kind == KIND_ADAMAX)
                v = max_f(v, abs_f(d) + 1e-8f);
            else
                v += a.one_minus_beta2 * d * d;
            sb[i] = v;
            if (a.kind == KIND_ADAMAX) {
                p[i] = value - a.step_size * (m / v);
            } else if (a.kind == KIND_RADAM) {
                p[i] = value - a.step_size * (a.rectified ? m / (sqrt_exact(v) + 1e-8f) : m);
            } else {
                const float root = sqrt_exact(v) / a.root2 + 1e-8f;
                if (a.kind == KIND_NADAM)
                    p[i] = value - a.grad_size * (d / root) - a.step_size * (m / root);
                else
                    p[i] = value * a.shrink - a.step_size * (m / root);
            }
        }
    }
}

/* y <- y*keep + x*take (x 0: y only): scaling, clearing, moving averages as y + (1-decay)*(x-y). */
KERNEL(256) flat_blend(blend_args a) {
    float *y = (float *)a.y;
    const float *x = (const float *)a.x;
    for (u32 q = 0; q < 4; q++) {
        const u64 i = (u64)block_x() * 1024 + q * 256 + thread_x();
        if (i >= a.count) return;
        y[i] = x ? y[i] + a.factor * (x[i] - y[i]) : y[i] * a.factor;
    }
}

/* m <- mu*m + (1-mu)*g; u = mu*m + (1-mu)*g */
KERNEL(256) muon_momentum(muon_momentum_args a) {
    float *m = (float *)a.m, *u = (float *)a.u;
    const float *g = (const float *)a.g;
    const float rest = 1.0f - a.mu;
    for (u32 q = 0; q < 4; q++) {
        const u64 i = (u64)block_x() * 1024 + q * 256 + thread_x();
        if (i >= a.count) return;
        const float now = a.mu * m[i] + rest * g[i];
        m[i] = now;
        u[i] = a.mu * now + rest * g[i];
    }
}

/* partial[block] = sum of squares of its share; a fixed number of blocks, so the order never changes. */
KERNEL(256) sum_squares(sum_args a) {
    SHARED double scratch[256];
    const u32 t = thread_x();
    const float *x = (const float *)a.x;
    double sum = 0.0;
    for (u64 i = (u64)block_x() * 256 + t; i < a.count; i += (u64)a.blocks * 256) sum += (double)x[i] * (double)x[i];
    scratch[t] = sum;
    barrier();
    for (u32 step = 128; step > 0; step >>= 1) {
        if (t < step) scratch[t] += scratch[t + step];
        barrier();
    }
    if (t == 0) ((double *)a.partial)[block_x()] = scratch[0];
}

/* ---- Newton-Schulz: item z of the table is a matrix; X has rows <= cols, both padded to multiples of 8 by zeros ----
 */

DEVICE const ns_item &item_of(const ns_args &a) {
    return ((const ns_item *)a.items)[block_z()];
}

/* X = u / (norm + 1e-7) in bf16, transposed when u has more rows than columns. One block a matrix finds the norm, all
 * blocks write. */
KERNEL(256) ns_norm(ns_args a) {
    SHARED float scratch[256];
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
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 r8 = ((flip ? m.cols : m.rows) + 7) / 8 * 8, c8 = ((flip ? m.rows : m.cols) + 7) / 8 * 8;
    const bf16 *x = (const bf16 *)(a.swapped ? m.y : m.x);
    ns_product<false>(x, x, nullptr, (bf16 *)m.a, r8, r8, c8, c8, c8, r8, 1.0f, 0.0f);
}
KERNEL(256) ns_square(ns_args a) {
    const ns_item &m = item_of(a);
    const i32 r8 = ((m.rows > m.cols ? m.cols : m.rows) + 7) / 8 * 8;
    const bf16 *x = (const bf16 *)m.a; /* symmetric: A A = A A^T */
    ns_product<false>(x, x, x, (bf16 *)m.b, r8, r8, r8, r8, r8, r8, 2.0315f, -4.7750f);
}
KERNEL(256) ns_advance(ns_args a) {
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 r8 = ((flip ? m.cols : m.rows) + 7) / 8 * 8, c8 = ((flip ? m.rows : m.cols) + 7) / 8 * 8;
    const bf16 *x = (const bf16 *)(a.swapped ? m.y : m.x);
    ns_product<true>((const bf16 *)m.b, x, x, (bf16 *)(a.swapped ? m.x : m.y), r8, c8, r8, r8, c8, c8, 1.0f, 3.4445f);
}

/* p <- p - lr[group] * 0.2 * scale * O. */
KERNEL(256) ns_apply(ns_args a) {
    const ns_item &m = item_of(a);
    const bool flip = m.rows > m.cols;
    const i32 c8 = ((flip ? m.rows : m.cols) + 7) / 8 * 8, n = m.rows * m.cols;
    const bf16 *o = (const bf16 *)(a.swapped ? m.y : m.x);
    const float factor = a.rates[m.group] * m.scale;
    float *p = (float *)a.values + m.offset;
    for (i32 i = (i32)(block_x() * 256 + thread_x()); i < n; i += (i32)a.blocks * 256) {
        const i32 row = i / m.cols, column = i % m.cols;
        p[i] -= factor * to_float(o[flip ? column * c8 + row : row * c8 + column]);
    }
}
