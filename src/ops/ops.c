#include "ops/ops.h"

static const op_reference references[OP_KIND_COUNT] = {
    [OP_IMAGE_FLOAT] = {op_image_float, NULL},
    [OP_CONV2D] = {op_conv2d, NULL},
    [OP_CONV2D_GRAD_X] = {op_conv2d_grad_x, NULL},
    [OP_CONV2D_GRAD_W] = {op_conv2d_grad_w, NULL},
    [OP_CONV2D_GRAD_BIAS] = {op_conv2d_grad_bias, NULL},
    [OP_BATCH_NORM] = {op_batch_norm, NULL},
    [OP_BATCH_NORM_GRAD] = {op_batch_norm_grad, NULL},
    [OP_ACTIVATE] = {op_activate, NULL},
    [OP_ACTIVATE_GRAD] = {op_activate_grad, NULL},
    [OP_ADD] = {op_add, NULL},
    [OP_CONCAT] = {op_concat, NULL},
    [OP_SLICE] = {op_slice, NULL},
    [OP_SLICE_GRAD] = {op_slice_grad, NULL},
    [OP_UPSAMPLE2] = {op_upsample2, NULL},
    [OP_UPSAMPLE2_GRAD] = {op_upsample2_grad, NULL},
    [OP_MAX_POOL] = {op_max_pool, NULL},
    [OP_MAX_POOL_GRAD] = {op_max_pool_grad, NULL},
    [OP_ATTENTION] = {op_attention, NULL},
    [OP_ATTENTION_GRAD] = {op_attention_grad, NULL},
    [OP_FLATTEN_CONCAT] = {op_flatten_concat, NULL},
    [OP_FLATTEN_CONCAT_GRAD] = {op_flatten_concat_grad, NULL},
    [OP_DETACH] = {op_detach, NULL},
    [OP_DETECT_DECODE] = {op_detect_decode, NULL},
    [OP_DETECT_LOSS] = {op_detect_loss, op_detect_loss_scratch},
};

const op_reference *op_reference_of(op_kind kind) {
    return &references[kind];
}

size_t op_scratch_bytes(op_kind kind, const op_args *args) {
    const op_scratch_fn rule = references[kind].scratch_bytes;
    return rule != NULL ? rule(args) : 0;
}
