/* MuSGD's matrices on the GPU: Newton-Schulz over all of them at once, a fixed list of launches. */
#include "device/gpu/gpu.h"

enum { NS_STEPS = 5, NS_WRITERS = 16 };

struct gpu_muon {
    gpu_pointer memory; /* the work matrices, then the table, then the norms */
    uint64_t items_at, norms_at;
    int n;
    unsigned rows_tiles, columns_tiles; /* of the largest matrix */
};

typedef struct padded_size {
    uint64_t rows, columns; /* of X: rows <= columns, multiples of 8 */
} padded_size;

static padded_size padded_of(const step_matrix *m) {
    const int r = m->rows < m->cols ? m->rows : m->cols, c = m->rows < m->cols ? m->cols : m->rows;
    return (padded_size){(uint64_t)gpu_padded(r), (uint64_t)gpu_padded(c)};
}

static uint64_t take(uint64_t *used, uint64_t bytes) {
    const uint64_t start = *used;
    *used += (bytes + 255) / 256 * 256;
    return start;
}

void gpu_muon_destroy(gpu_device *g, gpu_muon *m) {
    if (m == NULL) return;
    if (m->memory != 0 && g->driver->call.bind(g->driver, g->index) == 0) {
        g->driver->call.stream_wait(g->driver, g->stream);
        g->driver->call.release(g->driver, m->memory);
    }
    mem_free(g->base.ctx, m);
}

ol_status gpu_muon_create(gpu_device *g, const step_matrix *list, int n, gpu_muon **out) {
    ol_context *ctx = g->base.ctx;
    gpu_muon *m = mem_alloc0(ctx, 1, sizeof *m);
    ns_item *items = mem_alloc0(ctx, (size_t)n, sizeof *items);
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
    mem_free(ctx, items);
    *out = m;
    return OL_OK;
fail:
    mem_free(ctx, items);
    gpu_muon_destroy(g, m);
    return status;
}

static ol_status launch(gpu_device *g, const char *name, const ns_args *args, unsigned gx, unsigned gy, unsigned n) {
    return gpu_launch_now(g, "optim", name, args, gx, gy, n, "orthogonalising gradients");
}

ol_status gpu_muon_launch(gpu_device *g, gpu_muon *m, gpu_pointer board, gpu_pointer u, gpu_pointer values) {
    const unsigned n = (unsigned)m->n;
    ns_args a = {.items = m->memory + m->items_at,
                 .u = u,
                 .values = values,
                 .norms = m->memory + m->norms_at,
                 .board = board,
                 .blocks = NS_WRITERS};
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
