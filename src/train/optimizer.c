#include "train/optimizer.h"

#include "device/flat.h"

#include <math.h>

#define CLIP_NORM 10.0
#define BETA2     0.999

/* Work memory of MuSGD: the directions u of all muon ranges, side by side, and the matrices in them. */
struct muon_work {
    device_buffer *u;
    flat_muon *muon;
};
typedef struct muon_work muon_work;

/* sqrt(max(1, rows/cols)) of the tensor's own last two dimensions. */
static double muon_scale(const param_entry *e) {
    const double h = (double)e->shape.dim[e->shape.rank - 2], w = (double)e->shape.dim[e->shape.rank - 1];
    return sqrt(fmax(1.0, h / w));
}

static void muon_destroy(const param_store *s, muon_work *w) {
    if (!w) return;
    flat_muon_destroy(s->dev, w->muon);
    device_buffer_destroy(w->u);
    mem_free(s->ctx, w);
}

static ol_status muon_create(const param_store *s, muon_work **out) {
    ol_context *ctx = s->ctx;
    muon_work *w = mem_alloc0(ctx, 1, sizeof *w);
    flat_matrix *list = mem_alloc(ctx, (size_t)s->n_params, sizeof *list);
    ol_status status = w && list ? OL_OK : OL_ERROR_MEMORY;
    if (status != OL_OK) goto fail;
    int n = 0;
    for (int i = 0; i < s->n_params; i++) {
        const param_entry *e = &s->params[i];
        if (!s->groups[e->group].muon || e->frozen) continue;
        const int rows = (int)e->shape.dim[0];
        list[n++] = (flat_matrix){e->offset, rows, (int)(e->count / (size_t)rows), e->group, (float)muon_scale(e)};
    }
    status = device_buffer_create(s->dev, s->n_trained_floats * sizeof(float), &w->u);
    if (status == OL_OK) status = flat_muon_create(s->dev, list, n, &w->muon);
    if (status != OL_OK) goto fail;
    mem_free(ctx, list);
    *out = w;
    return OL_OK;
fail:
    mem_free(ctx, list);
    muon_destroy(s, w);
    return status;
}

ol_status optimizer_create(param_store *store, optimizer_kind kind, double lr0, double momentum, double weight_decay,
                           optimizer **out) {
    optimizer *o = mem_alloc0(store->ctx, 1, sizeof *o);
    if (!o) return OL_ERROR_MEMORY;
    o->store = store;
    o->kind = kind;
    o->beta1 = momentum;
    o->beta2 = BETA2;
    o->mu_product = 1.0;
    for (int g = 0; g < store->n_groups; g++) {
        o->initial_lr[g] = o->lr[g] = lr0 * store->groups[g].lr_factor;
        o->momentum[g] = momentum;
        o->weight_decay[g] = store->groups[g].decays ? weight_decay : 0.0;
    }
    if (kind == OPTIMIZER_MUSGD) {
        const ol_status status = muon_create(store, &o->muon);
        if (status != OL_OK) {
            optimizer_destroy(o);
            return status;
        }
    }
    *out = o;
    return OL_OK;
}

void optimizer_destroy(optimizer *o) {
    if (!o) return;
    muon_destroy(o->store, o->muon);
    mem_free(o->store->ctx, o);
}

static ol_status muon_step(optimizer *o) {
    const param_store *s = o->store;
    ol_status status = OL_OK;
    for (int g = 0; g < s->n_groups && status == OL_OK; g++) {
        const param_group *group = &s->groups[g];
        if (!group->muon) continue;
        status = flat_muon_momentum(s->dev, o->momentum[g], flat_at(s->grads, group->begin),
                                    flat_at(s->states[0], group->begin), flat_at(o->muon->u, group->begin),
                                    group->trained_end - group->begin);
    }
    if (status != OL_OK) return status;
    return flat_muon_apply(s->dev, o->muon->muon, flat_at(o->muon->u, 0), flat_at(s->values, 0), o->lr);
}

static ol_status group_step(optimizer *o, int g) {
    const param_store *s = o->store;
    const param_group *group = &s->groups[g];
    const bool has_momentum = optimizer_info_of(o->kind)->has_momentum;
    const optim_step step = {.lr = o->lr[g],
                             .weight_decay = o->weight_decay[g],
                             .momentum = has_momentum ? o->momentum[g] : o->beta1,
                             .beta2 = o->beta2,
                             .step = o->step,
                             .mu_product = o->mu_product};
    flat states[OPTIMIZER_MAX_STATES] = {{0}};
    for (int i = 0; i < s->n_states; i++) states[i] = flat_at(s->states[i], group->begin);
    return flat_optim(s->dev, o->kind, &step, flat_at(s->values, group->begin), flat_at(s->grads, group->begin),
                      states[0], states[1], group->trained_end - group->begin);
}

ol_status optimizer_skip(optimizer *o) {
    const param_store *s = o->store;
    return flat_clear(s->dev, flat_at(s->grads, 0), s->n_trained_floats);
}

ol_status optimizer_advance(optimizer *o, double scale, double *norm) {
    param_store *s = o->store;
    double sum = 0.0;
    ol_status status = flat_sum_squares(s->dev, flat_at(s->grads, 0), s->n_trained_floats, &sum);
    if (status != OL_OK) return status;
    *norm = sqrt(sum) / scale;
    if (!isfinite(*norm)) return OL_ERROR_NUMERIC;
    const float factor = (float)((double)optim_clip_coefficient(*norm, CLIP_NORM) / scale);
    if (factor < 1.0f || factor > 1.0f) status = flat_scale(s->dev, flat_at(s->grads, 0), s->n_trained_floats, factor);
    o->step++;
    if (o->kind == OPTIMIZER_NADAM) o->mu_product *= optim_nadam_mu(o->beta1, o->step);
    if (status == OL_OK && o->muon) status = muon_step(o);
    for (int g = 0; g < s->n_groups && status == OL_OK; g++) status = group_step(o, g);
    if (status == OL_OK) status = optimizer_skip(o);
    o->ema_updates++;
    if (status == OL_OK)
        status =
            flat_ema(s->dev, optim_ema_decay(o->ema_updates), flat_at(s->values, 0), flat_at(s->ema, 0), s->n_floats);
    return status;
}
