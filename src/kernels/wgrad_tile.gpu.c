/* Gradient of a convolution's weights for half-precision maps: a block goes through pieces of the picture, brings the
 * output gradients and the input with its halo to shared memory once, and multiplies them for all taps from there, with
 * pixels as the reduction. Sums over blocks are joined by wgrad_reduce. */
#include "args.h"
#include "tile.h"

/* Where the pixels of a piece lie: in the output (y << 8 | x, NOWHERE for padding) and, for tap (0, 0), in the halo. */
enum { NOWHERE = 0xFFFF };
struct wgrad_places {
    u16 output[WGRAD_TILE_PIXELS], input[WGRAD_TILE_PIXELS], halo[WGRAD_TILE_HALO];
    DEVICE_MEMBER void fill(const wgrad_tile_args &a) {
        for (i32 q = (i32)thread_x(); q < a.pixels; q += 256) {
            const i32 y = q / a.tile_w, x = q % a.tile_w;
            const bool inside = y < a.tile_h;
            output[q] = inside ? (u16)(y << 8 | x) : (u16)NOWHERE;
            input[q] = inside ? (u16)((y * a.halo_w + x) * a.step) : (u16)0;
        }
        for (i32 q = (i32)thread_x(); q < a.halo_h * a.halo_w; q += 256)
            halo[q] = (u16)(q / a.halo_w << 8 | q % a.halo_w);
    }
};

/* What a block works on: rows of shared memory are padded by 16 bytes against bank conflicts. */
struct wgrad_slice {
    i32 k0, c0, pieces_k, pieces_c, row_k, row_c, stage;
    DEVICE_MEMBER wgrad_slice(const wgrad_tile_args &a, i32 tiles_k, i32 tiles_c) {
        pieces_k = a.wk * tiles_k * 2;
        pieces_c = a.wc * tiles_c * 2;
        row_k = pieces_k * 8 + 8;
        row_c = pieces_c * 8 + 8;
        k0 = (i32)block_y() / a.slices_c * pieces_k * 8;
        c0 = (i32)block_y() % a.slices_c * pieces_c * 8;
        stage = a.pixels * row_k + a.halo_h * a.halo_w * row_c;
    }
};

template <typename T> DEVICE void wgrad_piece(T *to, const T *from, bool valid) {
#if defined(TILE_ASYNC)
    copy_async(to, from, valid);
#else
    stage_store(to, stage_load(from, valid));
#endif
}

/* Brings piece `tile` of the picture to shared memory: first the output gradients, then the input. */
template <typename T>
DEVICE void wgrad_fetch(const wgrad_tile_args &a, const wgrad_slice &s, const wgrad_places &at, i32 tile, T *to) {
    const u32 rest = divide((u32)tile, a.by_tiles_x), n = divide(rest, a.by_tiles_y);
    const i32 y0 = (i32)(rest - n * (u32)a.tiles_y) * a.tile_h,
              x0 = (i32)((u32)tile - rest * (u32)a.tiles_x) * a.tile_w;
    const T *dy = (const T *)a.dy + (i64)n * a.oh * a.ow * a.ld_dy,
            *in = (const T *)a.in + (i64)n * a.h * a.w * a.ld_in;
    for (i32 item = (i32)thread_x(); item < a.pixels * s.pieces_k; item += 256) {
        const i32 q = item / s.pieces_k, piece = item % s.pieces_k * 8, place = at.output[q];
        const i32 y = y0 + (place >> 8), x = x0 + (place & 255);
        const bool valid = place != NOWHERE && y < a.oh && x < a.ow && s.k0 + piece < a.k;
        wgrad_piece(to + q * s.row_k + piece, dy + (valid ? ((i64)y * a.ow + x) * a.ld_dy + s.k0 + piece : 0), valid);
    }
    to += a.pixels * s.row_k;
    const i32 iy0 = y0 * a.step + a.dy0, ix0 = x0 * a.step + a.dx0;
    for (i32 item = (i32)thread_x(); item < a.halo_h * a.halo_w * s.pieces_c; item += 256) {
        const i32 q = item / s.pieces_c, piece = item % s.pieces_c * 8, place = at.halo[q];
        const i32 y = iy0 + (place >> 8), x = ix0 + (place & 255);
        const bool valid = (u32)y < (u32)a.h && (u32)x < (u32)a.w && s.c0 + piece < a.c;
        wgrad_piece(to + q * s.row_c + piece, in + (valid ? ((i64)y * a.w + x) * a.ld_in + s.c0 + piece : 0), valid);
    }
}

