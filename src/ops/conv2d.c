/* Convolution, its gradients, and the fused tail act(conv + bias) + residual of derived-free graphs. */
#include "ops/ops.h"

#include <string.h>

typedef struct conv_size {
    int64_t n, c, h, w, k, oh, ow, kh, kw, sy, sx, py, px, dy, dx, groups, cg, kg; /* cg, kg: channels of one group */
} conv_size;

static conv_size conv_size_of(const op_attr *a, const shape *x, const shape *w, const shape *y) {
    return (conv_size){.n = x->dim[0],
                       .c = x->dim[1],
                       .h = x->dim[2],
                       .w = x->dim[3],
                       .k = y->dim[1],
                       .oh = y->dim[2],
                       .ow = y->dim[3],
                       .kh = w->dim[2],
                       .kw = w->dim[3],
                       .sy = a->stride[0],
                       .sx = a->stride[1],
                       .py = a->pad[0],
                       .px = a->pad[1],
                       .dy = a->dilation[0],
                       .dx = a->dilation[1],
                       .groups = a->groups,
                       .cg = x->dim[1] / a->groups,
                       .kg = y->dim[1] / a->groups};
}

/* Output columns [*begin, *end) whose tap at input offset `shift` = kx*dx - px lies inside the row. */
static void column_range(const conv_size *s, int64_t shift, int64_t *begin, int64_t *end) {
    int64_t first = shift < 0 ? (-shift + s->sx - 1) / s->sx : 0;
    const int64_t reach = s->w - 1 - shift;
    int64_t last = reach < 0 ? 0 : reach / s->sx + 1;
    if (last > s->ow) last = s->ow;
    if (first > last) first = last;
    *begin = first;
    *end = last;
}

void op_conv2d(const op_args *args) {
    const conv_size s = conv_size_of(args->attr, &args->in[0].shape, &args->in[1].shape, &args->out[0].shape);
    const float *x = tensor_f32(&args->in[0]), *w = tensor_f32(&args->in[1]);
    const float *bias = args->n_in > 2 ? tensor_f32(&args->in[2]) : NULL;
    const float *residual = args->n_in > 3 ? tensor_f32(&args->in[3]) : NULL;
    float *y = tensor_f32(&args->out[0]);
    const activation act = args->attr->act;
#pragma omp parallel for collapse(2) num_threads(args->n_threads)
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t k = 0; k < s.k; k++) {
            float *plane = y + (n * s.k + k) * s.oh * s.ow;
            const float start = bias != NULL ? bias[k] : 0.0f;
            for (int64_t i = 0; i < s.oh * s.ow; i++) plane[i] = start;
            for (int64_t c = 0; c < s.cg; c++) {
                const float *in = x + (n * s.c + k / s.kg * s.cg + c) * s.h * s.w;
                for (int64_t tap = 0; tap < s.kh * s.kw; tap++) {
                    const float weight = w[(k * s.cg + c) * s.kh * s.kw + tap];
                    const int64_t shift = tap % s.kw * s.dx - s.px;
                    int64_t begin, end;
                    column_range(&s, shift, &begin, &end);
                    for (int64_t oy = 0; oy < s.oh; oy++) {
                        const int64_t iy = oy * s.sy + tap / s.kw * s.dy - s.py;
                        if (iy < 0 || iy >= s.h) continue;
                        const float *row = in + iy * s.w;
                        float *out = plane + oy * s.ow;
                        for (int64_t ox = begin; ox < end; ox++) out[ox] += weight * row[ox * s.sx + shift];
                    }
                }
            }
            for (int64_t i = 0; i < s.oh * s.ow; i++) plane[i] = activation_apply(act, plane[i]);
            if (residual != NULL)
                for (int64_t i = 0; i < s.oh * s.ow; i++) plane[i] += residual[(n * s.k + k) * s.oh * s.ow + i];
        }
    }
}

