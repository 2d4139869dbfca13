#include "train/optimizer.h"

#include "ops/newton_schulz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLIP_NORM 10.0
#define BETA2     0.999

/* Work memory of MuSGD: the directions u of all muon ranges, side by side, and the matrices in them. */
struct muon_work {
    float *u, *scratch;
    ns_matrix *matrices;
    const param_entry **entries; /* of each matrix */
    int n;
};
typedef struct muon_work muon_work;

static double matrix_cost(const ns_matrix *m) {
    const double r = m->rows < m->cols ? m->rows : m->cols, c = m->rows < m->cols ? m->cols : m->rows;
    return r * r * (c + r);
}

typedef struct costed {
    double cost;
    const param_entry *entry;
} costed;

/* Dearest first, so that threads finish together; equal ones by place, to have one order. */
static int costed_compare(const void *a, const void *b) {
    const costed *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static ns_matrix matrix_of(const param_entry *e, float *u) {
    const int rows = (int)e->shape.dim[0];
    return (ns_matrix){u, u, rows, (int)(e->count / (size_t)rows)};
}

static void muon_destroy(ol_context *ctx, muon_work *w) {
    if (!w) return;
    mem_free_aligned(ctx, w->scratch);
    mem_free_aligned(ctx, w->u);
    mem_free(ctx, w->entries);
    mem_free(ctx, w->matrices);
    mem_free(ctx, w);
}

static ol_status muon_create(const param_store *s, muon_work **out) {
    ol_context *ctx = s->ctx;
    muon_work *w = mem_alloc0(ctx, 1, sizeof *w);
    costed *order = mem_alloc(ctx, (size_t)s->n_params, sizeof *order);
    if (!w || !order) goto fail;
    for (int i = 0; i < s->n_params; i++) {
        const param_entry *e = &s->params[i];
        if (!s->groups[e->group].muon || e->frozen) continue;
        const ns_matrix m = matrix_of(e, NULL);
        order[w->n++] = (costed){matrix_cost(&m), e};
    }
    qsort(order, (size_t)w->n, sizeof *order, costed_compare);
    w->matrices = mem_alloc(ctx, (size_t)w->n, sizeof *w->matrices);
    w->entries = mem_alloc(ctx, (size_t)w->n, sizeof *w->entries);
    w->u = mem_alloc_aligned(ctx, s->n_trained_floats, sizeof *w->u);
    if (!w->matrices || !w->entries || !w->u) goto fail;
    for (int i = 0; i < w->n; i++) {
        w->entries[i] = order[i].entry;
        w->matrices[i] = matrix_of(order[i].entry, w->u + order[i].entry->offset);
    }
    w->scratch = mem_alloc_aligned(ctx, newton_schulz_scratch_bytes(w->matrices, w->n, ctx_threads(ctx)), 1);
    if (!w->scratch) goto fail;
    mem_free(ctx, order);
    *out = w;
    return OL_OK;
fail:
    mem_free(ctx, order);
    muon_destroy(ctx, w);
    return OL_ERROR_MEMORY;
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
    muon_destroy(o->store->ctx, o->muon);
    mem_free(o->store->ctx, o);
}

/* sqrt(max(1, rows/cols)) of the tensor's own last two dimensions. */
static double muon_scale(const param_entry *e) {
    const double h = (double)e->shape.dim[e->shape.rank - 2], w = (double)e->shape.dim[e->shape.rank - 1];
    return sqrt(fmax(1.0, h / w));
}

static void muon_step(optimizer *o, float *values, const float *grads, float *momentum, int n_threads) {
    const param_store *s = o->store;
    const muon_work *w = o->muon;
    for (int g = 0; g < s->n_groups; g++) {
        const param_group *group = &s->groups[g];
        if (!group->muon) continue;
        optim_muon_momentum(o->momentum[g], grads + group->begin, momentum + group->begin, w->u + group->begin,
                            group->trained_end - group->begin, n_threads);
    }
    newton_schulz(w->matrices, w->n, w->scratch, n_threads);
    for (int i = 0; i < w->n; i++) {
        const param_entry *e = w->entries[i];
        optim_muon_apply(o->lr[e->group], muon_scale(e), w->u + e->offset, values + e->offset, e->count);
    }
}

ol_status optimizer_advance(optimizer *o, double *norm) {
    param_store *s = o->store;
    const int n_threads = ctx_threads(s->ctx);
    float *values = device_buffer_host(s->values), *grads = device_buffer_host(s->grads),
          *ema = device_buffer_host(s->ema);
    if (!values || !grads || !ema)
        return ctx_fail(s->ctx, OL_ERROR_UNSUPPORTED,
                        "training runs on device=cpu only in this version; set device=cpu");
    *norm = sqrt(optim_sum_squares(grads, s->n_trained_floats, n_threads));
    if (!isfinite(*norm)) return OL_ERROR_NUMERIC;
    const float coefficient = optim_clip_coefficient(*norm, CLIP_NORM);
    if (coefficient < 1.0f) optim_scale(grads, coefficient, s->n_trained_floats, n_threads);
    o->step++;
    if (o->kind == OPTIMIZER_NADAM) o->mu_product *= optim_nadam_mu(o->beta1, o->step);
    float *states[OPTIMIZER_MAX_STATES] = {0};
    for (int i = 0; i < s->n_states; i++) states[i] = device_buffer_host(s->states[i]);
    if (o->muon) muon_step(o, values, grads, states[0], n_threads);
    const bool has_momentum = optimizer_info_of(o->kind)->has_momentum;
    for (int g = 0; g < s->n_groups; g++) {
        const param_group *group = &s->groups[g];
        const optim_step step = {.lr = o->lr[g],
                                 .weight_decay = o->weight_decay[g],
                                 .momentum = has_momentum ? o->momentum[g] : o->beta1,
                                 .beta2 = o->beta2,
                                 .step = o->step,
                                 .mu_product = o->mu_product};
        float *at[OPTIMIZER_MAX_STATES] = {0};
        for (int i = 0; i < s->n_states; i++) at[i] = states[i] + group->begin;
        optim_update(o->kind, &step, values + group->begin, grads + group->begin, at, group->trained_end - group->begin,
                     n_threads);
    }
    memset(grads, 0, s->n_trained_floats * sizeof *grads);
    o->ema_updates++;
    optim_ema_update(optim_ema_decay(o->ema_updates), values, ema, s->n_floats, n_threads);
    return OL_OK;
}