/* SIDE x SIDE taps; a wave multiplies TK x TC tiles of 16 x 16 for each of them. */
template <typename T, int SIDE, int TK, int TC> struct wgrad_wave {
    static constexpr int TAPS = SIDE * SIDE;
    __attribute__((aligned(16))) float c[TAPS][TK][TC][TILE_ACC];
    i32 lane, k, channel, group, groups;
    DEVICE_MEMBER void clear(const wgrad_tile_args &a) {
        const i32 wave = (i32)thread_x() / WAVE;
        lane = (i32)thread_x() % WAVE;
        channel = wave % a.wc * TC * 16;
        k = wave / a.wc % a.wk * TK * 16;
        group = wave / (a.wc * a.wk);
        groups = 256 / WAVE / (a.wc * a.wk);
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
            for (int i = 0; i < TK; i++)
#pragma unroll
                for (int j = 0; j < TC; j++)
#pragma unroll
                    for (int e = 0; e < TILE_ACC; e++) c[tap][i][j][e] = 0.0f;
    }
    DEVICE_MEMBER void multiply(const wgrad_tile_args &a, const wgrad_slice &s, const wgrad_places &at,
                                const T *stage) {
        const T *dy = stage + k, *in = stage + a.pixels * s.row_k + channel;
#pragma unroll 1
        for (i32 first = group * 16; first < a.pixels; first += groups * 16) {
            i32 at_a[COLUMN_ROWS], at_b[COLUMN_ROWS];
#pragma unroll
            for (int i = 0; i < COLUMN_ROWS; i++) {
                at_a[i] = (first + row_of_a(lane, i)) * s.row_k;
                at_b[i] = at.input[first + row_of_b(lane, i)] * s.row_c;
            }
            fragment<T> x[TK];
#pragma unroll
            for (int i = 0; i < TK; i++) load_columns_a(x[i], dy + i * 16, at_a, lane);
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) {
                keep_order();
                const T *from = in + (tap / SIDE * a.ddy * a.halo_w + tap % SIDE * a.ddx) * s.row_c;
#pragma unroll
                for (int j = 0; j < TC; j++) {
                    fragment<T> y;
                    load_columns_b(y, from + j * 16, at_b, lane);
#pragma unroll
                    for (int i = 0; i < TK; i++) tile_mma(c[tap][i][j], x[i], y);
                }
            }
        }
    }
    /* Tap by tap: every wave lays down what it has, then all threads add up those that shared the pixels, in order. */
    DEVICE_MEMBER void store(const wgrad_tile_args &a, const wgrad_slice &s, float *scratch) {
        const i32 width = a.wc * TC * 16, size = a.wk * TK * 16 * width;
        float *mine = scratch + group * size + k * width + channel;
        float *partial = (float *)a.partial + (i64)block_x() * a.k * TAPS * a.c;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            barrier();
#pragma unroll
            for (int i = 0; i < TK; i++)
#pragma unroll
                for (int j = 0; j < TC; j++)
#pragma unroll
                    for (int e = 0; e < TILE_ACC; e++)
                        mine[(i * 16 + acc_row(lane, e)) * width + j * 16 + acc_column(lane, e)] = c[tap][i][j][e];
            barrier();
            for (i32 item = (i32)thread_x(); item < size; item += 256) {
                const i32 row = s.k0 + item / width, column = s.c0 + item % width;
                float sum = scratch[item];
                for (i32 g = 1; g < groups; g++) sum += scratch[g * size + item];
                if (row < a.k && column < a.c) partial[(row * TAPS + tap) * a.c + column] = sum;
            }
        }
    }
};

template <typename T, int SIDE, int TK, int TC> DEVICE void wgrad_tile_body(const wgrad_tile_args &a) {
    SHARED __attribute__((aligned(16))) T memory[WGRAD_TILE_BYTES / sizeof(T)];
    SHARED wgrad_places at;
    const wgrad_slice s(a, TK, TC);
    const i32 first = (i32)block_x() * a.tiles_per_split,
              last = first + a.tiles_per_split < a.tiles ? first + a.tiles_per_split : a.tiles;
    at.fill(a);
    wgrad_wave<T, SIDE, TK, TC> wave;
    wave.clear(a);
    barrier();
#if defined(TILE_ASYNC)
    const i32 ahead = a.stages - 1; /* 1 or 2 */
    for (i32 i = 0; i < ahead; i++) {
        if (first + i < last) wgrad_fetch(a, s, at, first + i, memory + i * s.stage);
        copy_async_commit();
    }
    i32 now = 0, next = ahead;
#pragma unroll 1
    for (i32 tile = first; tile < last; tile++) {
        if (ahead == 2)
            copy_async_wait<1>();
        else
            copy_async_wait<0>();
        barrier();
        if (tile + ahead < last) wgrad_fetch(a, s, at, tile + ahead, memory + next * s.stage);
        copy_async_commit();
        wave.multiply(a, s, at, memory + now * s.stage);
        if (++now == a.stages) now = 0;
        if (++next == a.stages) next = 0;
    }
    copy_async_wait<0>();
#else
#pragma unroll 1
    for (i32 tile = first; tile < last; tile++) {
        wgrad_fetch(a, s, at, tile, memory);
        barrier();
        wave.multiply(a, s, at, memory);
        barrier();
    }
#endif
    wave.store(a, s, (float *)memory);
}

#define WGRAD_TILE(type, name)                                                                                         \
    KERNEL_RESIDENT(256, 2) wgrad_##name##_tile3(wgrad_tile_args a) {                                                  \
        wgrad_tile_body<type, 3, 1, 1>(a);                                                                             \
    }                                                                                                                  \
    KERNEL_RESIDENT(256, 2) wgrad_##name##_tile1(wgrad_tile_args a) {                                                  \
        wgrad_tile_body<type, 1, 2, 2>(a);                                                                             \
    }
WGRAD_TILE(f16, f16)
WGRAD_TILE(bf16, bf16)
