#include "train/param_store.h"

#include <string.h>

#define PARAM_ALIGN ((size_t)16) /* floats: 64 bytes */

typedef enum param_class { CLASS_WEIGHT, CLASS_BN, CLASS_BIAS, CLASS_MUON, CLASS_COUNT } param_class;
static const char *const class_names[CLASS_COUNT] = {"weight", "bn", "bias", "muon"};

/* A floating parameter of rank 1 that is no bias belongs to a normalisation layer: there is nothing else of that form.
 */
static param_class class_of(const char *name, const shape *s, bool musgd) {
    if (musgd && (s->rank == 2 || s->rank == 4)) return CLASS_MUON;
    if (strstr(name, "bias")) return CLASS_BIAS;
    return s->rank <= 1 ? CLASS_BN : CLASS_WEIGHT;
}

/* Of the head's class branches, which MuSGD trains at three times the rate. */
static bool in_class_branch(const model *m, const char *name) {
    const size_t n = strlen(m->head->path);
    if (strncmp(name, m->head->path, n) != 0) return false;
    return strncmp(name + n, ".cv3.", 5) == 0 || strncmp(name + n, ".one2one_cv3.", 13) == 0;
}

static int group_of(const model *m, const char *name, const shape *s, bool musgd) {
    const param_class c = class_of(name, s, musgd);
    return musgd ? 2 * (int)c + (in_class_branch(m, name) ? 0 : 1) : (int)c;
}

static void groups_describe(param_store *s, bool musgd) {
    s->n_groups = musgd ? PARAM_MAX_GROUPS : 3;
    for (int g = 0; g < s->n_groups; g++) {
        const param_class c = (param_class)(musgd ? g / 2 : g);
        s->groups[g] = (param_group){.name = class_names[c],
                                     .decays = c == CLASS_WEIGHT || c == CLASS_MUON,
                                     .is_bias = c == CLASS_BIAS,
                                     .muon = c == CLASS_MUON,
                                     .lr_factor = musgd && g % 2 == 0 ? 3.0 : 1.0};
    }
}

