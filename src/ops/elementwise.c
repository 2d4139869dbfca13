/* Ops that work element by element: activation, addition, detach, and pixels to floats. */
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

float activation_apply(activation act, float x) {
    switch (act) {
    case ACT_NONE:
        return x;
    case ACT_SILU:
        return x * sigmoid(x);
    case ACT_RELU:
        return x > 0.0f ? x : 0.0f;
    case ACT_SIGMOID:
        return sigmoid(x);
    }
    return x;
}

float activation_slope(activation act, float x) {
    const float s = act == ACT_SILU || act == ACT_SIGMOID ? sigmoid(x) : 0.0f;
    switch (act) {
    case ACT_NONE:
        return 1.0f;
    case ACT_SILU:
        return s * (1.0f + x * (1.0f - s));
    case ACT_RELU:
        return x > 0.0f ? 1.0f : 0.0f;
    case ACT_SIGMOID:
        return s * (1.0f - s);
    }
    return 1.0f;
}

void op_image_float(const op_args *args) {
    const int64_t count = shape_elements(&args->in[0].shape);
    const uint8_t *x = args->in[0].data;
    float *y = tensor_f32(&args->out[0]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t i = 0; i < count; i++) y[i] = (float)x[i] / 255.0f;
}

void op_activate(const op_args *args) {
    const int64_t count = shape_elements(&args->in[0].shape);
    const float *x = tensor_f32(&args->in[0]);
    float *y = tensor_f32(&args->out[0]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t i = 0; i < count; i++) y[i] = activation_apply(args->attr->act, x[i]);
}

void op_activate_grad(const op_args *args) {
    const int64_t count = shape_elements(&args->in[0].shape);
    const float *gy = tensor_f32(&args->in[0]), *x = tensor_f32(&args->in[1]);
    float *gx = tensor_f32(&args->out[0]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t i = 0; i < count; i++) gx[i] = gy[i] * activation_slope(args->attr->act, x[i]);
}

void op_add(const op_args *args) {
    const int64_t count = shape_elements(&args->in[0].shape);
    const float *a = tensor_f32(&args->in[0]), *b = tensor_f32(&args->in[1]);
    float *y = tensor_f32(&args->out[0]);
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

void op_detach(const op_args *args) {
    const size_t bytes = (size_t)shape_elements(&args->in[0].shape) * dtype_bytes(args->in[0].type);
    memcpy(args->out[0].data, args->in[0].data, bytes);
}
