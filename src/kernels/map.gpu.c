/* Ops that move or map elements: one thread an eight-channel group of one pixel unless stated. */
#include "args.h"
#include "gpu.h"

struct pixel_group {
    i32 pixel, channel;
    bool inside;
    DEVICE_MEMBER pixel_group(i32 pixels, i32 channels) {
        const i32 groups = channels / 8, index = (i32)(block_x() * 256 + thread_x());
        pixel = index / groups;
        channel = index % groups * 8;
        inside = pixel < pixels;
    }
};

/* y (+)= a + b, with b left out when its address is 0: addition, copies of channel ranges (concat, slice), sums of
 * gradients. */
template <typename T> DEVICE void add_body(const add_args &a) {
    const pixel_group g(a.pixels, a.c);
    if (!g.inside) return;
    float v[8], w[8];
    load8((const T *)a.a + (i64)g.pixel * a.ld_a + g.channel, v);
    T *y = (T *)a.y + (i64)g.pixel * a.ld_y + g.channel;
    if (a.b) {
        load8((const T *)a.b + (i64)g.pixel * a.ld_b + g.channel, w);
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] += w[e];
    }
    if (a.accumulate) {
        load8(y, w);
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] += w[e];
    }
    store8(y, v);
}
KERNEL_TYPES(256, add, add_body, add_args)

/* The same for channel ranges that do not start or end at multiples of eight: one thread an element. */
template <typename T> DEVICE void copy_channels_body(const copy_channels_args &a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), pixel = index / a.c, c = index % a.c;
    if (pixel >= a.pixels) return;
    const T *x = (const T *)a.x + (i64)pixel * a.ld_x + a.x_channel + c;
    T *y = (T *)a.y + (i64)pixel * a.ld_y + a.y_channel + c;
    *y = a.accumulate ? (T)(to_float(*y) + to_float(*x)) : *x;
}
KERNEL_TYPES(256, copy_channels, copy_channels_body, copy_channels_args)

template <typename T> DEVICE void activate_body(const activate_args &a) {
    const pixel_group g(a.pixels, a.c);
    if (!g.inside) return;
    float v[8];
    load8((const T *)a.x + (i64)g.pixel * a.ld_x + g.channel, v);
    if (a.dy) {
        float d[8];
        load8((const T *)a.dy + (i64)g.pixel * a.ld_dy + g.channel, d);
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] = d[e] * activate_slope(v[e], a.act);
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] = activate(v[e], a.act);
    }
    store8((T *)a.y + (i64)g.pixel * a.ld_y + g.channel, v);
}
KERNEL_TYPES(256, activate, activate_body, activate_args)

/* Forward: pixels are those of y (2h x 2w). Backward: pixels are those of x and y holds dy; x (+)= sum of its four. */
template <typename T> DEVICE void upsample2_body(const resample_args &a) {
    const pixel_group g(a.n * a.h * a.w * 4, a.c);
    if (!g.inside) return;
    const i32 ow = 2 * a.w, x = g.pixel % ow, rest = g.pixel / ow, y = rest % (2 * a.h), n = rest / (2 * a.h);
    float v[8];
    load8((const T *)a.x + (((i64)n * a.h + y / 2) * a.w + x / 2) * a.ld_x + g.channel, v);
    store8((T *)a.y + (i64)g.pixel * a.ld_y + g.channel, v);
}
KERNEL_TYPES(256, upsample2, upsample2_body, resample_args)

template <typename T> DEVICE void upsample2_grad_body(const resample_args &a) {
    const pixel_group g(a.n * a.h * a.w, a.c);
    if (!g.inside) return;
    const i32 x = g.pixel % a.w, rest = g.pixel / a.w, y = rest % a.h, n = rest / a.h;
    float sum[8];
    zero8(sum);
#pragma unroll
    for (int q = 0; q < 4; q++) {
        float v[8];
        load8((const T *)a.y + (((i64)n * 2 * a.h + 2 * y + q / 2) * 2 * a.w + 2 * x + q % 2) * a.ld_y + g.channel, v);
#pragma unroll
        for (int e = 0; e < 8; e++) sum[e] += v[e];
    }
    store8((T *)a.x + (i64)g.pixel * a.ld_x + g.channel, sum);
}
KERNEL_TYPES(256, upsample2_grad, upsample2_grad_body, resample_args)

