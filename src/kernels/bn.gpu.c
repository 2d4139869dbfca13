/* Batch normalisation with its activation. Statistics come as one (mean, sum of squared deviations) a block of rows,
 * from the convolution's epilogue or from bn_stats, and are joined in a fixed order (Chan et al. 1983): the same bits
 * every run. */
#include "args.h"
#include "gpu.h"

/* A block covers `groups` x 8 channels; thread t works on group t % groups and every (256 / groups)-th row. */
struct bn_thread {
    i32 channel, first, step, slot;
    bool active;
    DEVICE_MEMBER bn_thread(i32 groups, i32 channels) {
        const i32 t = (i32)thread_x();
        step = 256 / groups;
        slot = t % groups;
        first = t / groups;
        channel = ((i32)block_y() * groups + slot) * 8;
        active = first < step && channel < channels;
    }
};

/* Adds up v of all threads of a group; the total arrives in the thread with first == 0 (others: unchanged). */
DEVICE void sum_rows(float v[8], const bn_thread &w, i32 groups, float *scratch) {
    store8(scratch + (i32)thread_x() * 8, v);
    barrier();
    if (w.active && w.first == 0) {
        for (i32 r = 1; r < w.step; r++) {
            float other[8];
            load8(scratch + (r * groups + w.slot) * 8, other);
#pragma unroll
            for (int e = 0; e < 8; e++) v[e] += other[e];
        }
    }
    barrier();
}

template <typename T> DEVICE void bn_stats_body(const bn_stats_args &a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * 8];
    const bn_thread w(a.groups, a.c);
    const T *x = (const T *)a.x;
    const i32 begin = (i32)block_x() * a.rows_per_block,
              end = begin + a.rows_per_block < a.rows ? begin + a.rows_per_block : a.rows;
    float *out = (float *)a.stats + (i64)block_x() * 2 * a.ld_stats + w.channel, mean[8];
    zero8(mean);
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        float sum[8];
        zero8(sum);
        if (w.active) {
            for (i32 r = begin + w.first; r < end; r += w.step) {
                float v[8];
                load8(x + (i64)r * a.ld_x + w.channel, v);
#pragma unroll
                for (int e = 0; e < 8; e++) sum[e] += pass == 0 ? v[e] : (v[e] - mean[e]) * (v[e] - mean[e]);
            }
        }
        sum_rows(sum, w, a.groups, scratch);
        if (w.active && w.first == 0) {
            if (pass == 0) {
#pragma unroll
                for (int e = 0; e < 8; e++) sum[e] /= (float)(end - begin);
                store8(scratch + w.slot * 8, sum);
            }
            store8(out + (pass == 0 ? 0 : a.ld_stats), sum);
        }
        barrier();
        if (pass == 0 && w.active) load8(scratch + w.slot * 8, mean);
        barrier();
    }
}
KERNEL_TYPES(256, bn_stats, bn_stats_body, bn_stats_args)

/* 16 channels a block, 16 threads a channel. */
KERNEL(256) bn_finalize(bn_finalize_args a) {
    SHARED float scratch[256];
    const i32 t = (i32)thread_x(), lane = t % 16, worker = t / 16, c = (i32)block_x() * 16 + lane;
    const float *stats = (const float *)a.stats;
    const float total = (float)a.rows;
    float mean = 0.0f, deviations = 0.0f;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        float sum = 0.0f;
        for (i32 b = worker; b < a.blocks && c < a.c; b += 16) {
            const i32 left = a.rows - b * a.rows_per_block;
            const float n = (float)(left < a.rows_per_block ? left : a.rows_per_block);
            const float m = stats[(i64)b * 2 * a.ld_stats + c];
            if (pass == 0)
                sum += m * (n / total);
            else
                sum += stats[((i64)b * 2 + 1) * a.ld_stats + c] + n * (m - mean) * (m - mean);
        }
        scratch[t] = sum;
        barrier();
        float joined = 0.0f;
        for (i32 i = 0; i < 16; i++) joined += scratch[i * 16 + lane];
        barrier();
        if (pass == 0)
            mean = joined;
        else
            deviations = joined;
    }
    if (worker != 0 || c >= a.c) return;
    const float variance = deviations / total;
    ((float *)a.mean)[c] = mean;
    ((float *)a.inv_std)[c] = 1.0f / sqrt_exact(max_f(variance, 0.0f) + a.eps);
    float *running_mean = (float *)a.running_mean, *running_var = (float *)a.running_var;
    if (!running_mean) return;
    const float unbiased = a.rows > 1 ? deviations / (total - 1.0f) : variance;
    running_mean[c] = (1.0f - a.momentum) * running_mean[c] + a.momentum * mean;
    running_var[c] = (1.0f - a.momentum) * running_var[c] + a.momentum * unbiased;
}

