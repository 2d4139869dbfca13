/* Rows of decoded batches on the GPU: launches of select.gpu.c, then one copy of counts and rows. */
#include "device/gpu/gpu.h"

#include <string.h>

/* Rows that come with their counts in one copy; beyond it a picture's rows come by themselves. */
#define ONE_COPY_BYTES ((size_t)1 << 20)

static unsigned blocks_of(int64_t threads) {
    return (unsigned)((threads + 255) / 256);
}

static int smaller(int64_t a, int64_t b) {
    return (int)(a < b ? a : b);
}

typedef struct work {
    gpu_device *g;
    select_args a;
    unsigned n;
    ol_status status;
} work;

static void launch(work *w, const char *name, unsigned gx, unsigned gy) {
    void *function = NULL;
    if (w->status == OL_OK) w->status = gpu_function_find(w->g, "select", name, &function);
    if (w->status != OL_OK) return;
    const unsigned grid[3] = {gx, gy, 1};
    w->status = gpu_check(w->g, w->g->driver->call.launch(w->g->driver, function, grid, 256, w->g->stream, &w->a),
                          "selecting detections");
}

static select_args args_of(const decoded_batch *b, const nms_options *o) {
    const int64_t entries = (int64_t)b->nc * b->anchors;
    select_args a = {.pred = (gpu_address)(uintptr_t)b->at.buffer->dev->api->buffer_address(b->at.buffer) +
                             b->at.offset * sizeof(float),
                     .nc = b->nc,
                     .anchors = b->anchors,
                     .mode = b->corners                    ? GPU_SELECT_HEAD
                             : o->multi_label && b->nc > 1 ? GPU_SELECT_LABELS
                                                           : GPU_SELECT_BEST,
                     .agnostic = o->agnostic,
                     .conf = o->conf,
                     .iou = o->iou};
    a.capacity = a.mode == GPU_SELECT_LABELS ? smaller(entries, nms_max_candidates(o)) : b->anchors;
    a.limit = b->corners ? select_head_rows(o, b->anchors) : smaller(a.capacity, nms_max_candidates(o));
    a.max_det = smaller(o->max_det, a.limit);
    return a;
}

static gpu_address take(gpu_address *next, uint64_t bytes) {
    const gpu_address at = *next;
    *next += (bytes + 255) / 256 * 256;
    return at;
}

/* Places everything behind `base` (0 to measure); returns the end. Counts and rows lie together for their copy. */
static gpu_address lay_out(select_args *a, gpu_address base, uint64_t n, bool classes) {
    gpu_address next = base;
    const uint64_t limit = (uint64_t)a->limit;
    const bool second = a->mode == GPU_SELECT_HEAD && !a->agnostic;
    a->counts = take(&next, n * 2 * sizeof(uint32_t));
    a->row_counts = next;
    a->rows = next + n * sizeof(int32_t);
    take(&next, n * sizeof(int32_t) + n * (uint64_t)a->max_det * sizeof(detection));
    a->list = take(&next, n * (uint64_t)a->capacity * sizeof(uint64_t));
    a->order = take(&next, n * limit * sizeof(uint64_t));
    a->entries = take(&next, second ? n * limit * (uint64_t)a->nc * sizeof(uint64_t) : 0);
    a->entry_order = take(&next, second ? n * limit * sizeof(uint64_t) : 0);
    a->kept = take(&next, a->mode != GPU_SELECT_HEAD ? n * (uint64_t)a->max_det * 5 * sizeof(float) : 0);
    a->keep = take(&next, classes ? (uint64_t)a->nc : 0);
    if (!classes) a->keep = 0;
    return next;
}

static ol_status classes_write(work *w, const nms_options *o) {
    ol_context *ctx = w->g->base.ctx;
    if (w->a.keep == 0) return OL_OK;
    uint8_t *keep = mem_alloc0(ctx, (size_t)w->a.nc, 1);
    if (keep == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; o->classes != NULL && i < o->n_classes; i++)
        if (o->classes[i] >= 0 && o->classes[i] < w->a.nc) keep[o->classes[i]] = 1;
    const ol_status status = gpu_copy_in(w->g, w->a.keep, keep, (size_t)w->a.nc);
    mem_free(ctx, keep);
    return status;
}