/* Stride 1 windows. argmax holds the window position (0 … k*k-1) of the first largest element, row-major. */
template <typename T> DEVICE void max_pool_body(const pool_args &a) {
    const pixel_group g(a.n * a.oh * a.ow, a.c);
    if (!g.inside) return;
    const i32 x = g.pixel % a.ow, rest = g.pixel / a.ow, y = rest % a.oh, n = rest / a.oh;
    float best[8];
    u8 at[8];
#pragma unroll
    for (int e = 0; e < 8; e++) {
        best[e] = -INFINITY_F;
        at[e] = 0;
    }
    for (i32 j = 0; j < a.kernel; j++) {
        for (i32 i = 0; i < a.kernel; i++) {
            const i32 sy = y * a.step - a.pad + j, sx = x * a.step - a.pad + i;
            if ((u32)sy >= (u32)a.h || (u32)sx >= (u32)a.w) continue;
            float v[8];
            load8((const T *)a.x + (((i64)n * a.h + sy) * a.w + sx) * a.ld_x + g.channel, v);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const bool more = v[e] > best[e];
                best[e] = more ? v[e] : best[e];
                at[e] = more ? (u8)(j * a.kernel + i) : at[e];
            }
        }
    }
    store8((T *)a.y + (i64)g.pixel * a.ld_y + g.channel, best);
    if (!a.argmax) return;
    u32x2 bits = {at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24,
                  at[4] | (u32)at[5] << 8 | (u32)at[6] << 16 | (u32)at[7] << 24};
    *(u32x2 *)((u8 *)a.argmax + (i64)g.pixel * a.c + g.channel) = bits;
}
KERNEL_TYPES(256, max_pool, max_pool_body, pool_args)

/* Gathers: an input pixel adds the gradients of the windows whose largest element it was; x is dx, y is dy. */
template <typename T> DEVICE void max_pool_grad_body(const pool_args &a) {
    const pixel_group g(a.n * a.h * a.w, a.c);
    if (!g.inside) return;
    const i32 x = g.pixel % a.w, rest = g.pixel / a.w, y = rest % a.h, n = rest / a.h;
    float sum[8];
    zero8(sum);
    for (i32 j = 0; j < a.kernel; j++) {
        for (i32 i = 0; i < a.kernel; i++) {
            const i32 ty = y + a.pad - j, tx = x + a.pad - i;
            if (ty < 0 || tx < 0 || ty % a.step || tx % a.step || ty / a.step >= a.oh || tx / a.step >= a.ow) continue;
            const i64 pixel = ((i64)n * a.oh + ty / a.step) * a.ow + tx / a.step;
            const u32x2 bits = *(const u32x2 *)((const u8 *)a.argmax + pixel * a.c + g.channel);
            float v[8];
            load8((const T *)a.y + pixel * a.ld_y + g.channel, v);
#pragma unroll
            for (int e = 0; e < 8; e++)
                sum[e] += (bits[e / 4] >> (e % 4 * 8) & 0xFFu) == (u32)(j * a.kernel + i) ? v[e] : 0.0f;
        }
    }
    store8((T *)a.x + (i64)g.pixel * a.ld_x + g.channel, sum);
}
KERNEL_TYPES(256, max_pool_grad, max_pool_grad_body, pool_args)

/* u8 (N,C,H,W) / 255 -> channels-last with zeros in the channels beyond C. One thread a pixel's eight channels. */
template <typename T> DEVICE void image_float_body(const image_args &a) {
    const pixel_group g(a.n * a.hw, a.c_padded);
    if (!g.inside) return;
    const i32 n = g.pixel / a.hw, at = g.pixel % a.hw;
    const u8 *x = (const u8 *)a.x + (i64)n * a.c * a.hw + at;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = g.channel + e < a.c ? (float)x[(i64)(g.channel + e) * a.hw] / 255.0f : 0.0f;
    store8((T *)a.y + (i64)g.pixel * a.ld_y + g.channel, v);
}
KERNEL_TYPES(256, image_float, image_float_body, image_args)

/* Dense f32 (N,C,A) <-> channels-last: plane element (n, c, offset + p) of a row of length `length`. One thread an
 * element. Also the way of host-visible inputs and outputs (offset 0, length hw). */
template <typename T> DEVICE void to_planes_body(const planes_args &a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), p = index % a.hw, rest = index / a.hw, c = rest % a.c,
              n = rest / a.c;
    if (n >= a.n) return;
    const float v = to_float(((const T *)a.map)[((i64)n * a.hw + p) * a.ld + c]);
    ((float *)a.planes)[((i64)n * a.c + c) * a.length + a.offset + p] = v;
}
KERNEL_TYPES(256, to_planes, to_planes_body, planes_args)

