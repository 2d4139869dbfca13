#include "device/gpu/drivers/entries.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static gpu_entries *of(gpu_driver *d) {
    return &((gpu_library_driver *)d)->e;
}

static void shared_close(gpu_driver *d) {
    gpu_library_close(((gpu_library_driver *)d)->library);
    mem_free(d->ctx, d);
}

static int shared_count(gpu_driver *d, int *count) {
    return of(d)->count(count);
}

static int shared_memory_info(gpu_driver *d, uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t f = 0, t = 0;
    const int error = of(d)->memory_info(&f, &t);
    *free_bytes = f;
    *total_bytes = t;
    return error;
}

static int shared_allocate(gpu_driver *d, gpu_pointer *p, size_t bytes) {
    return of(d)->allocate(p, bytes);
}

static int shared_release(gpu_driver *d, gpu_pointer p) {
    return of(d)->release(p);
}

static int shared_host_allocate(gpu_driver *d, void **p, size_t bytes) {
    return of(d)->host_allocate(p, bytes, 0);
}

static int shared_host_release(gpu_driver *d, void *p) {
    return of(d)->host_release(p);
}

static int shared_stream_create(gpu_driver *d, void **stream) {
    return of(d)->stream_create(stream, 1); /* not ordered with the default stream */
}

static int shared_stream_destroy(gpu_driver *d, void *stream) {
    return of(d)->stream_destroy(stream);
}

static int shared_stream_wait(gpu_driver *d, void *stream) {
    return of(d)->stream_wait(stream);
}

static int shared_event_create(gpu_driver *d, void **event) {
    return of(d)->event_create(event, 0);
}

static int shared_event_destroy(gpu_driver *d, void *event) {
    return of(d)->event_destroy(event);
}

static int shared_event_record(gpu_driver *d, void *event, void *stream) {
    return of(d)->event_record(event, stream);
}

static int shared_event_wait(gpu_driver *d, void *event) {
    return of(d)->event_wait(event);
}

static int shared_event_elapsed(gpu_driver *d, float *ms, void *from, void *to) {
    return of(d)->event_elapsed(ms, from, to);
}

static int shared_module_unload(gpu_driver *d, void *module) {
    return of(d)->module_unload(module);
}

static int shared_function_get(gpu_driver *d, void **function, void *module, const char *name) {
    return of(d)->function_get(function, module, name);
}

/* The same numbers in both libraries. */
enum { FUNCTION_SHARED_BYTES = 1, FUNCTION_LOCAL_BYTES = 3, FUNCTION_REGISTERS = 4 };

static int shared_function_info(gpu_driver *d, void *function, gpu_function_info *info) {
    gpu_function_info found = {0};
    int error = of(d)->function_attribute(&found.registers, FUNCTION_REGISTERS, function);
    if (error == 0) error = of(d)->function_attribute(&found.local_bytes, FUNCTION_LOCAL_BYTES, function);
    if (error == 0) error = of(d)->function_attribute(&found.shared_bytes, FUNCTION_SHARED_BYTES, function);
    if (error == 0) *info = found;
    return error;
}

static int shared_can_reach(gpu_driver *d, int *can, int index, int peer) {
    return of(d)->can_reach(can, index, peer);
}

static int shared_launch(gpu_driver *d, void *function, const unsigned grid[3], unsigned threads, void *stream,
                         void *args) {
    void *parameters[] = {args};
    return of(d)->launch(function, grid[0], grid[1], grid[2], threads, 1, 1, 0, stream, parameters, NULL);
}

static int shared_capture_begin(gpu_driver *d, void *stream) {
    return of(d)->capture_begin(stream, 2); /* relaxed: other threads may use the driver meanwhile */
}

static int shared_capture_end(gpu_driver *d, void *stream, void **graph) {
    gpu_library_driver *c = (gpu_library_driver *)d;
    void *recorded = NULL;
    int error = of(d)->capture_end(stream, &recorded);
    if (error != 0) return error;
    error = c->vendor->instantiate(c, graph, recorded);
    of(d)->graph_destroy(recorded);
    return error;
}

