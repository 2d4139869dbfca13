/* The AMD runtime: libamdhip64.so of any version from 5 to 7. Declarations are ours; names and meanings are HIP's. The
 * device properties struct changed its layout in version 6: the new entry is asked for first, and only the name and the
 * architecture are read from it, the rest through attributes, whose numbers did not change. */
#include "device/gpu/drivers/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(name in the library, member, parameters); all but error_string return hipError_t, an int. */
#define HIP_SYMBOLS(X)                                                                                                 \
    X(hipInit, init, (unsigned flags))                                                                                 \
    X(hipDriverGetVersion, driver_version, (int *version))                                                             \
    X(hipRuntimeGetVersion, runtime_version, (int *version))                                                           \
    X(hipGetDeviceCount, count, (int *count))                                                                          \
    X(hipSetDevice, device_set, (int index))                                                                           \
    X(hipDeviceGetAttribute, attribute, (int *value, int attribute, int index))                                        \
    X(hipDeviceTotalMem, total_memory, (size_t * bytes, int index))                                                    \
    X(hipMemGetInfo, memory_info, (size_t * free_bytes, size_t * total_bytes))                                         \
    X(hipMalloc, allocate, (gpu_pointer * p, size_t bytes))                                                            \
    X(hipFree, release, (gpu_pointer p))                                                                               \
    X(hipHostMalloc, host_allocate, (void **p, size_t bytes, unsigned flags))                                          \
    X(hipHostFree, host_release, (void *p))                                                                            \
    X(hipMemsetAsync, fill, (gpu_pointer p, int byte, size_t n, void *stream))                                         \
    X(hipMemcpyAsync, copy, (uint64_t to, uint64_t from, size_t bytes, int kind, void *stream))                        \
    X(hipStreamCreateWithFlags, stream_create, (void **stream, unsigned flags))                                        \
    X(hipStreamDestroy, stream_destroy, (void *stream))                                                                \
    X(hipStreamSynchronize, stream_wait, (void *stream))                                                               \
    X(hipEventCreateWithFlags, event_create, (void **event, unsigned flags))                                           \
    X(hipEventDestroy, event_destroy, (void *event))                                                                   \
    X(hipEventRecord, event_record, (void *event, void *stream))                                                       \
    X(hipEventSynchronize, event_wait, (void *event))                                                                  \
    X(hipEventElapsedTime, event_elapsed, (float *ms, void *from, void *to))                                           \
    X(hipModuleLoadData, module_load, (void **module, const void *image))                                              \
    X(hipModuleUnload, module_unload, (void *module))                                                                  \
    X(hipModuleGetFunction, function_get, (void **function, void *module, const char *name))                           \
    X(hipModuleLaunchKernel, launch,                                                                                   \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,  \
       void *stream, void **parameters, void **extra))

#define HIP_OPTIONAL_SYMBOLS(X)                                                                                        \
    X(hipGetDevicePropertiesR0600, properties_6, (void *properties, int index))                                        \
    X(hipGetDeviceProperties, properties_5, (void *properties, int index))                                             \
    X(hipStreamBeginCapture, capture_begin, (void *stream, int mode))                                                  \
    X(hipStreamEndCapture, capture_end, (void *stream, void **graph))                                                  \
    X(hipGraphInstantiate, graph_instantiate,                                                                          \
      (void **executable, void *graph, void **node, char *log, size_t log_bytes))                                      \
    X(hipGraphDestroy, graph_destroy, (void *graph))                                                                   \
    X(hipGraphExecDestroy, executable_destroy, (void *executable))                                                     \
    X(hipGraphLaunch, graph_launch, (void *executable, void *stream))

/* Numbers of hipDeviceAttribute_t, equal in versions 5 to 7. */
enum { HIP_INTEGRATED = 16, HIP_MULTIPROCESSORS = 63, HIP_SHARED_BYTES = 74, HIP_WARP_SIZE = 87 };
/* Offsets of gcnArchName in hipDeviceProp_t; name is at 0 in both. */
enum { HIP_ARCH_AT_5 = 396, HIP_ARCH_AT_6 = 1160 };
enum { HIP_TO_DEVICE = 1, HIP_TO_HOST = 2 };

typedef struct hip_driver {
    gpu_driver base;
    void *library;
    const char *(*error_string)(int error);
#define X(name, member, parameters) int(*member) parameters;
    HIP_SYMBOLS(X)
    HIP_OPTIONAL_SYMBOLS(X)
#undef X
} hip_driver;

static hip_driver *of(gpu_driver *d) {
    return (hip_driver *)d;
}

static void hip_close(gpu_driver *d) {
    hip_driver *c = of(d);
    dlclose(c->library);
    mem_free(d->ctx, c);
}

static const char *hip_error_text(gpu_driver *d, int error) {
    const char *text = of(d)->error_string != NULL ? of(d)->error_string(error) : NULL;
    return text != NULL ? text : "unknown error";
}

