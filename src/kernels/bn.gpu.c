/* Batch normalisation with its activation. Statistics come as one (mean, sum of squared deviations) a block of rows and
 * are joined in a fixed order (Chan et al. 1983): the same bits every run. Traffic is the limit, so every thread has
 * the loads of several rows under way. */
#include "args.h"
#include "gpu.h"

/* Channels a thread: few, so that the constants of each leave registers for loads under way. */
enum { LANES = 4 };

/* A block covers `groups` x 4 channels; thread t works on group t % groups and every (256 / groups)-th row. */
struct bn_thread {
    i32 channel, first, step, slot, begin, end;
    bool active;
    DEVICE_MEMBER bn_thread(i32 groups, i32 channels, i32 rows_per_block, i32 rows) {
        const i32 t = (i32)thread_x();
        step = 256 / groups;
        slot = t % groups;
        first = t / groups;
        channel = ((i32)block_y() * groups + slot) * LANES;
        active = first < step && channel < channels;
        begin = (i32)block_x() * rows_per_block;
        end = begin + rows_per_block < rows ? begin + rows_per_block : rows;
    }
};

/* Rows that a thread fetches before it works on the first; `pair` where it fetches two maps: as many as fit 64
 * registers. Activations other than SiLU are rare and not worth the registers. */
template <typename T, int ACT = GPU_ACT_SILU> struct bn_depth {
    static constexpr int value = sizeof(T) == 4 ? 2 : 4, pair = ACT != GPU_ACT_SILU || sizeof(T) == 4 ? 1 : 3;
};

/* Calls f(row, x) for the rows of this thread; x points at its channels of row 0. */
template <typename T, int DEPTH, typename F> DEVICE void each_row(const bn_thread &w, const T *x, i32 ld, F f) {
    const i64 stride = (i64)w.step * ld;
    i32 r = w.begin + w.first;
    x += (i64)r * ld;
    float v[LANES];
    for (; r + (DEPTH - 1) * w.step < w.end; r += DEPTH * w.step, x += DEPTH * stride) {
        packed4<T> p[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++) p[i].fetch(x + i * stride);
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            p[i].unpack(v);
            f(r + i * w.step, v);
        }
    }
    for (; r < w.end; r += w.step, x += stride) {
        packed4<T> p;
        p.fetch(x);
        p.unpack(v);
        f(r, v);
    }
}
/* The same for two maps: f(row, x, y). */
template <typename T, int DEPTH, typename F>
DEVICE void each_pair(const bn_thread &w, const T *x, i32 ld_x, const T *y, i32 ld_y, F f) {
    const i64 stride_x = (i64)w.step * ld_x, stride_y = (i64)w.step * ld_y;
    i32 r = w.begin + w.first;
    x += (i64)r * ld_x;
    y += (i64)r * ld_y;
    float v[LANES], u[LANES];
    for (; r + (DEPTH - 1) * w.step < w.end; r += DEPTH * w.step, x += DEPTH * stride_x, y += DEPTH * stride_y) {
        packed4<T> p[DEPTH], q[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            p[i].fetch(x + i * stride_x);
            q[i].fetch(y + i * stride_y);
        }
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            p[i].unpack(v);
            q[i].unpack(u);
            f(r + i * w.step, v, u);
        }
    }
    for (; r < w.end; r += w.step, x += stride_x, y += stride_y) {
        packed4<T> p, q;
        p.fetch(x);
        q.fetch(y);
        p.unpack(v);
        q.unpack(u);
        f(r, v, u);
    }
}

/* Adds up v of all threads of a group, halving; the total arrives in the thread with first == 0. */
DEVICE void sum_rows(float v[LANES], const bn_thread &w, i32 groups, float *scratch) {
    const i32 t = (i32)thread_x();
    i32 half = 1;
    while (half * 2 < w.step) half *= 2;
    store4(scratch + t * LANES, v);
    barrier();
    for (; half > 0; half /= 2) {
        if (w.first < half && w.first + half < w.step) {
            float other[LANES];
            load4(scratch + (t + half * groups) * LANES, other);
#pragma unroll
            for (int e = 0; e < LANES; e++) v[e] += other[e];
            store4(scratch + t * LANES, v);
        }
        barrier();
    }
}