static void launch_all(work *w) {
    select_args *a = &w->a;
    const unsigned list_blocks = blocks_of(a->capacity);
    launch(w, "select_collect", blocks_of(a->anchors), w->n);
    if (a->mode == GPU_SELECT_LABELS && (int64_t)a->nc * a->anchors > a->capacity)
        launch(w, "select_overflow", w->n, 1);
    launch(w, "select_order", list_blocks, w->n);
    if (a->mode != GPU_SELECT_HEAD) {
        launch(w, "select_suppress", w->n, 1);
        return;
    }
    if (!a->agnostic) {
        const unsigned entry_blocks = blocks_of((int64_t)a->limit * a->nc);
        launch(w, "select_entries", entry_blocks, w->n);
        a->stage = 1;
        launch(w, "select_order", entry_blocks, w->n);
    }
    launch(w, "select_rows", w->n, 1);
}

static ol_status list_take(ol_context *ctx, detection_list *list, size_t n) {
    void *items = list->items;
    const ol_status status = mem_grow(ctx, &items, &list->capacity, n, sizeof *list->items);
    list->items = items;
    if (status == OL_OK) list->count = n;
    return status;
}

/* Counts, and with them the rows when they are few. */
static ol_status rows_read(const work *w, detection_list *lists) {
    gpu_device *g = w->g;
    ol_context *ctx = g->base.ctx;
    const size_t n = w->n, most = (size_t)w->a.max_det, counts_bytes = n * sizeof(int32_t);
    const size_t rows_bytes = n * most * sizeof(detection);
    const bool together = rows_bytes <= ONE_COPY_BYTES;
    const size_t bytes = counts_bytes + (together ? rows_bytes : 0);
    ol_status status = gpu_pinned_ensure(g, bytes);
    if (status == OL_OK) status = gpu_copy_out(g, g->pinned, w->a.row_counts, bytes);
    for (size_t i = 0; i < n && status == OL_OK; i++) {
        int32_t count;
        memcpy(&count, (unsigned char *)g->pinned + i * sizeof count, sizeof count);
        if (count < 0 || (size_t)count > most)
            return ctx_fail(ctx, OL_ERROR_DEVICE, "%s: %d detections of at most %zu came back for picture %zu", g->name,
                            count, most, i);
        status = list_take(ctx, &lists[i], (size_t)count);
        if (status != OL_OK || count == 0) continue;
        const size_t at = i * most * sizeof(detection), size = (size_t)count * sizeof(detection);
        if (together)
            memcpy(lists[i].items, (unsigned char *)g->pinned + counts_bytes + at, size);
        else
            status = gpu_copy_out(g, lists[i].items, w->a.rows + at, size);
    }
    return status;
}

ol_status gpu_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows) {
    gpu_device *g = (gpu_device *)dev;
    work w = {.g = g, .a = args_of(batch, options), .n = (unsigned)batch->n};
    const uint64_t n = (uint64_t)batch->n;
    const bool classes = options->classes != NULL;
    if ((int64_t)w.a.limit * w.a.nc > INT32_MAX && batch->corners)
        return ctx_fail(dev->ctx, OL_ERROR_ARGUMENT, "max_det %d with %d classes is too large; lower max_det",
                        w.a.limit, w.a.nc);
    w.status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (w.status == OL_OK) w.status = gpu_staging_ensure(g, lay_out(&w.a, 0, n, classes));
    if (w.status != OL_OK) return w.status;
    lay_out(&w.a, g->staging, n, classes);
    w.status = classes_write(&w, options);
    if (w.status == OL_OK)
        w.status =
            gpu_check(g, g->driver->call.fill(g->driver, w.a.counts, 0, (size_t)n * 2 * sizeof(uint32_t), g->stream),
                      "clearing counters");
    launch_all(&w);
    return w.status == OL_OK ? rows_read(&w, rows) : w.status;
}
