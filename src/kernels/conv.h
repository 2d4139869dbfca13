/* Dense convolution as an implicit matrix product over channels-last pictures: rows are output pixels, columns output
 * channels, the reduction runs over taps and input channels. One body serves forward and the gradient of the input (see
 * conv_args). Included by one source an element type, so that a program loads the code of the type that it uses. */
#ifndef KERNELS_CONV_H
#define KERNELS_CONV_H

#include "args.h"
#include "tile.h"

/* Position in the reduction: eight channels at c of tap (j, i). */
struct tap_walk {
    i32 c, j, i;
    DEVICE_MEMBER void advance(i32 by, i32 channels, i32 taps_x) {
        c += by;
        while (c >= channels) {
            c -= channels;
            if (++i == taps_x) {
                i = 0;
                j++;
            }
        }
    }
};

/* No picture is as wide or high, nor a padding. */
enum { OUTSIDE = 0x4000 };

template <typename T, int BM, int BN> struct conv_block {
    static constexpr int BK = sizeof(T) == 4 ? 16 : 32, ROW = tile_row<T, BK>::value, VPR = BK / 8, STEP = 256 / VPR;
    static constexpr int AV = (BM + STEP - 1) / STEP, BV = (BN + STEP - 1) / STEP;
    static constexpr int STAGE = (BM + BN) * ROW, OUT_ROW = BN + 16 / (int)sizeof(T), OUT = BM * OUT_ROW;
    /* as many stages as fit 48 KiB, three at most */
    static constexpr int STAGES = TILE_STAGES < 3 || 3 * STAGE * (int)sizeof(T) > 49152 ? 2 : 3;
    static constexpr int ELEMENTS = STAGES * STAGE > OUT ? STAGES *STAGE : OUT;
};

/* The input pixels of the rows that this thread loads: fixed over the whole reduction. */
template <typename T, int BM, int BN> struct conv_source {
    typedef conv_block<T, BM, BN> B;
    const T *from[B::AV]; /* of tap (0, 0); only valid inside the picture */
    u32 place[B::AV];     /* y << 16 | x of tap (0, 0), both plus OUTSIDE, or 0 for rows beyond the last */
    const T *weight[B::BV];
    i32 left; /* of the reduction */
    tap_walk at;

    DEVICE_MEMBER void start(const conv_args &a, i32 m0, i32 n0) {
        const i32 t = (i32)thread_x(), row = t / B::VPR, m_total = a.n * a.gh * a.gw;
        const i32 k_at = t % B::VPR * 8, k_total = a.taps_y * a.taps_x * a.c;
        left = k_total - k_at;
#pragma unroll
        for (int i = 0; i < B::AV; i++) {
            const i32 r = row + i * B::STEP, m = m0 + r;
            const bool inside = r < BM && m < m_total;
            const u32 rest = divide((u32)m, a.by_gw), n = divide(rest, a.by_gh);
            const i32 y = (i32)(rest - n * (u32)a.gh) * a.in_step + a.dy0;
            const i32 x = (i32)((u32)m - rest * (u32)a.gw) * a.in_step + a.dx0;
            from[i] = (const T *)a.in + (((i64)n * a.h + y) * a.w + x) * a.ld_in;
            place[i] = inside ? (u32)(y + OUTSIDE) << 16 | (u32)(x + OUTSIDE) : 0;
        }
#pragma unroll
        for (int i = 0; i < B::BV; i++) {
            const i32 r = row + i * B::STEP;
            weight[i] = r < BN && n0 + r < a.k ? (const T *)a.weight + (i64)(n0 + r) * k_total + k_at : nullptr;
        }
        at = {0, 0, 0};
        at.advance(k_at, a.c, a.taps_x);
    }
    /* Calls load(which, place in shared memory, global, valid) for the pieces of the next step. */
    template <typename F> DEVICE_MEMBER void step(const conv_args &a, i32 stage, F load) {
        const i32 row = (i32)thread_x() / B::VPR, column = (i32)thread_x() % B::VPR * 8;
        const i32 dy = at.j * a.ddy, dx = at.i * a.ddx;
        const u32 y_shift = (u32)(dy - OUTSIDE), x_shift = (u32)(dx - OUTSIDE);
        const i64 offset = (i64)(dy * a.w + dx) * a.ld_in + at.c;
        const bool more = left > 0;
#pragma unroll
        for (int i = 0; i < B::AV; i++) {
            if (BM % B::STEP != 0 && row + i * B::STEP >= BM) continue;
            const bool valid =
                more && (place[i] >> 16) + y_shift < (u32)a.h && (place[i] & 0xFFFFu) + x_shift < (u32)a.w;
            load(i, stage + (row + i * B::STEP) * B::ROW + column, valid ? from[i] + offset : (const T *)a.in, valid);
        }
#pragma unroll
        for (int i = 0; i < B::BV; i++) {
            if (BN % B::STEP != 0 && row + i * B::STEP >= BN) continue;
            const bool valid = more && weight[i] != nullptr;
            load(B::AV + i, stage + (BM + row + i * B::STEP) * B::ROW + column, valid ? weight[i] : (const T *)a.weight,
                 valid);
            if (weight[i] != nullptr) weight[i] += B::BK;
        }
        left -= B::BK;
        at.advance(B::BK, a.c, a.taps_x);
    }
};

