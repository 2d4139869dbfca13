#include "data/loader_slots.h"

/* Page-locked memory may be short: then other memory does. Other failures are the device's. */
static ol_status images_create(ol_context *ctx, loader_slot *s, device *copier, size_t n, size_t picture_bytes) {
    void *images = NULL;
    if (device_makes_pictures(copier)) {
        const ol_status status = device_host_create(copier, n * picture_bytes, &images);
        s->locked = status == OL_OK;
        s->images = images;
        if (status != OL_ERROR_MEMORY) return status;
        ctx_clear(ctx);
    }
    s->images = mem_alloc_aligned(ctx, n, picture_bytes);
    return s->images != NULL ? OL_OK : OL_ERROR_MEMORY;
}

ol_status loader_slot_init(ol_context *ctx, loader_slot *s, device *copier, int n, size_t picture_bytes,
                           int max_targets) {
    const size_t count = (size_t)n;
    const ol_status status = images_create(ctx, s, copier, count, picture_bytes);
    if (status != OL_OK) return status;
    s->targets = mem_alloc_aligned(ctx, count * (size_t)max_targets, 5 * sizeof *s->targets);
    s->n_targets = mem_alloc0(ctx, count, sizeof *s->n_targets);
    s->info = mem_alloc0(ctx, count, sizeof *s->info);
    const bool all = s->targets != NULL && s->n_targets != NULL && s->info != NULL;
    return all ? OL_OK : OL_ERROR_MEMORY;
}

static ol_status recipes_create(loader_slot *s, device *maker, int n, size_t pixel_bytes) {
    void *recipes = NULL, *pixels = NULL;
    ol_status status = device_host_create(maker, (size_t)n * sizeof *s->recipes, &recipes);
    if (status == OL_OK) status = device_host_create(maker, pixel_bytes, &pixels);
    if (status != OL_OK) {
        device_host_destroy(maker, recipes);
        return status;
    }
    s->recipes = recipes;
    s->pixels.bytes = pixels;
    s->pixels.capacity = pixel_bytes;
    return OL_OK;
}

static void recipes_drop(loader_slot *s, device *maker) {
    if (s->recipes == NULL) return;
    device_host_destroy(maker, s->recipes);
    device_host_destroy(maker, s->pixels.bytes);
    s->recipes = NULL;
    s->pixels.bytes = NULL;
}

ol_status loader_slots_add_recipes(ol_context *ctx, loader_slot *slots, int n_slots, device *maker, int n,
                                   size_t pixel_bytes) {
    ol_status status = OL_OK;
    for (int i = 0; i < n_slots && status == OL_OK; i++) status = recipes_create(&slots[i], maker, n, pixel_bytes);
    if (status != OL_ERROR_MEMORY) return status;
    char why[512];
    ctx_message(ctx, why, sizeof why);
    ctx_clear(ctx);
    ctx_log(ctx, OL_LOG_INFO, "training pictures are made on the host: %s", why);
    for (int i = 0; i < n_slots; i++) recipes_drop(&slots[i], maker);
    return OL_OK;
}

void loader_slot_clear(loader_slot *s) {
    atomic_store(&s->pixels.used, 0);
}

void loader_slot_deinit(ol_context *ctx, loader_slot *s, device *maker) {
    if (s->locked)
        device_host_destroy(maker, s->images);
    else
        mem_free_aligned(ctx, s->images);
    mem_free_aligned(ctx, s->targets);
    mem_free(ctx, s->n_targets);
    mem_free(ctx, s->info);
    recipes_drop(s, maker);
}
