/* One emitter an op. Logical layouts are the same on both sides, so most are a node each. */
#include "formats/onnx_graph.h"

#include <string.h>

typedef struct emitter {
    onnx_model *o;
    const graph *g;
    const tensor_list *weights;
    const onnx_graph_options *options;
    const char **values; /* name of each graph tensor's value; NULL: not emitted yet */
    bool *needed;        /* ops that the output depends on */
} emitter;

static const char *input_of(emitter *e, const graph_op *op, int i) {
    return e->values[op->in[i]];
}

static const shape *shape_of(emitter *e, const graph_op *op, int i) {
    return graph_shape(e->g, op->in[i]);
}

static void result(emitter *e, const graph_op *op, const char *value) {
    e->values[op->out[0]] = value;
}

static const char *activated(emitter *e, const char *x, activation act) {
    if (act == ACT_RELU) return onnx_node(e->o, "Relu", ONNX_IN(x), ONNX_NONE);
    if (act == ACT_NONE) return x;
    const char *gate = onnx_node(e->o, "Sigmoid", ONNX_IN(x), ONNX_NONE);
    return act == ACT_SIGMOID ? gate : onnx_node(e->o, "Mul", ONNX_IN(x, gate), ONNX_NONE);
}

static void emit_conv2d(emitter *e, const graph_op *op) {
    const op_attr *a = &op->attr;
    const bool has_bias = op->n_in > 2 && op->in[2] != TENSOR_NONE;
    const char *in[3] = {input_of(e, op, 0), input_of(e, op, 1), has_bias ? input_of(e, op, 2) : ""};
    const char *y = onnx_node(
        e->o, "Conv", in, has_bias ? 3 : 2,
        ONNX_ATTR(
            {"kernel_shape", ONNX_INTS(a->kernel[0], a->kernel[1])}, {"strides", ONNX_INTS(a->stride[0], a->stride[1])},
            {"pads", ONNX_INTS(a->pad[0], a->pad[1], a->pad[0], a->pad[1])},
            {"dilations", ONNX_INTS(a->dilation[0] > 0 ? a->dilation[0] : 1, a->dilation[1] > 0 ? a->dilation[1] : 1)},
            {"group", .integer = a->groups > 0 ? a->groups : 1}));
    y = activated(e, y, a->act);
    if (op->n_in > 3 && op->in[3] != TENSOR_NONE) y = onnx_node(e->o, "Add", ONNX_IN(y, input_of(e, op, 3)), ONNX_NONE);
    result(e, op, y);
}

static void emit_activate(emitter *e, const graph_op *op) {
    result(e, op, activated(e, input_of(e, op, 0), op->attr.act));
}

static void emit_add(emitter *e, const graph_op *op) {
    result(e, op, onnx_node(e->o, "Add", ONNX_IN(input_of(e, op, 0), input_of(e, op, 1)), ONNX_NONE));
}

static void emit_detach(emitter *e, const graph_op *op) {
    result(e, op, input_of(e, op, 0));
}

static void emit_concat(emitter *e, const graph_op *op) {
    const char *in[OP_MAX_INPUTS];
    for (int i = 0; i < op->n_in; i++) in[i] = input_of(e, op, i);
    result(e, op, onnx_concat(e->o, in, (size_t)op->n_in, 1));
}

static void emit_upsample2(emitter *e, const graph_op *op) {
    static const float factors[4] = {1, 1, 2, 2};
    const shape four = shape_1d(4), none = shape_1d(0);
    const char *scales = onnx_reals(e->o, factors, &four);
    const char *region = onnx_model_opset(e->o) >= 13 ? "" : onnx_reals(e->o, factors, &none);
    result(e, op,
           onnx_node(e->o, "Resize", ONNX_IN(input_of(e, op, 0), region, scales),
                     ONNX_ATTR({"mode", .text = "nearest"}, {"nearest_mode", .text = "floor"},
                               {"coordinate_transformation_mode", .text = "asymmetric"})));
}

static void emit_max_pool(emitter *e, const graph_op *op) {
    const op_attr *a = &op->attr;
    result(e, op,
           onnx_node(e->o, "MaxPool", ONNX_IN(input_of(e, op, 0)),
                     ONNX_ATTR({"kernel_shape", ONNX_INTS(a->kernel[0], a->kernel[1])},
                               {"strides", ONNX_INTS(a->stride[0], a->stride[1])},
                               {"pads", ONNX_INTS(a->pad[0], a->pad[1], a->pad[0], a->pad[1])})));
}

