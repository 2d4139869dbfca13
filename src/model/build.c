#include "model/build.h"

#include "model/module_forward.h"

#include <stdio.h>

static const char *const branch_names[2] = {"one2many", "one2one"};

/* Assigner settings of the two branches, model document, section 4.1. */
static const struct {
    int topk, topk2;
    float alpha, beta;
} assigners[2] = {{10, 10, 0.5F, 6.0F}, {7, 1, 0.5F, 6.0F}};

typedef struct build {
    builder b;
    const model *m;
    const model_graph_options *options;
    model_graph_refs *refs;
    op_attr levels; /* the pyramid's attributes, shared by the detection ops */
} build;

static ol_status mark(build *u, tensor_ref t, const char *prefix, const char *what) {
    const char *name = arena_printf(&u->b.g->arena, "%s.%s", prefix, what);
    if (name == NULL) return OL_ERROR_MEMORY;
    graph_output_mark(u->b.g, t, name);
    return OL_OK;
}

static ol_status check_options(const model *m, const model_graph_options *o) {
    const int largest = m->strides[m->n_levels - 1];
    if (o->batch < 1 || o->height < 1 || o->width < 1) {
        return ctx_fail(m->ctx, OL_ERROR_ARGUMENT, "batch %d at %dx%d: all must be at least 1", o->batch, o->height,
                        o->width);
    }
    if (o->height % largest != 0 || o->width % largest != 0) {
        return ctx_fail(m->ctx, OL_ERROR_ARGUMENT,
                        "image size %dx%d must be a multiple of the model's largest stride %d in both directions",
                        o->height, o->width, largest);
    }
    if (o->loss && o->max_targets < 1) {
        return ctx_fail(m->ctx, OL_ERROR_INTERNAL, "a graph with losses needs room for at least one target");
    }
    return OL_OK;
}

static ol_status input_add(build *u, const char *name, dtype type, shape s, tensor_ref *out) {
    return graph_tensor_add(u->b.g, name, ROLE_INPUT, type, s, out);
}

/* Runs all layers but the head; outputs[i] of layer i. */
static ol_status layers_build(build *u, tensor_ref image, tensor_ref *outputs) {
    const model_desc *desc = &u->m->desc;
    for (int i = 0; i + 1 < desc->n_layers; i++) {
        const layer_desc *l = &desc->layers[i];
        const module *layer = u->m->root->children[i];
        tensor_ref in[LAYER_MAX_FROM];
        for (int k = 0; k < l->n_from; k++) in[k] = l->resolved[k] < 0 ? image : outputs[l->resolved[k]];
        outputs[i] = layer->kind->forward(&u->b, layer, in, l->n_from);
        if (u->b.status != OL_OK) return u->b.status;
        if (u->options->layer_outputs) {
            char name[24];
            snprintf(name, sizeof name, "layer.%d", i);
            graph_output_mark(u->b.g, outputs[i], name);
        }
    }
    return OL_OK;
}

static ol_status decode_build(build *u, int k) {
    op_attr attr = u->levels;
    attr.corners = k == 1;
    const tensor_ref in[2] = {u->refs->boxes[k], u->refs->scores[k]};
    u->refs->decoded[k] = builder_op(&u->b, u->m->head, OP_DETECT_DECODE, &attr, in, 2);
    return u->b.status != OL_OK ? u->b.status : mark(u, u->refs->decoded[k], branch_names[k], "decoded");
}

static ol_status loss_inputs_add(build *u) {
    const model_graph_options *o = u->options;
    ol_status status = input_add(u, "targets", DTYPE_F32, shape_3d(o->batch, o->max_targets, 5), &u->refs->targets);
    if (status == OL_OK) status = input_add(u, "target_count", DTYPE_I32, shape_1d(o->batch), &u->refs->target_count);
    return status;
}

static ol_status loss_build(build *u, int k) {
    graph *g = u->b.g;
    model_graph_refs *refs = u->refs;
    const char *name = arena_printf(&g->arena, "%s.gains", branch_names[k]);
    if (name == NULL) return OL_ERROR_MEMORY;
    ol_status status = input_add(u, name, DTYPE_F32, shape_1d(5 + u->m->desc.nc), &refs->gains[k]);
    if (status != OL_OK) return status;
    op_attr attr = u->levels;
    attr.topk = assigners[k].topk;
    attr.topk2 = assigners[k].topk2;
    attr.alpha = assigners[k].alpha;
    attr.beta = assigners[k].beta;
    const tensor_ref in[5] = {refs->boxes[k], refs->scores[k], refs->targets, refs->target_count, refs->gains[k]};
    tensor_ref out[OP_MAX_OUTPUTS];
    g->scope = branch_names[k];
    status = graph_op_add(g, OP_DETECT_LOSS, &attr, in, 5, out);
    if (status != OL_OK) return status;
    refs->loss_items[k] = out[0];
    refs->boxes_grad[k] = out[1];
    refs->scores_grad[k] = out[2];
    return mark(u, out[0], branch_names[k], "items");
}

