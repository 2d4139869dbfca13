/* The NVIDIA driver: libcuda.so.1 alone, no toolkit. Declarations are ours; names and meanings are the CUDA driver
 * API's. */
#include "device/gpu/drivers/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* X(name in the library, member, parameters); all return CUresult, an int. */
#define CUDA_SYMBOLS(X)                                                                                                \
    X(cuInit, init, (unsigned flags))                                                                                  \
    X(cuDriverGetVersion, driver_version, (int *version))                                                              \
    X(cuGetErrorString, error_string, (int error, const char **text))                                                  \
    X(cuDeviceGetCount, count, (int *count))                                                                           \
    X(cuDeviceGet, device_get, (int *device, int index))                                                               \
    X(cuDeviceGetName, device_name, (char *name, int bytes, int device))                                               \
    X(cuDeviceGetAttribute, attribute, (int *value, int attribute, int device))                                        \
    X(cuDeviceTotalMem_v2, total_memory, (size_t * bytes, int device))                                                 \
    X(cuDevicePrimaryCtxRetain, context_retain, (void **context, int device))                                          \
    X(cuDevicePrimaryCtxRelease_v2, context_release, (int device))                                                     \
    X(cuCtxSetCurrent, context_set, (void *context))                                                                   \
    X(cuMemGetInfo_v2, memory_info, (size_t * free_bytes, size_t * total_bytes))                                       \
    X(cuMemAlloc_v2, allocate, (gpu_pointer * p, size_t bytes))                                                        \
    X(cuMemFree_v2, release, (gpu_pointer p))                                                                          \
    X(cuMemHostAlloc, host_allocate, (void **p, size_t bytes, unsigned flags))                                         \
    X(cuMemFreeHost, host_release, (void *p))                                                                          \
    X(cuMemsetD8Async, fill, (gpu_pointer p, unsigned char byte, size_t n, void *stream))                              \
    X(cuMemcpyHtoDAsync_v2, to_device, (gpu_pointer to, const void *from, size_t bytes, void *stream))                 \
    X(cuMemcpyDtoHAsync_v2, to_host, (void *to, gpu_pointer from, size_t bytes, void *stream))                         \
    X(cuStreamCreate, stream_create, (void **stream, unsigned flags))                                                  \
    X(cuStreamDestroy_v2, stream_destroy, (void *stream))                                                              \
    X(cuStreamSynchronize, stream_wait, (void *stream))                                                                \
    X(cuEventCreate, event_create, (void **event, unsigned flags))                                                     \
    X(cuEventDestroy_v2, event_destroy, (void *event))                                                                 \
    X(cuEventRecord, event_record, (void *event, void *stream))                                                        \
    X(cuEventSynchronize, event_wait, (void *event))                                                                   \
    X(cuEventElapsedTime, event_elapsed, (float *ms, void *from, void *to))                                            \
    X(cuModuleLoadData, module_load, (void **module, const void *image))                                               \
    X(cuModuleUnload, module_unload, (void *module))                                                                   \
    X(cuModuleGetFunction, function_get, (void **function, void *module, const char *name))                            \
    X(cuLaunchKernel, launch,                                                                                          \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,  \
       void *stream, void **parameters, void **extra))

#define CUDA_OPTIONAL_SYMBOLS(X)                                                                                       \
    X(cuStreamBeginCapture_v2, capture_begin, (void *stream, int mode))                                                \
    X(cuStreamEndCapture, capture_end, (void *stream, void **graph))                                                   \
    X(cuGraphInstantiateWithFlags, graph_instantiate, (void **executable, void *graph, unsigned long long flags))      \
    X(cuGraphDestroy, graph_destroy, (void *graph))                                                                    \
    X(cuGraphExecDestroy, executable_destroy, (void *executable))                                                      \
    X(cuGraphLaunch, graph_launch, (void *executable, void *stream))

/* Numbers of CUdevice_attribute. */
enum {
    CUDA_WARP_SIZE = 10,
    CUDA_MULTIPROCESSORS = 16,
    CUDA_INTEGRATED = 18,
    CUDA_MAJOR = 75,
    CUDA_MINOR = 76,
    CUDA_SHARED_BYTES = 97
};
#define CUDA_MAX_DEVICES 64
#define CUDA_NO_DEVICE   100

typedef struct cuda_driver {
    gpu_driver base;
    void *library;
    void *contexts[CUDA_MAX_DEVICES];
#define X(name, member, parameters) int(*member) parameters;
    CUDA_SYMBOLS(X)
    CUDA_OPTIONAL_SYMBOLS(X)
#undef X
} cuda_driver;

