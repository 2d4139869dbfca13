/* The optimizer step on the CPU: the plain C of ops over host memory, done when it is asked for. */
#include "device/cpu/cpu.h"
#include "ops/newton_schulz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MuSGD's matrices, dearest first, and the directions u, laid out as the values are. */
typedef struct muon {
    step_matrix *list;
    ns_matrix *matrices;
    void *scratch;
    float *u;
    int n;
} muon;

typedef struct cpu_step {
    device_step base;
    step_layout at;
    step_orders orders;
    step_numbers now;
    bool stopped;
    muon muon;
    step_outcome waiting[STEP_AHEAD];
} cpu_step;

static float *floats(device_buffer *b) {
    return b != NULL ? (float *)device_buffer_host(b) : NULL;
}

static double matrix_cost(const step_matrix *m) {
    const double r = m->rows < m->cols ? m->rows : m->cols, c = m->rows < m->cols ? m->cols : m->rows;
    return r * r * (c + r);
}

/* Dearest first, so that threads finish together; equal ones by place, to have one order. */
static int dearest_first(const void *a, const void *b) {
    const step_matrix *x = a, *y = b;
    const double cx = matrix_cost(x), cy = matrix_cost(y);
    if (cx != cy) return cx < cy ? 1 : -1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static ol_status muon_init(ol_context *ctx, const step_layout *l, int threads, muon *m) {
    const size_t n = (size_t)l->n_matrices;
    m->n = l->n_matrices;
    m->list = mem_alloc(ctx, n, sizeof *m->list);
    m->matrices = mem_alloc(ctx, n, sizeof *m->matrices);
    m->u = mem_alloc_aligned(ctx, l->n_trained, sizeof *m->u);
    if (m->list == NULL || m->matrices == NULL || m->u == NULL) return OL_ERROR_MEMORY;
    memset(m->u, 0, l->n_trained * sizeof *m->u);
    memcpy(m->list, l->matrices, n * sizeof *m->list);
    qsort(m->list, n, sizeof *m->list, dearest_first);
    for (int i = 0; i < m->n; i++)
        m->matrices[i] =
            (ns_matrix){m->u + m->list[i].offset, m->u + m->list[i].offset, m->list[i].rows, m->list[i].cols};
    m->scratch = mem_alloc_aligned(ctx, newton_schulz_scratch_bytes(m->matrices, m->n, threads), 1);
    return m->scratch != NULL ? OL_OK : OL_ERROR_MEMORY;
}

void cpu_step_destroy(device_step *base) {
    cpu_step *s = (cpu_step *)base;
    ol_context *ctx = base->dev->ctx;
    mem_free_aligned(ctx, s->muon.scratch);
    mem_free_aligned(ctx, s->muon.u);
    mem_free(ctx, s->muon.matrices);
    mem_free(ctx, s->muon.list);
    mem_free(ctx, s);
}

ol_status cpu_step_create(device *dev, const step_layout *layout, device_step **out) {
    cpu_step *s = mem_alloc0(dev->ctx, 1, sizeof *s);
    if (s == NULL) return OL_ERROR_MEMORY;
    s->base.dev = dev;
    s->at = *layout;
    if (layout->n_matrices > 0 && muon_init(dev->ctx, layout, ((cpu_device *)dev)->threads, &s->muon) != OL_OK) {
        cpu_step_destroy(&s->base);
        return OL_ERROR_MEMORY;
    }
    s->at.matrices = NULL;
    *out = &s->base;
    return OL_OK;
}

ol_status cpu_step_load(device_step *base, const step_numbers *numbers) {
    cpu_step *s = (cpu_step *)base;
    s->now = *numbers;
    s->stopped = false;
    return OL_OK;
}

ol_status cpu_step_order(device_step *base, const step_orders *orders) {
    ((cpu_step *)base)->orders = *orders;
    return OL_OK;
}

ol_status cpu_step_begin(device_step *base, const step_places *at) {
    const cpu_step *s = (cpu_step *)base;
    for (int branch = 0; branch < STEP_BRANCHES; branch++) {
        float *gains = at->gains[branch];
        if (gains != NULL) gains[LOSS_GAIN_IMAGES] = (float)(s->orders.images * s->now.scaler.scale);
    }
    return OL_OK;
}

static void muon_move(cpu_step *s, int threads) {
    muon *m = &s->muon;
    float *values = floats(s->at.values), *grads = floats(s->at.grads), *state = floats(s->at.states[0]);
    for (int g = 0; g < s->at.n_groups; g++) {
        const step_group *group = &s->at.groups[g];
        if (group->muon && group->end > group->begin)
            optim_muon_momentum(s->orders.momentum[g], grads + group->begin, state + group->begin, m->u + group->begin,
                                group->end - group->begin, threads);
    }
    newton_schulz(m->matrices, m->n, m->scratch, threads);
    for (int i = 0; i < m->n; i++) {
        const step_matrix *f = &m->list[i];
        optim_muon_apply(s->orders.lr[f->group], (double)f->scale, m->u + f->offset, values + f->offset,
                         (size_t)f->rows * (size_t)f->cols);
    }
}

static void group_move(cpu_step *s, int g, int threads) {
    const step_group *group = &s->at.groups[g];
    const step_orders *o = &s->orders;
    const optim_step step = {.lr = o->lr[g],
                             .weight_decay = o->weight_decay[g],
                             .momentum = o->momentum[g],
                             .beta2 = o->beta2,
                             .step = s->now.step,
                             .mu_product = s->now.mu_product};
    float *states[OPTIMIZER_MAX_STATES];
    for (int i = 0; i < OPTIMIZER_MAX_STATES; i++) {
        float *state = floats(s->at.states[i]);
        states[i] = state != NULL ? state + group->begin : NULL;
    }
    if (group->end > group->begin)
        optim_update(s->at.kind, &step, floats(s->at.values) + group->begin, floats(s->at.grads) + group->begin, states,
                     group->end - group->begin, threads);
}

static void move(cpu_step *s, float factor, int threads) {
    if (factor < 1.0f || factor > 1.0f) optim_scale(floats(s->at.grads), factor, s->at.n_trained, threads);
    loss_scaler_grow(&s->now.scaler);
    s->now.step++;
    if (s->at.kind == OPTIMIZER_NADAM) s->now.mu_product *= optim_nadam_mu(s->orders.momentum[0], s->now.step);
    if (s->muon.n > 0) muon_move(s, threads);
    for (int g = 0; g < s->at.n_groups; g++) group_move(s, g, threads);
    s->now.ema_updates++;
    optim_ema_update(optim_ema_decay(s->now.ema_updates), floats(s->at.values), floats(s->at.ema), s->at.n_values,
                     threads);
}

static bool items_take(const step_places *at, step_outcome *out) {
    bool finite = true;
    for (int branch = 0; branch < STEP_BRANCHES; branch++)
        for (int k = 0; k < LOSS_ITEM_COUNT && at->items[branch] != NULL; k++) {
            out->items[branch][k] = ((const float *)at->items[branch])[k];
            finite = finite && isfinite(out->items[branch][k]);
        }
    return finite;
}

ol_status cpu_step_end(device_step *base, const step_places *at) {
    cpu_step *s = (cpu_step *)base;
    const int threads = ((const cpu_device *)base->dev)->threads;
    step_outcome *out = &s->waiting[base->n_run % STEP_AHEAD];
    *out = (step_outcome){.scale = s->now.scaler.scale};
    s->stopped = !items_take(at, out) || s->stopped;
    if (s->orders.take && !s->stopped) {
        out->norm = sqrt(optim_sum_squares(floats(s->at.grads), s->at.n_trained, threads)) / out->scale;
        out->skipped = !isfinite(out->norm);
        if (!out->skipped)
            move(s, (float)((double)optim_clip_coefficient(out->norm, s->at.clip_norm) / out->scale), threads);
        else
            s->stopped = !loss_scaler_back_off(&s->now.scaler);
        if (!s->stopped) memset(floats(s->at.grads), 0, s->at.n_trained * sizeof(float));
    }
    out->stopped = s->stopped;
    out->numbers = s->now;
    return OL_OK;
}

ol_status cpu_step_collect(device_step *s) {
    (void)s;
    return OL_OK;
}

ol_status cpu_step_outcome(device_step *base, step_outcome *out) {
    *out = ((cpu_step *)base)->waiting[base->n_read % STEP_AHEAD];
    return OL_OK;
}