/* `x` (N,…) with the height and width of `like` back: (N,channels,H,W). */
static const char *to_map(emitter *e, const char *x, const char *like, const shape *like_shape, int64_t channels) {
    if (!e->options->free_size)
        return onnx_reshape(e->o, x, (int64_t[]){0, channels, like_shape->dim[2], like_shape->dim[3]}, 4);
    const int64_t first[2] = {0, channels};
    const char *size = onnx_slice(e->o, onnx_node(e->o, "Shape", ONNX_IN(like), ONNX_NONE), 0, 2, 4);
    const char *dims = onnx_concat(e->o, (const char *const[]){onnx_ints(e->o, first, 2), size}, 2, 0);
    return onnx_node(e->o, "Reshape", ONNX_IN(x, dims), ONNX_NONE);
}

/* The part [begin, begin+size) of each of `groups` channel groups: a reshape brings the groups apart. */
static void emit_slice(emitter *e, const graph_op *op) {
    const op_attr *a = &op->attr;
    const shape *s = shape_of(e, op, 0);
    const char *x = input_of(e, op, 0);
    if (a->groups <= 1) {
        result(e, op, onnx_slice(e->o, x, 1, a->begin, a->begin + a->size));
        return;
    }
    const char *apart = onnx_reshape(e->o, x, (int64_t[]){0, a->groups, s->dim[1] / a->groups, -1}, 4);
    const char *part = onnx_slice(e->o, apart, 2, a->begin, a->begin + a->size);
    result(e, op, to_map(e, part, x, s, (int64_t)a->groups * a->size));
}

/* out = v softmax((q scale)^T k)^T per head; model document, section 1.3. */
static void emit_attention(emitter *e, const graph_op *op) {
    onnx_model *o = e->o;
    const op_attr *a = &op->attr;
    const char *x = input_of(e, op, 0);
    const int64_t kd = a->key_dim, hd = a->head_dim;
    const char *heads = onnx_reshape(o, x, (int64_t[]){0, a->heads, 2 * kd + hd, -1}, 4);
    const char *q = onnx_slice(o, heads, 2, 0, kd), *k = onnx_slice(o, heads, 2, kd, 2 * kd),
               *v = onnx_slice(o, heads, 2, 2 * kd, 2 * kd + hd);
    q = onnx_node(o, "Mul", ONNX_IN(q, onnx_real(o, a->scale, e->options->half)), ONNX_NONE);
    q = onnx_node(o, "Transpose", ONNX_IN(q), ONNX_ATTR({"perm", ONNX_INTS(0, 1, 3, 2)}));
    const char *p = onnx_node(o, "MatMul", ONNX_IN(q, k), ONNX_NONE);
    p = onnx_node(o, "Softmax", ONNX_IN(p), ONNX_ATTR({"axis", .integer = 3}));
    p = onnx_node(o, "Transpose", ONNX_IN(p), ONNX_ATTR({"perm", ONNX_INTS(0, 1, 3, 2)}));
    const char *y = onnx_node(o, "MatMul", ONNX_IN(v, p), ONNX_NONE);
    result(e, op, to_map(e, y, x, shape_of(e, op, 0), a->heads * hd));
}

/* Raw head maps leave half precision here: box decoding in pixels needs more than 11 bits. */
static void emit_flatten_concat(emitter *e, const graph_op *op) {
    const char *in[OP_MAX_INPUTS];
    for (int i = 0; i < op->n_in; i++)
        in[i] = onnx_reshape(e->o, input_of(e, op, i), (int64_t[]){0, shape_of(e, op, i)->dim[1], -1}, 3);
    const char *joined = onnx_concat(e->o, in, (size_t)op->n_in, 2);
    result(e, op, e->options->half ? onnx_cast(e->o, joined, ONNX_FLOAT) : joined);
}

/* --- decoding --- */

typedef struct anchors {
    const char *points, *strides; /* (1,2,A) in grid units; (1,1,A) */
} anchors;

