/* Flat operations on the CPU: the plain C of ops/optim.h and ops/newton_schulz.h over host memory. */
#include "device/cpu/cpu.h"
#include "ops/newton_schulz.h"

#include <stdlib.h>
#include <string.h>

static float *at(flat x) {
    return x.buffer != NULL ? (float *)device_buffer_host(x.buffer) + x.offset : NULL;
}

static int threads_of(const device *dev) {
    return ((const cpu_device *)dev)->threads;
}

ol_status cpu_flat_sum_squares(device *dev, flat x, size_t n, double *sum) {
    *sum = optim_sum_squares(at(x), n, threads_of(dev));
    return OL_OK;
}

ol_status cpu_flat_scale(device *dev, flat x, size_t n, float factor) {
    optim_scale(at(x), factor, n, threads_of(dev));
    return OL_OK;
}

ol_status cpu_flat_clear(device *dev, flat x, size_t n) {
    (void)dev;
    memset(at(x), 0, n * sizeof(float));
    return OL_OK;
}

ol_status cpu_flat_optim(device *dev, optimizer_kind kind, const optim_step *step, flat p, flat g, flat a, flat b,
                         size_t n) {
    float *const states[OPTIMIZER_MAX_STATES] = {at(a), at(b)};
    optim_update(kind, step, at(p), at(g), states, n, threads_of(dev));
    return OL_OK;
}

ol_status cpu_flat_ema(device *dev, double decay, flat x, flat ema, size_t n) {
    optim_ema_update(decay, at(x), at(ema), n, threads_of(dev));
    return OL_OK;
}

ol_status cpu_flat_muon_momentum(device *dev, double mu, flat g, flat m, flat u, size_t n) {
    optim_muon_momentum(mu, at(g), at(m), at(u), n, threads_of(dev));
    return OL_OK;
}

struct flat_muon {
    flat_matrix *list; /* dearest first */
    ns_matrix *matrices;
    void *scratch;
    int n;
};

static double matrix_cost(const flat_matrix *m) {
    const double r = m->rows < m->cols ? m->rows : m->cols, c = m->rows < m->cols ? m->cols : m->rows;
    return r * r * (c + r);
}

/* Dearest first, so that threads finish together; equal ones by place, to have one order. */
static int dearest_first(const void *a, const void *b) {
    const flat_matrix *x = a, *y = b;
    const double cx = matrix_cost(x), cy = matrix_cost(y);
    if (cx != cy) return cx < cy ? 1 : -1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void cpu_flat_muon_destroy(device *dev, flat_muon *m) {
    mem_free_aligned(dev->ctx, m->scratch);
    mem_free(dev->ctx, m->matrices);
    mem_free(dev->ctx, m->list);
    mem_free(dev->ctx, m);
}

ol_status cpu_flat_muon_create(device *dev, const flat_matrix *list, int n, flat_muon **out) {
    flat_muon *m = mem_alloc0(dev->ctx, 1, sizeof *m);
    if (m == NULL) return OL_ERROR_MEMORY;
    m->n = n;
    m->list = mem_alloc(dev->ctx, (size_t)n, sizeof *m->list);
    m->matrices = mem_alloc(dev->ctx, (size_t)n, sizeof *m->matrices);
    if (m->list == NULL || m->matrices == NULL) goto fail;
    memcpy(m->list, list, (size_t)n * sizeof *list);
    qsort(m->list, (size_t)n, sizeof *m->list, dearest_first);
    for (int i = 0; i < n; i++) m->matrices[i] = (ns_matrix){NULL, NULL, m->list[i].rows, m->list[i].cols};
    m->scratch = mem_alloc_aligned(dev->ctx, newton_schulz_scratch_bytes(m->matrices, n, threads_of(dev)), 1);
    if (m->scratch == NULL) goto fail;
    *out = m;
    return OL_OK;
fail:
    cpu_flat_muon_destroy(dev, m);
    return OL_ERROR_MEMORY;
}

ol_status cpu_flat_muon_apply(device *dev, flat_muon *m, flat u, flat values, const double *lr) {
    float *directions = at(u), *p = at(values);
    for (int i = 0; i < m->n; i++) m->matrices[i].u = m->matrices[i].o = directions + m->list[i].offset;
    newton_schulz(m->matrices, m->n, m->scratch, threads_of(dev));
    for (int i = 0; i < m->n; i++) {
        const flat_matrix *f = &m->list[i];
        optim_muon_apply(lr[f->group], (double)f->scale, directions + f->offset, p + f->offset,
                         (size_t)f->rows * (size_t)f->cols);
    }
    return OL_OK;
}