static int hip_count(gpu_driver *d, int *count) {
    return of(d)->count(count);
}

static int hip_info(gpu_driver *d, int index, gpu_info *info) {
    hip_driver *c = of(d);
    gpu_info found = {0};
    unsigned char properties[4096] = {0}; /* roomier than any version's struct */
    const bool new_layout = c->properties_6 != NULL;
    int error = new_layout ? c->properties_6(properties, index) : c->properties_5(properties, index), integrated = 0;
    if (error != 0) return error;
    snprintf(found.name, sizeof found.name, "%.255s", (const char *)properties);
    snprintf(found.arch, sizeof found.arch, "%.63s",
             (const char *)properties + (new_layout ? HIP_ARCH_AT_6 : HIP_ARCH_AT_5));
    found.arch[strcspn(found.arch, ":")] = '\0'; /* "gfx90a:sramecc+:xnack-" */
    size_t bytes = 0;
    if ((error = c->total_memory(&bytes, index)) != 0) return error;
    if ((error = c->attribute(&found.multiprocessors, HIP_MULTIPROCESSORS, index)) != 0) return error;
    if ((error = c->attribute(&found.wave_width, HIP_WARP_SIZE, index)) != 0) return error;
    c->attribute(&found.shared_bytes, HIP_SHARED_BYTES, index);
    if (c->attribute(&integrated, HIP_INTEGRATED, index) == 0) found.integrated = integrated != 0;
    found.memory_bytes = bytes;
    *info = found;
    return 0;
}

static int hip_version(gpu_driver *d, char *text, size_t bytes) {
    int driver = 0, runtime = 0;
    int error = of(d)->driver_version(&driver);
    if (error == 0) error = of(d)->runtime_version(&runtime);
    snprintf(text, bytes, "HIP runtime %d.%d, driver %d.%d", runtime / 10000000, runtime / 100000 % 100,
             driver / 10000000, driver / 100000 % 100);
    return error;
}

static int hip_bind(gpu_driver *d, int index) {
    return of(d)->device_set(index);
}

static int hip_unbind(gpu_driver *d, int index) {
    (void)d, (void)index;
    return 0;
}

static int hip_memory_info(gpu_driver *d, uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t f = 0, t = 0;
    const int error = of(d)->memory_info(&f, &t);
    *free_bytes = f;
    *total_bytes = t;
    return error;
}

static int hip_allocate(gpu_driver *d, gpu_pointer *p, size_t bytes) {
    return of(d)->allocate(p, bytes);
}

static int hip_release(gpu_driver *d, gpu_pointer p) {
    return of(d)->release(p);
}

static int hip_host_allocate(gpu_driver *d, void **p, size_t bytes) {
    return of(d)->host_allocate(p, bytes, 0);
}

static int hip_host_release(gpu_driver *d, void *p) {
    return of(d)->host_release(p);
}

static int hip_fill(gpu_driver *d, gpu_pointer p, int byte, size_t bytes, void *stream) {
    return of(d)->fill(p, byte, bytes, stream);
}

static int hip_to_device(gpu_driver *d, gpu_pointer to, const void *from, size_t bytes, void *stream) {
    return of(d)->copy(to, (uint64_t)(uintptr_t)from, bytes, HIP_TO_DEVICE, stream);
}

static int hip_to_host(gpu_driver *d, void *to, gpu_pointer from, size_t bytes, void *stream) {
    return of(d)->copy((uint64_t)(uintptr_t)to, from, bytes, HIP_TO_HOST, stream);
}

static int hip_stream_create(gpu_driver *d, void **stream) {
    return of(d)->stream_create(stream, 1); /* not ordered with the default stream */
}

static int hip_stream_destroy(gpu_driver *d, void *stream) {
    return of(d)->stream_destroy(stream);
}

static int hip_stream_wait(gpu_driver *d, void *stream) {
    return of(d)->stream_wait(stream);
}

static int hip_event_create(gpu_driver *d, void **event) {
    return of(d)->event_create(event, 0);
}

static int hip_event_destroy(gpu_driver *d, void *event) {
    return of(d)->event_destroy(event);
}

static int hip_event_record(gpu_driver *d, void *event, void *stream) {
    return of(d)->event_record(event, stream);
}

static int hip_event_wait(gpu_driver *d, void *event) {
    return of(d)->event_wait(event);
}

static int hip_event_elapsed(gpu_driver *d, float *ms, void *from, void *to) {
    return of(d)->event_elapsed(ms, from, to);
}

static int hip_module_load(gpu_driver *d, void **module, const void *image) {
    return of(d)->module_load(module, image);
}

static int hip_module_unload(gpu_driver *d, void *module) {
    return of(d)->module_unload(module);
}

static int hip_function_get(gpu_driver *d, void **function, void *module, const char *name) {
    return of(d)->function_get(function, module, name);
}

