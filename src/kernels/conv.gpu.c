/* Dense convolution as an implicit matrix product over channels-last pictures: rows are output pixels, columns output
 * channels, the reduction runs over taps and input channels. One body serves forward and the gradient of the input (see
 * conv_args). */
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

template <typename T, int BM, int BN> struct conv_block {
    static constexpr int BK = sizeof(T) == 4 ? 16 : 32, ROW = tile_row<T, BK>::value, VPR = BK / 8, STEP = 256 / VPR;
    static constexpr int AV = (BM + STEP - 1) / STEP, BV = (BN + STEP - 1) / STEP;
    static constexpr int PIPE = 2 * (BM + BN) * ROW, OUT_ROW = BN + 8, OUT = BM * OUT_ROW;
    static constexpr int ELEMENTS = PIPE > OUT ? PIPE : OUT;
};

template <typename T, int BM, int BN> DEVICE void conv_epilogue(const conv_args &a, T *tile, u32 block_m, i32 n0) {
    typedef conv_block<T, BM, BN> B;
    constexpr int GROUPS = BN / 8, ROWS = 256 / GROUPS;
    const i32 t = (i32)thread_x(), group = t % GROUPS, first = t / GROUPS, channel = n0 + group * 8;
    const i32 m_total = a.n * a.gh * a.gw, m_base = (i32)block_m * BM;
    T *out = (T *)a.out;
    const T *residual = (const T *)a.residual;
    float sum[8];
    zero8(sum);
#pragma unroll 1
    for (i32 r = first; r < BM; r += ROWS) {
        const i32 m = m_base + r;
        if (m >= m_total || channel >= a.k) continue;
        float v[8];
        load8(tile + r * B::OUT_ROW + group * 8, v);
#pragma unroll
        for (int e = 0; e < 8; e++) sum[e] += v[e];
        const i32 x = m % a.gw, rest = m / a.gw, y = rest % a.gh, n = rest / a.gh;
        const i64 pixel = ((i64)n * a.oh + (y * a.out_step + a.out_y)) * a.ow + (x * a.out_step + a.out_x);
        if (residual || a.accumulate) {
            float w[8];
            load8(residual ? residual + pixel * a.ld_residual + channel : out + pixel * a.ld_out + channel, w);
#pragma unroll
            for (int e = 0; e < 8; e++) v[e] += w[e];
        }
        store8(out + pixel * a.ld_out + channel, v);
    }
    if (!a.stats) return;
    /* mean of the block first, then deviations from it: no cancellation however far the mean is from zero */
    SHARED float scratch[256 * 8];
    const i32 count = m_total - m_base < BM ? m_total - m_base : BM;
    float mean[8];
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        store8(scratch + t * 8, sum);
        barrier();
        if (t < BN) { /* thread t adds up channel t: column t%8 of group t/8 over the rows of threads */
            float total = 0.0f;
            for (i32 r = 0; r < ROWS; r++) total += scratch[(r * GROUPS + t / 8) * 8 + t % 8];
            if (pass == 0) total /= (float)count;
            scratch[t] = total; /* only this thread and earlier groups' finished sums read below index 256 */
        }
        barrier();
        if (pass == 0) {
#pragma unroll
            for (int e = 0; e < 8; e++) mean[e] = scratch[group * 8 + e];
        }
        if (t < BN && n0 + t < a.k) ((float *)a.stats)[((i64)block_m * 2 + pass) * a.ld_stats + n0 + t] = scratch[t];
        barrier();
        if (pass == 1) break;
        zero8(sum);
#pragma unroll 1
        for (i32 r = first; r < BM && m_base + r < m_total; r += ROWS) {
            float v[8];
            load8(tile + r * B::OUT_ROW + group * 8, v);
#pragma unroll
            for (int e = 0; e < 8; e++) sum[e] += (v[e] - mean[e]) * (v[e] - mean[e]);
        }
    }
}

