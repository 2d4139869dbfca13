/* Flat operations on the GPU: direct launches on the device's stream. */
#include "device/gpu/gpu.h"

#include <math.h>
#include <string.h>

enum { SUM_BLOCKS = 256, NS_STEPS = 5, NS_WRITERS = 16 };

static gpu_pointer at(flat x) {
    if (x.buffer == NULL) return 0;
    return (gpu_pointer)(uintptr_t)x.buffer->dev->api->buffer_address(x.buffer) + x.offset * sizeof(float);
}

static ol_status launch(gpu_device *g, const char *name, void *args, unsigned gx, unsigned gy, unsigned gz) {
    void *function = NULL;
    ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status == OL_OK) status = gpu_function_find(g, "optim", name, &function);
    if (status != OL_OK) return status;
    const unsigned grid[3] = {gx, gy, gz};
    return gpu_check(g, g->driver->call.launch(g->driver, function, grid, 256, g->stream, args),
                     "stepping the optimizer");
}

static unsigned blocks_of(size_t n) {
    return (unsigned)((n + 1023) / 1024);
}

ol_status gpu_flat_sum_squares(device *dev, flat x, size_t n, double *sum) {
    gpu_device *g = (gpu_device *)dev;
    double partial[SUM_BLOCKS], total = 0.0;
    ol_status status = gpu_staging_ensure(g, sizeof partial);
    if (status != OL_OK) return status;
    sum_args a = {.x = at(x), .partial = g->staging, .count = n, .blocks = SUM_BLOCKS};
    status = launch(g, "sum_squares", &a, SUM_BLOCKS, 1, 1);
    if (status == OL_OK) status = gpu_copy_out(g, partial, g->staging, sizeof partial);
    if (status != OL_OK) return status;
    for (int i = 0; i < SUM_BLOCKS; i++) total += partial[i];
    *sum = total;
    return OL_OK;
}

ol_status gpu_flat_scale(device *dev, flat x, size_t n, float factor) {
    blend_args a = {.y = at(x), .count = n, .factor = factor};
    return launch((gpu_device *)dev, "flat_blend", &a, blocks_of(n), 1, 1);
}

/* A fill, not a scaling by zero: what is cleared may hold infinities. */
ol_status gpu_flat_clear(device *dev, flat x, size_t n) {
    gpu_device *g = (gpu_device *)dev;
    const ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status != OL_OK) return status;
    return gpu_check(g, g->driver->call.fill(g->driver, at(x), 0, n * sizeof(float), g->stream), "clearing gradients");
}

ol_status gpu_flat_optim(device *dev, optimizer_kind kind, const optim_step *step, flat p, flat g, flat a, flat b,
                         size_t n) {
    const optim_rule r = optim_rule_of(kind, step);
    optim_args args = {.p = at(p),
                       .g = at(g),
                       .a = at(kind == OPTIMIZER_MUSGD ? b : a),
                       .b = at(b),
                       .count = n,
                       .kind = (gpu_i32)kind,
                       .rectified = r.rectified,
                       .lr = r.lr,
                       .decay = r.decay,
                       .shrink = r.shrink,
                       .mu = r.mu,
                       .one_minus_mu = r.one_minus_mu,
                       .beta2 = r.beta2,
                       .one_minus_beta2 = r.one_minus_beta2,
                       .step_size = r.step_size,
                       .root2 = r.root2,
                       .grad_size = r.grad_size};
    return launch((gpu_device *)dev, "optim_update", &args, blocks_of(n), 1, 1);
}

ol_status gpu_flat_ema(device *dev, double decay, flat x, flat ema, size_t n) {
    blend_args a = {.x = at(x), .y = at(ema), .count = n, .factor = (float)(1.0 - decay)};
    return launch((gpu_device *)dev, "flat_blend", &a, blocks_of(n), 1, 1);
}

ol_status gpu_flat_muon_momentum(device *dev, double mu, flat g, flat m, flat u, size_t n) {
    muon_momentum_args a = {.g = at(g), .m = at(m), .u = at(u), .count = n, .mu = (float)mu};
    return launch((gpu_device *)dev, "muon_momentum", &a, blocks_of(n), 1, 1);
}

struct flat_muon {
    gpu_pointer memory; /* the work matrices, then the table, then the norms */
    uint64_t items_at, norms_at;
    int n;
    unsigned rows_tiles, columns_tiles; /* of the largest matrix */
};

typedef struct padded_size {
    uint64_t rows, columns; /* of X: rows <= columns, multiples of 8 */
} padded_size;