static anchors constant_anchors(emitter *e, const op_attr *a, int64_t n) {
    float *points = arena_alloc(onnx_model_arena(e->o), (size_t)n * 3, sizeof *points), *strides = points + 2 * n;
    if (points == NULL) {
        onnx_model_fail(e->o, OL_ERROR_MEMORY);
        return (anchors){"", ""};
    }
    int64_t at = 0;
    for (int l = 0; l < a->n_levels; l++)
        for (int y = 0; y < a->level_h[l]; y++)
            for (int x = 0; x < a->level_w[l]; x++, at++) {
                points[at] = (float)x + 0.5f;
                points[n + at] = (float)y + 0.5f;
                strides[at] = (float)a->level_stride[l];
            }
    const shape two = shape_3d(1, 2, n), one = shape_3d(1, 1, n);
    return (anchors){onnx_reals(e->o, points, &two), onnx_reals(e->o, strides, &one)};
}

/* 0.5, 1.5, … up to a length known at run time (a value of shape ()). */
static const char *half_steps(onnx_model *o, const char *length) {
    const char *range = onnx_node(o, "Range", ONNX_IN(onnx_int(o, 0), length, onnx_int(o, 1)), ONNX_NONE);
    return onnx_node(o, "Add", ONNX_IN(onnx_cast(o, range, ONNX_FLOAT), onnx_real(o, 0.5f, false)), ONNX_NONE);
}

/* The anchors of one level from its map's size. */
static anchors level_anchors(onnx_model *o, const char *map, int stride) {
    const char *size = onnx_node(o, "Shape", ONNX_IN(map), ONNX_NONE);
    const char *h = onnx_slice(o, size, 0, 2, 3), *w = onnx_slice(o, size, 0, 3, 4);
    const char *grid = onnx_concat(o, (const char *const[]){h, w}, 2, 0);
    const char *x = onnx_reshape(o, half_steps(o, onnx_squeeze(o, w, 0)), (int64_t[]){1, -1}, 2);
    const char *y = onnx_reshape(o, half_steps(o, onnx_squeeze(o, h, 0)), (int64_t[]){-1, 1}, 2);
    x = onnx_reshape(o, onnx_node(o, "Expand", ONNX_IN(x, grid), ONNX_NONE), (int64_t[]){1, 1, -1}, 3);
    y = onnx_reshape(o, onnx_node(o, "Expand", ONNX_IN(y, grid), ONNX_NONE), (int64_t[]){1, 1, -1}, 3);
    const char *factor = onnx_node(o, "Mul", ONNX_IN(x, onnx_real(o, 0, false)), ONNX_NONE);
    factor = onnx_node(o, "Add", ONNX_IN(factor, onnx_real(o, (float)stride, false)), ONNX_NONE);
    return (anchors){onnx_concat(o, (const char *const[]){x, y}, 2, 1), factor};
}

static anchors computed_anchors(emitter *e, const graph_op *op) {
    const graph_op *flat = &e->g->ops[e->g->tensors[op->in[0]].producer];
    const char *points[OP_MAX_LEVELS], *strides[OP_MAX_LEVELS];
    if (flat->kind != OP_FLATTEN_CONCAT || flat->n_in != op->attr.n_levels) {
        onnx_model_fail(
            e->o, ctx_fail(e->g->arena.ctx, OL_ERROR_INTERNAL, "the head's maps are not where an export expects them"));
        return (anchors){"", ""};
    }
    for (int l = 0; l < flat->n_in; l++) {
        const anchors a = level_anchors(e->o, input_of(e, flat, l), op->attr.level_stride[l]);
        points[l] = a.points;
        strides[l] = a.strides;
    }
    return (anchors){onnx_concat(e->o, points, (size_t)flat->n_in, 2),
                     onnx_concat(e->o, strides, (size_t)flat->n_in, 2)};
}

static void emit_detect_decode(emitter *e, const graph_op *op) {
    onnx_model *o = e->o;
    const char *boxes = input_of(e, op, 0);
    const anchors a =
        e->options->free_size ? computed_anchors(e, op) : constant_anchors(e, &op->attr, shape_of(e, op, 0)->dim[2]);
    const char *low = onnx_node(o, "Sub", ONNX_IN(a.points, onnx_slice(o, boxes, 1, 0, 2)), ONNX_NONE);
    const char *high = onnx_node(o, "Add", ONNX_IN(a.points, onnx_slice(o, boxes, 1, 2, 4)), ONNX_NONE);
    if (!op->attr.corners) {
        const char *centre = onnx_node(o, "Add", ONNX_IN(low, high), ONNX_NONE);
        const char *extent = onnx_node(o, "Sub", ONNX_IN(high, low), ONNX_NONE);
        low = onnx_node(o, "Div", ONNX_IN(centre, onnx_real(o, 2, false)), ONNX_NONE);
        high = extent;
    }
    const char *grid = onnx_concat(o, (const char *const[]){low, high}, 2, 1);
    const char *pixels = onnx_node(o, "Mul", ONNX_IN(grid, a.strides), ONNX_NONE);
    const char *scores = onnx_node(o, "Sigmoid", ONNX_IN(input_of(e, op, 1)), ONNX_NONE);
    result(e, op, onnx_concat(o, (const char *const[]){pixels, scores}, 2, 1));
}

