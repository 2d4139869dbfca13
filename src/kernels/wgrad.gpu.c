/* Gradient of a dense convolution's weights as a matrix product: rows are output channels, columns are (tap, input
 * channel), the reduction runs over output pixels, cut into splits that are added up in a fixed order by wgrad_reduce.
 * Both operands have the reduction as their slow index, so tiles are transposed on the way into shared memory. */
#include "args.h"
#include "tile.h"

/* Where a thread stands in the pixels of the output, advancing by a fixed number. */
struct pixel_walk {
    i32 n, y, x;
    DEVICE_MEMBER void start(i32 m, i32 oh, i32 ow) {
        x = m % ow;
        const i32 rest = m / ow;
        y = rest % oh;
        n = rest / oh;
    }
    DEVICE_MEMBER void advance(i32 by, i32 oh, i32 ow) {
        x += by;
        while (x >= ow) {
            x -= ow;
            if (++y == oh) {
                y = 0;
                n++;
            }
        }
    }
};

template <typename T, int BM, int BN> DEVICE void wgrad_body(const wgrad_args &a) {
    constexpr int PIXELS = sizeof(T) == 4 ? 1 : 2; /* neighbouring pixels a thread takes, so that writes are 4 bytes */
    constexpr int BK = 16 * PIXELS, ROW = tile_row<T, BK>::value, A_ITEMS = BM / 8 * 16, ITEMS = A_ITEMS + BN / 8 * 16;
    constexpr int ROUNDS = (ITEMS + 255) / 256;
    SHARED __attribute__((aligned(16))) T memory[2 * (BM + BN) * ROW];
    const i32 t = (i32)thread_x(), n0 = (i32)block_x() * BN, m0 = (i32)block_y() * BM,
              columns = a.taps_y * a.taps_x * a.c;
    const i32 total = a.n * a.oh * a.ow, first = (i32)block_z() * a.pixels_per_split;
    const i32 last = first + a.pixels_per_split < total ? first + a.pixels_per_split : total;
    const T *in = (const T *)a.in, *dy = (const T *)a.dy;

    i32 channel[ROUNDS], tap_y[ROUNDS], tap_x[ROUNDS]; /* channel -1: nothing to load */
    pixel_walk at[ROUNDS];
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const i32 item = t + 256 * i, pixel = first + (item % 16) * PIXELS;
        at[i].start(pixel, a.oh, a.ow);
        tap_y[i] = tap_x[i] = 0;
        if (item < A_ITEMS) {
            channel[i] = m0 + item / 16 * 8;
            if (channel[i] >= a.k) channel[i] = -1;
        } else {
            const i32 column = n0 + (item - A_ITEMS) / 16 * 8, tap = column / a.c;
            channel[i] = item < ITEMS && column < columns ? column % a.c : -1;
            tap_y[i] = tap / a.taps_x * a.ddy + a.dy0;
            tap_x[i] = tap % a.taps_x * a.ddx + a.dx0;
        }
    }
    staged<T> staging[ROUNDS][PIXELS];
    i32 m_at = first + (t % 16) * PIXELS;
    auto load_one = [&](int i, const pixel_walk &p, i32 m) {
        bool valid = m < last && channel[i] >= 0;
        if (t + 256 * i < A_ITEMS) return stage_load(dy + (valid ? (i64)m * a.ld_dy + channel[i] : 0), valid);
        const i32 y = p.y * a.step + tap_y[i], x = p.x * a.step + tap_x[i];
        valid = valid && (u32)y < (u32)a.h && (u32)x < (u32)a.w;
        return stage_load(in + (valid ? (((i64)p.n * a.h + y) * a.w + x) * a.ld_in + channel[i] : 0), valid);
    };
    auto fetch = [&]() {
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            staging[i][0] = load_one(i, at[i], m_at);
            if constexpr (PIXELS == 2) {
                pixel_walk p = at[i];
                p.advance(1, a.oh, a.ow);
                staging[i][1] = load_one(i, p, m_at + 1);
            }
            at[i].advance(BK, a.oh, a.ow);
        }
        m_at += BK;
    };
    auto deposit = [&](T *tile) {
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            const i32 item = t + 256 * i;
            if (item >= ITEMS) continue;
            /* rows BM.. of the tile are the columns of the product */
            T *to = tile + (item / 16 * 8) * ROW + (item % 16) * PIXELS;
#pragma unroll
            for (int e = 0; e < 8; e++) {
                if constexpr (PIXELS == 1) {
                    *(u32 *)(to + e * ROW) = staging[i][0].part[e / 4][e % 4];
                } else {
                    const u32 low = staging[i][0].part[0][e / 2], high = staging[i][PIXELS - 1].part[0][e / 2];
                    *(u32 *)(to + e * ROW) =
                        e % 2 == 0 ? (low & 0xFFFFu) | high << 16 : low >> 16 | (high & 0xFFFF0000u);
                }
            }
        }
    };

    typename block_choice<T, BM, BN, BK>::type acc;
    acc.clear((u32)t);
    const i32 steps = (last - first + BK - 1) / BK;
    fetch();
    deposit(memory);
    barrier();
#pragma unroll 1
    for (i32 s = 0; s < steps; s++) {
        T *now = memory + (s & 1) * (BM + BN) * ROW, *next = memory + (1 - (s & 1)) * (BM + BN) * ROW;
        if (s + 1 < steps) fetch();
        acc.multiply(now, now + BM * ROW);
        if (s + 1 < steps) deposit(next);
        barrier();
    }
    float *partial = (float *)a.partial + (i64)block_z() * a.k * columns;
    acc.each([&](i32 row, i32 column, float v) {
        if (m0 + row < a.k && n0 + column < columns) partial[(i64)(m0 + row) * columns + n0 + column] = v;
    });
}

#define WGRAD(type, name, bm, bn)                                                                                      \
    KERNEL(256) wgrad_##name##_##bm##x##bn(wgrad_args a) {                                                             \
        wgrad_body<type, bm, bn>(a);                                                                                   \
    }
WGRAD(f16, f16, 32, 64)
WGRAD(f16, f16, 64, 64)
WGRAD(bf16, bf16, 32, 64)
WGRAD(bf16, bf16, 64, 64)
WGRAD(float, f32, 32, 64)
WGRAD(float, f32, 64, 64)
