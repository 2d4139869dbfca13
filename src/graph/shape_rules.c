#include "graph/rules.h"

#include <stddef.h>

static bool is_map(const shape *s) {
    return s != NULL && s->rank == 4;
}

static bool is_vector(const shape *s, int64_t n) {
    return s != NULL && s->rank == 1 && s->dim[0] == n;
}

static int64_t window_count(int64_t size, int kernel, int stride, int pad, int dilation) {
    const int64_t room = size + 2 * (int64_t)pad - (int64_t)dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

static const char *same_as_first(shape_query *q) {
    q->out[0] = *q->in[0];
    return NULL;
}

static const char *image_float_rule(shape_query *q) {
    if (!is_map(q->in[0]) || q->in_type[0] != DTYPE_U8) return "the input must be a u8 tensor (N,C,H,W)";
    return same_as_first(q);
}

static const char *conv_filter_check(const op_attr *a, const shape *w) {
    if (!is_map(w)) return "the weight must have shape (K,C/groups,kh,kw)";
    for (int i = 0; i < 2; i++) {
        if (a->kernel[i] < 1 || a->stride[i] < 1 || a->dilation[i] < 1 || a->pad[i] < 0)
            return "kernel, stride and dilation must be positive and padding not negative";
        if (w->dim[2 + i] != a->kernel[i]) return "the weight's size is not the kernel attribute";
    }
    if (a->groups < 1 || w->dim[0] % a->groups != 0) return "the output channels are not divisible by the groups";
    return NULL;
}

static const char *conv2d_rule(shape_query *q) {
    const op_attr *a = q->attr;
    const shape *x = q->in[0], *w = q->in[1];
    if (!is_map(x)) return "the input must have shape (N,C,H,W)";
    const char *wrong = conv_filter_check(a, w);
    if (wrong != NULL) return wrong;
    if (w->dim[1] * a->groups != x->dim[1]) return "the weight does not fit the input's channels";
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        size[i] = window_count(x->dim[2 + i], a->kernel[i], a->stride[i], a->pad[i], a->dilation[i]);
        if (size[i] < 1) return "the input is smaller than the kernel";
    }
    q->out[0] = shape_4d(x->dim[0], w->dim[0], size[0], size[1]);
    if (q->n_in > 2 && q->in[2] != NULL && !is_vector(q->in[2], w->dim[0]))
        return "the bias must have one value an output channel";
    if (q->n_in > 3 && q->in[3] != NULL && !shape_equal(q->in[3], &q->out[0]))
        return "the residual must have the output's shape";
    return NULL;
}

static const char *batch_norm_rule(shape_query *q) {
    const shape *x = q->in[0];
    if (!is_map(x)) return "the input must have shape (N,C,H,W)";
    for (int i = 1; i < 5; i++)
        if (!is_vector(q->in[i], x->dim[1])) return "scale, shift and statistics must have one value a channel";
    q->out[0] = *x;
    q->out[1] = q->out[2] = shape_1d(x->dim[1]);
    return NULL;
}

static const char *add_rule(shape_query *q) {
    if (!shape_equal(q->in[0], q->in[1])) return "the two inputs must have the same shape";
    return same_as_first(q);
}

static const char *concat_rule(shape_query *q) {
    int64_t channels = 0;
    for (int i = 0; i < q->n_in; i++) {
        const shape *s = q->in[i], *first = q->in[0];
        if (!is_map(s)) return "the inputs must have shape (N,C,H,W)";
        if (s->dim[0] != first->dim[0] || s->dim[2] != first->dim[2] || s->dim[3] != first->dim[3])
            return "the inputs differ in more than their channels (is the picture's size a multiple of the largest "
                   "stride?)";
        channels += s->dim[1];
    }
    q->out[0] = *q->in[0];
    q->out[0].dim[1] = channels;
    return NULL;
}

static const char *slice_check(const op_attr *a, int64_t channels) {
    if (a->groups < 1 || channels % a->groups != 0) return "the channels are not divisible by the groups";
    if (a->begin < 0 || a->size < 1 || (int64_t)a->begin + a->size > channels / a->groups)
        return "the slice leaves the channels";
    return NULL;
}

static const char *slice_rule(shape_query *q) {
    if (!is_map(q->in[0])) return "the input must have shape (N,C,H,W)";
    q->out[0] = *q->in[0];
    q->out[0].dim[1] = (int64_t)q->attr->size * q->attr->groups;
    return slice_check(q->attr, q->in[0]->dim[1]);
}

static const char *slice_grad_rule(shape_query *q) {
    if (!is_map(q->in[0]) || q->in[0]->dim[1] != (int64_t)q->attr->size * q->attr->groups)
        return "the gradient does not have the slice's channels";
    q->out[0] = *q->in[0];
    q->out[0].dim[1] = q->attr->channels;
    return slice_check(q->attr, q->attr->channels);
}

static const char *upsample2_rule(shape_query *q) {
    if (!is_map(q->in[0])) return "the input must have shape (N,C,H,W)";
    q->out[0] = *q->in[0];
    q->out[0].dim[2] *= 2;
    q->out[0].dim[3] *= 2;
    return NULL;
}

