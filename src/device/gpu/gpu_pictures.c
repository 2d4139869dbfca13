/* Network inputs on the GPU: one copy of recipes, one of pixels, one launch (pictures.gpu.c). */
#include "device/gpu/gpu.h"

static ol_status copy_to(gpu_device *g, gpu_pointer to, const void *from, size_t bytes) {
    if (bytes == 0) return OL_OK;
    return gpu_check(g, g->driver->call.to_device(g->driver, to, from, bytes, g->stream), "copying pictures");
}

/* Samples that the host made. */
static ol_status planes_copy(gpu_device *g, const picture_batch *b, gpu_pointer out) {
    const size_t bytes = (size_t)b->channels * (size_t)b->h * (size_t)b->w;
    const picture_recipe *recipes = b->recipes;
    ol_status status = OL_OK;
    for (int i = 0; i < b->n && status == OL_OK; i++)
        if (recipes[i].n_layers == 0)
            status = copy_to(g, out + (size_t)i * bytes, b->planes + (size_t)i * bytes, bytes);
    return status;
}

ol_status gpu_make_pictures(device *dev, const picture_batch *b, device_buffer *out, size_t offset_bytes) {
    gpu_device *g = (gpu_device *)dev;
    const bool samples = b->kind == PICTURES_SAMPLES;
    const size_t recipe_bytes = (size_t)b->n * (samples ? sizeof(picture_recipe) : sizeof(letterbox_recipe));
    const size_t pixels_at = (recipe_bytes + 255) / 256 * 256;
    const gpu_pointer target = (gpu_pointer)(uintptr_t)dev->api->buffer_address(out) + offset_bytes;
    const char *name = samples ? "pictures_gather" : "pictures_letterbox";
    void *function = NULL;
    ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status == OL_OK) status = gpu_function_find(g, "pictures", name, &function);
    if (status == OL_OK) status = gpu_pictures_ensure(g, pixels_at + b->most_pixel_bytes);
    if (status == OL_OK) status = copy_to(g, g->pictures, b->recipes, recipe_bytes);
    if (status == OL_OK) status = copy_to(g, g->pictures + pixels_at, b->pixels, b->pixel_bytes);
    if (status == OL_OK && samples) status = planes_copy(g, b, target);
    if (status == OL_OK) /* the caller's memory is free from here on */
        status = gpu_check(g, g->driver->call.stream_wait(g->driver, g->stream), "waiting for the device");
    if (status != OL_OK) return status;
    pictures_args a = {.recipes = g->pictures,
                       .pixels = g->pictures + pixels_at,
                       .out = target,
                       .channels = b->channels,
                       .h = b->h,
                       .w = b->w};
    const unsigned grid[3] = {(unsigned)(((int64_t)b->h * b->w + 255) / 256), (unsigned)b->n, 1};
    return gpu_check(g, g->driver->call.launch(g->driver, function, grid, 256, g->stream, &a), "making pictures");
}

ol_status gpu_host_create(device *dev, size_t bytes, void **out) {
    gpu_device *g = (gpu_device *)dev;
    const ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status != OL_OK) return status;
    return gpu_check(g, g->driver->call.host_allocate(g->driver, out, bytes), "allocating page-locked memory");
}

void gpu_host_destroy(device *dev, void *memory) {
    gpu_device *g = (gpu_device *)dev;
    if (g->driver->call.bind(g->driver, g->index) == 0) g->driver->call.host_release(g->driver, memory);
}
