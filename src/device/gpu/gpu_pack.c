/* Packed copies of weights: every kernel names those that it wants; one launch makes all of a plan. */
#include "device/gpu/gpu.h"

typedef struct gpu_packing {
    gpu_pointer items;
    int n, blocks;
    void *function;
} gpu_packing;

static int elements_of(const pack_item *m) {
    return m->rows_padded * m->reduction_padded * m->taps_y * m->taps_x;
}

uint64_t gpu_pack_add(gpu_builder *b, const pack_item *item, size_t element_bytes, int input) {
    const int count = elements_of(item);
    const uint64_t at = gpu_own_take(b, (size_t)(count > 0 ? count : 1) * element_bytes);
    if (b->status != OL_OK || count == 0) return at;
    gpu_kernel *k = b->k;
    void *block = k->packs;
    size_t index;
    b->status = gpu_function_want(b->g, "pack", "pack_weights", &index); /* compiled along with the others */
    if (b->status != OL_OK) return at;
    b->status = mem_grow(b->g->base.ctx, &block, &k->pack_capacity, k->n_packs + 1, sizeof *k->packs);
    k->packs = block;
    if (b->status == OL_OK) k->packs[k->n_packs++] = (gpu_pack){*item, input, at};
    return at;
}

void gpu_packing_destroy(device *dev, void *packing) {
    gpu_device *g = (gpu_device *)dev;
    gpu_packing *p = packing;
    if (p == NULL) return;
    if (p->items != 0 && g->driver->call.bind(g->driver, g->index) == 0) {
        g->driver->call.stream_wait(g->driver, g->stream);
        g->driver->call.release(g->driver, p->items);
    }
    mem_free(dev->ctx, p);
}

/* The items of all kernels with their addresses, in the order of their blocks. */
static int items_fill(kernel *const *kernels, const kernel_memory *const *memory, size_t n, pack_item *items) {
    int blocks = 0;
    for (size_t i = 0; i < n; i++) {
        const gpu_kernel *k = (const gpu_kernel *)kernels[i];
        for (size_t q = 0; k != NULL && q < k->n_packs; q++) {
            const gpu_pack *from = &k->packs[q];
            pack_item m = from->item;
            m.weight = (gpu_address)(uintptr_t)memory[i]->in[from->input];
            m.packed = k->own + from->own;
            m.first_block = blocks;
            blocks += (elements_of(&m) + PACK_BLOCK - 1) / PACK_BLOCK;
            *items++ = m;
        }
    }
    return blocks;
}

ol_status gpu_packing_create(device *dev, kernel *const *kernels, const kernel_memory *const *memory, size_t n,
                             void **out) {
    gpu_device *g = (gpu_device *)dev;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (kernels[i] != NULL) count += ((const gpu_kernel *)kernels[i])->n_packs;
    gpu_packing *p = mem_alloc0(dev->ctx, 1, sizeof *p);
    pack_item *items = mem_alloc0(dev->ctx, count > 0 ? count : 1, sizeof *items);
    ol_status status = p != NULL && items != NULL ? OL_OK : OL_ERROR_MEMORY;
    if (status != OL_OK) goto fail;
    p->n = (int)count;
    p->blocks = items_fill(kernels, memory, n, items);
    if (count > 0) {
        status = gpu_function_find(g, "pack", "pack_weights", &p->function);
        if (status == OL_OK)
            status = gpu_check(g, g->driver->call.allocate(g->driver, &p->items, count * sizeof *items),
                               "allocating a table of weights");
        if (status == OL_OK) status = gpu_copy_in(g, p->items, items, count * sizeof *items);
    }
    if (status != OL_OK) goto fail;
    mem_free(dev->ctx, items);
    *out = p;
    return OL_OK;
fail:
    mem_free(dev->ctx, items);
    gpu_packing_destroy(dev, p);
    return status;
}

ol_status gpu_packing_run(device *dev, void *packing) {
    gpu_device *g = (gpu_device *)dev;
    const gpu_packing *p = packing;
    if (p->n == 0) return OL_OK;
    pack_args a = {.items = p->items, .n = p->n};
    const unsigned grid[3] = {(unsigned)p->blocks, 1, 1};
    return gpu_check(g, g->driver->call.launch(g->driver, p->function, grid, 256, g->stream, &a), "packing weights");
}
