#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARAMETERS ((int64_t)1 << 31)

static ol_status placeholder_names(model *m) {
    m->names = arena_alloc(&m->arena, (size_t)m->desc.nc, sizeof *m->names);
    if (m->names == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < m->desc.nc; i++) {
        m->names[i] = arena_printf(&m->arena, "%d", i);
        if (m->names[i] == NULL) return OL_ERROR_MEMORY;
    }
    return OL_OK;
}

ol_status model_create(ol_context *ctx, const model_spec *spec, model **out) {
    model *m = mem_alloc0(ctx, 1, sizeof *m);
    if (m == NULL) return OL_ERROR_MEMORY;
    m->ctx = ctx;
    arena_init(&m->arena, ctx, 0);
    tensor_list_init(&m->state, ctx);
    ol_status status = description_parse(&m->arena, spec, &m->desc);
    if (status == OL_OK) status = module_tree_build(&m->arena, &m->desc, &m->root);
    if (status == OL_OK && module_parameters(m->root) > MAX_PARAMETERS) {
        status =
            ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s: %lld parameters are too many (limit %lld); use smaller widths",
                     m->desc.source, (long long)module_parameters(m->root), (long long)MAX_PARAMETERS);
    }
    if (status == OL_OK) status = module_state(m->root, &m->state);
    if (status == OL_OK) status = placeholder_names(m);
    if (status != OL_OK) goto fail;
    m->head = m->root->children[m->desc.n_layers - 1];
    m->has_one2many = true;
    m->has_one2one = m->desc.end2end;
    m->n_levels = m->head->n_levels;
    memcpy(m->strides, m->head->level_stride, sizeof m->strides);
    m->frozen = mem_alloc0(ctx, m->state.count, sizeof *m->frozen);
    if (m->frozen == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    *out = m;
    return OL_OK;
fail:
    model_destroy(m);
    return status;
}

void model_destroy(model *m) {
    if (m == NULL) return;
    ol_context *ctx = m->ctx;
    mem_free(ctx, m->frozen);
    tensor_list_deinit(&m->state);
    arena_deinit(&m->arena);
    mem_free(ctx, m);
}

ol_status model_set_names(model *m, const char *const *names, int n) {
    if (n != m->desc.nc) {
        return ctx_fail(m->ctx, OL_ERROR_ARGUMENT, "%d class names for a model of %d classes", n, m->desc.nc);
    }
    const char **copy = arena_alloc(&m->arena, (size_t)n, sizeof *copy);
    if (copy == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        copy[i] = arena_strdup(&m->arena, names[i]);
        if (copy[i] == NULL) return OL_ERROR_MEMORY;
    }
    m->names = copy;
    return OL_OK;
}

bool names_are_real(const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        char digits[16];
        snprintf(digits, sizeof digits, "%d", i);
        if (strcmp(names[i], digits) != 0) return true;
    }
    return false;
}

bool model_is_param(const model *m, size_t position) {
    const named_tensor *item = &m->state.items[position];
    const char *last = strrchr(item->name, '.');
    return item->t.type == DTYPE_F32 && last != NULL && strncmp(last, ".running_", 9) != 0;
}

int64_t model_parameter_count(const model *m) {
    int64_t n = 0;
    for (size_t i = 0; i < m->state.count; i++) {
        if (model_is_param(m, i)) n += shape_elements(&m->state.items[i].t.shape);
    }
    return n;
}
