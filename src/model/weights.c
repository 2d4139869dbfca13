/* Initial weights, loading and folding of state dicts. */
#include "base/rng.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH_NORM_EPS 1e-3F

static tensor *state_tensor(const tensor_list *state, const module *m, const char *suffix) {
    char name[400];
    snprintf(name, sizeof name, "%s%s", m->path, suffix);
    return tensor_list_find(state, name);
}

static void fill(tensor *t, float x) {
    const int64_t n = shape_elements(&t->shape);
    for (int64_t i = 0; i < n; i++) tensor_f32(t)[i] = x;
}

typedef struct init {
    model *m;
    uint64_t seed;
    uint32_t index; /* one random stream a convolution */
} init;

static ol_status init_visit(void *user, module *leaf) {
    init *u = user;
    const tensor_list *state = &u->m->state;
    if (leaf->kind->type == MODULE_CONV2D) {
        rng r = rng_stream(u->seed, RNG_WEIGHTS, 0, u->index++);
        tensor *weight = state_tensor(state, leaf, ".weight"), *bias = state_tensor(state, leaf, ".bias");
        const int channels = leaf->c1 / leaf->groups;
        const double bound = 1.0 / sqrt((double)channels * leaf->kernel * leaf->kernel);
        const int64_t n = shape_elements(&weight->shape);
        for (int64_t i = 0; i < n; i++) tensor_f32(weight)[i] = (float)rng_range(&r, -bound, bound);
        for (int64_t i = 0; bias != NULL && i < leaf->c2; i++)
            tensor_f32(bias)[i] = (float)rng_range(&r, -bound, bound);
    } else if (leaf->kind->type == MODULE_BATCH_NORM) {
        fill(state_tensor(state, leaf, ".weight"), 1.0F);
        fill(state_tensor(state, leaf, ".bias"), 0.0F);
        fill(state_tensor(state, leaf, ".running_mean"), 0.0F);
        fill(state_tensor(state, leaf, ".running_var"), 1.0F);
        *(int64_t *)state_tensor(state, leaf, ".num_batches_tracked")->data = 0;
    }
    return OL_OK;
}

/* The one-to-one branch starts as a copy of the one-to-many branch (section 2). */
static void copy_branch(model *m) {
    for (size_t i = 0; i < m->state.count; i++) {
        named_tensor *item = &m->state.items[i];
        char twin[400];
        const char *at = strstr(item->name, ".one2one_");
        if (at == NULL) continue;
        snprintf(twin, sizeof twin, "%.*s.%s", (int)(at - item->name), item->name, at + strlen(".one2one_"));
        const tensor *from = tensor_list_find(&m->state, twin);
        if (from == NULL) continue;
        memcpy(item->t.data, from->data, (size_t)shape_elements(&from->shape) * dtype_bytes(from->type));
    }
}

void model_initialize_head_bias(model *m) {
    static const char *const branches[2] = {"", "one2one_"};
    for (int k = 0; k < 2; k++) {
        for (int level = 0; level < m->n_levels; level++) {
            char name[400];
            const double cells = 640.0 / m->strides[level];
            snprintf(name, sizeof name, "%s.%scv2.%d.2.bias", m->head->path, branches[k], level);
            tensor *box = tensor_list_find(&m->state, name);
            snprintf(name, sizeof name, "%s.%scv3.%d.2.bias", m->head->path, branches[k], level);
            tensor *class_bias = tensor_list_find(&m->state, name);
            if (box != NULL) fill(box, 2.0F);
            if (class_bias != NULL) fill(class_bias, (float)log(5.0 / m->desc.nc / (cells * cells)));
        }
    }
}

void model_initialize(model *m, uint64_t seed) {
    init u = {.m = m, .seed = seed};
    module_walk(m->root, init_visit, &u);
    copy_branch(m);
    model_initialize_head_bias(m);
}

