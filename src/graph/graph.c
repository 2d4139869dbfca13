#include "graph/graph.h"
#include "graph/rules.h"

#include <stdio.h>
#include <string.h>

#define SHAPES_TEXT_BYTES 512

static const op_info infos[OP_KIND_COUNT] = {
#define OP(kind, name, min_inputs, max_inputs, n_outputs) {name, min_inputs, max_inputs, n_outputs},
#include "graph/ops.def"
#undef OP
};

const op_info *op_info_of(op_kind kind) {
    return &infos[kind];
}

ol_status graph_create(ol_context *ctx, graph **out) {
    graph *g = mem_alloc0(ctx, 1, sizeof *g);
    if (g == NULL) return OL_ERROR_MEMORY;
    arena_init(&g->arena, ctx, 0);
    *out = g;
    return OL_OK;
}

void graph_destroy(graph *g) {
    if (g == NULL) return;
    ol_context *ctx = g->arena.ctx;
    mem_free(ctx, g->tensors);
    mem_free(ctx, g->ops);
    arena_deinit(&g->arena);
    mem_free(ctx, g);
}

static ol_status tensor_push(graph *g, const char *name, tensor_role role, dtype type, shape s, int32_t producer,
                             tensor_ref *out) {
    ol_context *ctx = g->arena.ctx;
    int64_t count;
    if (!shape_count(&s, &count) || count > INT64_MAX / 16) {
        char text[SHAPES_TEXT_BYTES];
        shape_print(&s, text, sizeof text);
        return ctx_fail(ctx, OL_ERROR_MEMORY, "tensor '%s' of shape %s is too large; use a smaller batch or imgsz",
                        name, text);
    }
    if (g->n_tensors >= INT32_MAX)
        return ctx_fail(ctx, OL_ERROR_MEMORY, "a graph of %zu tensors is too large", g->n_tensors);
    ol_status status = mem_grow(ctx, (void **)&g->tensors, &g->tensor_capacity, g->n_tensors + 1, sizeof *g->tensors);
    if (status != OL_OK) return status;
    const char *kept = name[0] != '\0' ? arena_strdup(&g->arena, name) : "";
    if (kept == NULL) return OL_ERROR_MEMORY;
    g->tensors[g->n_tensors] =
        (graph_tensor){.name = kept, .shape = s, .type = type, .role = role, .producer = producer};
    *out = (tensor_ref)g->n_tensors++;
    return OL_OK;
}

ol_status graph_tensor_add(graph *g, const char *name, tensor_role role, dtype type, shape s, tensor_ref *out) {
    if (role == ROLE_TEMP || role == ROLE_OUTPUT)
        return ctx_fail(g->arena.ctx, OL_ERROR_INTERNAL, "tensor '%s': temporaries and outputs come from ops", name);
    return tensor_push(g, name, role, type, s, -1, out);
}

static ol_status op_complain(graph *g, op_kind kind, const shape_query *q, const char *what) {
    char shapes[SHAPES_TEXT_BYTES];
    size_t used = 0;
    shapes[0] = '\0';
    for (int i = 0; i < q->n_in && used + 2 < sizeof shapes; i++) {
        if (i > 0) shapes[used++] = ' ';
        if (q->in[i] != NULL)
            shape_print(q->in[i], shapes + used, sizeof shapes - used);
        else
            snprintf(shapes + used, sizeof shapes - used, "-");
        used += strlen(shapes + used);
    }
    return ctx_fail(g->arena.ctx, OL_ERROR_ARGUMENT, "layer %s: %s cannot take inputs of shape %s: %s",
                    g->scope != NULL && g->scope[0] != '\0' ? g->scope : "?", infos[kind].name, shapes, what);
}

static void attr_defaults(op_attr *a) {
    for (int i = 0; i < 2; i++) {
        if (a->kernel[i] == 0) a->kernel[i] = 1;
        if (a->stride[i] == 0) a->stride[i] = 1;
        if (a->dilation[i] == 0) a->dilation[i] = 1;
    }
    if (a->groups == 0) a->groups = 1;
}

/* A single value has no variance: normalised by itself it would be lost. */
static int64_t values_a_channel(const shape *s) {
    return s->dim[0] * s->dim[2] * s->dim[3];
}

static bool inputs_allowed(const graph *g, op_kind kind, const tensor_ref *in, int n_in) {
    if (n_in < infos[kind].min_inputs || n_in > infos[kind].max_inputs) return false;
    for (int i = 0; i < n_in; i++) {
        if (in[i] == TENSOR_NONE && i >= infos[kind].min_inputs) continue;
        if (in[i] < 0 || (size_t)in[i] >= g->n_tensors) return false;
    }
    return true;
}

ol_status graph_op_add(graph *g, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in, tensor_ref *out) {
    ol_context *ctx = g->arena.ctx;
    graph_op op = {.kind = kind, .n_in = n_in, .n_out = infos[kind].n_outputs};
    if (attr != NULL) op.attr = *attr;
    attr_defaults(&op.attr);
    if (!inputs_allowed(g, kind, in, n_in))
        return ctx_fail(ctx, OL_ERROR_INTERNAL, "layer %s: %s was given wrong inputs",
                        g->scope != NULL ? g->scope : "?", infos[kind].name);
    shape_query q = {.attr = &op.attr, .n_in = n_in};
    for (int i = 0; i < n_in; i++) {
        op.in[i] = in[i];
        if (in[i] == TENSOR_NONE) continue;
        q.in[i] = &g->tensors[in[i]].shape;
        q.in_type[i] = g->tensors[in[i]].type;
    }
    const shape_rule rule = shape_rule_of(kind);
    const char *wrong = rule != NULL ? rule(&q) : "the op has no shape rule";
    if (wrong != NULL) return op_complain(g, kind, &q, wrong);
    if (kind == OP_BATCH_NORM && values_a_channel(q.in[0]) == 1) op.attr.frozen = true;
    op.name = g->scope != NULL ? arena_strdup(&g->arena, g->scope) : "";
    if (op.name == NULL) return OL_ERROR_MEMORY;
    ol_status status = mem_grow(ctx, (void **)&g->ops, &g->op_capacity, g->n_ops + 1, sizeof *g->ops);
    const size_t tensors_before = g->n_tensors;
    for (int i = 0; i < op.n_out && status == OL_OK; i++)
        status = tensor_push(g, "", ROLE_TEMP, q.out_type[i], q.out[i], (int32_t)g->n_ops, &op.out[i]);
    if (status != OL_OK) {
        g->n_tensors = tensors_before;
        return status;
    }
    for (int i = 0; i < n_in; i++)
        if (in[i] != TENSOR_NONE) g->tensors[in[i]].n_uses++;
    g->ops[g->n_ops++] = op;
    if (out != NULL) memcpy(out, op.out, (size_t)op.n_out * sizeof *out);
    return OL_OK;
}

void graph_output_mark(graph *g, tensor_ref t, const char *name) {
    const char *kept = arena_strdup(&g->arena, name);
    g->tensors[t].name = kept != NULL ? kept : "";
    if (g->tensors[t].role == ROLE_TEMP) g->tensors[t].role = ROLE_OUTPUT;
}

tensor_ref graph_find(const graph *g, const char *name) {
    for (size_t i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i].name, name) == 0) return (tensor_ref)i;
    return TENSOR_NONE;
}

double graph_flops(const graph *g) {
    double total = 0.0;
    for (size_t i = 0; i < g->n_ops; i++) total += op_flops(g, &g->ops[i]);
    return total;
}