/* gx[c] = sum over k and taps of gy[k] * w[k,c,tap], each scattered to where the tap read. */
void op_conv2d_grad_x(const op_args *args) {
    const conv_size s = conv_size_of(args->attr, &args->out[0].shape, &args->in[1].shape, &args->in[0].shape);
    const float *gy = tensor_f32(&args->in[0]), *w = tensor_f32(&args->in[1]);
    float *gx = tensor_f32(&args->out[0]);
    const bool adds = args->out_adds[0];
#pragma omp parallel for collapse(2) num_threads(args->n_threads)
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t c = 0; c < s.c; c++) {
            float *plane = gx + (n * s.c + c) * s.h * s.w;
            if (!adds) memset(plane, 0, (size_t)(s.h * s.w) * sizeof *plane);
            const int64_t group = c / s.cg;
            for (int64_t k = group * s.kg; k < (group + 1) * s.kg; k++) {
                const float *grad = gy + (n * s.k + k) * s.oh * s.ow;
                for (int64_t tap = 0; tap < s.kh * s.kw; tap++) {
                    const float weight = w[(k * s.cg + c % s.cg) * s.kh * s.kw + tap];
                    const int64_t shift = tap % s.kw * s.dx - s.px;
                    int64_t begin, end;
                    column_range(&s, shift, &begin, &end);
                    for (int64_t oy = 0; oy < s.oh; oy++) {
                        const int64_t iy = oy * s.sy + tap / s.kw * s.dy - s.py;
                        if (iy < 0 || iy >= s.h) continue;
                        for (int64_t ox = begin; ox < end; ox++)
                            plane[iy * s.w + ox * s.sx + shift] += weight * grad[oy * s.ow + ox];
                    }
                }
            }
        }
    }
}

/* gw[k,c,tap] = sum over pictures and positions of gy[k] * what the tap read from x[c]. */
void op_conv2d_grad_w(const op_args *args) {
    const conv_size s = conv_size_of(args->attr, &args->in[0].shape, &args->out[0].shape, &args->in[1].shape);
    const float *x = tensor_f32(&args->in[0]), *gy = tensor_f32(&args->in[1]);
    float *gw = tensor_f32(&args->out[0]);
    const bool adds = args->out_adds[0];
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t i = 0; i < s.k * s.cg * s.kh * s.kw; i++) {
        const int64_t tap = i % (s.kh * s.kw), c = i / (s.kh * s.kw) % s.cg, k = i / (s.kh * s.kw * s.cg);
        const int64_t shift = tap % s.kw * s.dx - s.px;
        int64_t begin, end;
        column_range(&s, shift, &begin, &end);
        double sum = 0.0;
        for (int64_t n = 0; n < s.n; n++) {
            const float *in = x + (n * s.c + k / s.kg * s.cg + c) * s.h * s.w;
            const float *grad = gy + (n * s.k + k) * s.oh * s.ow;
            for (int64_t oy = 0; oy < s.oh; oy++) {
                const int64_t iy = oy * s.sy + tap / s.kw * s.dy - s.py;
                if (iy < 0 || iy >= s.h) continue;
                float row = 0.0f;
                for (int64_t ox = begin; ox < end; ox++) row += grad[oy * s.ow + ox] * in[iy * s.w + ox * s.sx + shift];
                sum += (double)row;
            }
        }
        gw[i] = (adds ? gw[i] : 0.0f) + (float)sum;
    }
}

void op_conv2d_grad_bias(const op_args *args) {
    const shape *y = &args->in[0].shape;
    const float *gy = tensor_f32(&args->in[0]);
    float *gb = tensor_f32(&args->out[0]);
    const int64_t plane = y->dim[2] * y->dim[3];
    for (int64_t k = 0; k < y->dim[1]; k++) {
        double sum = 0.0;
        for (int64_t n = 0; n < y->dim[0]; n++)
            for (int64_t i = 0; i < plane; i++) sum += (double)gy[(n * y->dim[1] + k) * plane + i];
        gb[k] = (args->out_adds[0] ? gb[k] : 0.0f) + (float)sum;
    }
}
