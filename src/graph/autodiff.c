#include "graph/graph.h"
#include "graph/rules.h"

#include <stdio.h>
#include <string.h>

/* A piece of a tensor's gradient: of the whole tensor, or of the channels that a slice op took (`slice` >= 0). */
typedef struct contribution {
    tensor_ref grad;
    int32_t slice; /* index of the slice op, -1: whole */
    int32_t next;  /* next contribution of the same tensor, -1: none */
} contribution;

typedef struct backward {
    graph *g;
    ol_context *ctx;
    size_t n_tensors, n_ops; /* before any backward op */
    int32_t *first;          /* contributions of each tensor */
    bool *reached;           /* something wanted lies upstream (or is the tensor itself) */
    const bool *wanted;
    tensor_ref *param_grad;
    contribution *pool;
    size_t n_pool, pool_capacity;
} backward;

typedef ol_status (*backward_rule)(backward *b, const graph_op *op, tensor_ref gy);

static bool is_wanted(const backward *b, tensor_ref t) {
    const tensor_role role = b->g->tensors[t].role;
    if (role == ROLE_PARAM) return b->wanted == NULL || b->wanted[t];
    return role == ROLE_INPUT && b->wanted != NULL && b->wanted[t];
}

static ol_status contribute(backward *b, tensor_ref to, tensor_ref grad, int32_t slice) {
    ol_status status = mem_grow(b->ctx, (void **)&b->pool, &b->pool_capacity, b->n_pool + 1, sizeof *b->pool);
    if (status != OL_OK) return status;
    int32_t *link = &b->first[to]; /* appended: a concatenation's slice comes before what the layers in between give, so
                                      that sums can be formed in place inside the concatenation's gradient */
    while (*link >= 0) link = &b->pool[*link].next;
    b->pool[b->n_pool] = (contribution){grad, slice, -1};
    *link = (int32_t)b->n_pool++;
    return OL_OK;
}

/* Adds an op with one or more outputs and hands output 0 on as the gradient of `to`. */
static ol_status emit(backward *b, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in, tensor_ref to) {
    tensor_ref out[OP_MAX_OUTPUTS];
    ol_status status = graph_op_add(b->g, kind, attr, in, n_in, out);
    return status != OL_OK ? status : contribute(b, to, out[0], -1);
}

/* Makes output `index` of the last op the bound gradient of a parameter. */
static ol_status output_bind(backward *b, int index, tensor_ref param) {
    graph *g = b->g;
    const tensor_ref t = g->ops[g->n_ops - 1].out[index];
    const char *name = arena_printf(&g->arena, "grad/%s", g->tensors[param].name);
    if (name == NULL) return OL_ERROR_MEMORY;
    if (b->param_grad[param] != TENSOR_NONE)
        return ctx_fail(b->ctx, OL_ERROR_UNSUPPORTED, "parameter %s is used by two layers; give each its own",
                        g->tensors[param].name);
    g->tensors[t].role = ROLE_GRAD;
    g->tensors[t].name = name;
    b->param_grad[param] = t;
    return OL_OK;
}

static ol_status conv2d_backward(backward *b, const graph_op *op, tensor_ref gy) {
    graph *g = b->g;
    if (op->attr.act != ACT_NONE || op->n_in > 3)
        return ctx_fail(b->ctx, OL_ERROR_UNSUPPORTED,
                        "layer %s: a convolution with activation or residual has no gradient", op->name);
    const tensor_ref x = op->in[0], w = op->in[1], bias = op->n_in > 2 ? op->in[2] : TENSOR_NONE;
    op_attr attr = op->attr;
    ol_status status = OL_OK;
    if (is_wanted(b, w)) {
        status = graph_op_add(g, OP_CONV2D_GRAD_W, &attr, (tensor_ref[]){x, gy}, 2, NULL);
        if (status == OL_OK) status = output_bind(b, 0, w);
    }
    if (status == OL_OK && bias != TENSOR_NONE && is_wanted(b, bias)) {
        status = graph_op_add(g, OP_CONV2D_GRAD_BIAS, NULL, &gy, 1, NULL);
        if (status == OL_OK) status = output_bind(b, 0, bias);
    }
    if (status != OL_OK || !b->reached[x]) return status;
    for (int i = 0; i < 2; i++) attr.extent[i] = (int)g->tensors[x].shape.dim[2 + i];
    return emit(b, OP_CONV2D_GRAD_X, &attr, (tensor_ref[]){gy, w}, 2, x);
}

