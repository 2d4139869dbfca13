#include "train/optimizer.h"

#include <math.h>
#include <string.h>

#define CLIP_NORM 10.0
#define BETA2     0.999

_Static_assert(PARAM_MAX_GROUPS == STEP_MAX_GROUPS, "the store and the step agree");

/* sqrt(max(1, rows/cols)) of the tensor's own last two dimensions. */
static double muon_scale(const param_entry *e) {
    const double h = (double)e->shape.dim[e->shape.rank - 2], w = (double)e->shape.dim[e->shape.rank - 1];
    return sqrt(fmax(1.0, h / w));
}

static int matrices_collect(const param_store *s, step_matrix *list) {
    int n = 0;
    for (int i = 0; i < s->n_params; i++) {
        const param_entry *e = &s->params[i];
        if (!s->groups[e->group].muon || e->frozen) continue;
        const int rows = (int)e->shape.dim[0];
        list[n++] = (step_matrix){e->offset, rows, (int)(e->count / (size_t)rows), e->group, (float)muon_scale(e)};
    }
    return n;
}

static ol_status step_create(optimizer *o) {
    const param_store *s = o->store;
    step_matrix *list = mem_alloc(s->ctx, (size_t)s->n_params, sizeof *list);
    if (!list) return OL_ERROR_MEMORY;
    step_layout layout = {.kind = o->kind,
                          .clip_norm = CLIP_NORM,
                          .values = s->values,
                          .ema = s->ema,
                          .grads = s->grads,
                          .n_trained = s->n_trained_floats,
                          .n_values = s->n_floats,
                          .n_groups = s->n_groups,
                          .matrices = list,
                          .n_matrices = matrices_collect(s, list)};
    for (int i = 0; i < s->n_states; i++) layout.states[i] = s->states[i];
    for (int g = 0; g < s->n_groups; g++)
        layout.groups[g] = (step_group){s->groups[g].begin, s->groups[g].trained_end, s->groups[g].muon};
    const ol_status status = device_step_create(s->dev, &layout, &o->step);
    mem_free(s->ctx, list);
    return status;
}

ol_status optimizer_create(param_store *store, optimizer_kind kind, double lr0, double momentum, double weight_decay,
                           dtype maps, optimizer **out) {
    optimizer *o = mem_alloc0(store->ctx, 1, sizeof *o);
    if (!o) return OL_ERROR_MEMORY;
    o->store = store;
    o->kind = kind;
    o->beta1 = momentum;
    o->beta2 = BETA2;
    o->numbers.mu_product = 1.0;
    loss_scaler_init(&o->numbers.scaler, maps);
    for (int g = 0; g < store->n_groups; g++) {
        o->initial_lr[g] = o->lr[g] = lr0 * store->groups[g].lr_factor;
        o->momentum[g] = momentum;
        o->weight_decay[g] = store->groups[g].decays ? weight_decay : 0.0;
    }
    ol_status status = step_create(o);
    if (status == OL_OK) status = optimizer_load(o);
    if (status != OL_OK) {
        optimizer_destroy(o);
        return status;
    }
    *out = o;
    return OL_OK;
}

void optimizer_destroy(optimizer *o) {
    if (!o) return;
    device_step_destroy(o->step);
    mem_free(o->store->ctx, o);
}

ol_status optimizer_load(optimizer *o) {
    return device_step_load(o->step, &o->numbers);
}

double optimizer_momentum(const optimizer *o, int group) {
    return optimizer_info_of(o->kind)->has_momentum ? o->momentum[group] : o->beta1;
}

ol_status optimizer_order(optimizer *o, int n_images, bool take) {
    step_orders orders = {.beta2 = o->beta2, .images = n_images, .take = take};
    memcpy(orders.lr, o->lr, sizeof orders.lr);
    memcpy(orders.weight_decay, o->weight_decay, sizeof orders.weight_decay);
    for (int g = 0; g < PARAM_MAX_GROUPS; g++) orders.momentum[g] = optimizer_momentum(o, g);
    return device_step_order(o->step, &orders);
}

ol_status optimizer_outcome(optimizer *o, step_outcome *out) {
    const ol_status status = device_step_outcome(o->step, out);
    if (status == OL_OK) o->numbers = out->numbers;
    return status;
}