/* Bias and, in half precision, SiLU go to the accumulators, in float; the results are turned round in shared memory. */
template <typename T, int BM, int BN, int ACT, typename A>
DEVICE void conv_results(const conv_args &a, T *tile, A &acc, i32 n0) {
    const float *bias = (const float *)a.bias;
    const i32 columns = a.k_logical - n0;
    acc.each([&](i32 row, i32 column, float v) {
        if (bias && column < columns) v += bias[n0 + column];
        tile[row * conv_block<T, BM, BN>::OUT_ROW + column] =
            column < columns ? (T)activate_as<T, ACT>(v, ACT) : (T)0.0f;
    });
}

/* The first `valid` of eight elements. */
DEVICE void activate8(float v[8], i32 act, i32 valid) {
#pragma unroll
    for (int e = 0; e < 8; e++) {
        v[e] = e < valid ? activate(v[e], act) : 0.0f;
    }
}

/* Activations that results in shared memory still want: in float all, since there they cost no rounding and are code
 * for eight elements instead of every accumulator's; in half precision those that models seldom have. */
template <typename T> DEVICE i32 late_activation(i32 act) {
    return sizeof(T) == 2 && act == GPU_ACT_SILU ? GPU_ACT_NONE : act;
}

/* In place, by the threads that conv_store lets store them. */
template <typename T, int BM, int BN> DEVICE void conv_activate(const conv_args &a, T *tile, i32 n0) {
    constexpr int GROUPS = BN / 8, ITEMS = BM * GROUPS;
    const i32 act = late_activation<T>(a.act);
    if (act == GPU_ACT_NONE) return;
#pragma unroll 1
    for (i32 item = (i32)thread_x(); item < ITEMS; item += 256) {
        T *at = tile + item / GROUPS * conv_block<T, BM, BN>::OUT_ROW + item % GROUPS * 8;
        float v[8];
        load8(at, v);
        activate8(v, act, a.k_logical - n0 - item % GROUPS * 8);
        store8(at, v);
    }
}

template <typename T, int BM, int BN> DEVICE void conv_store(const conv_args &a, const T *tile, i32 m0, i32 n0) {
    constexpr int GROUPS = BN / 8, ITEMS = BM * GROUPS;
    const i32 m_total = a.n * a.gh * a.gw;
    const T *residual = (const T *)a.residual;
#pragma unroll 2
    for (i32 item = (i32)thread_x(); item < ITEMS; item += 256) {
        const i32 r = item / GROUPS, group = item % GROUPS, m = m0 + r, channel = n0 + group * 8;
        if (m >= m_total || channel >= a.k) continue;
        i64 pixel = m;
        if (a.scattered) {
            const u32 rest = divide((u32)m, a.by_gw), n = divide(rest, a.by_gh);
            const i32 y = (i32)(rest - n * (u32)a.gh), x = (i32)((u32)m - rest * (u32)a.gw);
            pixel = ((i64)n * a.oh + (y * a.out_step + a.out_y)) * a.ow + (x * a.out_step + a.out_x);
        }
        T *out = (T *)a.out + pixel * a.ld_out + channel;
        const T *from = tile + r * conv_block<T, BM, BN>::OUT_ROW + group * 8;
        if (!residual) {
            stage_store(out, stage_load(from, true));
            continue;
        }
        float v[8], w[8];
        load8(from, v);
        load8(residual + pixel * a.ld_residual + channel, w);
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] += w[e];
        store8(out, v);
    }
}

/* Outputs in float, which the accumulators are: half of the rows at a time, as they take twice the room. */
template <typename T, int BM, int BN, typename A>
DEVICE void conv_store_f32(const conv_args &a, T *memory, A &acc, i32 m0, i32 n0) {
    constexpr int ROW = BN + 4, ROWS = BM / 2, GROUPS = BN / 8;
    static_assert(ROWS * ROW * 4 <= conv_block<T, BM, BN>::ELEMENTS * (int)sizeof(T), "the rows do not fit");
    const i32 m_total = a.n * a.gh * a.gw, columns = a.k_logical - n0;
    const float *bias = (const float *)a.bias;
    float *tile = (float *)memory;
#pragma unroll 1
    for (i32 begin = 0; begin < BM; begin += ROWS) {
        acc.each([&](i32 row, i32 column, float v) {
            if (row < begin || row >= begin + ROWS) return;
            if (bias && column < columns) v += bias[n0 + column];
            tile[(row - begin) * ROW + column] = column < columns ? v : 0.0f;
        });
        barrier();
#pragma unroll 1
        for (i32 item = (i32)thread_x(); item < ROWS * GROUPS; item += 256) {
            const i32 r = item / GROUPS, channel = n0 + item % GROUPS * 8, m = m0 + begin + r;
            if (m >= m_total || channel >= a.k) continue;
            float v[8];
            load8(tile + r * ROW + item % GROUPS * 8, v);
            if (a.act != GPU_ACT_NONE) activate8(v, a.act, a.k_logical - channel);
            store8((float *)a.out + (i64)m * a.ld_out + channel, v);
        }
        barrier();
    }
}

