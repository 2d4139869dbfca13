/* Ops that move channels or maps: concatenation, slices, and the flattening of a pyramid. */
#include "ops/ops.h"

#include <string.h>

void op_concat(const op_args *args) {
    const shape *out = &args->out[0].shape;
    const int64_t plane = out->dim[2] * out->dim[3];
    int64_t begin = 0;
    for (int i = 0; i < args->n_in; i++) {
        const int64_t channels = args->in[i].shape.dim[1];
        for (int64_t n = 0; n < out->dim[0]; n++)
            memmove(tensor_f32(&args->out[0]) + (n * out->dim[1] + begin) * plane,
                    tensor_f32(&args->in[i]) + n * channels * plane, (size_t)(channels * plane) * sizeof(float));
        begin += channels;
    }
}

/* Calls for every run of channels of a slice: `whole` the tensor that is sliced, `part` the slice. */
static void slice_copy(const op_attr *attr, const shape *whole, float *whole_data, float *part_data, bool scatter) {
    const int64_t plane = whole->dim[2] * whole->dim[3], group_channels = whole->dim[1] / attr->groups;
    const size_t bytes = (size_t)(attr->size * plane) * sizeof(float);
    for (int64_t n = 0; n < whole->dim[0]; n++) {
        for (int64_t g = 0; g < attr->groups; g++) {
            float *w = whole_data + (n * whole->dim[1] + g * group_channels + attr->begin) * plane;
            float *p = part_data + (n * attr->groups + g) * attr->size * plane;
            memcpy(scatter ? w : p, scatter ? p : w, bytes);
        }
    }
}

void op_slice(const op_args *args) {
    slice_copy(args->attr, &args->in[0].shape, tensor_f32(&args->in[0]), tensor_f32(&args->out[0]), false);
}

void op_slice_grad(const op_args *args) {
    memset(args->out[0].data, 0, (size_t)shape_elements(&args->out[0].shape) * sizeof(float));
    slice_copy(args->attr, &args->out[0].shape, tensor_f32(&args->out[0]), tensor_f32(&args->in[0]), true);
}

void op_flatten_concat(const op_args *args) {
    const shape *out = &args->out[0].shape;
    const int64_t rows = out->dim[0] * out->dim[1], columns = out->dim[2];
    int64_t begin = 0;
    for (int i = 0; i < args->n_in; i++) {
        const int64_t plane = args->in[i].shape.dim[2] * args->in[i].shape.dim[3];
        for (int64_t r = 0; r < rows; r++)
            memcpy(tensor_f32(&args->out[0]) + r * columns + begin, tensor_f32(&args->in[i]) + r * plane,
                   (size_t)plane * sizeof(float));
        begin += plane;
    }
}

void op_flatten_concat_grad(const op_args *args) {
    const shape *in = &args->in[0].shape, *out = &args->out[0].shape;
    const int64_t rows = in->dim[0] * in->dim[1], plane = out->dim[2] * out->dim[3];
    for (int64_t r = 0; r < rows; r++)
        memcpy(tensor_f32(&args->out[0]) + r * plane, tensor_f32(&args->in[0]) + r * in->dim[2] + args->attr->begin,
               (size_t)plane * sizeof(float));
}
