#include "model/module_forward.h"

#include <math.h>

tensor_ref builder_op(builder *b, const module *m, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in) {
    tensor_ref out[OP_MAX_OUTPUTS] = {TENSOR_NONE};
    if (b->status != OL_OK) return TENSOR_NONE;
    b->g->scope = m->path;
    b->status = graph_op_add(b->g, kind, attr, in, n_in, out);
    return b->status == OL_OK ? out[0] : TENSOR_NONE;
}

tensor_ref builder_bound(builder *b, const module *m, const char *suffix, tensor_role role, shape s) {
    tensor_ref t = TENSOR_NONE;
    if (b->status != OL_OK) return TENSOR_NONE;
    const char *name = arena_printf(&b->g->arena, "%s%s", m->path, suffix);
    b->status = name == NULL ? OL_ERROR_MEMORY : graph_tensor_add(b->g, name, role, DTYPE_F32, s, &t);
    return t;
}

tensor_ref builder_concat(builder *b, const module *m, const tensor_ref *in, int n_in) {
    return builder_op(b, m, OP_CONCAT, &(op_attr){.axis = 1}, in, n_in);
}

tensor_ref builder_add(builder *b, const module *m, tensor_ref x, tensor_ref y) {
    return builder_op(b, m, OP_ADD, &(op_attr){0}, (tensor_ref[]){x, y}, 2);
}

tensor_ref builder_slice(builder *b, const module *m, tensor_ref x, int groups, int begin, int size) {
    const op_attr attr = {.groups = groups, .begin = begin, .size = size};
    return builder_op(b, m, OP_SLICE, &attr, &x, 1);
}

tensor_ref module_forward(builder *b, const module *m, tensor_ref x) {
    return b->status == OL_OK ? m->kind->forward(b, m, &x, 1) : TENSOR_NONE;
}

static tensor_ref child_forward(builder *b, const module *m, const char *name, tensor_ref x) {
    return module_forward(b, module_child(m, name), x);
}

static op_attr conv_attr(const module *m, activation act) {
    const int pad = m->kernel / 2;
    return (op_attr){.kernel = {m->kernel, m->kernel},
                     .stride = {m->stride, m->stride},
                     .pad = {pad, pad},
                     .dilation = {1, 1},
                     .groups = m->groups,
                     .act = act};
}

static tensor_ref conv_weight(builder *b, const module *m) {
    return builder_bound(b, m, ".weight", ROLE_PARAM, shape_4d(m->c2, m->c1 / m->groups, m->kernel, m->kernel));
}

tensor_ref conv2d_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const op_attr attr = conv_attr(m, ACT_NONE);
    const tensor_ref weight = conv_weight(b, m);
    const tensor_ref bias = m->bias ? builder_bound(b, m, ".bias", ROLE_PARAM, shape_1d(m->c2)) : TENSOR_NONE;
    return builder_op(b, m, OP_CONV2D, &attr, (tensor_ref[]){in[0], weight, bias}, m->bias ? 3 : 2);
}

/* Convolution, normalisation, activation, and `residual` added last (TENSOR_NONE: nothing). */
static tensor_ref conv_add_forward(builder *b, const module *m, tensor_ref x, tensor_ref residual) {
    const module *conv = module_child(m, "conv"), *bn = module_child(m, "bn");
    const activation act = m->act ? ACT_SILU : ACT_NONE;
    const tensor_ref weight = conv_weight(b, conv);
    if (b->mode == MODEL_EVAL) {
        const op_attr attr = conv_attr(conv, act);
        const tensor_ref bias = builder_bound(b, conv, ".bias", ROLE_PARAM, shape_1d(m->c2));
        const tensor_ref in[4] = {x, weight, bias, residual};
        return builder_op(b, m, OP_CONV2D, &attr, in, residual == TENSOR_NONE ? 3 : 4);
    }
    const op_attr attr = conv_attr(conv, ACT_NONE);
    const op_attr bn_attr = {.eps = 1e-3F, .momentum = 0.03F, .act = act, .frozen = bn->frozen};
    const shape s = shape_1d(m->c2);
    const tensor_ref y = builder_op(b, conv, OP_CONV2D, &attr, (tensor_ref[]){x, weight}, 2);
    const tensor_ref gamma = builder_bound(b, bn, ".weight", ROLE_PARAM, s);
    const tensor_ref beta = builder_bound(b, bn, ".bias", ROLE_PARAM, s);
    const tensor_ref mean = builder_bound(b, bn, ".running_mean", ROLE_BUFFER, s);
    const tensor_ref var = builder_bound(b, bn, ".running_var", ROLE_BUFFER, s);
    const tensor_ref z = builder_op(b, bn, OP_BATCH_NORM, &bn_attr, (tensor_ref[]){y, gamma, beta, mean, var}, 5);
    return residual == TENSOR_NONE ? z : builder_add(b, m, z, residual);
}

tensor_ref conv_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    return conv_add_forward(b, m, in[0], TENSOR_NONE);
}

tensor_ref max_pool_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    return builder_op(
        b, m, OP_MAX_POOL,
        &(op_attr){.kernel = {m->kernel, m->kernel}, .stride = {1, 1}, .pad = {m->kernel / 2, m->kernel / 2}}, in, 1);
}

tensor_ref upsample_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    return builder_op(b, m, OP_UPSAMPLE2, &(op_attr){0}, in, 1);
}

tensor_ref concat_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    return builder_concat(b, m, in, n_in);
}