template <typename T, int BM, int BN> DEVICE void conv_body(const conv_args &a) {
    typedef conv_block<T, BM, BN> B;
    SHARED __attribute__((aligned(16))) T memory[B::ELEMENTS];
    const i32 m0 = (i32)block_x() * BM, n0 = (i32)block_y() * BN;
    conv_source<T, BM, BN> source;
    source.start(a, m0, n0);
    typename block_choice<T, BM, BN, B::BK>::type acc;
    acc.clear(thread_x());
    const i32 steps = (a.taps_y * a.taps_x * a.c + B::BK - 1) / B::BK;
#if defined(TILE_ASYNC)
    auto fetch = [&](i32 stage) {
        source.step(a, stage, [&](int, i32 to, const T *from, bool valid) { copy_async(memory + to, from, valid); });
    };
#pragma unroll
    for (int s = 0; s < B::STAGES - 1; s++) {
        if (s < steps) fetch(s * B::STAGE);
        copy_async_commit();
    }
    i32 now = 0, next = (B::STAGES - 1) * B::STAGE;
#pragma unroll 1
    for (i32 s = 0; s < steps; s++) {
        copy_async_wait<B::STAGES - 2>();
        barrier();
        if (s + B::STAGES - 1 < steps) fetch(next);
        copy_async_commit();
        acc.multiply(memory + now, memory + now + BM * B::ROW);
        now = now == (B::STAGES - 1) * B::STAGE ? 0 : now + B::STAGE;
        next = next == (B::STAGES - 1) * B::STAGE ? 0 : next + B::STAGE;
    }
    copy_async_wait<0>();
    barrier();
#else
    staged<T> held[B::AV + B::BV];
    i32 place[B::AV + B::BV];
    auto fetch = [&](i32 stage) {
        source.step(a, stage * B::STAGE, [&](int i, i32 to, const T *from, bool valid) {
            held[i] = stage_load(from, valid);
            place[i] = to;
        });
    };
    auto deposit = [&]() {
#pragma unroll
        for (int i = 0; i < B::AV + B::BV; i++) {
            const i32 row = (i32)thread_x() / B::VPR + (i < B::AV ? i : i - B::AV) * B::STEP;
            if (row < (i < B::AV ? BM : BN)) stage_store(memory + place[i], held[i]);
        }
    };
    fetch(0);
    deposit();
    barrier();
#pragma unroll 1
    for (i32 s = 0; s < steps; s++) {
        const i32 now = s & 1;
        if (s + 1 < steps) fetch(1 - now);
        acc.multiply(memory + now * B::STAGE, memory + now * B::STAGE + BM * B::ROW);
        if (s + 1 < steps) deposit();
        barrier();
    }
#endif
    if constexpr (sizeof(T) == 2 && (BN == 16 || BN == 80)) { /* the others need every register */
        if (a.out_f32) {
            conv_store_f32<T, BM, BN>(a, memory, acc, m0, n0);
            return;
        }
    }
    if (late_activation<T>(a.act) == a.act)
        conv_results<T, BM, BN, GPU_ACT_NONE>(a, memory, acc, n0);
    else
        conv_results<T, BM, BN, GPU_ACT_SILU>(a, memory, acc, n0);
    barrier();
    conv_activate<T, BM, BN>(a, memory, n0);
    conv_store<T, BM, BN>(a, memory, m0, n0);
}

/* Rows and columns of a block, and how many blocks should fit on a multiprocessor: with fewer registers they would
 * spill. */
#define CONV(type, name, bm, bn, resident)                                                                             \
    KERNEL_RESIDENT(256, resident) conv_##name##_##bm##x##bn(conv_args a) {                                            \
        conv_body<type, bm, bn>(a);                                                                                    \
    }
#define CONV_TILES(type, name, resident32, resident64, resident80)                                                     \
    CONV(type, name, 128, 16, 4)                                                                                       \
    CONV(type, name, 128, 32, resident32)                                                                              \
    CONV(type, name, 128, 64, resident64)                                                                              \
    CONV(type, name, 128, 80, resident80)

#endif