template <typename T> DEVICE void from_planes_body(const planes_args &a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), c = index % a.c_padded, rest = index / a.c_padded,
              p = rest % a.hw, n = rest / a.hw;
    if (n >= a.n) return;
    const float v = c < a.c ? ((const float *)a.planes)[((i64)n * a.c + c) * a.length + a.offset + p] : 0.0f;
    ((T *)a.map)[((i64)n * a.hw + p) * a.ld + c] = (T)(v * a.scale);
}
KERNEL_TYPES(256, from_planes, from_planes_body, planes_args)

/* The same two for large maps: 64 pixels by 32 channels a block are turned round in shared memory, so that both sides
 * move whole lines. Grid (blocks of pixels, blocks of channels, pictures). */
template <typename T> DEVICE void flatten_body(const planes_args &a) {
    SHARED float tile[32 * 65];
    const i32 t = (i32)thread_x(), p0 = (i32)block_x() * 64, c0 = (i32)block_y() * 32, n = (i32)block_z();
    const i32 pixel = p0 + t / 4, channel = c0 + t % 4 * 8;
    float v[8];
    zero8(v);
    if (pixel < a.hw && channel < a.c_padded) load8((const T *)a.map + ((i64)n * a.hw + pixel) * a.ld + channel, v);
#pragma unroll
    for (int e = 0; e < 8; e++) tile[(t % 4 * 8 + e) * 65 + t / 4] = v[e];
    barrier();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const i32 row = t / 64 + 4 * i, p = p0 + t % 64;
        if (c0 + row < a.c && p < a.hw)
            ((float *)a.planes)[((i64)n * a.c + c0 + row) * a.length + a.offset + p] = tile[row * 65 + t % 64];
    }
}
KERNEL_TYPES(256, flatten, flatten_body, planes_args)

template <typename T> DEVICE void flatten_grad_body(const planes_args &a) {
    SHARED float tile[32 * 65];
    const i32 t = (i32)thread_x(), p0 = (i32)block_x() * 64, c0 = (i32)block_y() * 32, n = (i32)block_z();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const i32 row = t / 64 + 4 * i, p = p0 + t % 64;
        const bool in = c0 + row < a.c && p < a.hw;
        tile[row * 65 + t % 64] =
            in ? ((const float *)a.planes)[((i64)n * a.c + c0 + row) * a.length + a.offset + p] * a.scale : 0.0f;
    }
    barrier();
    const i32 pixel = p0 + t / 4, channel = c0 + t % 4 * 8;
    if (pixel >= a.hw || channel >= a.c_padded) return;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = tile[(t % 4 * 8 + e) * 65 + t / 4];
    store8((T *)a.map + ((i64)n * a.hw + pixel) * a.ld + channel, v);
}
KERNEL_TYPES(256, flatten_grad, flatten_grad_body, planes_args)

/* Boxes (N,4,A) and scores (N,nc,A) -> (N,4+nc,A): pixels and probabilities. One thread an element of the result. */
KERNEL(256) detect_decode(decode_args a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), rows = 4 + a.nc;
    const i32 anchor = index % a.anchors, rest = index / a.anchors, row = rest % rows, n = rest / rows;
    if (n >= a.n) return;
    float *out = (float *)a.out + index;
    if (row >= 4) {
        *out = sigmoid_f(((const float *)a.scores)[((i64)n * a.nc + row - 4) * a.anchors + anchor]);
        return;
    }
    i32 level = 0, at = anchor;
    while (level + 1 < a.n_levels && at >= a.level_h[level] * a.level_w[level]) {
        at -= a.level_h[level] * a.level_w[level];
        level++;
    }
    const float ax = (float)(at % a.level_w[level]) + 0.5f, ay = (float)(at / a.level_w[level]) + 0.5f,
                stride = (float)a.level_stride[level];
    const float *box = (const float *)a.boxes + (i64)n * 4 * a.anchors + anchor;
    const i32 side = row % 2; /* 0: x, 1: y */
    const float low = (side ? ay : ax) - box[(i64)side * a.anchors],
                high = (side ? ay : ax) + box[(i64)(side + 2) * a.anchors];
    if (a.corners)
        *out = (row < 2 ? low : high) * stride;
    else
        *out = (row < 2 ? (low + high) * 0.5f : high - low) * stride;
}

KERNEL(256) fill_u32(fill_args a) {
    const u64 index = (u64)block_x() * 256 + thread_x();
    if (index < a.count) ((u32 *)a.to)[index] = a.bits;
}
