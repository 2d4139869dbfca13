/* Max pooling: windows over blocked planes, one vector of channels at a time. */
#include "device/cpu/kernels.h"

#include <string.h>

static int64_t clip_low(int64_t v) {
    return v > 0 ? v : 0;
}

static int64_t clip_high(int64_t v, int64_t limit) {
    return v < limit ? v : limit;
}

static ol_status pool_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const op_attr *a = op->attr;
    const map_view in = map_view_of(&op->in[0]), out = map_view_of(&op->out[0]);
    const int64_t width = dev->simd->width, where_stride = op->out[1].layout.batch_stride;
    const float *x = m->in[0];
    float *y = m->out[0];
    int32_t *where = op->out[1].unused ? NULL : m->out[1];
#pragma omp parallel for collapse(2) num_threads(dev->threads) schedule(static)
    for (int64_t n = 0; n < out.n; n++) {
        for (int64_t r = 0; r < out.blocks * out.h; r++) {
            const float *plane = x + n * in.batch_stride + r / out.h * in.plane * width;
            const int64_t y0 = r % out.h * a->stride[0] - a->pad[0];
            pool_window win = {.h = in.h, .w = in.w, .y0 = clip_low(y0), .y1 = clip_high(y0 + a->kernel[0], in.h)};
            for (int64_t ox = 0; ox < out.w; ox++) {
                const int64_t x0 = ox * a->stride[1] - a->pad[1], at = (r * out.w + ox) * width;
                win.x0 = clip_low(x0);
                win.x1 = clip_high(x0 + a->kernel[1], in.w);
                dev->simd->pool(plane, &win, y + n * out.batch_stride + at,
                                where != NULL ? where + n * where_stride + at : NULL);
            }
        }
    }
    return OL_OK;
}

static ol_status pool_grad_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const map_view in = map_view_of(&op->out[0]), out = map_view_of(&op->in[0]);
    const int64_t width = dev->simd->width, where_stride = op->in[1].layout.batch_stride;
    const float *gy = m->in[0];
    const int32_t *where = m->in[1];
    float *gx = m->out[0];
#pragma omp parallel for collapse(2) num_threads(dev->threads) schedule(static)
    for (int64_t n = 0; n < in.n; n++) {
        for (int64_t b = 0; b < in.blocks; b++) {
            float *plane = gx + n * in.batch_stride + b * in.plane * width;
            const int64_t at = b * out.plane * width;
            memset(plane, 0, (size_t)(in.plane * width) * sizeof *plane);
            dev->simd->pool_grad(gy + n * out.batch_stride + at, where + n * where_stride + at, plane, out.plane);
        }
    }
    return OL_OK;
}

ol_status pool_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    const bool grad = op->kind == OP_MAX_POOL_GRAD;
    if (!map_is_blocked(dev, &op->in[0]) || !map_is_blocked(dev, &op->out[0])) return OL_ERROR_UNSUPPORTED;
    if (!map_is_blocked(dev, grad ? &op->in[1] : &op->out[1])) return OL_ERROR_UNSUPPORTED;
    return map_kernel_create(dev, op, grad ? pool_grad_run : pool_run, 0, out);
}