/* Frozen layers: the saved statistics are the running ones. */
KERNEL(256) bn_frozen(bn_finalize_args a) {
    const i32 c = (i32)(block_x() * 256 + thread_x());
    if (c >= a.c) return;
    ((float *)a.mean)[c] = ((const float *)a.running_mean)[c];
    ((float *)a.inv_std)[c] = 1.0f / sqrt_exact(((const float *)a.running_var)[c] + a.eps);
}

/* Per-channel constants of eight channels; beyond the logical count gamma and beta count as zero. */
struct bn_channels {
    float mean[8], inv_std[8], gamma[8], beta[8];
    DEVICE_MEMBER void load(gpu_address pm, gpu_address ps, gpu_address pg, gpu_address pb, i32 channel, i32 logical) {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const bool in = channel + e < logical;
            mean[e] = in ? ((const float *)pm)[channel + e] : 0.0f;
            inv_std[e] = in ? ((const float *)ps)[channel + e] : 0.0f;
            gamma[e] = in ? ((const float *)pg)[channel + e] : 0.0f;
            beta[e] = in ? ((const float *)pb)[channel + e] : 0.0f;
        }
    }
};

template <typename T> DEVICE void bn_apply_body(const bn_apply_args &a) {
    const bn_thread w(a.groups, a.c_padded);
    if (!w.active) return;
    bn_channels k;
    k.load(a.mean, a.inv_std, a.gamma, a.beta, w.channel, a.c);
    const T *x = (const T *)a.x;
    T *y = (T *)a.y;
    const i32 begin = (i32)block_x() * a.rows_per_block,
              end = begin + a.rows_per_block < a.rows ? begin + a.rows_per_block : a.rows;
    for (i32 r = begin + w.first; r < end; r += w.step) {
        float v[8];
        load8(x + (i64)r * a.ld_x + w.channel, v);
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] = activate((v[e] - k.mean[e]) * k.inv_std[e] * k.gamma[e] + k.beta[e], a.act);
        store8(y + (i64)r * a.ld_y + w.channel, v);
    }
}
KERNEL_TYPES(256, bn_apply, bn_apply_body, bn_apply_args)

