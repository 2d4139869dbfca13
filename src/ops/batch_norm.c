/* Batch normalisation with the activation that follows it, and its gradient. Model document, section 1.3. */
#include "ops/ops.h"

#include <math.h>

void op_batch_norm(const op_args *args) {
    const shape *s = &args->in[0].shape;
    const op_attr *attr = args->attr;
    const int64_t channels = s->dim[1], plane = s->dim[2] * s->dim[3], count = s->dim[0] * plane;
    const float *x = tensor_f32(&args->in[0]), *gamma = tensor_f32(&args->in[1]), *beta = tensor_f32(&args->in[2]);
    float *running_mean = tensor_f32(&args->in[3]), *running_var = tensor_f32(&args->in[4]);
    float *y = tensor_f32(&args->out[0]), *saved_mean = tensor_f32(&args->out[1]),
          *saved_scale = tensor_f32(&args->out[2]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t c = 0; c < channels; c++) {
        double mean = (double)running_mean[c], var = (double)running_var[c];
        if (!attr->frozen) {
            double sum = 0.0, squares = 0.0;
            for (int64_t n = 0; n < s->dim[0]; n++)
                for (int64_t i = 0; i < plane; i++) sum += (double)x[(n * channels + c) * plane + i];
            mean = sum / (double)count;
            for (int64_t n = 0; n < s->dim[0]; n++) {
                for (int64_t i = 0; i < plane; i++) {
                    const double d = (double)x[(n * channels + c) * plane + i] - mean;
                    squares += d * d;
                }
            }
            var = squares / (double)count;
            const double m = (double)attr->momentum, unbiased = count > 1 ? squares / (double)(count - 1) : var;
            running_mean[c] = (float)((1.0 - m) * (double)running_mean[c] + m * mean);
            running_var[c] = (float)((1.0 - m) * (double)running_var[c] + m * unbiased);
        }
        const float center = (float)mean, scale = (float)(1.0 / sqrt(var + (double)attr->eps));
        saved_mean[c] = center;
        saved_scale[c] = scale;
        for (int64_t n = 0; n < s->dim[0]; n++) {
            for (int64_t i = 0; i < plane; i++) {
                const int64_t at = (n * channels + c) * plane + i;
                y[at] = activation_apply(attr->act, (x[at] - center) * scale * gamma[c] + beta[c]);
            }
        }
    }
}

/* With z = xhat*gamma + beta and g = gy * act'(z): gbeta = sum g, ggamma = sum g*xhat,
 * gx = gamma/std * (g - gbeta/count - xhat*ggamma/count); without the two means when the statistics are frozen. */
void op_batch_norm_grad(const op_args *args) {
    const shape *s = &args->in[1].shape;
    const op_attr *attr = args->attr;
    const int64_t channels = s->dim[1], plane = s->dim[2] * s->dim[3], count = s->dim[0] * plane;
    const float *gy = tensor_f32(&args->in[0]), *x = tensor_f32(&args->in[1]), *gamma = tensor_f32(&args->in[2]);
    const float *beta = tensor_f32(&args->in[3]), *mean = tensor_f32(&args->in[4]), *scale = tensor_f32(&args->in[5]);
    float *gx = tensor_f32(&args->out[0]), *ggamma = tensor_f32(&args->out[1]), *gbeta = tensor_f32(&args->out[2]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0.0, dot = 0.0;
        for (int64_t n = 0; n < s->dim[0]; n++) {
            for (int64_t i = 0; i < plane; i++) {
                const int64_t at = (n * channels + c) * plane + i;
                const float xhat = (x[at] - mean[c]) * scale[c];
                const float g = gy[at] * activation_slope(attr->act, xhat * gamma[c] + beta[c]);
                sum += (double)g;
                dot += (double)g * (double)xhat;
            }
        }
        const float mean_g = attr->frozen ? 0.0f : (float)(sum / (double)count);
        const float mean_dot = attr->frozen ? 0.0f : (float)(dot / (double)count);
        for (int64_t n = 0; n < s->dim[0]; n++) {
            for (int64_t i = 0; i < plane; i++) {
                const int64_t at = (n * channels + c) * plane + i;
                const float xhat = (x[at] - mean[c]) * scale[c];
                const float g = gy[at] * activation_slope(attr->act, xhat * gamma[c] + beta[c]);
                const float grad = gamma[c] * scale[c] * (g - mean_g - xhat * mean_dot);
                gx[at] = args->out_adds[0] ? gx[at] + grad : grad;
            }
        }
        ggamma[c] = (args->out_adds[1] ? ggamma[c] : 0.0f) + (float)dot;
        gbeta[c] = (args->out_adds[2] ? gbeta[c] : 0.0f) + (float)sum;
    }
}