static void refs_clear(model_graph_refs *refs) {
    *refs = (model_graph_refs){.image = TENSOR_NONE, .targets = TENSOR_NONE, .target_count = TENSOR_NONE};
    for (int k = 0; k < 2; k++) {
        refs->boxes[k] = refs->scores[k] = refs->decoded[k] = refs->gains[k] = TENSOR_NONE;
        refs->loss_items[k] = refs->boxes_grad[k] = refs->scores_grad[k] = TENSOR_NONE;
    }
}

static void levels_fill(build *u) {
    const model *m = u->m;
    u->levels.n_levels = u->refs->n_levels = m->n_levels;
    for (int i = 0; i < m->n_levels; i++) {
        u->levels.level_stride[i] = m->strides[i];
        u->levels.level_h[i] = u->refs->level_h[i] = u->options->height / m->strides[i];
        u->levels.level_w[i] = u->refs->level_w[i] = u->options->width / m->strides[i];
        u->refs->anchors += u->refs->level_h[i] * u->refs->level_w[i];
    }
}

static ol_status head_build(build *u, const tensor_ref *outputs) {
    const model *m = u->m;
    const model_graph_options *o = u->options;
    const layer_desc *l = &m->desc.layers[m->desc.n_layers - 1];
    const bool present[2] = {m->has_one2many, m->has_one2one};
    const model_branch losses = o->loss_branches != 0 ? o->loss_branches : o->branches;
    tensor_ref features[OP_MAX_LEVELS];
    for (int i = 0; i < l->n_from; i++) features[i] = outputs[l->resolved[i]];
    ol_status status = o->loss ? loss_inputs_add(u) : OL_OK;
    for (int k = 0; k < 2 && status == OL_OK; k++) {
        const model_branch bit = k == 0 ? MODEL_ONE2MANY : MODEL_ONE2ONE;
        const bool wanted = (o->branches & bit) != 0, with_loss = o->loss && (losses & bit) != 0;
        if (!present[k] || !(wanted || with_loss)) continue;
        detect_forward(&u->b, m->head, k, features, &u->refs->boxes[k], &u->refs->scores[k]);
        status = u->b.status;
        if (status == OL_OK) status = mark(u, u->refs->boxes[k], branch_names[k], "boxes");
        if (status == OL_OK) status = mark(u, u->refs->scores[k], branch_names[k], "scores");
        if (status == OL_OK && o->decode && wanted) status = decode_build(u, k);
        if (status == OL_OK && with_loss) status = loss_build(u, k);
    }
    return status;
}

ol_status model_build(const model *m, graph *g, const model_graph_options *options, model_graph_refs *refs) {
    model_graph_refs found;
    refs_clear(&found);
    build u = {.b = {.g = g, .mode = options->mode}, .m = m, .options = options, .refs = &found};
    tensor_ref *outputs = NULL;
    ol_status status = check_options(m, options);
    if (status != OL_OK) return status;
    g->compute = options->compute;
    levels_fill(&u);
    outputs = mem_alloc(m->ctx, (size_t)m->desc.n_layers, sizeof *outputs);
    if (outputs == NULL) return OL_ERROR_MEMORY;
    const dtype type = options->image_u8 ? DTYPE_U8 : DTYPE_F32;
    const shape s = shape_4d(options->batch, m->desc.channels, options->height, options->width);
    status = input_add(&u, "image", type, s, &found.image);
    tensor_ref x = found.image;
    if (status == OL_OK && options->image_u8) {
        x = builder_op(&u.b, m->root, OP_IMAGE_FLOAT, &(op_attr){0}, &x, 1);
        status = u.b.status;
    }
    if (status == OL_OK) status = layers_build(&u, x, outputs);
    if (status == OL_OK) status = head_build(&u, outputs);
    mem_free(m->ctx, outputs);
    if (status == OL_OK) *refs = found;
    return status;
}
