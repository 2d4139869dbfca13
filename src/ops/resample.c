/* Nearest upsampling by two and max pooling, with their gradients. */
#include "ops/ops.h"

#include <math.h>
#include <string.h>

void op_upsample2(const op_args *args) {
    const shape *s = &args->in[0].shape;
    const int64_t planes = s->dim[0] * s->dim[1], h = s->dim[2], w = s->dim[3];
    const float *x = tensor_f32(&args->in[0]);
    float *y = tensor_f32(&args->out[0]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < 4 * h * w; i++)
            y[p * 4 * h * w + i] = x[p * h * w + i / (2 * w) / 2 * w + i % (2 * w) / 2];
}

void op_upsample2_grad(const op_args *args) {
    const shape *s = &args->out[0].shape;
    const int64_t planes = s->dim[0] * s->dim[1], h = s->dim[2], w = s->dim[3];
    const float *gy = tensor_f32(&args->in[0]);
    float *gx = tensor_f32(&args->out[0]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t p = 0; p < planes; p++) {
        for (int64_t i = 0; i < h * w; i++) {
            const float *g = gy + p * 4 * h * w + i / w * 2 * (2 * w) + i % w * 2;
            gx[p * h * w + i] = g[0] + g[1] + g[2 * w] + g[2 * w + 1];
        }
    }
}

void op_max_pool(const op_args *args) {
    const shape *in = &args->in[0].shape, *out = &args->out[0].shape;
    const op_attr *a = args->attr;
    const int64_t planes = in->dim[0] * in->dim[1], h = in->dim[2], w = in->dim[3], oh = out->dim[2], ow = out->dim[3];
    const float *x = tensor_f32(&args->in[0]);
    float *y = tensor_f32(&args->out[0]);
    int32_t *argmax = args->out[1].data;
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t i = 0; i < planes * oh * ow; i++) {
        const float *plane = x + i / (oh * ow) * h * w;
        const int64_t y0 = i / ow % oh * a->stride[0] - a->pad[0], x0 = i % ow * a->stride[1] - a->pad[1];
        float best = -INFINITY;
        int64_t where = -1; /* the first maximum in row order; NaN wins, as in the reference package */
        for (int64_t iy = y0 < 0 ? 0 : y0; iy < y0 + a->kernel[0] && iy < h; iy++) {
            for (int64_t ix = x0 < 0 ? 0 : x0; ix < x0 + a->kernel[1] && ix < w; ix++) {
                const float value = plane[iy * w + ix];
                if (where >= 0 && !(value > best) && !isnan(value)) continue;
                best = value;
                where = iy * w + ix;
            }
        }
        y[i] = best;
        argmax[i] = (int32_t)where;
    }
}

void op_max_pool_grad(const op_args *args) {
    const shape *in = &args->out[0].shape, *out = &args->in[0].shape;
    const int64_t planes = in->dim[0] * in->dim[1], size = in->dim[2] * in->dim[3], outputs = out->dim[2] * out->dim[3];
    const float *gy = tensor_f32(&args->in[0]);
    const int32_t *argmax = args->in[1].data;
    float *gx = tensor_f32(&args->out[0]);
    memset(gx, 0, (size_t)(planes * size) * sizeof *gx);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = p * outputs; i < (p + 1) * outputs; i++)
            if (argmax[i] >= 0) gx[p * size + argmax[i]] += gy[i];
}
