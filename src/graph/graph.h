/* A graph of tensor operations and its derivation: what is to be computed, not how or where. Logical layout is
 * (N,C,H,W) everywhere; the physical one is the device's business. Owns its nodes in an arena; one thread builds it,
 * after which it is read-only. Plans (plan.h) are made from it. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/arena.h"
#include "tensor/tensor.h"

#define OP_MAX_INPUTS  12
#define OP_MAX_OUTPUTS 4
#define OP_MAX_LEVELS  4

typedef int32_t tensor_ref; /* index of a tensor in its graph */
#define TENSOR_NONE ((tensor_ref)-1)

typedef enum op_kind {
#define OP(kind, name, min_inputs, max_inputs, n_outputs) OP_##kind,
#include "graph/ops.def"
#undef OP
    OP_KIND_COUNT
} op_kind;

typedef enum activation { ACT_NONE = 0, ACT_SILU, ACT_RELU, ACT_SIGMOID } activation;

/* Attributes of all ops in one struct: an op reads those that its row in ops.def names and leaves the others zero.
 * graph_op_add turns a zero kernel, stride, dilation or group count into 1. */
typedef struct op_attr {
    int kernel[2], stride[2], pad[2], dilation[2]; /* (y, x) */
    int groups;
    activation act;
    float eps, momentum;
    bool frozen; /* batch norm in a training graph: use and keep the running statistics */
    int axis;
    int begin, size; /* slice */
    int heads, key_dim, head_dim;
    float scale;
    int n_levels; /* detection: maps of a pyramid, finest first */
    int level_h[OP_MAX_LEVELS], level_w[OP_MAX_LEVELS], level_stride[OP_MAX_LEVELS];
    bool corners;    /* decode to x1,y1,x2,y2 instead of cx,cy,w,h */
    int topk, topk2; /* assigner */
    float alpha, beta;
    int variant;   /* op-specific choice, see ops.def */
    int extent[2]; /* (y, x) size of the tensor whose gradient is made */
    int channels;  /* its channels */
} op_attr;

/* Who provides a tensor's memory and when it is valid. */
typedef enum tensor_role {
    ROLE_TEMP,   /* produced by an op, lives until its last use */
    ROLE_INPUT,  /* written by the host before a run */
    ROLE_OUTPUT, /* produced by an op, readable by the host after a run */
    ROLE_PARAM,  /* trainable; bound to memory that outlives the plan */
    ROLE_BUFFER, /* not trained, may be updated by ops (BN statistics, optimizer state); bound like a parameter */
    ROLE_GRAD    /* gradient of a parameter; bound; ops add into it */
} tensor_role;

typedef struct graph_tensor {
    const char *name; /* "" for unnamed temporaries */
    shape shape;
    dtype type;
    tensor_role role;
    int32_t producer; /* index of the op that writes it; -1 for inputs and bound tensors */
    int32_t n_uses;
} graph_tensor;

typedef struct graph_op {
    op_kind kind;
    const char *name; /* layer path such as "model.2.m.0.cv1", for messages and profiles */
    int n_in, n_out;
    tensor_ref in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    op_attr attr;
} graph_op;

typedef struct graph {
    arena arena;
    graph_tensor *tensors;
    graph_op *ops; /* in execution order */
    size_t n_tensors, n_ops, tensor_capacity, op_capacity;
    dtype compute;     /* type of activations on devices that have more than one: f32 (default), f16, bf16 */
    const char *scope; /* prefix given to the names of ops that are added; set by builders */
} graph;

ol_status graph_create(ol_context *ctx, graph **out);
void graph_destroy(graph *g);

/* Adds a tensor that no op produces (INPUT, PARAM, BUFFER, GRAD). */
ol_status graph_tensor_add(graph *g, const char *name, tensor_role role, dtype type, shape s, tensor_ref *out);
/* Adds an op; shapes of the outputs follow from the row's shape rule, which checks the inputs. `out` receives n_outputs
 * refs (may be NULL). The message names the op's scope and the offending shapes. */
ol_status graph_op_add(graph *g, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in, tensor_ref *out);
/* Makes a produced tensor readable after a run and gives it a name. */
void graph_output_mark(graph *g, tensor_ref t, const char *name);
tensor_ref graph_find(const graph *g, const char *name); /* by tensor name; TENSOR_NONE */
static inline const shape *graph_shape(const graph *g, tensor_ref t) {
    return &g->tensors[t].shape;
}

/* Appends the backward ops. `from[i]` has the known gradient `seed[i]` (an existing tensor of equal shape, such as an
 * output of detect_loss). For every ROLE_PARAM tensor that is reached and for which `wanted` (NULL: all) is true a
 * ROLE_GRAD tensor named "grad/<name>" is made; param_grad[t] (n_tensors entries before the call, caller's array)
 * receives it or TENSOR_NONE. Gradients stop at `detach` ops. Gradients of ROLE_INPUT tensors can be asked for by
 * marking them in `wanted`; they become ROLE_OUTPUT. */
ol_status graph_backward(graph *g, const tensor_ref *from, const tensor_ref *seed, int n_seeds, const bool *wanted,
                         tensor_ref *param_grad);

/* Whether a parameter only adds a constant to each channel of a map, and everything behind takes constants out again
 * (batch norm, mostly): its gradient is zero but for rounding. For graphs that are not derived yet. */
bool graph_ignores_shift(const graph *g, tensor_ref param);

/* The row of an op. */
typedef struct op_info {
    const char *name;
    int min_inputs, max_inputs, n_outputs;
} op_info;
const op_info *op_info_of(op_kind kind);

/* Multiply-adds * 2 of the forward ops, as the field counts GFLOPs. */
double graph_flops(const graph *g);

#endif