static int hip_launch(gpu_driver *d, void *function, const unsigned grid[3], unsigned threads, void *stream,
                      void *args) {
    void *parameters[] = {args};
    return of(d)->launch(function, grid[0], grid[1], grid[2], threads, 1, 1, 0, stream, parameters, NULL);
}

static int hip_capture_begin(gpu_driver *d, void *stream) {
    return of(d)->capture_begin(stream, 2); /* relaxed: other threads may use the driver meanwhile */
}

static int hip_capture_end(gpu_driver *d, void *stream, void **graph) {
    void *recorded = NULL;
    int error = of(d)->capture_end(stream, &recorded);
    if (error != 0) return error;
    error = of(d)->graph_instantiate(graph, recorded, NULL, NULL, 0);
    of(d)->graph_destroy(recorded);
    return error;
}

static int hip_graph_launch(gpu_driver *d, void *graph, void *stream) {
    return of(d)->graph_launch(graph, stream);
}

static int hip_graph_destroy(gpu_driver *d, void *graph) {
    return of(d)->executable_destroy(graph);
}

static const gpu_driver_table hip_table = {
    .name = "hip",
    .vendor = "AMD",
    .close = hip_close,
    .error_text = hip_error_text,
    .device_count = hip_count,
    .device_info = hip_info,
    .version = hip_version,
    .bind = hip_bind,
    .unbind = hip_unbind,
    .memory_info = hip_memory_info,
    .allocate = hip_allocate,
    .release = hip_release,
    .host_allocate = hip_host_allocate,
    .host_release = hip_host_release,
    .fill = hip_fill,
    .to_device = hip_to_device,
    .to_host = hip_to_host,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_wait = hip_stream_wait,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_record = hip_event_record,
    .event_wait = hip_event_wait,
    .event_elapsed = hip_event_elapsed,
    .module_load = hip_module_load,
    .module_unload = hip_module_unload,
    .function_get = hip_function_get,
    .launch = hip_launch,
    .capture_begin = hip_capture_begin,
    .capture_end = hip_capture_end,
    .graph_launch = hip_graph_launch,
    .graph_destroy = hip_graph_destroy,
};

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises the representation. */
#define RESOLVE(name, member, parameters)                                                                              \
    do {                                                                                                               \
        void *address = dlsym(c->library, #name);                                                                      \
        memcpy(&c->member, &address, sizeof address);                                                                  \
    } while (0);

ol_status gpu_driver_hip_open(ol_context *ctx, gpu_driver **out) {
    /* AMD's own packages go to /opt/rocm without telling the loader */
    const char *prefix = getenv("ROCM_PATH");
    if (prefix == NULL) prefix = "/opt/rocm";
    char placed[3][512];
    for (int i = 0; i < 3; i++) snprintf(placed[i], sizeof placed[i], "%.480s/lib/libamdhip64.so.%d", prefix, 7 - i);
    const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                 placed[0],          placed[1],          placed[2],          NULL};
    hip_driver *c = mem_alloc0(ctx, 1, sizeof *c);
    if (c == NULL) return OL_ERROR_MEMORY;
    c->base.call = hip_table;
    c->base.ctx = ctx;
    c->library = gpu_library_open(ctx, names, "the AMD HIP runtime", c->base.library, sizeof c->base.library);
    if (c->library == NULL) {
        mem_free(ctx, c);
        return OL_ERROR_NOT_FOUND;
    }
    HIP_SYMBOLS(RESOLVE)
    HIP_OPTIONAL_SYMBOLS(RESOLVE)
    void *error_string = dlsym(c->library, "hipGetErrorString");
    memcpy(&c->error_string, &error_string, sizeof error_string);
    ol_status status = OL_OK;
#define X(name, member, parameters)                                                                                    \
    if (status == OL_OK && c->member == NULL)                                                                          \
        status = ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s has no %s: it is older than HIP 5; update ROCm",              \
                          c->base.library, #name);
    HIP_SYMBOLS(X)
#undef X
    if (status == OL_OK && c->properties_5 == NULL && c->properties_6 == NULL)
        status = ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s cannot describe its devices", c->base.library);
    int error = 0, count = 0;
    if (status == OL_OK && ((error = c->init(0)) != 0 || (error = c->count(&count)) != 0 || count == 0))
        status = ctx_fail(ctx, OL_ERROR_DEVICE, "%s finds no AMD GPU (%s)", c->base.library,
                          error != 0 ? hip_error_text(&c->base, error) : "no devices");
    if (status != OL_OK) {
        hip_close(&c->base);
        return status;
    }
    if (c->capture_begin == NULL || c->capture_end == NULL || c->graph_instantiate == NULL ||
        c->graph_destroy == NULL || c->executable_destroy == NULL || c->graph_launch == NULL) {
        c->base.call.capture_begin = NULL;
        c->base.call.capture_end = NULL;
        c->base.call.graph_launch = NULL;
        c->base.call.graph_destroy = NULL;
    }
    *out = &c->base;
    return OL_OK;
}