/* --- the walk --- */

static void (*const emitters[OP_KIND_COUNT])(emitter *, const graph_op *) = {
    [OP_CONV2D] = emit_conv2d,
    [OP_ACTIVATE] = emit_activate,
    [OP_ADD] = emit_add,
    [OP_CONCAT] = emit_concat,
    [OP_SLICE] = emit_slice,
    [OP_UPSAMPLE2] = emit_upsample2,
    [OP_MAX_POOL] = emit_max_pool,
    [OP_ATTENTION] = emit_attention,
    [OP_FLATTEN_CONCAT] = emit_flatten_concat,
    [OP_DETACH] = emit_detach,
    [OP_DETECT_DECODE] = emit_detect_decode,
};

static void mark_needed(emitter *e, tensor_ref output) {
    const graph *g = e->g;
    if (g->tensors[output].producer >= 0) e->needed[g->tensors[output].producer] = true;
    for (size_t i = g->n_ops; i-- > 0;) {
        if (!e->needed[i]) continue;
        for (int k = 0; k < g->ops[i].n_in; k++) {
            const tensor_ref in = g->ops[i].in[k];
            if (in != TENSOR_NONE && g->tensors[in].producer >= 0) e->needed[g->tensors[in].producer] = true;
        }
    }
}

/* Parameters of an op become initializers on first use. */
static void emit_weights(emitter *e, const graph_op *op) {
    for (int k = 0; k < op->n_in; k++) {
        const tensor_ref in = op->in[k];
        if (in == TENSOR_NONE || e->values[in] != NULL || e->g->tensors[in].producer >= 0) continue;
        const graph_tensor *t = &e->g->tensors[in];
        const tensor *w = tensor_list_find(e->weights, t->name);
        if (w == NULL || w->type != DTYPE_F32 || !shape_equal(&w->shape, &t->shape)) {
            onnx_model_fail(
                e->o, ctx_fail(e->g->arena.ctx, OL_ERROR_INTERNAL, "the weights lack '%s' for the export", t->name));
            return;
        }
        e->values[in] = onnx_weight(e->o, t->name, w, e->options->half);
    }
}

static void emit_op(emitter *e, const graph_op *op) {
    if (emitters[op->kind] == NULL) {
        onnx_model_fail(e->o, ctx_fail(e->g->arena.ctx, OL_ERROR_UNSUPPORTED, "%s: the op %s has no ONNX form",
                                       op->name, op_info_of(op->kind)->name));
        return;
    }
    emit_weights(e, op);
    onnx_scope(e->o, op->name != NULL ? op->name : "");
    if (onnx_model_status(e->o) == OL_OK) emitters[op->kind](e, op);
}

const char *onnx_emit_graph(onnx_model *o, const graph *g, tensor_ref image, tensor_ref output,
                            const tensor_list *weights, const onnx_graph_options *options) {
    arena *a = onnx_model_arena(o);
    emitter e = {o,
                 g,
                 weights,
                 options,
                 arena_alloc(a, g->n_tensors, sizeof *e.values),
                 arena_alloc(a, g->n_ops, sizeof *e.needed)};
    if (e.values == NULL || e.needed == NULL) {
        onnx_model_fail(o, OL_ERROR_MEMORY);
        return "";
    }
    mark_needed(&e, output);
    e.values[image] = options->half ? onnx_cast(o, "images", ONNX_FLOAT16) : "images";
    for (size_t i = 0; i < g->n_ops && onnx_model_status(o) == OL_OK; i++)
        if (e.needed[i]) emit_op(&e, &g->ops[i]);
    onnx_scope(o, "");
    return onnx_model_status(o) == OL_OK && e.values[output] != NULL ? e.values[output] : "";
}