static int shared_graph_launch(gpu_driver *d, void *graph, void *stream) {
    return of(d)->graph_launch(graph, stream);
}

static int shared_graph_destroy(gpu_driver *d, void *graph) {
    return of(d)->executable_destroy(graph);
}

static void table_complete(gpu_library_driver *c, bool records) {
    gpu_driver_table *t = &c->base.call;
    t->close = shared_close;
    t->device_count = shared_count;
    t->memory_info = shared_memory_info;
    t->allocate = shared_allocate;
    t->release = shared_release;
    t->host_allocate = shared_host_allocate;
    t->host_release = shared_host_release;
    t->stream_create = shared_stream_create;
    t->stream_destroy = shared_stream_destroy;
    t->stream_wait = shared_stream_wait;
    t->event_create = shared_event_create;
    t->event_destroy = shared_event_destroy;
    t->event_record = shared_event_record;
    t->event_wait = shared_event_wait;
    t->event_elapsed = shared_event_elapsed;
    t->module_unload = shared_module_unload;
    t->function_get = shared_function_get;
    t->launch = shared_launch;
    if (c->e.function_attribute != NULL) t->function_info = shared_function_info;
    if (c->e.can_reach != NULL) t->can_reach = shared_can_reach;
    if (!records) return;
    t->capture_begin = shared_capture_begin;
    t->capture_end = shared_capture_end;
    t->graph_launch = shared_graph_launch;
    t->graph_destroy = shared_graph_destroy;
}

static ol_status entries_resolve(gpu_library_driver *c, bool *records) {
    const gpu_vendor *v = c->vendor;
    *records = true;
    for (size_t i = 0; i < v->n_entries; i++) {
        const gpu_entry *e = &v->entries[i];
        if (gpu_library_entry(c->library, e->name, (unsigned char *)c + e->at)) continue;
        if (e->need == GPU_NEEDED)
            return ctx_fail(c->base.ctx, OL_ERROR_UNSUPPORTED, "%s has no %s: %s", c->base.library, e->name,
                            v->too_old);
        *records = *records && e->need != GPU_RECORDS;
    }
    return OL_OK;
}

void gpu_name_write(gpu_info *info, const char *vendor, const char *name) {
    name += strspn(name, " ");
    if (strncasecmp(name, vendor, strlen(vendor)) == 0)
        snprintf(info->name, sizeof info->name, "%s", name);
    else
        snprintf(info->name, sizeof info->name, "%s%s%.240s", vendor, *name != '\0' ? " " : "", name);
}

ol_status gpu_vendor_open(ol_context *ctx, const gpu_vendor *v, const char *const *libraries, gpu_driver **out) {
    gpu_library_driver *c = mem_alloc0(ctx, 1, v->driver_bytes);
    bool records = false;
    int error = 0, count = 0;
    if (c == NULL) return OL_ERROR_MEMORY;
    c->vendor = v;
    c->base.call = v->own;
    c->base.ctx = ctx;
    c->library = gpu_library_open(ctx, libraries, v->what, c->base.library, sizeof c->base.library);
    if (c->library == NULL) {
        mem_free(ctx, c);
        return OL_ERROR_NOT_FOUND;
    }
    ol_status status = entries_resolve(c, &records);
    table_complete(c, records);
    if (status == OL_OK && ((error = c->e.init(0)) != 0 || (error = c->e.count(&count)) != 0 || count == 0))
        status = ctx_fail(ctx, OL_ERROR_DEVICE, "%s finds no %s GPU (%s)", c->base.library, v->own.vendor,
                          error != 0 ? v->own.error_text(&c->base, error) : "no devices");
    if (status != OL_OK) {
        shared_close(&c->base);
        return status;
    }
    *out = &c->base;
    return OL_OK;
}