static const char *upsample2_grad_rule(shape_query *q) {
    const shape *s = q->in[0];
    if (!is_map(s) || s->dim[2] % 2 != 0 || s->dim[3] % 2 != 0) return "the gradient must have even sides";
    q->out[0] = shape_4d(s->dim[0], s->dim[1], s->dim[2] / 2, s->dim[3] / 2);
    return NULL;
}

static const char *max_pool_rule(shape_query *q) {
    const op_attr *a = q->attr;
    if (!is_map(q->in[0])) return "the input must have shape (N,C,H,W)";
    q->out[0] = *q->in[0];
    for (int i = 0; i < 2; i++) {
        if (a->kernel[i] < 1 || a->stride[i] < 1 || a->pad[i] < 0 || a->pad[i] > a->kernel[i] / 2)
            return "kernel and stride must be positive and padding at most half the kernel";
        q->out[0].dim[2 + i] = window_count(q->in[0]->dim[2 + i], a->kernel[i], a->stride[i], a->pad[i], 1);
        if (q->out[0].dim[2 + i] < 1) return "the input is smaller than the kernel";
    }
    q->out[1] = q->out[0];
    q->out_type[1] = DTYPE_I32;
    return NULL;
}

static const char *attention_rule(shape_query *q) {
    const op_attr *a = q->attr;
    const shape *x = q->in[0];
    if (a->heads < 1 || a->key_dim < 1 || a->head_dim < 1) return "heads, key_dim and head_dim must be positive";
    if (!is_map(x) || x->dim[1] != (int64_t)a->heads * (2 * a->key_dim + a->head_dim))
        return "the input must have heads*(2*key_dim+head_dim) channels";
    const int64_t positions = x->dim[2] * x->dim[3];
    q->out[0] = shape_4d(x->dim[0], (int64_t)a->heads * a->head_dim, x->dim[2], x->dim[3]);
    q->out[1] = shape_4d(x->dim[0], a->heads, positions, positions);
    return NULL;
}

static const char *flatten_concat_rule(shape_query *q) {
    int64_t columns = 0;
    for (int i = 0; i < q->n_in; i++) {
        const shape *s = q->in[i], *first = q->in[0];
        if (!is_map(s) || s->dim[0] != first->dim[0] || s->dim[1] != first->dim[1])
            return "the inputs must have shape (N,C,H,W) with equal N and C";
        columns += s->dim[2] * s->dim[3];
    }
    q->out[0] = shape_3d(q->in[0]->dim[0], q->in[0]->dim[1], columns);
    return NULL;
}

static const char *flatten_concat_grad_rule(shape_query *q) {
    const op_attr *a = q->attr;
    const shape *s = q->in[0];
    if (s->rank != 3 || a->extent[0] < 1 || a->extent[1] < 1 || a->begin < 0 ||
        a->begin + (int64_t)a->extent[0] * a->extent[1] > s->dim[2])
        return "the map leaves the columns of the gradient";
    q->out[0] = shape_4d(s->dim[0], s->dim[1], a->extent[0], a->extent[1]);
    return NULL;
}

static const char *levels_check(const op_attr *a, const shape *boxes, const shape *scores) {
    int64_t anchors = 0;
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dim[0] != scores->dim[0] || boxes->dim[1] != 4 ||
        boxes->dim[2] != scores->dim[2])
        return "boxes must be (N,4,A) and scores (N,nc,A)";
    if (a->n_levels < 1 || a->n_levels > OP_MAX_LEVELS) return "the number of levels is out of range";
    for (int i = 0; i < a->n_levels; i++) anchors += (int64_t)a->level_h[i] * a->level_w[i];
    return anchors == boxes->dim[2] ? NULL : "the levels do not add up to the anchors";
}

static const char *detect_decode_rule(shape_query *q) {
    q->out[0] = *q->in[1];
    q->out[0].dim[1] += 4;
    return levels_check(q->attr, q->in[0], q->in[1]);
}

static const char *detect_loss_rule(shape_query *q) {
    const shape *boxes = q->in[0], *scores = q->in[1], *targets = q->in[2];
    const char *wrong = levels_check(q->attr, boxes, scores);
    if (wrong != NULL) return wrong;
    if (targets->rank != 3 || targets->dim[0] != boxes->dim[0] || targets->dim[2] != 5)
        return "targets must be (N,M,5)";
    if (!is_vector(q->in[3], boxes->dim[0]) || q->in_type[3] != DTYPE_I32) return "counts must be i32 (N)";
    if (!is_vector(q->in[4], 5 + scores->dim[1])) return "gains must be (5+nc)";
    q->out[0] = shape_1d(3);
    q->out[1] = *boxes;
    q->out[2] = *scores;
    return NULL;
}