ol_status model_load_state(model *m, const tensor_list *state) {
    for (size_t i = 0; i < m->state.count; i++) {
        const named_tensor *to = &m->state.items[i];
        const tensor *from = tensor_list_find(state, to->name);
        if (from == NULL) {
            return ctx_fail(m->ctx, OL_ERROR_FORMAT, "%s: tensor '%s' is missing; the weights are of another model",
                            m->desc.source, to->name);
        }
        if (!shape_equal(&from->shape, &to->t.shape) || from->type != to->t.type) {
            char have[64], want[64];
            shape_print(&from->shape, have, sizeof have);
            shape_print(&to->t.shape, want, sizeof want);
            return ctx_fail(m->ctx, OL_ERROR_FORMAT, "%s: tensor '%s' is %s%s where the model has %s%s", m->desc.source,
                            to->name, dtype_name(from->type), have, dtype_name(to->t.type), want);
        }
    }
    for (size_t i = 0; i < m->state.count; i++) {
        named_tensor *to = &m->state.items[i];
        const tensor *from = tensor_list_find(state, to->name);
        memcpy(to->t.data, from->data, (size_t)shape_elements(&from->shape) * dtype_bytes(from->type));
    }
    return OL_OK;
}

typedef struct fold {
    const tensor_list *state;
    tensor_list *folded;
} fold;

static ol_status folded_tensor(fold *u, const module *conv, const char *suffix, shape s, tensor **out) {
    char name[400];
    snprintf(name, sizeof name, "%s%s", conv->path, suffix);
    *out = tensor_list_find(u->folded, name);
    return *out != NULL ? OL_OK : tensor_list_add(u->folded, name, DTYPE_F32, s, out);
}

/* W' = W * g/sqrt(var + eps), bias' = beta - mean * g/sqrt(var + eps); float32 as the reference does (section 7). */
static ol_status fold_unit(fold *u, const module *conv, const module *bn) {
    const tensor *w = state_tensor(u->state, conv, ".weight");
    const float *gamma = tensor_f32(state_tensor(u->state, bn, ".weight"));
    const float *beta = tensor_f32(state_tensor(u->state, bn, ".bias"));
    const float *mean = tensor_f32(state_tensor(u->state, bn, ".running_mean"));
    const float *var = tensor_f32(state_tensor(u->state, bn, ".running_var"));
    tensor *weight, *bias;
    ol_status status = folded_tensor(u, conv, ".weight", w->shape, &weight);
    if (status != OL_OK) return status;
    const int64_t row = shape_elements(&w->shape) / conv->c2;
    float *to = tensor_f32(weight); /* adding the bias may move the list's entries, not their data */
    status = folded_tensor(u, conv, ".bias", shape_1d(conv->c2), &bias);
    if (status != OL_OK) return status;
    for (int64_t k = 0; k < conv->c2; k++) {
        const float s = gamma[k] / sqrtf(var[k] + BATCH_NORM_EPS);
        for (int64_t i = 0; i < row; i++) to[k * row + i] = tensor_f32(w)[k * row + i] * s;
        tensor_f32(bias)[k] = beta[k] - mean[k] * s;
    }
    return OL_OK;
}

static ol_status fold_plain(fold *u, const module *conv) {
    static const char *const suffixes[2] = {".weight", ".bias"};
    for (int i = 0; i < 2; i++) {
        const tensor *from = state_tensor(u->state, conv, suffixes[i]);
        tensor *to;
        if (from == NULL) continue;
        const ol_status status = folded_tensor(u, conv, suffixes[i], from->shape, &to);
        if (status != OL_OK) return status;
        memcpy(to->data, from->data, (size_t)shape_elements(&from->shape) * sizeof(float));
    }
    return OL_OK;
}

static ol_status fold_visit(void *user, module *m) {
    fold *u = user;
    if (m->kind->type == MODULE_CONV || m->kind->type == MODULE_DWCONV) {
        return fold_unit(u, module_child(m, "conv"), module_child(m, "bn"));
    }
    if (m->kind->type == MODULE_CONV2D && m->bias) return fold_plain(u, m);
    return OL_OK;
}

ol_status module_fold(module *root, const tensor_list *state, tensor_list *folded) {
    fold u = {.state = state, .folded = folded};
    return module_walk(root, fold_visit, &u);
}

ol_status model_fold(const model *m, const tensor_list *state, tensor_list *folded) {
    for (size_t i = 0; i < m->state.count; i++) {
        const tensor *t = tensor_list_find(state, m->state.items[i].name);
        if (t == NULL || !shape_equal(&t->shape, &m->state.items[i].t.shape)) {
            return ctx_fail(m->ctx, OL_ERROR_INTERNAL, "weights to fold lack '%s' in the model's shape",
                            m->state.items[i].name);
        }
    }
    return module_fold(m->root, state, folded);
}
