/* Network inputs on the GPU: recipes and pixels are copied on a stream of their own into one of two sets of memory,
 * while the device works on; then one launch makes the pictures (pictures.gpu.c). */
#include "device/gpu/gpu.h"

enum { SETS = 2 };

typedef struct picture_set {
    gpu_pointer memory;
    size_t bytes;
    void *used; /* event: the launch that read it is done */
    bool in_use;
} picture_set;

typedef struct gpu_pictures {
    void *stream;
    picture_set sets[SETS];
    int current;
    const picture_batch *brought; /* lies in the current set; NULL: none */
} gpu_pictures;

void gpu_pictures_destroy(gpu_device *g) {
    gpu_pictures *p = g->pictures;
    const gpu_driver_table *call = &g->driver->call;
    if (p == NULL) return;
    for (int i = 0; i < SETS; i++) {
        if (p->sets[i].memory != 0) call->release(g->driver, p->sets[i].memory);
        if (p->sets[i].used != NULL) call->event_destroy(g->driver, p->sets[i].used);
    }
    if (p->stream != NULL) call->stream_destroy(g->driver, p->stream);
    mem_free(g->base.ctx, p);
    g->pictures = NULL;
}

void gpu_pictures_release(device *dev) {
    gpu_device *g = (gpu_device *)dev;
    const gpu_driver_table *call = &g->driver->call;
    if (g->pictures == NULL || call->bind(g->driver, g->index) != 0) return;
    call->stream_wait(g->driver, g->pictures->stream);
    call->stream_wait(g->driver, g->stream);
    gpu_pictures_destroy(g);
}

static ol_status pictures_create(gpu_device *g) {
    if (g->pictures != NULL) return OL_OK;
    gpu_pictures *p = mem_alloc0(g->base.ctx, 1, sizeof *p);
    if (p == NULL) return OL_ERROR_MEMORY;
    g->pictures = p; /* what is missing after an error is made by no one: the device is given up */
    ol_status status = gpu_check(g, g->driver->call.stream_create(g->driver, &p->stream), "creating a stream");
    for (int i = 0; i < SETS && status == OL_OK; i++)
        status = gpu_check(g, g->driver->call.event_create(g->driver, &p->sets[i].used), "creating an event");
    if (status != OL_OK) gpu_pictures_destroy(g);
    return status;
}

/* The next set, with room, once the launch that reads it is done. */
static ol_status set_take(gpu_device *g, size_t bytes, picture_set **out) {
    gpu_pictures *p = g->pictures;
    p->current = (p->current + 1) % SETS;
    picture_set *s = &p->sets[p->current];
    ol_status status = OL_OK;
    if (s->in_use) status = gpu_check(g, g->driver->call.event_wait(g->driver, s->used), "waiting for pictures");
    s->in_use = false;
    if (status == OL_OK && s->bytes < bytes) {
        if (s->memory != 0) g->driver->call.release(g->driver, s->memory);
        s->memory = 0;
        s->bytes = 0;
        status = gpu_check(g, g->driver->call.allocate(g->driver, &s->memory, bytes), "allocating room for pictures");
        if (status == OL_OK) s->bytes = bytes;
    }
    *out = s;
    return status;
}

static size_t recipe_bytes(pictures_kind kind, int n) {
    return (size_t)n * (kind == PICTURES_SAMPLES ? sizeof(picture_recipe) : sizeof(letterbox_recipe));
}

/* Pixels come after the recipes. */
static size_t pixels_at(const picture_batch *b) {
    return (recipe_bytes(b->kind, b->n) + 255) / 256 * 256;
}

size_t gpu_pictures_bytes(pictures_kind kind, int n, size_t most_pixel_bytes) {
    return SETS * ((recipe_bytes(kind, n) + 255) / 256 * 256 + most_pixel_bytes);
}

static ol_status copy_to(gpu_device *g, gpu_pointer to, const void *from, size_t bytes, void *stream) {
    if (bytes == 0) return OL_OK;
    return gpu_check(g, g->driver->call.to_device(g->driver, to, from, bytes, stream), "copying pictures");
}

