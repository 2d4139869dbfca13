#include "data/loader_slots.h"

ol_status loader_slot_init(ol_context *ctx, loader_slot *s, int n, size_t picture_bytes, int max_targets) {
    const size_t count = (size_t)n;
    s->images = mem_alloc_aligned(ctx, count, picture_bytes);
    s->targets = mem_alloc_aligned(ctx, count * (size_t)max_targets, 5 * sizeof *s->targets);
    s->n_targets = mem_alloc0(ctx, count, sizeof *s->n_targets);
    s->info = mem_alloc0(ctx, count, sizeof *s->info);
    const bool all = s->images != NULL && s->targets != NULL && s->n_targets != NULL && s->info != NULL;
    return all ? OL_OK : OL_ERROR_MEMORY;
}

ol_status loader_slot_add_recipes(loader_slot *s, device *maker, int n, size_t picture_bytes, double share) {
    void *recipes = NULL, *pixels = NULL;
    const size_t capacity = (size_t)((double)picture_bytes * share * n) + 3 * picture_bytes;
    ol_status status = device_host_create(maker, (size_t)n * sizeof *s->recipes, &recipes);
    if (status == OL_OK) status = device_host_create(maker, capacity, &pixels);
    if (status != OL_OK) {
        device_host_destroy(maker, recipes);
        return status;
    }
    s->recipes = recipes;
    s->pixels.bytes = pixels;
    s->pixels.capacity = capacity;
    return OL_OK;
}

void loader_slot_clear(loader_slot *s) {
    atomic_store(&s->pixels.used, 0);
}

void loader_slot_drop_recipes(loader_slot *s, device *maker) {
    if (s->recipes == NULL) return;
    device_host_destroy(maker, s->recipes);
    device_host_destroy(maker, s->pixels.bytes);
    s->recipes = NULL;
    s->pixels.bytes = NULL;
}

void loader_slot_deinit(ol_context *ctx, loader_slot *s, device *maker) {
    mem_free_aligned(ctx, s->images);
    mem_free_aligned(ctx, s->targets);
    mem_free(ctx, s->n_targets);
    mem_free(ctx, s->info);
    loader_slot_drop_recipes(s, maker);
}
