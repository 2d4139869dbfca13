/* Which op is compiled by what. */
#include "device/gpu/gpu.h"

gpu_compile_fn gpu_compile_of(op_kind kind) {
    static const gpu_compile_fn table[OP_KIND_COUNT] = {
        [OP_IMAGE_FLOAT] = gpu_compile_image_float,
        [OP_CONV2D] = gpu_compile_conv2d,
        [OP_CONV2D_GRAD_X] = gpu_compile_conv2d_grad_x,
        [OP_CONV2D_GRAD_W] = gpu_compile_conv2d_grad_w,
        [OP_CONV2D_GRAD_BIAS] = gpu_compile_conv2d_grad_bias,
        [OP_BATCH_NORM] = gpu_compile_batch_norm,
        [OP_BATCH_NORM_GRAD] = gpu_compile_batch_norm_grad,
        [OP_ACTIVATE] = gpu_compile_activate,
        [OP_ACTIVATE_GRAD] = gpu_compile_activate_grad,
        [OP_ADD] = gpu_compile_add,
        [OP_CONCAT] = gpu_compile_concat,
        [OP_SLICE] = gpu_compile_slice,
        [OP_SLICE_GRAD] = gpu_compile_slice_grad,
        [OP_DETACH] = gpu_compile_detach,
        [OP_UPSAMPLE2] = gpu_compile_upsample2,
        [OP_UPSAMPLE2_GRAD] = gpu_compile_upsample2_grad,
        [OP_MAX_POOL] = gpu_compile_max_pool,
        [OP_MAX_POOL_GRAD] = gpu_compile_max_pool_grad,
        [OP_ATTENTION] = gpu_compile_attention,
        [OP_ATTENTION_GRAD] = gpu_compile_attention_grad,
        [OP_FLATTEN_CONCAT] = gpu_compile_flatten_concat,
        [OP_FLATTEN_CONCAT_GRAD] = gpu_compile_flatten_concat_grad,
        [OP_DETECT_DECODE] = gpu_compile_detect_decode,
        [OP_DETECT_LOSS] = gpu_compile_detect_loss,
    };
    return table[kind];
}