/* One pass: deviations from a guess of the mean (that of a few rows) leave nothing to cancel. */
template <typename T> DEVICE void bn_stats_body(const bn_stats_args &a) {
    constexpr int DEPTH = bn_depth<T>::value, GUESS = 8;
    SHARED __attribute__((aligned(16))) float scratch[256 * LANES];
    const bn_thread w(a.groups, a.c, a.rows_per_block, a.rows);
    const T *x = (const T *)a.x + w.channel;
    const i32 count = w.end - w.begin;
    float guess[LANES], sum[LANES], square[LANES];
    zero4(guess);
    zero4(sum);
    zero4(square);
    if (w.active) {
        packed4<T> p[GUESS];
#pragma unroll
        for (int i = 0; i < GUESS; i++) p[i].fetch(x + (i64)(w.begin + i * count / GUESS) * a.ld_x);
#pragma unroll
        for (int i = 0; i < GUESS; i++) {
            float v[LANES];
            p[i].unpack(v);
#pragma unroll
            for (int e = 0; e < LANES; e++) guess[e] += v[e] * (1.0f / GUESS);
        }
    }
    if (w.active) {
        each_row<T, DEPTH>(w, x, a.ld_x, [&](i32, const float v[LANES]) {
#pragma unroll
            for (int e = 0; e < LANES; e++) {
                const float d = v[e] - guess[e];
                sum[e] += d;
                square[e] = fma_f(d, d, square[e]);
            }
        });
    }
    sum_rows(sum, w, a.groups, scratch);
    sum_rows(square, w, a.groups, scratch);
    if (!w.active || w.first != 0) return;
    float *out = (float *)a.stats + (i64)block_x() * 2 * a.ld_stats + w.channel;
    const float inverse = 1.0f / (float)count;
#pragma unroll
    for (int e = 0; e < LANES; e++) {
        const float off = sum[e] * inverse;
        square[e] = max_f(square[e] - off * sum[e], 0.0f);
        sum[e] = guess[e] + off;
    }
    store4(out, sum);
    store4(out + a.ld_stats, square);
}
KERNEL_TYPES_RESIDENT(256, 4, bn_stats, bn_stats_body, bn_stats_args)

/* Partials are joined by 256 threads that share four channels. */
DEVICE bn_thread joining_thread(i32 channels) {
    bn_thread w(1, channels, 0, 0);
    w.channel = (i32)block_x() * LANES;
    return w;
}

/* As deviations from the mean of the first block. */
KERNEL(256) bn_finalize(bn_finalize_args a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * LANES];
    const bn_thread w = joining_thread(a.ld_stats);
    const float *stats = (const float *)a.stats + w.channel;
    const float total = (float)a.rows, full = (float)a.rows_per_block;
    float guess[LANES], shift[LANES], deviations[LANES];
    load4(stats, guess);
    zero4(shift);
    zero4(deviations);
    for (i32 b = w.first; b < a.blocks; b += 256) {
        const float n = b + 1 < a.blocks ? full : (float)(a.rows - b * a.rows_per_block);
        float mean[LANES], square[LANES];
        load4(stats + (i64)b * 2 * a.ld_stats, mean);
        load4(stats + ((i64)b * 2 + 1) * a.ld_stats, square);
#pragma unroll
        for (int e = 0; e < LANES; e++) {
            const float off = mean[e] - guess[e];
            shift[e] += off * (n / total);
            deviations[e] += square[e] + n * off * off;
        }
    }
    sum_rows(shift, w, 1, scratch);
    sum_rows(deviations, w, 1, scratch);
    if (w.first != 0) return;
    float *running_mean = (float *)a.running_mean, *running_var = (float *)a.running_var;
#pragma unroll
    for (int e = 0; e < LANES; e++) {
        const i32 c = w.channel + e;
        if (c >= a.c) return;
        const float mean = guess[e] + shift[e], sum = max_f(deviations[e] - total * shift[e] * shift[e], 0.0f);
        ((float *)a.mean)[c] = mean;
        ((float *)a.inv_std)[c] = 1.0f / sqrt_exact(sum / total + a.eps);
        if (!running_mean) continue;
        const float unbiased = a.rows > 1 ? sum / (total - 1.0f) : sum / total;
        running_mean[c] = (1.0f - a.momentum) * running_mean[c] + a.momentum * mean;
        running_var[c] = (1.0f - a.momentum) * running_var[c] + a.momentum * unbiased;
    }
}

/* Frozen layers: the saved statistics are the running ones. */
KERNEL(256) bn_frozen(bn_finalize_args a) {
    const i32 c = (i32)(block_x() * 256 + thread_x());
    if (c >= a.c) return;
    ((float *)a.mean)[c] = ((const float *)a.running_mean)[c];
    ((float *)a.inv_std)[c] = 1.0f / sqrt_exact(((const float *)a.running_var)[c] + a.eps);
}