template <typename T, int BM, int BN> DEVICE void conv_body(const conv_args &a) {
    typedef conv_block<T, BM, BN> B;
    SHARED __attribute__((aligned(16))) T memory[B::ELEMENTS];
    const i32 t = (i32)thread_x(), load_row = t / B::VPR, load_k = (t % B::VPR) * 8;
    const i32 n0 = (i32)block_y() * BN, m_total = a.n * a.gh * a.gw, k_total = a.taps_y * a.taps_x * a.c;
    const T *in = (const T *)a.in, *weight = (const T *)a.weight;

    /* the pixels whose inputs this thread loads: fixed over the whole reduction */
    i32 base_y[B::AV], base_x[B::AV];
    i64 picture[B::AV];
#pragma unroll
    for (int i = 0; i < B::AV; i++) {
        const i32 r = load_row + i * B::STEP, m = (i32)block_x() * BM + r;
        const bool inside = r < BM && m < m_total;
        const i32 x = m % a.gw, rest = m / a.gw, y = rest % a.gh;
        base_y[i] = inside ? y * a.in_step + a.dy0 : -0x40000000;
        base_x[i] = x * a.in_step + a.dx0;
        picture[i] = (i64)(inside ? rest / a.gh : 0) * a.h;
    }
    tap_walk at = {0, 0, 0};
    at.advance(load_k, a.c, a.taps_x);

    staged<T> sa[B::AV], sb[B::BV];
    i32 k_at = load_k;
    auto fetch = [&]() {
        const bool more = k_at < k_total;
#pragma unroll
        for (int i = 0; i < B::AV; i++) {
            const i32 y = base_y[i] + at.j * a.ddy, x = base_x[i] + at.i * a.ddx;
            const bool valid = more && (u32)y < (u32)a.h && (u32)x < (u32)a.w;
            sa[i] = stage_load(in + (valid ? ((picture[i] + y) * a.w + x) * a.ld_in + at.c : 0), valid);
        }
#pragma unroll
        for (int i = 0; i < B::BV; i++) {
            const i32 r = load_row + i * B::STEP;
            const bool valid = more && r < BN && n0 + r < a.k;
            sb[i] = stage_load(weight + (valid ? (i64)(n0 + r) * k_total + k_at : 0), valid);
        }
        k_at += B::BK;
        at.advance(B::BK, a.c, a.taps_x);
    };
    auto deposit = [&](T *ta, T *tb) {
#pragma unroll
        for (int i = 0; i < B::AV; i++)
            if (BM % B::STEP == 0 || load_row + i * B::STEP < BM)
                stage_store(ta + (load_row + i * B::STEP) * B::ROW + load_k, sa[i]);
#pragma unroll
        for (int i = 0; i < B::BV; i++)
            if (BN % B::STEP == 0 || load_row + i * B::STEP < BN)
                stage_store(tb + (load_row + i * B::STEP) * B::ROW + load_k, sb[i]);
    };

    typename block_choice<T, BM, BN, B::BK>::type acc;
    acc.clear((u32)t);
    const i32 steps = (k_total + B::BK - 1) / B::BK;
    fetch();
    deposit(memory, memory + 2 * BM * B::ROW);
    barrier();
#pragma unroll 1
    for (i32 s = 0; s < steps; s++) {
        const i32 now = s & 1;
        if (s + 1 < steps) fetch();
        acc.multiply(memory + now * BM * B::ROW, memory + (2 * BM + now * BN) * B::ROW);
        if (s + 1 < steps) deposit(memory + (1 - now) * BM * B::ROW, memory + (2 * BM + (1 - now) * BN) * B::ROW);
        barrier();
    }

    const float *bias = (const float *)a.bias;
    acc.each([&](i32 row, i32 column, float v) {
        const bool inside = n0 + column < a.k_logical;
        if (bias && inside) v += bias[n0 + column];
        memory[row * B::OUT_ROW + column] = inside ? (T)activate(v, a.act) : (T)0.0f;
    });
    barrier();
    conv_epilogue<T, BM, BN>(a, memory, block_x(), n0);
}

#define CONV(type, name, bm, bn)                                                                                       \
    KERNEL(256) conv_##name##_##bm##x##bn(conv_args a) {                                                               \
        conv_body<type, bm, bn>(a);                                                                                    \
    }
CONV(f16, f16, 128, 32)
CONV(f16, f16, 128, 64)
CONV(f16, f16, 128, 128)
CONV(bf16, bf16, 128, 32)
CONV(bf16, bf16, 128, 64)
CONV(bf16, bf16, 128, 128)
CONV(float, f32, 128, 32)
CONV(float, f32, 128, 64)