ol_status gpu_bring_pictures(device *dev, const picture_batch *b) {
    gpu_device *g = (gpu_device *)dev;
    picture_set *s = NULL;
    ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status == OL_OK) status = pictures_create(g);
    if (status == OL_OK) status = set_take(g, pixels_at(b) + b->most_pixel_bytes, &s);
    if (status != OL_OK) return status;
    void *stream = g->pictures->stream;
    g->pictures->brought = NULL;
    status = copy_to(g, s->memory, b->recipes, recipe_bytes(b->kind, b->n), stream);
    if (status == OL_OK) status = copy_to(g, s->memory + pixels_at(b), b->pixels, b->pixel_bytes, stream);
    if (status == OL_OK)
        status = gpu_check(g, g->driver->call.stream_wait(g->driver, stream), "waiting for the device");
    if (status == OL_OK) g->pictures->brought = b;
    return status;
}

/* Samples that the host made; waits when there are any. */
static ol_status planes_copy(gpu_device *g, const picture_batch *b, gpu_pointer out) {
    const size_t bytes = (size_t)b->channels * (size_t)b->h * (size_t)b->w;
    const picture_recipe *recipes = b->recipes;
    ol_status status = OL_OK;
    bool any = false;
    for (int i = 0; i < b->n && status == OL_OK; i++) {
        if (recipes[i].n_layers != 0) continue;
        status = copy_to(g, out + (size_t)i * bytes, b->planes + (size_t)i * bytes, bytes, g->stream);
        any = true;
    }
    if (status != OL_OK || !any) return status;
    return gpu_check(g, g->driver->call.stream_wait(g->driver, g->stream), "waiting for the device");
}

ol_status gpu_make_pictures(device *dev, const picture_batch *b, const device_step *step, device_buffer *out,
                            size_t offset_bytes) {
    gpu_device *g = (gpu_device *)dev;
    const bool samples = b->kind == PICTURES_SAMPLES;
    const gpu_pointer target = (gpu_pointer)(uintptr_t)dev->api->buffer_address(out) + offset_bytes;
    const char *name = samples ? "pictures_gather" : "pictures_letterbox";
    void *function = NULL;
    ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status == OL_OK) status = gpu_function_find(g, "pictures", name, &function);
    if (status == OL_OK && (g->pictures == NULL || g->pictures->brought != b)) status = gpu_bring_pictures(dev, b);
    if (status == OL_OK && samples) status = planes_copy(g, b, target);
    if (status != OL_OK) return status;
    picture_set *s = &g->pictures->sets[g->pictures->current];
    g->pictures->brought = NULL;
    pictures_args a = {.recipes = s->memory,
                       .pixels = s->memory + pixels_at(b),
                       .out = target,
                       .stopped = step != NULL ? gpu_step_stopped_at(step) : 0,
                       .channels = b->channels,
                       .h = b->h,
                       .w = b->w};
    const unsigned grid[3] = {(unsigned)(((int64_t)b->h * b->w + 255) / 256), (unsigned)b->n, 1};
    status = gpu_check(g, g->driver->call.launch(g->driver, function, grid, 256, g->stream, &a), "making pictures");
    if (status == OL_OK)
        status = gpu_check(g, g->driver->call.event_record(g->driver, s->used, g->stream), "making pictures");
    s->in_use = status == OL_OK;
    return status;
}

/* Stands before the memory that is given out. */
typedef struct host_head {
    bool is_locked;
} host_head;
enum { HOST_HEAD_BYTES = 256 };

/* Page-locked memory may be short, and is only faster: then other memory does. */
ol_status gpu_host_create(device *dev, size_t bytes, void **out) {
    gpu_device *g = (gpu_device *)dev;
    const ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status != OL_OK) return status;
    size_t whole;
    void *memory = NULL;
    if (!size_add(bytes, HOST_HEAD_BYTES, &whole))
        return ctx_fail(dev->ctx, OL_ERROR_MEMORY, "%s: %zu bytes of host memory are too many", g->name, bytes);
    const bool is_locked = g->driver->call.host_allocate(g->driver, &memory, whole) == 0;
    if (!is_locked) memory = mem_alloc_aligned(dev->ctx, whole, 1);
    if (memory == NULL) return OL_ERROR_MEMORY;
    ((host_head *)memory)->is_locked = is_locked;
    *out = (unsigned char *)memory + HOST_HEAD_BYTES;
    return OL_OK;
}

void gpu_host_destroy(device *dev, void *memory) {
    gpu_device *g = (gpu_device *)dev;
    void *whole = (unsigned char *)memory - HOST_HEAD_BYTES;
    if (!((host_head *)whole)->is_locked)
        mem_free_aligned(dev->ctx, whole);
    else if (g->driver->call.bind(g->driver, g->index) == 0)
        g->driver->call.host_release(g->driver, whole);
}