static const char *conv2d_grad_x_rule(shape_query *q) {
    const op_attr *a = q->attr;
    const shape *gy = q->in[0], *w = q->in[1];
    const char *wrong = conv_filter_check(a, w);
    if (wrong != NULL) return wrong;
    if (!is_map(gy) || gy->dim[1] != w->dim[0]) return "the gradient does not have the weight's output channels";
    q->out[0] = shape_4d(gy->dim[0], w->dim[1] * a->groups, a->extent[0], a->extent[1]);
    for (int i = 0; i < 2; i++)
        if (window_count(a->extent[i], a->kernel[i], a->stride[i], a->pad[i], a->dilation[i]) != gy->dim[2 + i])
            return "the gradient's size does not follow from the extent";
    return NULL;
}

static const char *conv2d_grad_w_rule(shape_query *q) {
    const op_attr *a = q->attr;
    const shape *x = q->in[0], *gy = q->in[1];
    if (!is_map(x) || !is_map(gy) || x->dim[0] != gy->dim[0]) return "input and gradient must be maps of one batch";
    if (a->groups < 1 || x->dim[1] % a->groups != 0) return "the channels are not divisible by the groups";
    q->out[0] = shape_4d(gy->dim[1], x->dim[1] / a->groups, a->kernel[0], a->kernel[1]);
    return conv_filter_check(a, &q->out[0]);
}

static const char *conv2d_grad_bias_rule(shape_query *q) {
    if (!is_map(q->in[0])) return "the gradient must have shape (N,K,OH,OW)";
    q->out[0] = shape_1d(q->in[0]->dim[1]);
    return NULL;
}

static const char *batch_norm_grad_rule(shape_query *q) {
    const shape *x = q->in[1];
    if (!is_map(x) || !shape_equal(q->in[0], x)) return "gradient and input must be maps of one shape";
    for (int i = 2; i < 6; i++)
        if (!is_vector(q->in[i], x->dim[1])) return "scale, shift and statistics must have one value a channel";
    q->out[0] = *x;
    q->out[1] = q->out[2] = shape_1d(x->dim[1]);
    return NULL;
}

static const char *max_pool_grad_rule(shape_query *q) {
    const shape *gy = q->in[0];
    if (!is_map(gy) || !shape_equal(gy, q->in[1]) || q->in_type[1] != DTYPE_I32)
        return "gradient and argmax must be maps of one shape";
    q->out[0] = shape_4d(gy->dim[0], gy->dim[1], q->attr->extent[0], q->attr->extent[1]);
    return NULL;
}

static const char *attention_grad_rule(shape_query *q) {
    q->out[0] = *q->in[1];
    return is_map(q->in[1]) ? NULL : "qkv must have shape (N,C,H,W)";
}

static const shape_rule rules[OP_KIND_COUNT] = {
    [OP_IMAGE_FLOAT] = image_float_rule,
    [OP_CONV2D] = conv2d_rule,
    [OP_CONV2D_GRAD_X] = conv2d_grad_x_rule,
    [OP_CONV2D_GRAD_W] = conv2d_grad_w_rule,
    [OP_CONV2D_GRAD_BIAS] = conv2d_grad_bias_rule,
    [OP_BATCH_NORM] = batch_norm_rule,
    [OP_BATCH_NORM_GRAD] = batch_norm_grad_rule,
    [OP_ACTIVATE] = same_as_first,
    [OP_ACTIVATE_GRAD] = add_rule,
    [OP_ADD] = add_rule,
    [OP_CONCAT] = concat_rule,
    [OP_SLICE] = slice_rule,
    [OP_SLICE_GRAD] = slice_grad_rule,
    [OP_UPSAMPLE2] = upsample2_rule,
    [OP_UPSAMPLE2_GRAD] = upsample2_grad_rule,
    [OP_MAX_POOL] = max_pool_rule,
    [OP_MAX_POOL_GRAD] = max_pool_grad_rule,
    [OP_ATTENTION] = attention_rule,
    [OP_ATTENTION_GRAD] = attention_grad_rule,
    [OP_FLATTEN_CONCAT] = flatten_concat_rule,
    [OP_FLATTEN_CONCAT_GRAD] = flatten_concat_grad_rule,
    [OP_DETACH] = same_as_first,
    [OP_DETECT_DECODE] = detect_decode_rule,
    [OP_DETECT_LOSS] = detect_loss_rule,
};

shape_rule shape_rule_of(op_kind kind) {
    return rules[kind];
}

/* Convolutions and attention products: everything else is small beside them. */
double op_flops(const graph *g, const graph_op *op) {
    if (op->kind == OP_CONV2D) {
        const shape *w = graph_shape(g, op->in[1]);
        return 2.0 * (double)shape_elements(graph_shape(g, op->out[0])) * (double)(w->dim[1] * w->dim[2] * w->dim[3]);
    }
    if (op->kind == OP_ATTENTION) {
        const double positions = (double)(graph_shape(g, op->in[0])->dim[2] * graph_shape(g, op->in[0])->dim[3]);
        const double rows = (double)graph_shape(g, op->in[0])->dim[0] * op->attr.heads;
        return 2.0 * rows * positions * positions * (double)(op->attr.key_dim + op->attr.head_dim);
    }
    return 0.0;
}