static padded_size padded_of(const flat_matrix *m) {
    const int r = m->rows < m->cols ? m->rows : m->cols, c = m->rows < m->cols ? m->cols : m->rows;
    return (padded_size){(uint64_t)gpu_padded(r), (uint64_t)gpu_padded(c)};
}

static uint64_t take(uint64_t *used, uint64_t bytes) {
    const uint64_t start = *used;
    *used += (bytes + 255) / 256 * 256;
    return start;
}

void gpu_flat_muon_destroy(device *dev, flat_muon *m) {
    gpu_device *g = (gpu_device *)dev;
    if (m->memory != 0 && g->driver->call.bind(g->driver, g->index) == 0) {
        g->driver->call.stream_wait(g->driver, g->stream);
        g->driver->call.release(g->driver, m->memory);
    }
    mem_free(dev->ctx, m);
}

ol_status gpu_flat_muon_create(device *dev, const flat_matrix *list, int n, flat_muon **out) {
    gpu_device *g = (gpu_device *)dev;
    flat_muon *m = mem_alloc0(dev->ctx, 1, sizeof *m);
    ns_item *items = mem_alloc0(dev->ctx, (size_t)n, sizeof *items);
    ol_status status = m != NULL && items != NULL ? OL_OK : OL_ERROR_MEMORY;
    if (status != OL_OK) goto fail;
    uint64_t used = 0;
    m->n = n;
    for (int i = 0; i < n; i++) {
        const padded_size s = padded_of(&list[i]);
        const uint64_t element = sizeof(uint16_t);
        items[i] = (ns_item){.x = take(&used, s.rows * s.columns * element),
                             .y = take(&used, s.rows * s.columns * element),
                             .a = take(&used, s.rows * s.rows * element),
                             .b = take(&used, s.rows * s.rows * element),
                             .offset = list[i].offset,
                             .rows = list[i].rows,
                             .cols = list[i].cols,
                             .group = list[i].group,
                             .scale = list[i].scale};
        const unsigned rows = (unsigned)((s.rows + 63) / 64), columns = (unsigned)((s.columns + 63) / 64);
        if (rows > m->rows_tiles) m->rows_tiles = rows;
        if (columns > m->columns_tiles) m->columns_tiles = columns;
    }
    m->items_at = take(&used, (uint64_t)n * sizeof *items);
    m->norms_at = take(&used, (uint64_t)n * sizeof(float));
    status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status == OL_OK)
        status = gpu_check(g, g->driver->call.allocate(g->driver, &m->memory, used), "allocating work matrices");
    if (status != OL_OK) goto fail;
    for (int i = 0; i < n; i++) {
        items[i].x += m->memory;
        items[i].y += m->memory;
        items[i].a += m->memory;
        items[i].b += m->memory;
    }
    status = gpu_copy_in(g, m->memory + m->items_at, items, (size_t)n * sizeof *items);
    if (status != OL_OK) goto fail;
    mem_free(dev->ctx, items);
    *out = m;
    return OL_OK;
fail:
    mem_free(dev->ctx, items);
    if (m != NULL) gpu_flat_muon_destroy(dev, m);
    return status;
}

ol_status gpu_flat_muon_apply(device *dev, flat_muon *m, flat u, flat values, const double *lr) {
    gpu_device *g = (gpu_device *)dev;
    const unsigned n = (unsigned)m->n;
    if (n == 0) return OL_OK;
    ns_args a = {.items = m->memory + m->items_at,
                 .u = at(u),
                 .values = at(values),
                 .norms = m->memory + m->norms_at,
                 .blocks = NS_WRITERS};
    for (int i = 0; i < 8; i++) a.rates[i] = (float)(lr[i] * 0.2);
    ol_status status = launch(g, "ns_norm", &a, 1, 1, n);
    if (status == OL_OK) status = launch(g, "ns_load", &a, NS_WRITERS, 1, n);
    for (int step = 0; step < NS_STEPS && status == OL_OK; step++) {
        status = launch(g, "ns_gram", &a, m->rows_tiles, m->rows_tiles, n);
        if (status == OL_OK) status = launch(g, "ns_square", &a, m->rows_tiles, m->rows_tiles, n);
        if (status == OL_OK) status = launch(g, "ns_advance", &a, m->rows_tiles, m->columns_tiles, n);
        a.swapped = 1 - a.swapped;
    }
    return status == OL_OK ? launch(g, "ns_apply", &a, NS_WRITERS, 1, n) : status;
}
