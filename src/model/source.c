/* Models of weight files as they are stored, fused ones included. */
#include "model/source.h"

#include <stdio.h>
#include <string.h>

const tensor *source_tensor(const model_source *source, const char *path, const char *suffix) {
    char name[400];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return tensor_list_find(source->state, name);
}

bool source_is_fused(const model_source *source) {
    for (size_t i = 0; i < source->state->count; i++) {
        if (strstr(source->state->items[i].name, ".bn.") != NULL) return false;
    }
    return true;
}

ol_status source_describe(ol_context *ctx, const model_source *source, model_spec *spec) {
    arena a;
    model_desc desc;
    arena_init(&a, ctx, 0);
    *spec = (model_spec){.name = source->name, .yaml = source->yaml, .scale = source->scale};
    ol_status status = description_parse(&a, spec, &desc);
    if (status == OL_OK) {
        char path[64];
        snprintf(path, sizeof path, "model.%d", desc.n_layers - 1);
        const tensor *last = source_tensor(source, path, ".cv3.0.2.weight");
        if (last == NULL) last = source_tensor(source, path, ".one2one_cv3.0.2.weight");
        const tensor *first = source_tensor(source, "model.0", ".conv.weight");
        if (last == NULL || last->shape.rank != 4) {
            status = ctx_fail(ctx, OL_ERROR_FORMAT,
                              "%s: no class branch of a YOLO26 detect head ('%s.cv3.0.2.weight'); give the weights of "
                              "a whole YOLO26 detection model",
                              source->name, path);
        } else {
            spec->nc = (int)last->shape.dim[0];
            spec->class_width = (int)last->shape.dim[1];
            if (first != NULL && first->shape.rank == 4) spec->channels = (int)first->shape.dim[1];
        }
    }
    arena_deinit(&a);
    return status;
}

typedef struct loader {
    model *m;
    const model_source *source;
    bool *used; /* entries of the source that found their place */
} loader;

static ol_status take(loader *u, const char *path, const char *suffix, bool required, bool *found) {
    char name[400], have[64], want[64];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    const int64_t at = tensor_list_position(u->source->state, name);
    *found = at >= 0;
    if (at < 0) {
        if (!required) return OL_OK;
        return ctx_fail(u->m->ctx, OL_ERROR_FORMAT, "%s: tensor '%s' is missing", u->source->name, name);
    }
    const tensor *from = &u->source->state->items[at].t;
    tensor *to = tensor_list_find(&u->m->state, name);
    if (!shape_equal(&from->shape, &to->shape) || from->type != to->type) {
        shape_print(&from->shape, have, sizeof have);
        shape_print(&to->shape, want, sizeof want);
        return ctx_fail(u->m->ctx, OL_ERROR_FORMAT, "%s: tensor '%s' is %s%s where its description asks for %s%s",
                        u->source->name, name, dtype_name(from->type), have, dtype_name(to->type), want);
    }
    memcpy(to->data, from->data, (size_t)shape_elements(&to->shape) * dtype_bytes(to->type));
    u->used[at] = true;
    return OL_OK;
}

/* A folded unit: the bias goes where the batch norm adds it, and the norm itself becomes the identity. */
static ol_status take_fused(loader *u, const module *conv, const module *bn) {
    char name[400];
    snprintf(name, sizeof name, "%s.bias", conv->path);
    const int64_t at = tensor_list_position(u->source->state, name);
    const tensor *from = at >= 0 ? &u->source->state->items[at].t : NULL;
    if (from == NULL || from->type != DTYPE_F32 || from->shape.rank != 1 || from->shape.dim[0] != conv->c2) {
        return ctx_fail(u->m->ctx, OL_ERROR_FORMAT, "%s: neither '%s.weight' nor a fitting '%s' is there",
                        u->source->name, bn->path, name);
    }
    static const struct {
        const char *suffix;
        float x;
    } identity[3] = {{"weight", 1.0F}, {"running_mean", 0.0F}, {"running_var", 1.0F - 1e-3F}};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s", bn->path, identity[i].suffix);
        float *to = tensor_f32(tensor_list_find(&u->m->state, name));
        for (int c = 0; c < conv->c2; c++) to[c] = identity[i].x;
    }
    snprintf(name, sizeof name, "%s.bias", bn->path);
    memcpy(tensor_list_find(&u->m->state, name)->data, from->data, (size_t)conv->c2 * sizeof(float));
    u->used[at] = true;
    return OL_OK;
}

static bool in_absent_branch(const model *m, const char *path) {
    const size_t n = strlen(m->head->path);
    if (strncmp(path, m->head->path, n) != 0 || path[n] != '.') return false;
    const bool one2one = strncmp(path + n + 1, "one2one_", 8) == 0;
    return one2one ? !m->has_one2one : !m->has_one2many;
}

static ol_status load_visit(void *user, module *m) {
    loader *u = user;
    bool found;
    if (in_absent_branch(u->m, m->path)) return OL_OK;
    if (m->kind->type == MODULE_CONV2D) {
        ol_status status = take(u, m->path, ".weight", true, &found);
        if (status == OL_OK && m->bias) status = take(u, m->path, ".bias", true, &found);
        return status;
    }
    if (m->kind->type != MODULE_CONV && m->kind->type != MODULE_DWCONV) return OL_OK;
    static const char *const rest[3] = {".bias", ".running_mean", ".running_var"};
    const module *bn = module_child(m, "bn");
    ol_status status = take(u, bn->path, ".weight", false, &found);
    if (status != OL_OK) return status;
    if (!found) return take_fused(u, module_child(m, "conv"), bn);
    for (int i = 0; i < 3 && status == OL_OK; i++) status = take(u, bn->path, rest[i], true, &found);
    return status == OL_OK ? take(u, bn->path, ".num_batches_tracked", false, &found) : status;
}

static void find_branches(model *m, const model_source *source) {
    m->has_one2many = source_tensor(source, m->head->path, ".cv3.0.2.weight") != NULL;
    m->has_one2one = source_tensor(source, m->head->path, ".one2one_cv3.0.2.weight") != NULL && m->desc.end2end;
}

ol_status model_create_from_source(ol_context *ctx, const model_source *source, model **out) {
    model_spec spec;
    model *m = NULL;
    loader u = {.source = source};
    ol_status status = source_describe(ctx, source, &spec);
    if (status == OL_OK) status = model_create(ctx, &spec, &m);
    if (status != OL_OK) return status;
    u.m = m;
    u.used = mem_alloc0(ctx, source->state->count, sizeof *u.used);
    status = u.used == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK) {
        find_branches(m, source);
        status = module_walk(m->root, load_visit, &u);
    }
    for (size_t i = 0; i < source->state->count && status == OL_OK; i++) {
        if (!u.used[i]) {
            status = ctx_fail(ctx, OL_ERROR_FORMAT, "%s: tensor '%s' is not part of the model its description gives",
                              source->name, source->state->items[i].name);
        }
    }
    if (status == OL_OK && source->names != NULL) status = model_set_names(m, source->names, source->n_names);
    mem_free(ctx, u.used);
    if (status != OL_OK) {
        model_destroy(m);
        return status;
    }
    *out = m;
    return OL_OK;
}