static cuda_driver *of(gpu_driver *d) {
    return (cuda_driver *)d;
}

static void cuda_close(gpu_driver *d) {
    cuda_driver *c = of(d);
    dlclose(c->library);
    mem_free(d->ctx, c);
}

static const char *cuda_error_text(gpu_driver *d, int error) {
    const char *text = NULL;
    of(d)->error_string(error, &text);
    return text != NULL ? text : "unknown error";
}

static int cuda_count(gpu_driver *d, int *count) {
    return of(d)->count(count);
}

static int cuda_info(gpu_driver *d, int index, gpu_info *info) {
    cuda_driver *c = of(d);
    gpu_info found = {0};
    int device = 0, major = 0, minor = 0, integrated = 0, error;
    size_t bytes = 0;
    if ((error = c->device_get(&device, index)) != 0) return error;
    if ((error = c->device_name(found.name, (int)sizeof found.name, device)) != 0) return error;
    if ((error = c->total_memory(&bytes, device)) != 0) return error;
    if ((error = c->attribute(&major, CUDA_MAJOR, device)) != 0) return error;
    if ((error = c->attribute(&minor, CUDA_MINOR, device)) != 0) return error;
    if ((error = c->attribute(&found.multiprocessors, CUDA_MULTIPROCESSORS, device)) != 0) return error;
    if ((error = c->attribute(&found.wave_width, CUDA_WARP_SIZE, device)) != 0) return error;
    c->attribute(&found.shared_bytes, CUDA_SHARED_BYTES, device);
    c->attribute(&integrated, CUDA_INTEGRATED, device);
    snprintf(found.arch, sizeof found.arch, "sm_%d%d", major, minor);
    found.memory_bytes = bytes;
    found.integrated = integrated != 0;
    *info = found;
    return 0;
}

static int cuda_version(gpu_driver *d, char *text, size_t bytes) {
    int version = 0;
    const int error = of(d)->driver_version(&version);
    snprintf(text, bytes, "CUDA driver %d.%d", version / 1000, version % 1000 / 10);
    return error;
}

static int cuda_bind(gpu_driver *d, int index) {
    cuda_driver *c = of(d);
    if (index < 0 || index >= CUDA_MAX_DEVICES) return CUDA_NO_DEVICE;
    if (c->contexts[index] == NULL) {
        int device = 0, error = c->device_get(&device, index);
        if (error == 0) error = c->context_retain(&c->contexts[index], device);
        if (error != 0) return error;
    }
    return c->context_set(c->contexts[index]);
}

static int cuda_unbind(gpu_driver *d, int index) {
    cuda_driver *c = of(d);
    int device = 0;
    if (index < 0 || index >= CUDA_MAX_DEVICES || c->contexts[index] == NULL) return 0;
    c->contexts[index] = NULL;
    const int error = c->device_get(&device, index);
    return error != 0 ? error : c->context_release(device);
}

static int cuda_memory_info(gpu_driver *d, uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t f = 0, t = 0;
    const int error = of(d)->memory_info(&f, &t);
    *free_bytes = f;
    *total_bytes = t;
    return error;
}

static int cuda_allocate(gpu_driver *d, gpu_pointer *p, size_t bytes) {
    return of(d)->allocate(p, bytes);
}

static int cuda_release(gpu_driver *d, gpu_pointer p) {
    return of(d)->release(p);
}

static int cuda_host_allocate(gpu_driver *d, void **p, size_t bytes) {
    return of(d)->host_allocate(p, bytes, 0);
}

static int cuda_host_release(gpu_driver *d, void *p) {
    return of(d)->host_release(p);
}

static int cuda_fill(gpu_driver *d, gpu_pointer p, int byte, size_t bytes, void *stream) {
    return of(d)->fill(p, (unsigned char)byte, bytes, stream);
}

static int cuda_to_device(gpu_driver *d, gpu_pointer to, const void *from, size_t bytes, void *stream) {
    return of(d)->to_device(to, from, bytes, stream);
}

static int cuda_to_host(gpu_driver *d, void *to, gpu_pointer from, size_t bytes, void *stream) {
    return of(d)->to_host(to, from, bytes, stream);
}

static int cuda_stream_create(gpu_driver *d, void **stream) {
    return of(d)->stream_create(stream, 1); /* not ordered with the default stream */
}

static int cuda_stream_destroy(gpu_driver *d, void *stream) {
    return of(d)->stream_destroy(stream);
}

static int cuda_stream_wait(gpu_driver *d, void *stream) {
    return of(d)->stream_wait(stream);
}