static size_t padded(size_t count) {
    return (count + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

/* Parameters in torch order: group by group, state order within. */
static void entries_collect(param_store *s, bool musgd) {
    const tensor_list *state = &s->model->state;
    for (int g = 0; g < s->n_groups; g++) {
        s->groups[g].first = s->n_params;
        for (size_t i = 0; i < state->count; i++) {
            const named_tensor *t = &state->items[i];
            if (!model_is_param(s->model, i) || group_of(s->model, t->name, &t->t.shape, musgd) != g) continue;
            s->params[s->n_params++] = (param_entry){.name = t->name,
                                                     .state_index = i,
                                                     .count = (size_t)shape_elements(&t->t.shape),
                                                     .shape = t->t.shape,
                                                     .group = g,
                                                     .frozen = s->model->frozen[i]};
        }
        s->groups[g].n_params = s->n_params - s->groups[g].first;
    }
    for (size_t i = 0; i < state->count; i++) {
        const named_tensor *t = &state->items[i];
        if (model_is_param(s->model, i) || t->t.type != DTYPE_F32) continue;
        s->buffers[s->n_buffers++] = (param_entry){.name = t->name,
                                                   .state_index = i,
                                                   .count = (size_t)shape_elements(&t->t.shape),
                                                   .shape = t->t.shape,
                                                   .group = -1};
    }
}

/* Trained parameters of a group come first, so that each group moves as one range. */
static void entries_place(param_store *s) {
    size_t at = 0;
    for (int g = 0; g < s->n_groups; g++) {
        param_group *group = &s->groups[g];
        group->begin = at;
        for (int pass = 0; pass < 2; pass++) {
            for (int i = group->first; i < group->first + group->n_params; i++) {
                if (s->params[i].frozen != (pass == 1)) continue;
                s->params[i].offset = at;
                at += padded(s->params[i].count);
            }
            if (pass == 0) group->trained_end = at;
        }
        group->end = at;
    }
    s->n_trained_floats = at;
    for (int i = 0; i < s->n_buffers; i++) {
        s->buffers[i].offset = at;
        at += padded(s->buffers[i].count);
    }
    s->n_floats = at;
}

ol_status param_store_create(ol_context *ctx, device *dev, const model *m, optimizer_kind kind, param_store **out) {
    param_store *s = mem_alloc0(ctx, 1, sizeof *s);
    if (!s) return OL_ERROR_MEMORY;
    ol_status status = OL_ERROR_MEMORY;
    s->ctx = ctx;
    s->dev = dev;
    s->model = m;
    s->n_states = optimizer_info_of(kind)->n_states;
    s->params = mem_alloc0(ctx, m->state.count, sizeof *s->params);
    s->buffers = mem_alloc0(ctx, m->state.count, sizeof *s->buffers);
    if (!s->params || !s->buffers) goto fail;
    groups_describe(s, kind == OPTIMIZER_MUSGD);
    entries_collect(s, kind == OPTIMIZER_MUSGD);
    entries_place(s);
    const size_t trained = s->n_trained_floats * sizeof(float), all = s->n_floats * sizeof(float);
    if ((status = device_buffer_create(dev, all, &s->values)) != OL_OK) goto fail;
    if ((status = device_buffer_create(dev, all, &s->ema)) != OL_OK) goto fail;
    if ((status = device_buffer_create(dev, trained, &s->grads)) != OL_OK) goto fail;
    for (int i = 0; i < s->n_states; i++)
        if ((status = device_buffer_create(dev, trained, &s->states[i])) != OL_OK) goto fail;
    if ((status = param_store_write(s, PARAM_VALUES, &m->state)) != OL_OK) goto fail;
    if ((status = param_store_write(s, PARAM_EMA, &m->state)) != OL_OK) goto fail;
    *out = s;
    return OL_OK;
fail:
    param_store_destroy(s);
    return status;
}

void param_store_destroy(param_store *s) {
    if (!s) return;
    for (int i = 0; i < OPTIMIZER_MAX_STATES; i++) device_buffer_destroy(s->states[i]);
    device_buffer_destroy(s->grads);
    device_buffer_destroy(s->ema);
    device_buffer_destroy(s->values);
    mem_free(s->ctx, s->buffers);
    mem_free(s->ctx, s->params);
    mem_free(s->ctx, s);
}

static const param_entry *entry_find(const param_entry *entries, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    return NULL;
}

static const param_entry *param_find(const param_store *s, const char *name) {
    const param_entry *e = entry_find(s->params, s->n_params, name);
    return e ? e : entry_find(s->buffers, s->n_buffers, name);
}

ol_status param_store_bind(const param_store *s, const graph *g, plan *p) {
    static const char prefix[] = "grad/";
    for (size_t i = 0; i < g->n_tensors; i++) {
        const graph_tensor *t = &g->tensors[i];
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER && t->role != ROLE_GRAD) continue;
        const bool grad = t->role == ROLE_GRAD;
        const char *name =
            grad && strncmp(t->name, prefix, sizeof prefix - 1) == 0 ? t->name + sizeof prefix - 1 : t->name;
        const param_entry *e = param_find(s, name);
        if (!e || (grad && e->group < 0))
            return ctx_fail(s->ctx, OL_ERROR_INTERNAL, "the training graph has a tensor '%s' that the model has not",
                            t->name);
        const ol_status status = plan_bind(p, (tensor_ref)i, grad ? s->grads : s->values, e->offset * sizeof(float));
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

device_buffer *param_store_buffer(const param_store *s, param_kind kind) {
    switch (kind) {
    case PARAM_VALUES:
        return s->values;
    case PARAM_EMA:
        return s->ema;
    case PARAM_GRADS:
        return s->grads;
    case PARAM_STATE_0:
        return s->states[0];
    case PARAM_STATE_1:
        return s->states[1];
    }
    return NULL;
}

/* Calls device_buffer_read or _write for each entry of a list. */
static ol_status entries_copy(const param_store *s, device_buffer *b, const param_entry *entries, int n,
                              const tensor_list *list, bool to_device) {
    for (int i = 0; i < n; i++) {
        const param_entry *e = &entries[i];
        tensor *t = tensor_list_find(list, e->name);
        if (!t && !to_device) continue;
        if (!t || t->type != DTYPE_F32 || !shape_equal(&t->shape, &e->shape))
            return ctx_fail(
                s->ctx, OL_ERROR_FORMAT,
                "the stored training state has no tensor '%s' of the model's shape: it belongs to another model",
                e->name);
        const size_t offset = e->offset * sizeof(float), bytes = e->count * sizeof(float);
        const ol_status status =
            to_device ? device_buffer_write(b, offset, t->data, bytes) : device_buffer_read(b, offset, t->data, bytes);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static ol_status store_copy(const param_store *s, param_kind kind, const tensor_list *list, bool to_device) {
    device_buffer *b = param_store_buffer(s, kind);
    const ol_status status = entries_copy(s, b, s->params, s->n_params, list, to_device);
    if (status != OL_OK || (kind != PARAM_VALUES && kind != PARAM_EMA)) return status;
    return entries_copy(s, b, s->buffers, s->n_buffers, list, to_device);
}

ol_status param_store_read(const param_store *s, param_kind kind, tensor_list *to) {
    return store_copy(s, kind, to, false);
}
ol_status param_store_write(param_store *s, param_kind kind, const tensor_list *from) {
    return store_copy(s, kind, from, true);
}
