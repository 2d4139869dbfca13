/* Attention as batched matrix products over channels-last maps: a query's or key's channels are contiguous, so S = Q
 * K^T reads rows of the qkv map as they lie. Probabilities are kept as [image][head][query][keys padded to 8] in the
 * compute type. */
#include "device/gpu/gpu.h"

#include <stdio.h>

typedef struct attention_size {
    int n, heads, length, padded, key_dim, head_dim, group; /* group: channels of a head in the qkv map */
} attention_size;

static attention_size size_of(gpu_builder *b, const op_operand *qkv) {
    const op_attr *attr = b->op->attr;
    const attention_size s = {.n = (int)qkv->shape.dim[0],
                              .heads = attr->heads,
                              .length = (int)(qkv->shape.dim[2] * qkv->shape.dim[3]),
                              .padded = gpu_padded(qkv->shape.dim[2] * qkv->shape.dim[3]),
                              .key_dim = attr->key_dim,
                              .head_dim = attr->head_dim,
                              .group = 2 * attr->key_dim + attr->head_dim};
    if (b->status == OL_OK && (s.key_dim % 8 != 0 || s.head_dim % 8 != 0))
        b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED,
                             "attention with %d key and %d value channels a head: GPUs need multiples of 8", s.key_dim,
                             s.head_dim);
    return s;
}

/* An operand of a product: where it is, its row length, and the distance between images and between heads (elements).
 */
typedef struct operand {
    gpu_slot_kind kind;
    int index;
    uint64_t offset_bytes;
    int ld;
    int64_t image, head;
} operand;

static void product(gpu_builder *b, const attention_size *s, const char *form, dtype type, operand a, operand c_b,
                    operand c, int m, int n, int k, float alpha) {
    const gemm_args args = {.a_outer = (uint64_t)a.image,
                            .a_inner = (uint64_t)a.head,
                            .b_outer = (uint64_t)c_b.image,
                            .b_inner = (uint64_t)c_b.head,
                            .c_outer = (uint64_t)c.image,
                            .c_inner = (uint64_t)c.head,
                            .m = m,
                            .n = n,
                            .k = k,
                            .ld_a = a.ld,
                            .ld_b = c_b.ld,
                            .ld_c = c.ld,
                            .inner = s->heads,
                            .alpha = alpha};
    char name[32];
    snprintf(name, sizeof name, "gemm_%s_%s", form, gpu_type_suffix(type));
    gpu_launch *l = gpu_launch_add(b, "gemm", name, &args, sizeof args, (unsigned)(m + 63) / 64,
                                   (unsigned)(n + 63) / 64, (unsigned)(s->n * s->heads));
    GPU_SLOT(l, gemm_args, a, a.kind, a.index, a.offset_bytes);
    GPU_SLOT(l, gemm_args, b, c_b.kind, c_b.index, c_b.offset_bytes);
    GPU_SLOT(l, gemm_args, c, c.kind, c.index, c.offset_bytes);
}

/* Channels from `channel` of each head's group in a qkv map; or of a map with `head_channels` a head. */
static operand map_operand(const op_operand *t, gpu_slot_kind kind, int index, int channel, int head_channels,
                           int length) {
    return (operand){kind,
                     index,
                     (uint64_t)channel * dtype_bytes(t->type),
                     t->layout.block,
                     (int64_t)length * t->layout.block,
                     head_channels};
}

static operand matrix_operand(const attention_size *s, gpu_slot_kind kind, int index, uint64_t offset_bytes) {
    const int64_t head = (int64_t)s->length * s->padded;
    return (operand){kind, index, offset_bytes, s->padded, head * s->heads, head};
}

static void softmax_add(gpu_builder *b, const attention_size *s, dtype type, operand p, const operand *dp) {
    const softmax_args a = {.rows = s->n * s->heads * s->length, .n = s->length, .ld = s->padded};
    const int rows_per_block = 256 / b->g->info.wave_width;
    char name[32];
    snprintf(name, sizeof name, "softmax_%s", gpu_type_suffix(type));
    gpu_launch *l =
        gpu_launch_add(b, "gemm", name, &a, sizeof a, (unsigned)((a.rows + rows_per_block - 1) / rows_per_block), 1, 1);
    GPU_SLOT(l, softmax_args, p, p.kind, p.index, p.offset_bytes);
    if (dp != NULL) GPU_SLOT(l, softmax_args, dp, dp->kind, dp->index, dp->offset_bytes);
}

/* The gradient of the padded columns and the columns themselves are zero: the softmax kernel writes them. */
void gpu_compile_attention(gpu_builder *b) {
    const op_operand *qkv = &b->op->in[0], *y = &b->op->out[0];
    const attention_size s = size_of(b, qkv);
    const operand q = map_operand(qkv, SLOT_IN, 0, 0, s.group, s.length);
    const operand k = map_operand(qkv, SLOT_IN, 0, s.key_dim, s.group, s.length);
    const operand v = map_operand(qkv, SLOT_IN, 0, 2 * s.key_dim, s.group, s.length);
    const operand p = matrix_operand(&s, SLOT_OUT, 1, 0);
    const operand out = map_operand(y, SLOT_OUT, 0, 0, s.head_dim, s.length);
    product(b, &s, "rr", y->type, q, k, p, s.length, s.length, s.key_dim, b->op->attr->scale);
    softmax_add(b, &s, y->type, p, NULL);
    product(b, &s, "rc", y->type, p, v, out, s.length, s.head_dim, s.length, 1.0f);
}

/* in: gy, qkv, probabilities; out: gqkv. */
void gpu_compile_attention_grad(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0], *qkv = &b->op->in[1], *gqkv = &b->op->out[0];
    const attention_size s = size_of(b, qkv);
    const float scale = b->op->attr->scale;
    const size_t matrix_bytes =
        (size_t)s.n * (size_t)s.heads * (size_t)s.length * (size_t)s.padded * dtype_bytes(qkv->type);
    const operand dp = matrix_operand(&s, SLOT_SCRATCH, 0, gpu_scratch_take(b, matrix_bytes));
    const operand p = matrix_operand(&s, SLOT_IN, 2, 0);
    const operand g = map_operand(gy, SLOT_IN, 0, 0, s.head_dim, s.length);
    const operand q = map_operand(qkv, SLOT_IN, 1, 0, s.group, s.length);
    const operand k = map_operand(qkv, SLOT_IN, 1, s.key_dim, s.group, s.length);
    const operand v = map_operand(qkv, SLOT_IN, 1, 2 * s.key_dim, s.group, s.length);
    const operand gq = map_operand(gqkv, SLOT_OUT, 0, 0, s.group, s.length);
    const operand gk = map_operand(gqkv, SLOT_OUT, 0, s.key_dim, s.group, s.length);
    const operand gv = map_operand(gqkv, SLOT_OUT, 0, 2 * s.key_dim, s.group, s.length);
    product(b, &s, "cc", gy->type, p, g, gv, s.length, s.head_dim, s.length, 1.0f);  /* dV = P^T dO */
    product(b, &s, "rr", gy->type, g, v, dp, s.length, s.length, s.head_dim, 1.0f);  /* dP = dO V^T */
    softmax_add(b, &s, gy->type, p, &dp);                                            /* dS */
    product(b, &s, "rc", gy->type, dp, k, gq, s.length, s.key_dim, s.length, scale); /* dQ = dS K */
    product(b, &s, "cc", gy->type, dp, q, gk, s.length, s.key_dim, s.length, scale); /* dK = dS^T Q */
}