static int cuda_event_create(gpu_driver *d, void **event) {
    return of(d)->event_create(event, 0);
}

static int cuda_event_destroy(gpu_driver *d, void *event) {
    return of(d)->event_destroy(event);
}

static int cuda_event_record(gpu_driver *d, void *event, void *stream) {
    return of(d)->event_record(event, stream);
}

static int cuda_event_wait(gpu_driver *d, void *event) {
    return of(d)->event_wait(event);
}

static int cuda_event_elapsed(gpu_driver *d, float *ms, void *from, void *to) {
    return of(d)->event_elapsed(ms, from, to);
}

static int cuda_module_load(gpu_driver *d, void **module, const void *image) {
    return of(d)->module_load(module, image);
}

static int cuda_module_unload(gpu_driver *d, void *module) {
    return of(d)->module_unload(module);
}

static int cuda_function_get(gpu_driver *d, void **function, void *module, const char *name) {
    return of(d)->function_get(function, module, name);
}

static int cuda_launch(gpu_driver *d, void *function, const unsigned grid[3], unsigned threads, void *stream,
                       void *args) {
    void *parameters[] = {args};
    return of(d)->launch(function, grid[0], grid[1], grid[2], threads, 1, 1, 0, stream, parameters, NULL);
}

static int cuda_capture_begin(gpu_driver *d, void *stream) {
    return of(d)->capture_begin(stream, 2); /* relaxed: other threads may use the driver meanwhile */
}

static int cuda_capture_end(gpu_driver *d, void *stream, void **graph) {
    void *recorded = NULL;
    int error = of(d)->capture_end(stream, &recorded);
    if (error != 0) return error;
    error = of(d)->graph_instantiate(graph, recorded, 0);
    of(d)->graph_destroy(recorded);
    return error;
}

static int cuda_graph_launch(gpu_driver *d, void *graph, void *stream) {
    return of(d)->graph_launch(graph, stream);
}

static int cuda_graph_destroy(gpu_driver *d, void *graph) {
    return of(d)->executable_destroy(graph);
}

static const gpu_driver_table cuda_table = {
    .name = "cuda",
    .vendor = "NVIDIA",
    .close = cuda_close,
    .error_text = cuda_error_text,
    .device_count = cuda_count,
    .device_info = cuda_info,
    .version = cuda_version,
    .bind = cuda_bind,
    .unbind = cuda_unbind,
    .memory_info = cuda_memory_info,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .host_allocate = cuda_host_allocate,
    .host_release = cuda_host_release,
    .fill = cuda_fill,
    .to_device = cuda_to_device,
    .to_host = cuda_to_host,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wait = cuda_stream_wait,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_elapsed = cuda_event_elapsed,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .function_get = cuda_function_get,
    .launch = cuda_launch,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
};

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises the representation. */
#define RESOLVE(name, member, parameters)                                                                              \
    do {                                                                                                               \
        void *address = dlsym(c->library, #name);                                                                      \
        memcpy(&c->member, &address, sizeof address);                                                                  \
    } while (0);

ol_status gpu_driver_cuda_open(ol_context *ctx, gpu_driver **out) {
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1", NULL};
    cuda_driver *c = mem_alloc0(ctx, 1, sizeof *c);
    if (c == NULL) return OL_ERROR_MEMORY;
    c->base.call = cuda_table;
    c->base.ctx = ctx;
    c->library = gpu_library_open(ctx, names, "the NVIDIA driver", c->base.library, sizeof c->base.library);
    if (c->library == NULL) {
        mem_free(ctx, c);
        return OL_ERROR_NOT_FOUND;
    }
    CUDA_SYMBOLS(RESOLVE)
    CUDA_OPTIONAL_SYMBOLS(RESOLVE)
    ol_status status = OL_OK;
#define X(name, member, parameters)                                                                                    \
    if (status == OL_OK && c->member == NULL)                                                                          \
        status = ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s has no %s: the NVIDIA driver is older than 11.1; update it",  \
                          c->base.library, #name);
    CUDA_SYMBOLS(X)
#undef X
    int error = 0, count = 0;
    if (status == OL_OK && ((error = c->init(0)) != 0 || (error = c->count(&count)) != 0 || count == 0))
        status = ctx_fail(ctx, OL_ERROR_DEVICE, "%s finds no NVIDIA GPU (%s)", c->base.library,
                          error != 0 ? cuda_error_text(&c->base, error) : "no devices");
    if (status != OL_OK) {
        cuda_close(&c->base);
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