/* Element c of a per-channel vector; channels beyond the logical count hold zeros. */
DEVICE float channel_of(gpu_address vector, i32 c, i32 logical) {
    return c < logical ? ((const float *)vector)[c] : 0.0f;
}

/* Normalisation of this thread's channels: z = (x - mean) * scale + beta. */
struct bn_channels {
    float mean[LANES], scale[LANES], beta[LANES];
    DEVICE_MEMBER void load(gpu_address pm, gpu_address ps, gpu_address pg, gpu_address pb, i32 channel, i32 logical) {
#pragma unroll
        for (int e = 0; e < LANES; e++) {
            mean[e] = channel_of(pm, channel + e, logical);
            scale[e] = channel_of(ps, channel + e, logical) * channel_of(pg, channel + e, logical);
            beta[e] = channel_of(pb, channel + e, logical);
        }
    }
};

template <typename T, int ACT> DEVICE void bn_apply_rows(const bn_apply_args &a, const bn_thread &w) {
    bn_channels k;
    k.load(a.mean, a.inv_std, a.gamma, a.beta, w.channel, a.c);
    T *y = (T *)a.y + w.channel;
    each_row<T, bn_depth<T>::value>(w, (const T *)a.x + w.channel, a.ld_x, [&](i32 row, float v[LANES]) {
#pragma unroll
        for (int e = 0; e < LANES; e++)
            v[e] = activate_as<T, ACT>(fma_f(v[e] - k.mean[e], k.scale[e], k.beta[e]), a.act);
        store4(y + (i64)row * a.ld_y, v);
    });
}
template <typename T> DEVICE void bn_apply_body(const bn_apply_args &a) {
    const bn_thread w(a.groups, a.c_padded, a.rows_per_block, a.rows);
    if (!w.active) return;
    if (a.act == GPU_ACT_SILU)
        bn_apply_rows<T, GPU_ACT_SILU>(a, w);
    else
        bn_apply_rows<T, -1>(a, w);
}
KERNEL_TYPES_RESIDENT(256, 4, bn_apply, bn_apply_body, bn_apply_args)

/* partial[block][2][ld]: sums of dz and of dz * (x - mean), with dz = dy * act'(z). */
template <typename T, int ACT>
DEVICE void bn_grad_reduce_rows(const bn_grad_args &a, const bn_thread &w, float sum[LANES], float product[LANES]) {
    bn_channels k;
    k.load(a.mean, a.inv_std, a.gamma, a.beta, w.channel, a.c);
    each_pair<T, bn_depth<T, ACT>::pair>(w, (const T *)a.x + w.channel, a.ld_x, (const T *)a.dy + w.channel, a.ld_dy,
                                         [&](i32, const float v[LANES], const float d[LANES]) {
#pragma unroll
                                             for (int e = 0; e < LANES; e++) {
                                                 const float off = v[e] - k.mean[e];
                                                 const float dz = d[e] * activate_slope_as<T, ACT>(
                                                                             fma_f(off, k.scale[e], k.beta[e]), a.act);
                                                 sum[e] += dz;
                                                 product[e] = fma_f(dz, off, product[e]);
                                             }
                                         });
}
template <typename T> DEVICE void bn_grad_reduce_body(const bn_grad_args &a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * LANES];
    const bn_thread w(a.groups, a.c_padded, a.rows_per_block, a.rows);
    float sum[LANES], product[LANES];
    zero4(sum);
    zero4(product);
    if (w.active) {
        if (a.act == GPU_ACT_SILU)
            bn_grad_reduce_rows<T, GPU_ACT_SILU>(a, w, sum, product);
        else
            bn_grad_reduce_rows<T, -1>(a, w, sum, product);
    }
    sum_rows(sum, w, a.groups, scratch);
    sum_rows(product, w, a.groups, scratch);
    if (!w.active || w.first != 0) return;
    float *out = (float *)a.partial + (i64)block_x() * 2 * a.c_padded + w.channel;
    store4(out, sum);
    store4(out + a.c_padded, product);
}
KERNEL_TYPES_RESIDENT(256, 4, bn_grad_reduce, bn_grad_reduce_body, bn_grad_args)

/* Adds the partials: totals[2][ld] (sums of dz and of dz * xhat) for bn_grad_apply, and into the gradients of beta and
 * gamma. */
