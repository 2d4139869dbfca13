/* Compiling an op record into a list of launches, and running that list. */
#include "device/gpu/gpu.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *gpu_type_suffix(dtype type) {
    return type == DTYPE_F16 ? "f16" : type == DTYPE_BF16 ? "bf16" : "f32";
}

enum { MOST_ROWS = 65535 }; /* of a grid, and layers of it: the drivers' limit */

/* Kernels count threads and pixels in 32 bits; only fill_u32 does not. */
static ol_status too_large(gpu_builder *b) {
    return ctx_fail(
        b->g->base.ctx, OL_ERROR_MEMORY,
        "%s: so many pictures, pixels and classes are more than one launch can count; use a smaller batch or imgsz",
        b->g->name);
}

static bool pixels_countable(const op_operand *t) {
    const shape *s = &t->shape;
    return !t->present || s->rank != 4 || s->dim[0] * s->dim[2] * s->dim[3] <= INT32_MAX;
}

static bool operands_countable(const op_record *op) {
    bool all = true;
    for (int i = 0; i < op->n_in; i++) all = all && pixels_countable(&op->in[i]);
    for (int i = 0; i < op->n_out; i++) all = all && pixels_countable(&op->out[i]);
    return all;
}

gpu_launch *gpu_launch_add(gpu_builder *b, const char *module, const char *name, const void *args, size_t args_bytes,
                           unsigned gx, unsigned gy, unsigned gz) {
    const bool countable = gx <= INT32_MAX / 256 || strcmp(name, "fill_u32") == 0;
    if (b->status == OL_OK && (!countable || gy > MOST_ROWS || gz > MOST_ROWS)) b->status = too_large(b);
    if (b->status != OL_OK) return NULL;
    gpu_kernel *k = b->k;
    ol_context *ctx = b->g->base.ctx;
    void *block = k->launches;
    b->status = mem_grow(ctx, &block, &k->capacity, k->n_launches + 1, sizeof *k->launches);
    k->launches = block;
    if (b->status != OL_OK) return NULL;
    gpu_launch *l = &k->launches[k->n_launches];
    *l = (gpu_launch){.grid = {gx, gy, gz}};
    b->status = gpu_function_want(b->g, module, name, &l->function);
    if (b->status != OL_OK) return NULL;
    memcpy(l->args, args, args_bytes);
    k->n_launches++;
    return l;
}

void gpu_slot_add(gpu_launch *l, size_t at, gpu_slot_kind kind, int index, uint64_t offset) {
    if (l == NULL) return;
    l->slots[l->n_slots++] = (gpu_slot){(uint16_t)at, (uint8_t)kind, (uint8_t)index, offset};
}

static uint64_t take(size_t *used, size_t bytes) {
    const size_t at = *used;
    *used += (bytes + 255) / 256 * 256;
    return at;
}

uint64_t gpu_scratch_take(gpu_builder *b, size_t bytes) {
    return take(&b->scratch_bytes, bytes);
}

uint64_t gpu_own_take(gpu_builder *b, size_t bytes) {
    return take(&b->own_bytes, bytes);
}

void gpu_kernel_destroy(device *dev, kernel *base) {
    gpu_device *g = (gpu_device *)dev;
    gpu_kernel *k = (gpu_kernel *)base;
    if (base->on_host) gpu_host_kernel_deinit(g, k);
    if (k->own != 0) g->driver->call.release(g->driver, k->own);
    mem_free(dev->ctx, k->launches);
    mem_free(dev->ctx, k->packs);
    mem_free(dev->ctx, k);
}

ol_status gpu_compile(device *dev, const op_record *op, kernel **out) {
    gpu_device *g = (gpu_device *)dev;
    if (gpu_compile_of(op->kind) == NULL) return gpu_host_compile(g, op, out);
    gpu_kernel *k = mem_alloc0(dev->ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    gpu_builder b = {.g = g, .op = op, .k = k};
    if (operands_countable(op))
        gpu_compile_of(op->kind)(&b);
    else
        b.status = too_large(&b);
    if (b.status == OL_OK && b.own_bytes > 0)
        b.status = gpu_check(g, g->driver->call.allocate(g->driver, &k->own, b.own_bytes), "allocating packed weights");
    if (b.status != OL_OK) {
        gpu_kernel_destroy(dev, &k->base);
        if (b.status != OL_ERROR_UNSUPPORTED) return b.status;
        char why[256]; /* a form that the kernels do not cover */
        ctx_message(dev->ctx, why, sizeof why);
        ctx_clear(dev->ctx);
        ctx_log(dev->ctx, OL_LOG_INFO, "%s", why);
        return gpu_host_compile(g, op, out);
    }
    k->base.scratch_bytes = b.scratch_bytes;
    k->base.persistent_bytes = b.own_bytes;
    *out = &k->base;
    return OL_OK;
}

static gpu_pointer slot_address(const gpu_kernel *k, const gpu_slot *s, const kernel_memory *m) {
    const void *base = s->kind == SLOT_IN ? m->in[s->index] : s->kind == SLOT_OUT ? m->out[s->index] : m->scratch;
    return (s->kind == SLOT_OWN ? k->own : (gpu_pointer)(uintptr_t)base) + s->offset;
}

ol_status gpu_launch_all(device *dev, kernel *base, const kernel_memory *m) {
    gpu_device *g = (gpu_device *)dev;
    gpu_kernel *k = (gpu_kernel *)base;
    if (base->on_host) return gpu_host_launch(g, k, m);
    const ol_status loaded = gpu_functions_load(g);
    if (loaded != OL_OK) return loaded;
    for (size_t i = 0; i < k->n_launches; i++) {
        gpu_launch *l = &k->launches[i];
        for (int s = 0; s < l->n_slots; s++) {
            const gpu_pointer address = slot_address(k, &l->slots[s], m);
            memcpy(l->args + l->slots[s].at, &address, sizeof address);
        }
        const int error =
            g->driver->call.launch(g->driver, g->functions[l->function].handle, l->grid, 256, g->stream, l->args);
        if (error != 0) return gpu_check(g, error, "launching a kernel");
    }
    return OL_OK;
}

ol_status gpu_launch_now(gpu_device *g, const char *module, const char *name, const void *args, unsigned gx,
                         unsigned gy, unsigned gz, const char *what) {
    void *function = NULL;
    const ol_status status = gpu_function_find(g, module, name, &function);
    if (status != OL_OK) return status;
    const unsigned grid[3] = {gx, gy, gz};
    return gpu_check(g, g->driver->call.launch(g->driver, function, grid, 256, g->stream, (void *)args), what);
}