static ol_status batch_norm_backward(backward *b, const graph_op *op, tensor_ref gy) {
    const tensor_ref in[6] = {gy, op->in[0], op->in[1], op->in[2], op->out[1], op->out[2]};
    ol_status status = emit(b, OP_BATCH_NORM_GRAD, &op->attr, in, 6, op->in[0]);
    for (int i = 1; i <= 2 && status == OL_OK; i++)
        if (is_wanted(b, op->in[i])) status = output_bind(b, i, op->in[i]);
    return status;
}

static ol_status activate_backward(backward *b, const graph_op *op, tensor_ref gy) {
    return emit(b, OP_ACTIVATE_GRAD, &op->attr, (tensor_ref[]){gy, op->in[0]}, 2, op->in[0]);
}

static ol_status add_backward(backward *b, const graph_op *op, tensor_ref gy) {
    for (int i = 0; i < 2; i++) {
        if (!b->reached[op->in[i]]) continue;
        ol_status status = contribute(b, op->in[i], gy, -1);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static ol_status concat_backward(backward *b, const graph_op *op, tensor_ref gy) {
    op_attr attr = {0};
    for (int i = 0; i < op->n_in; i++) {
        attr.size = (int)graph_shape(b->g, op->in[i])->dim[1];
        if (b->reached[op->in[i]]) {
            ol_status status = emit(b, OP_SLICE, &attr, &gy, 1, op->in[i]);
            if (status != OL_OK) return status;
        }
        attr.begin += attr.size;
    }
    return OL_OK;
}

static ol_status slice_backward(backward *b, const graph_op *op, tensor_ref gy) {
    return contribute(b, op->in[0], gy, (int32_t)(op - b->g->ops));
}

static ol_status upsample2_backward(backward *b, const graph_op *op, tensor_ref gy) {
    return emit(b, OP_UPSAMPLE2_GRAD, NULL, &gy, 1, op->in[0]);
}

static ol_status max_pool_backward(backward *b, const graph_op *op, tensor_ref gy) {
    op_attr attr = op->attr;
    for (int i = 0; i < 2; i++) attr.extent[i] = (int)graph_shape(b->g, op->in[0])->dim[2 + i];
    return emit(b, OP_MAX_POOL_GRAD, &attr, (tensor_ref[]){gy, op->out[1]}, 2, op->in[0]);
}

static ol_status attention_backward(backward *b, const graph_op *op, tensor_ref gy) {
    return emit(b, OP_ATTENTION_GRAD, &op->attr, (tensor_ref[]){gy, op->in[0], op->out[1]}, 3, op->in[0]);
}

static ol_status flatten_concat_backward(backward *b, const graph_op *op, tensor_ref gy) {
    op_attr attr = {0};
    for (int i = 0; i < op->n_in; i++) {
        for (int k = 0; k < 2; k++) attr.extent[k] = (int)graph_shape(b->g, op->in[i])->dim[2 + k];
        if (b->reached[op->in[i]]) {
            ol_status status = emit(b, OP_FLATTEN_CONCAT_GRAD, &attr, &gy, 1, op->in[i]);
            if (status != OL_OK) return status;
        }
        attr.begin += attr.extent[0] * attr.extent[1];
    }
    return OL_OK;
}

static ol_status detach_backward(backward *b, const graph_op *op, tensor_ref gy) {
    (void)b, (void)op, (void)gy;
    return OL_OK;
}

static const backward_rule rules[OP_KIND_COUNT] = {
    [OP_CONV2D] = conv2d_backward,       [OP_BATCH_NORM] = batch_norm_backward,
    [OP_ACTIVATE] = activate_backward,   [OP_ADD] = add_backward,
    [OP_CONCAT] = concat_backward,       [OP_SLICE] = slice_backward,
    [OP_UPSAMPLE2] = upsample2_backward, [OP_MAX_POOL] = max_pool_backward,
    [OP_ATTENTION] = attention_backward, [OP_FLATTEN_CONCAT] = flatten_concat_backward,
    [OP_DETACH] = detach_backward,
};

static bool in_backward(op_kind kind) {
    return kind != OP_DETACH && rules[kind] != NULL;
}

/* Inputs through which a gradient flows on: not the running statistics. */
static int differentiable_inputs(const graph_op *op) {
    return op->kind == OP_BATCH_NORM ? 3 : op->n_in;
}

static void mark_reached(backward *b) {
    for (size_t t = 0; t < b->n_tensors; t++) b->reached[t] = is_wanted(b, (tensor_ref)t);
    for (size_t i = 0; i < b->n_ops; i++) {
        const graph_op *op = &b->g->ops[i];
        if (!in_backward(op->kind)) continue;
        bool any = false;
        for (int k = 0; k < differentiable_inputs(op); k++) any = any || (op->in[k] >= 0 && b->reached[op->in[k]]);
        b->reached[op->out[0]] = any;
    }
}

/* When the slices of a tensor cover its channels exactly once its gradient is their concatenation. Fills `order` with
 * the contributions by channel and returns their number, else 0. */
static int slices_partition(const backward *b, tensor_ref t, int32_t order[OP_MAX_INPUTS]) {
    const int64_t channels = graph_shape(b->g, t)->dim[1];
    int64_t covered = 0;
    int n = 0;
    while (covered < channels) {
        int32_t found = -1;
        for (int32_t c = b->first[t]; c >= 0; c = b->pool[c].next) {
            if (b->pool[c].slice < 0) continue;
            const op_attr *a = &b->g->ops[b->pool[c].slice].attr;
            if (a->groups != 1) return 0;
            if (a->begin == covered && found < 0) found = c;
        }
        if (found < 0 || n == OP_MAX_INPUTS) return 0;
        covered += b->g->ops[b->pool[found].slice].attr.size;
        order[n++] = found;
    }
    int n_slices = 0;
    for (int32_t c = b->first[t]; c >= 0; c = b->pool[c].next) n_slices += b->pool[c].slice >= 0;
    return n == n_slices ? n : 0;
}

static ol_status accumulate(backward *b, tensor_ref *sum, tensor_ref term) {
    if (*sum == TENSOR_NONE) {
        *sum = term;
        return OL_OK;
    }
    return graph_op_add(b->g, OP_ADD, NULL, (tensor_ref[]){*sum, term}, 2, sum);
}

/* Joins the contributions of a tensor into one gradient; TENSOR_NONE when there is none. */
static ol_status gradient_of(backward *b, tensor_ref t, tensor_ref *out) {
    int32_t order[OP_MAX_INPUTS];
    tensor_ref sum = TENSOR_NONE, parts[OP_MAX_INPUTS];
    const int n_parts = graph_shape(b->g, t)->rank == 4 ? slices_partition(b, t, order) : 0;
    ol_status status = OL_OK;
    if (n_parts > 0) {
        for (int i = 0; i < n_parts; i++) parts[i] = b->pool[order[i]].grad;
        status = graph_op_add(b->g, OP_CONCAT, NULL, parts, n_parts, &sum);
    }
    for (int32_t c = b->first[t]; c >= 0 && status == OL_OK; c = b->pool[c].next) {
        if (b->pool[c].slice < 0) {
            status = accumulate(b, &sum, b->pool[c].grad);
        } else if (n_parts == 0) {
            op_attr attr = b->g->ops[b->pool[c].slice].attr;
            attr.channels = (int)graph_shape(b->g, t)->dim[1];
            tensor_ref spread;
            status = graph_op_add(b->g, OP_SLICE_GRAD, &attr, &b->pool[c].grad, 1, &spread);
            if (status == OL_OK) status = accumulate(b, &sum, spread);
        }
    }
    if (status == OL_OK) *out = sum;
    return status;
}

static bool has_gradient(const backward *b, tensor_ref t) {
    return b->pool != NULL && b->first[t] >= 0;
}

static ol_status differentiate(backward *b, size_t i) {
    graph *g = b->g;
    const graph_op op = g->ops[i]; /* a copy: adding ops moves the array */
    const tensor_ref y = op.out[0];
    if (!b->reached[y] || !has_gradient(b, y) || op.kind == OP_DETACH) return OL_OK;
    g->scope = op.name;
    tensor_ref gy = TENSOR_NONE;
    ol_status status = gradient_of(b, y, &gy);
    if (status != OL_OK) return status;
    /* slice_backward needs the op's index, so it gets the element in the array. */
    return rules[op.kind](b, op.kind == OP_SLICE ? &g->ops[i] : &op, gy);
}

static ol_status input_gradients(backward *b) {
    for (size_t t = 0; t < b->n_tensors; t++) {
        if (b->g->tensors[t].role != ROLE_INPUT || !is_wanted(b, (tensor_ref)t) || !has_gradient(b, (tensor_ref)t))
            continue;
        tensor_ref grad = TENSOR_NONE;
        ol_status status = gradient_of(b, (tensor_ref)t, &grad);
        if (status != OL_OK) return status;
        if (b->g->tensors[grad].producer < 0) { /* the seed itself: an output must come from an op */
            status = graph_op_add(b->g, OP_DETACH, NULL, &grad, 1, &grad);
            if (status != OL_OK) return status;
        }
        const char *name = arena_printf(&b->g->arena, "grad/%s", b->g->tensors[t].name);
        if (name == NULL) return OL_ERROR_MEMORY;
        graph_output_mark(b->g, grad, name);
        b->param_grad[t] = grad;
    }
    return OL_OK;
}

static ol_status seeds_check(const graph *g, const tensor_ref *from, const tensor_ref *seed, int n_seeds) {
    for (int i = 0; i < n_seeds; i++)
        if (!shape_equal(graph_shape(g, from[i]), graph_shape(g, seed[i])))
            return ctx_fail(g->arena.ctx, OL_ERROR_INTERNAL, "seed %d of a derivation does not have its tensor's shape",
                            i);
    return OL_OK;
}

ol_status graph_backward(graph *g, const tensor_ref *from, const tensor_ref *seed, int n_seeds, const bool *wanted,
                         tensor_ref *param_grad) {
    ol_context *ctx = g->arena.ctx;
    const char *scope = g->scope;
    backward b = {
        .g = g, .ctx = ctx, .n_tensors = g->n_tensors, .n_ops = g->n_ops, .wanted = wanted, .param_grad = param_grad};
    ol_status status = seeds_check(g, from, seed, n_seeds);
    if (status != OL_OK) return status;
    status = OL_ERROR_MEMORY;
    b.first = mem_alloc(ctx, g->n_tensors, sizeof *b.first);
    b.reached = mem_alloc0(ctx, g->n_tensors, sizeof *b.reached);
    if (b.first == NULL || b.reached == NULL) goto fail;
    for (size_t t = 0; t < b.n_tensors; t++) {
        b.first[t] = -1;
        param_grad[t] = TENSOR_NONE;
    }
    mark_reached(&b);
    status = OL_OK;
    for (int i = 0; i < n_seeds && status == OL_OK; i++) status = contribute(&b, from[i], seed[i], -1);
    for (size_t i = b.n_ops; i > 0 && status == OL_OK; i--) status = differentiate(&b, i - 1);
    if (status == OL_OK) status = input_gradients(&b);
fail:
    g->scope = scope;
    mem_free(ctx, b.pool);
    mem_free(ctx, b.reached);
    mem_free(ctx, b.first);
    return status;
}