KERNEL(256) bn_grad_finalize(bn_grad_args a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * LANES];
    const bn_thread w = joining_thread(a.c_padded);
    const float *partial = (const float *)a.partial + w.channel;
    float sum[LANES], product[LANES];
    zero4(sum);
    zero4(product);
    for (i32 b = w.first; b < a.blocks; b += 256) {
        float s[LANES], p[LANES];
        load4(partial + (i64)b * 2 * a.c_padded, s);
        load4(partial + ((i64)b * 2 + 1) * a.c_padded, p);
#pragma unroll
        for (int e = 0; e < LANES; e++) {
            sum[e] += s[e];
            product[e] += p[e];
        }
    }
    sum_rows(sum, w, 1, scratch);
    sum_rows(product, w, 1, scratch);
    if (w.first != 0) return;
#pragma unroll
    for (int e = 0; e < LANES; e++) {
        const i32 c = w.channel + e;
        if (c >= a.c) return;
        product[e] *= ((const float *)a.inv_std)[c];
        ((float *)a.totals)[c] = sum[e];
        ((float *)a.totals)[a.c_padded + c] = product[e];
        if (a.grad_beta) ((float *)a.grad_beta)[c] += sum[e];
        if (a.grad_gamma) ((float *)a.grad_gamma)[c] += product[e];
    }
}

/* dx = gamma / std * (dz - mean(dz) - xhat * mean(dz * xhat)) as scale * dz - shift - slope * (x - mean); frozen
 * statistics: dx = gamma / std * dz. */
template <typename T, int ACT> DEVICE void bn_grad_apply_rows(const bn_grad_args &a, const bn_thread &w) {
    bn_channels k;
    k.load(a.mean, a.inv_std, a.gamma, a.beta, w.channel, a.c);
    float shift[LANES], slope[LANES];
    const float *totals = (const float *)a.totals;
    const float inverse = a.frozen ? 0.0f : 1.0f / (float)a.rows;
#pragma unroll
    for (int e = 0; e < LANES; e++) {
        const i32 c = w.channel + e;
        const float each = k.scale[e] * inverse;
        shift[e] = c < a.c ? each * totals[c] : 0.0f;
        slope[e] = c < a.c ? each * totals[a.c_padded + c] * channel_of(a.inv_std, c, a.c) : 0.0f;
    }
    T *dx = (T *)a.dx + w.channel;
    each_pair<T, bn_depth<T, ACT>::pair>(w, (const T *)a.x + w.channel, a.ld_x, (const T *)a.dy + w.channel, a.ld_dy,
                                         [&](i32 row, float v[LANES], const float d[LANES]) {
#pragma unroll
                                             for (int e = 0; e < LANES; e++) {
                                                 const float off = v[e] - k.mean[e];
                                                 const float dz = d[e] * activate_slope_as<T, ACT>(
                                                                             fma_f(off, k.scale[e], k.beta[e]), a.act);
                                                 v[e] = fma_f(k.scale[e], dz, -fma_f(slope[e], off, shift[e]));
                                             }
                                             store4(dx + (i64)row * a.ld_dx, v);
                                         });
}
template <typename T> DEVICE void bn_grad_apply_body(const bn_grad_args &a) {
    const bn_thread w(a.groups, a.c_padded, a.rows_per_block, a.rows);
    if (!w.active) return;
    if (a.act == GPU_ACT_SILU)
        bn_grad_apply_rows<T, GPU_ACT_SILU>(a, w);
    else
        bn_grad_apply_rows<T, -1>(a, w);
}
KERNEL_TYPES_RESIDENT(256, 4, bn_grad_apply, bn_grad_apply_body, bn_grad_args)

/* Sums over a map's pixels, for the gradient of a bias: partial[block][c]. */
template <typename T> DEVICE void bias_grad_body(const bias_grad_args &a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * LANES];
    const bn_thread w(a.groups, a.c, a.rows_per_block, a.rows);
    float sum[LANES];
    zero4(sum);
    if (w.active) {
        each_row<T, bn_depth<T>::value>(w, (const T *)a.dy + w.channel, a.ld_dy, [&](i32, const float v[LANES]) {
#pragma unroll
            for (int e = 0; e < LANES; e++) sum[e] += v[e];
        });
    }
    sum_rows(sum, w, a.groups, scratch);
    if (w.active && w.first == 0) store4((float *)a.partial + (i64)block_x() * a.c + w.channel, sum);
}
KERNEL_TYPES(256, bias_grad, bias_grad_body, bias_grad_args)