tensor_ref sequential_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    tensor_ref x = in[0];
    for (int i = 0; i < m->n_children; i++) x = module_forward(b, m->children[i], x);
    return x;
}

/* cv2(cv1(x)) [+ x] */
tensor_ref bottleneck_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const tensor_ref hidden = child_forward(b, m, "cv1", in[0]);
    return conv_add_forward(b, module_child(m, "cv2"), hidden, m->add ? in[0] : TENSOR_NONE);
}

/* cv3(cat[m(cv1(x)), cv2(x)]) */
tensor_ref c3k_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const tensor_ref deep = child_forward(b, m, "m", child_forward(b, m, "cv1", in[0]));
    const tensor_ref side = child_forward(b, m, "cv2", in[0]);
    return child_forward(b, m, "cv3", builder_concat(b, m, (tensor_ref[]){deep, side}, 2));
}

/* y0, y1 = halves of cv1(x); y(j+1) = m(j-1)(y(j)); cv2(cat[y0, y1, y2, …]). The halves lie side by side in cv1(x)
 * already. */
tensor_ref c3k2_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const module *list = module_child(m, "m");
    const tensor_ref both = child_forward(b, m, "cv1", in[0]);
    tensor_ref parts[OP_MAX_INPUTS] = {both};
    tensor_ref y = builder_slice(b, m, both, 1, m->hidden, m->hidden);
    int n_parts = 1;
    for (int i = 0; i < list->n_children; i++) {
        y = module_forward(b, list->children[i], y);
        if (n_parts == OP_MAX_INPUTS) {
            const tensor_ref joined = builder_concat(b, m, parts, n_parts);
            parts[0] = joined;
            n_parts = 1;
        }
        parts[n_parts++] = y;
    }
    return child_forward(b, m, "cv2", builder_concat(b, m, parts, n_parts));
}

/* y0 = cv1(x), y(j) = pool(y(j-1)); cv2(cat[y0, …, yn]) [+ x] */
tensor_ref sppf_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const module *pool = module_child(m, "m");
    tensor_ref parts[OP_MAX_INPUTS] = {child_forward(b, m, "cv1", in[0])};
    for (int i = 1; i <= m->n; i++) parts[i] = module_forward(b, pool, parts[i - 1]);
    const tensor_ref joined = builder_concat(b, m, parts, m->n + 1);
    return conv_add_forward(b, module_child(m, "cv2"), joined, m->add ? in[0] : TENSOR_NONE);
}

/* proj(attention(qkv) + pe(v)), and `residual` added. */
static tensor_ref attention_add_forward(builder *b, const module *m, tensor_ref x, tensor_ref residual) {
    const tensor_ref qkv = child_forward(b, m, "qkv", x);
    const op_attr attr = {.heads = m->heads,
                          .key_dim = m->key_dim,
                          .head_dim = m->head_dim,
                          .scale = (float)(1.0 / sqrt((double)m->key_dim))};
    const tensor_ref mixed = builder_op(b, m, OP_ATTENTION, &attr, &qkv, 1);
    const tensor_ref v = builder_slice(b, m, qkv, m->heads, 2 * m->key_dim, m->head_dim);
    const tensor_ref sum = conv_add_forward(b, module_child(m, "pe"), v, mixed);
    return conv_add_forward(b, module_child(m, "proj"), sum, residual);
}

tensor_ref attention_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    return attention_add_forward(b, m, in[0], TENSOR_NONE);
}

/* x + attn(x), then x + ffn(x) */
tensor_ref psa_block_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const module *ffn = module_child(m, "ffn");
    const tensor_ref x = attention_add_forward(b, module_child(m, "attn"), in[0], m->add ? in[0] : TENSOR_NONE);
    const tensor_ref hidden = child_forward(b, ffn, "0", x);
    return conv_add_forward(b, module_child(ffn, "1"), hidden, m->add ? x : TENSOR_NONE);
}

/* a, b = halves of cv1(x); cv2(cat[a, m(b)]) */
tensor_ref c2psa_forward(builder *b, const module *m, const tensor_ref *in, int n_in) {
    (void)n_in;
    const tensor_ref both = child_forward(b, m, "cv1", in[0]);
    const tensor_ref first = builder_slice(b, m, both, 1, 0, m->hidden);
    const tensor_ref second = child_forward(b, m, "m", builder_slice(b, m, both, 1, m->hidden, m->hidden));
    return child_forward(b, m, "cv2", builder_concat(b, m, (tensor_ref[]){first, second}, 2));
}

void detect_forward(builder *b, const module *head, int branch, const tensor_ref *features, tensor_ref *boxes,
                    tensor_ref *scores) {
    const module *box_list = module_child(head, branch == 0 ? "cv2" : "one2one_cv2");
    const module *class_list = module_child(head, branch == 0 ? "cv3" : "one2one_cv3");
    tensor_ref box_maps[OP_MAX_LEVELS], score_maps[OP_MAX_LEVELS];
    for (int i = 0; i < head->n_levels; i++) {
        tensor_ref x = features[i];
        if (branch == 1 && b->mode == MODEL_TRAIN) x = builder_op(b, head, OP_DETACH, &(op_attr){0}, &x, 1);
        box_maps[i] = module_forward(b, box_list->children[i], x);
        score_maps[i] = module_forward(b, class_list->children[i], x);
    }
    *boxes = builder_op(b, box_list, OP_FLATTEN_CONCAT, &(op_attr){0}, box_maps, head->n_levels);
    *scores = builder_op(b, class_list, OP_FLATTEN_CONCAT, &(op_attr){0}, score_maps, head->n_levels);
}
