/* Which parameters are left as they are in training. Model document, section 3.3. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

typedef struct patterns {
    arena arena;
    const char **items;
    size_t count, capacity;
} patterns;

static ol_status pattern_add(patterns *p, const char *text) {
    ol_context *ctx = p->arena.ctx;
    const ol_status status = mem_grow(ctx, (void **)&p->items, &p->capacity, p->count + 1, sizeof *p->items);
    if (status != OL_OK) return status;
    if (text == NULL) return OL_ERROR_MEMORY;
    p->items[p->count++] = text;
    return OL_OK;
}

/* "model.<entry>." for an integer or a path such as 23.cv2. */
static ol_status entry_add(patterns *p, const model *m, const value *entry) {
    int64_t n;
    if (value_as_int(entry, &n) && n >= 0 && n < m->desc.n_layers) {
        return pattern_add(p, arena_printf(&p->arena, "model.%d.", (int)n));
    }
    if (entry->kind == VALUE_STRING && entry->as.string[0] != '\0') {
        return pattern_add(p, arena_printf(&p->arena, "model.%s.", entry->as.string));
    }
    if (value_is_number(entry)) {
        return ctx_fail(m->ctx, OL_ERROR_ARGUMENT, "freeze: there is no layer %g; the model has layers 0 to %d",
                        value_as_double(entry), m->desc.n_layers - 1);
    }
    return ctx_fail(m->ctx, OL_ERROR_ARGUMENT,
                    "freeze must be a number of layers, or a list of layer indices or paths such as 23.cv2, not a %s",
                    value_kind_name(entry));
}

static ol_status read_patterns(patterns *p, const model *m, const value *freeze) {
    int64_t n;
    if (freeze == NULL || freeze->kind == VALUE_NULL) return OL_OK;
    if (freeze->kind == VALUE_LIST) {
        for (size_t i = 0; i < freeze->as.list.count; i++) {
            const ol_status status = entry_add(p, m, freeze->as.list.items[i]);
            if (status != OL_OK) return status;
        }
        return OL_OK;
    }
    if (!value_is_number(freeze)) return entry_add(p, m, freeze);
    if (!value_as_int(freeze, &n) || n < 0) {
        return ctx_fail(m->ctx, OL_ERROR_ARGUMENT, "freeze must be a whole number of layers from 0 to %d, not %g",
                        m->desc.n_layers - 1, value_as_double(freeze));
    }
    for (int64_t i = 0; i < n && i < m->desc.n_layers; i++) {
        const ol_status status = pattern_add(p, arena_printf(&p->arena, "model.%d.", (int)i));
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static bool matches(const patterns *p, const char *name) {
    for (size_t i = 0; i < p->count; i++) {
        if (strstr(name, p->items[i]) != NULL) return true;
    }
    return false;
}

/* A batch norm is frozen when its own name, not only a parameter's, holds the pattern. */
static ol_status mark_visit(void *user, module *m) {
    if (m->kind->type == MODULE_BATCH_NORM) m->frozen = matches(user, m->path);
    return OL_OK;
}

ol_status model_freeze(model *m, const value *freeze) {
    patterns p = {0};
    size_t n_params = 0, n_frozen = 0;
    arena_init(&p.arena, m->ctx, 0);
    ol_status status = read_patterns(&p, m, freeze);
    for (size_t i = 0; i < m->state.count && status == OL_OK; i++) {
        const bool param = model_is_param(m, i);
        n_params += param;
        n_frozen += param && matches(&p, m->state.items[i].name);
    }
    if (status == OL_OK && n_frozen == n_params) {
        status = ctx_fail(m->ctx, OL_ERROR_ARGUMENT,
                          "freeze leaves nothing to train: all %zu parameter tensors are frozen; freeze fewer layers",
                          n_params);
    }
    if (status == OL_OK) {
        for (size_t i = 0; i < m->state.count; i++) {
            m->frozen[i] = model_is_param(m, i) && matches(&p, m->state.items[i].name);
        }
        status = module_walk(m->root, mark_visit, &p);
    }
    mem_free(m->ctx, p.items);
    arena_deinit(&p.arena);
    return status;
}
