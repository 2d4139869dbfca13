/* Plain C references of the ops in graph/ops.def: what each op means, on dense (N,C,H,W) host memory. Devices are
 * compared with them and may fall back to them. They allocate nothing and keep no state; different calls may run at the
 * same time. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "graph/graph.h"

/* One application of an op. Shapes are those that the graph's shape rules allow. */
typedef struct op_args {
    const op_attr *attr;
    int n_in, n_out;
    tensor in[OP_MAX_INPUTS];      /* data is NULL where the op was given TENSOR_NONE */
    tensor out[OP_MAX_OUTPUTS];    /* dense views */
    bool out_adds[OP_MAX_OUTPUTS]; /* the output is added to what is there (role GRAD), else overwritten */
    void *scratch;                 /* op_scratch_bytes bytes, 64-byte aligned; content undefined */
    int n_threads;
} op_args;

typedef void (*op_reference_fn)(const op_args *args);
/* Reads shapes and attributes of `args` only. */
typedef size_t (*op_scratch_fn)(const op_args *args);

typedef struct op_reference {
    op_reference_fn run;         /* NULL: the op has no reference */
    op_scratch_fn scratch_bytes; /* NULL: needs none */
} op_reference;

const op_reference *op_reference_of(op_kind kind);
size_t op_scratch_bytes(op_kind kind, const op_args *args);

void op_image_float(const op_args *args);
void op_conv2d(const op_args *args);
void op_conv2d_grad_x(const op_args *args);
void op_conv2d_grad_w(const op_args *args);
void op_conv2d_grad_bias(const op_args *args);
void op_batch_norm(const op_args *args);
void op_batch_norm_grad(const op_args *args);
void op_activate(const op_args *args);
void op_activate_grad(const op_args *args);
void op_add(const op_args *args);
void op_concat(const op_args *args);
void op_slice(const op_args *args);
void op_slice_grad(const op_args *args);
void op_upsample2(const op_args *args);
void op_upsample2_grad(const op_args *args);
void op_max_pool(const op_args *args);
void op_max_pool_grad(const op_args *args);
void op_attention(const op_args *args);
void op_attention_grad(const op_args *args);
void op_flatten_concat(const op_args *args);
void op_flatten_concat_grad(const op_args *args);
void op_detach(const op_args *args);
void op_detect_decode(const op_args *args);
void op_detect_loss(const op_args *args);
size_t op_detect_loss_scratch(const op_args *args);

/* The scalar activation functions and their derivatives. */
float activation_apply(activation act, float x);
float activation_slope(activation act, float x);

#endif