/* partial[block][2][ld]: sums of dz and of dz * xhat, with z = gamma * xhat + beta and dz = dy * act'(z). */
template <typename T> DEVICE void bn_grad_reduce_body(const bn_grad_args &a) {
    SHARED __attribute__((aligned(16))) float scratch[256 * 8];
    const bn_thread w(a.groups, a.c_padded);
    bn_channels k;
    k.load(a.mean, a.inv_std, a.gamma, a.beta, w.active ? w.channel : a.c, a.c);
    const T *x = (const T *)a.x, *dy = (const T *)a.dy;
    const i32 begin = (i32)block_x() * a.rows_per_block,
              end = begin + a.rows_per_block < a.rows ? begin + a.rows_per_block : a.rows;
    float sum[8], product[8];
    zero8(sum);
    zero8(product);
    for (i32 r = begin + w.first; r < end && w.active; r += w.step) {
        float v[8], d[8];
        load8(x + (i64)r * a.ld_x + w.channel, v);
        load8(dy + (i64)r * a.ld_dy + w.channel, d);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const float xhat = (v[e] - k.mean[e]) * k.inv_std[e];
            const float dz = d[e] * activate_slope(xhat * k.gamma[e] + k.beta[e], a.act);
            sum[e] += dz;
            product[e] += dz * xhat;
        }
    }
    sum_rows(sum, w, a.groups, scratch);
    sum_rows(product, w, a.groups, scratch);
    if (!w.active || w.first != 0) return;
    float *out = (float *)a.partial + (i64)block_x() * 2 * a.c_padded + w.channel;
    store8(out, sum);
    store8(out + a.c_padded, product);
}
KERNEL_TYPES(256, bn_grad_reduce, bn_grad_reduce_body, bn_grad_args)

/* Adds the partials: totals[2][ld] for bn_grad_apply, and into the gradients of beta and gamma. */
KERNEL(256) bn_grad_finalize(bn_grad_args a) {
    SHARED float scratch[256];
    const i32 t = (i32)thread_x(), lane = t % 16, worker = t / 16, c = (i32)block_x() * 16 + lane;
    const float *partial = (const float *)a.partial;
#pragma unroll 1
    for (int which = 0; which < 2; which++) {
        float sum = 0.0f;
        for (i32 b = worker; b < a.blocks && c < a.c; b += 16) sum += partial[((i64)b * 2 + which) * a.c_padded + c];
        scratch[t] = sum;
        barrier();
        float joined = 0.0f;
        for (i32 i = 0; i < 16; i++) joined += scratch[i * 16 + lane];
        barrier();
        if (worker != 0 || c >= a.c) continue;
        ((float *)a.totals)[which * a.c_padded + c] = joined;
        float *grad = (float *)(which == 0 ? a.grad_beta : a.grad_gamma);
        if (grad) grad[c] += joined;
    }
}

/* dx = gamma / std * (dz - mean(dz) - xhat * mean(dz * xhat)); frozen statistics: dx = gamma / std * dz. */
template <typename T> DEVICE void bn_grad_apply_body(const bn_grad_args &a) {
    const bn_thread w(a.groups, a.c_padded);
    if (!w.active) return;
    bn_channels k;
    k.load(a.mean, a.inv_std, a.gamma, a.beta, w.channel, a.c);
    float mean_dz[8], mean_product[8];
    zero8(mean_dz);
    zero8(mean_product);
    if (!a.frozen) {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            if (w.channel + e >= a.c) continue;
            mean_dz[e] = ((const float *)a.totals)[w.channel + e] / (float)a.rows;
            mean_product[e] = ((const float *)a.totals)[a.c_padded + w.channel + e] / (float)a.rows;
        }
    }
    const T *x = (const T *)a.x, *dy = (const T *)a.dy;
    T *dx = (T *)a.dx;
    const i32 begin = (i32)block_x() * a.rows_per_block,
              end = begin + a.rows_per_block < a.rows ? begin + a.rows_per_block : a.rows;
    for (i32 r = begin + w.first; r < end; r += w.step) {
        float v[8], d[8];
        load8(x + (i64)r * a.ld_x + w.channel, v);
        load8(dy + (i64)r * a.ld_dy + w.channel, d);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const float xhat = (v[e] - k.mean[e]) * k.inv_std[e];
            const float dz = d[e] * activate_slope(xhat * k.gamma[e] + k.beta[e], a.act);
            v[e] = k.gamma[e] * k.inv_std[e] * (dz - mean_dz[e] - xhat * mean_product[e]);
        }
        store8(dx + (i64)r * a.ld_dx + w.channel, v);
    }
}
KERNEL_TYPES(256, bn_grad_apply, bn_grad_apply_body, bn_grad_args)
