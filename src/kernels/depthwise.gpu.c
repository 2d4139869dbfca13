/* Depthwise convolution (one filter a channel) and the gradient of its input; weights packed f32 [taps][c]. One thread
 * eight channels of a pixel, or of a run of them. */
#include "args.h"
#include "gpu.h"

/* Forward: grid pixels are those of `out`. With `mirrored` it is the gradient of the input: `in` is dy, `out` is dx. */
template <typename T> DEVICE void depthwise_body(const depthwise_args &a) {
    const i32 groups = a.c / 8, index = (i32)(block_x() * 256 + thread_x()), pixel = index / groups,
              channel = index % groups * 8;
    if (pixel >= a.n * a.oh * a.ow) return;
    const i32 x = pixel % a.ow, rest = pixel / a.ow, y = rest % a.oh, n = rest / a.oh;
    const T *in = (const T *)a.in + (i64)n * a.h * a.w * a.ld_in + channel;
    const float *weight = (const float *)a.weight + channel, *bias = (const float *)a.bias;
    float sum[8];
#pragma unroll
    for (int e = 0; e < 8; e++) sum[e] = bias && channel + e < a.c_logical ? bias[channel + e] : 0.0f;
    for (i32 j = 0; j < a.kernel; j++) {
        for (i32 i = 0; i < a.kernel; i++) {
            i32 sy = y * a.step - a.pad + j * a.dilation, sx = x * a.step - a.pad + i * a.dilation;
            if (a.mirrored) { /* dy pixel (sy, sx) used this pixel as sy*step - pad + j*dilation == y */
                sy = y + a.pad - j * a.dilation;
                sx = x + a.pad - i * a.dilation;
                if (sy < 0 || sx < 0 || sy % a.step || sx % a.step) continue;
                sy /= a.step;
                sx /= a.step;
            }
            if ((u32)sy >= (u32)a.h || (u32)sx >= (u32)a.w) continue;
            float v[8], w[8];
            load8(in + ((i64)sy * a.w + sx) * a.ld_in, v);
            load8(weight + (i64)(j * a.kernel + i) * a.c, w);
#pragma unroll
            for (int e = 0; e < 8; e++) sum[e] = fma_f(v[e], w[e], sum[e]);
        }
    }
    T *out = (T *)a.out + (i64)pixel * a.ld_out + channel;
    float more[8];
    zero8(more);
    if (a.residual) load8((const T *)a.residual + (i64)pixel * a.ld_residual + channel, more);
#pragma unroll
    for (int e = 0; e < 8; e++) sum[e] = activate_as<T, -1>(sum[e], a.act) + more[e];
    store8(out, sum);
}
KERNEL_TYPES(256, depthwise, depthwise_body, depthwise_args)

/* The same for 3 x 3 windows that move by one: a thread makes RUN neighbours in a row, which share what they read. */
enum { RUN = 4 };
template <typename T> DEVICE void depthwise3_body(const depthwise_args &a) {
    const i32 groups = a.c / 8, runs = (a.ow + RUN - 1) / RUN, index = (i32)(block_x() * 256 + thread_x());
    const i32 run = index / groups, channel = index % groups * 8, rest = run / runs, x = run % runs * RUN;
    const i32 y = rest % a.oh, n = rest / a.oh;
    if (n >= a.n) return;
    const float *weight = (const float *)a.weight + channel, *bias = (const float *)a.bias;
    /* the gradient of the input is the same with the window turned round */
    const i32 pad = a.mirrored ? 2 - a.pad : a.pad;
    float sum[RUN][8];
#pragma unroll
    for (int e = 0; e < 8; e++) sum[0][e] = bias && channel + e < a.c_logical ? bias[channel + e] : 0.0f;
#pragma unroll
    for (int q = 1; q < RUN; q++)
#pragma unroll
        for (int e = 0; e < 8; e++) sum[q][e] = sum[0][e];
#pragma unroll 1
    for (i32 j = 0; j < 3; j++) {
        const i32 sy = y - pad + j;
        if ((u32)sy >= (u32)a.h) continue;
        const T *row = (const T *)a.in + ((i64)n * a.h + sy) * a.w * a.ld_in + channel;
        float w[3][8];
#pragma unroll
        for (int i = 0; i < 3; i++) load8(weight + (i64)(a.mirrored ? 8 - j * 3 - i : j * 3 + i) * a.c, w[i]);
#pragma unroll
        for (int q = 0; q < RUN + 2; q++) {
            const i32 sx = x - pad + q;
            if ((u32)sx >= (u32)a.w) continue;
            float v[8];
            load8(row + (i64)sx * a.ld_in, v);
#pragma unroll
            for (int i = 0; i < 3; i++) {
                if (q - i < 0 || q - i >= RUN) continue;
#pragma unroll
                for (int e = 0; e < 8; e++) sum[q - i][e] = fma_f(v[e], w[i][e], sum[q - i][e]);
            }
        }
    }
    const i64 pixel = ((i64)n * a.oh + y) * a.ow + x;
#pragma unroll
    for (int q = 0; q < RUN; q++) {
        if (x + q >= a.ow) break;
        float more[8];
        zero8(more);
        if (a.residual) load8((const T *)a.residual + (pixel + q) * a.ld_residual + channel, more);
#pragma unroll
        for (int e = 0; e < 8; e++) sum[q][e] = activate_as<T, -1>(sum[q][e], a.act) + more[e];
        store8((T *)a.out + (pixel + q) * a.ld_out + channel, sum[q]);
    }
}
KERNEL_TYPES(256, depthwise3, depthwise3_body, depthwise_args)
