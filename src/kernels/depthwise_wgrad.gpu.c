/* Gradient of a depthwise convolution's weights. A module of its own, so that prediction does not wait for its code. */
#include "args.h"
#include "gpu.h"

/* partial[row block][tap][c]: block z is a tap, x a block of output pixels, y a block of groups*8 channels. */
template <typename T> DEVICE void depthwise_wgrad_body(const depthwise_wgrad_args &a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * 8];
    const i32 t = (i32)thread_x(), step = 256 / a.groups, slot = t % a.groups, first = t / a.groups;
    const i32 channel = ((i32)block_y() * a.groups + slot) * 8, tap = (i32)block_z(), j = tap / a.kernel,
              i = tap % a.kernel;
    const i32 rows = a.n * a.oh * a.ow, begin = (i32)block_x() * a.rows_per_block;
    const i32 end = begin + a.rows_per_block < rows ? begin + a.rows_per_block : rows;
    const bool active = first < step && channel < a.c;
    float sum[8];
    zero8(sum);
    for (i32 r = begin + first; r < end && active; r += step) {
        const i32 x = r % a.ow, rest = r / a.ow, y = rest % a.oh, n = rest / a.oh;
        const i32 sy = y * a.step - a.pad + j * a.dilation, sx = x * a.step - a.pad + i * a.dilation;
        if ((u32)sy >= (u32)a.h || (u32)sx >= (u32)a.w) continue;
        float v[8], d[8];
        load8((const T *)a.in + (((i64)n * a.h + sy) * a.w + sx) * a.ld_in + channel, v);
        load8((const T *)a.dy + (i64)r * a.ld_dy + channel, d);
#pragma unroll
        for (int e = 0; e < 8; e++) sum[e] = fma_f(v[e], d[e], sum[e]);
    }
    store8(scratch + t * 8, sum);
    barrier();
    if (!active || first != 0) return;
    for (i32 r = 1; r < step; r++) {
        float other[8];
        load8(scratch + (r * a.groups + slot) * 8, other);
#pragma unroll
        for (int e = 0; e < 8; e++) sum[e] += other[e];
    }
    store8((float *)a.partial + ((i64)block_x() * a.kernel * a.kernel + tap) * a.c + channel, sum);
}
KERNEL_TYPES(256, depthwise_wgrad, depthwise_wgrad_body, depthwise_wgrad_args)

/* The same for 3 x 3 windows that move by one, all taps at once: a thread goes along rows of the output with the
 * window's inputs in registers. Rows of the output are dealt to blocks, four channels to a thread. */
template <typename T> DEVICE void depthwise3_wgrad_body(const depthwise_wgrad_args &a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * 4];
    const i32 t = (i32)thread_x(), step = 256 / a.groups, slot = t % a.groups, first = t / a.groups;
    const i32 channel = ((i32)block_y() * a.groups + slot) * 4, rows = a.n * a.oh;
    const i32 begin = (i32)block_x() * a.rows_per_block;
    const i32 end = begin + a.rows_per_block < rows ? begin + a.rows_per_block : rows;
    const bool active = first < step && channel < a.c;
    float sum[9][4];
#pragma unroll
    for (int k = 0; k < 9; k++) zero4(sum[k]);
    for (i32 r = begin + first; r < end && active; r += step) {
        const i32 y = r % a.oh, n = r / a.oh;
        const T *dy = (const T *)a.dy + (i64)r * a.ow * a.ld_dy + channel, *in[3];
        bool inside[3];
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const i32 sy = y - a.pad + j;
            inside[j] = (u32)sy < (u32)a.h;
            in[j] = (const T *)a.in + ((i64)n * a.h + (inside[j] ? sy : 0)) * a.w * a.ld_in + channel;
        }
        float window[3][3][4];
        auto column = [&](i32 sx, int to) {
#pragma unroll
            for (int j = 0; j < 3; j++) {
                zero4(window[j][to]);
                if (inside[j] && (u32)sx < (u32)a.w) load4(in[j] + (i64)sx * a.ld_in, window[j][to]);
            }
        };
        column(-a.pad, 0);
        column(1 - a.pad, 1);
        for (i32 x = 0; x < a.ow; x++, dy += a.ld_dy) {
            float d[4];
            load4(dy, d);
            column(x + 2 - a.pad, 2);
#pragma unroll
            for (int j = 0; j < 3; j++)
#pragma unroll
                for (int i = 0; i < 3; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        sum[j * 3 + i][e] = fma_f(window[j][i][e], d[e], sum[j * 3 + i][e]);
                        if (i > 0) window[j][i - 1][e] = window[j][i][e];
                    }
        }
    }
#pragma unroll 1
    for (int k = 0; k < 9; k++) {
        float total[4];
#pragma unroll
        for (int q = 0; q < 9; q++)
#pragma unroll
            for (int e = 0; e < 4; e++) total[e] = q == 0 || q == k ? sum[q][e] : total[e];
        store4(scratch + t * 4, total);
        barrier();
        if (active && first == 0) {
            for (i32 r = 1; r < step; r++) {
                float other[4];
                load4(scratch + (r * a.groups + slot) * 4, other);
#pragma unroll
                for (int e = 0; e < 4; e++) total[e] += other[e];
            }
            store4((float *)a.partial + ((i64)block_x() * 9 + k) * a.c + channel, total);
        }
        barrier();
    }
}
KERNEL_TYPES(256, depthwise3_wgrad, depthwise3_wgrad_body, depthwise_wgrad_args)
