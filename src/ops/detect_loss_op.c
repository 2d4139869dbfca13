/* detect_loss as an op: see graph/ops.def for its inputs and outputs. */
#include "ops/detect_loss.h"
#include "ops/ops.h"

size_t op_detect_loss_scratch(const op_args *args) {
    return detect_loss_scratch_bytes(args->attr, (int)args->in[1].shape.dim[0], (int)args->in[1].shape.dim[1],
                                     (int)args->in[2].shape.dim[1]);
}

void op_detect_loss(const op_args *args) {
    const detect_loss_args a = {
        .attr = args->attr,
        .n = (int)args->in[1].shape.dim[0],
        .nc = (int)args->in[1].shape.dim[1],
        .max_targets = (int)args->in[2].shape.dim[1],
        .boxes = tensor_f32(&args->in[0]),
        .scores = tensor_f32(&args->in[1]),
        .targets = tensor_f32(&args->in[2]),
        .counts = args->in[3].data,
        .gains = tensor_f32(&args->in[4]),
        .items = tensor_f32(&args->out[0]),
        .grad_boxes = tensor_f32(&args->out[1]),
        .grad_scores = tensor_f32(&args->out[2]),
        .n_threads = args->n_threads,
    };
    detect_loss(&a, args->scratch);
}
