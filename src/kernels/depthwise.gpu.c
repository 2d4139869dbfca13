/* Depthwise convolution (one filter a channel) and its gradients; weights packed f32 [taps][c]. One thread eight
 * channels of a pixel. */
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
    for (int e = 0; e < 8; e++) sum[e] = activate(sum[e], a.act) + more[e];
    store8(out, sum);
}
KERNEL_TYPES(256, depthwise, depthwise_body, depthwise_args)

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

/* grad (c, taps) += sum over blocks of partial[block][tap][c]. */
KERNEL(256) depthwise_wgrad_reduce(depthwise_wgrad_args a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), taps = a.kernel * a.kernel, tap = index % taps,
              c = index / taps;
    if (c >= a.c_logical) return;
    float sum = 0.0f;
    for (i32 b = 0; b < a.blocks; b++) sum += ((const float *)a.partial)[((i64)b * taps + tap) * a.c + c];
    ((float *)a.grad)[index] += sum;
}

/* (c, taps) f32 -> [taps][padded c] f32. */
KERNEL(256) depthwise_pack(depthwise_wgrad_args a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), taps = a.kernel * a.kernel, c = index % a.c,
              tap = index / a.c;
    if (tap >= taps) return;
    ((float *)a.partial)[index] = c < a.c_logical ? ((const float *)a.grad)[c * taps + tap] : 0.0f;
}
