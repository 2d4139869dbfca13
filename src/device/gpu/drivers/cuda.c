/* The NVIDIA driver: libcuda.so.1 or nvcuda.dll alone, no toolkit. Declarations are ours; names and meanings are the
 * CUDA driver API's. */
#include "device/gpu/drivers/entries.h"

#include <stdio.h>

/* Numbers of CUdevice_attribute. */
enum {
    CUDA_WARP_SIZE = 10,
    CUDA_MULTIPROCESSORS = 16,
    CUDA_INTEGRATED = 18,
    CUDA_MAJOR = 75,
    CUDA_MINOR = 76,
    CUDA_SHARED_BYTES = 97
};
enum { CUDA_JIT_SPLIT_COMPILE = 34 }; /* of CUjit_option */
#define CUDA_SPLITS_FROM 12090
#define CUDA_MAX_DEVICES 64
#define CUDA_NO_DEVICE   100

typedef struct cuda_driver {
    gpu_library_driver base;
    void *contexts[CUDA_MAX_DEVICES];
    int (*error_string)(int error, const char **text);
    int (*device_get)(int *device, int index);
    int (*device_name)(char *name, int bytes, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*fill)(gpu_pointer p, unsigned char byte, size_t n, void *stream);
    int (*to_device)(gpu_pointer to, const void *from, size_t bytes, void *stream);
    int (*to_host)(void *to, gpu_pointer from, size_t bytes, void *stream);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*module_compile)(void **module, const void *image, unsigned n, int *options, void **values);
} cuda_driver;

#define SHARED(member, name, need)                                                                                     \
    { offsetof(cuda_driver, base.e.member), name, need }
#define OWN(member, name, need)                                                                                        \
    { offsetof(cuda_driver, member), name, need }
static const gpu_entry entries[] = {
    SHARED(init, "cuInit", GPU_NEEDED),
    SHARED(driver_version, "cuDriverGetVersion", GPU_NEEDED),
    SHARED(count, "cuDeviceGetCount", GPU_NEEDED),
    SHARED(attribute, "cuDeviceGetAttribute", GPU_NEEDED),
    SHARED(total_memory, "cuDeviceTotalMem_v2", GPU_NEEDED),
    SHARED(memory_info, "cuMemGetInfo_v2", GPU_NEEDED),
    SHARED(allocate, "cuMemAlloc_v2", GPU_NEEDED),
    SHARED(release, "cuMemFree_v2", GPU_NEEDED),
    SHARED(host_allocate, "cuMemHostAlloc", GPU_NEEDED),
    SHARED(host_release, "cuMemFreeHost", GPU_NEEDED),
    SHARED(stream_create, "cuStreamCreate", GPU_NEEDED),
    SHARED(stream_destroy, "cuStreamDestroy_v2", GPU_NEEDED),
    SHARED(stream_wait, "cuStreamSynchronize", GPU_NEEDED),
    SHARED(event_create, "cuEventCreate", GPU_NEEDED),
    SHARED(event_destroy, "cuEventDestroy_v2", GPU_NEEDED),
    SHARED(event_record, "cuEventRecord", GPU_NEEDED),
    SHARED(event_wait, "cuEventSynchronize", GPU_NEEDED),
    SHARED(event_elapsed, "cuEventElapsedTime", GPU_NEEDED),
    SHARED(module_load, "cuModuleLoadData", GPU_NEEDED),
    SHARED(module_unload, "cuModuleUnload", GPU_NEEDED),
    SHARED(function_get, "cuModuleGetFunction", GPU_NEEDED),
    SHARED(function_attribute, "cuFuncGetAttribute", GPU_WANTED),
    SHARED(can_reach, "cuDeviceCanAccessPeer", GPU_WANTED),
    SHARED(launch, "cuLaunchKernel", GPU_NEEDED),
    SHARED(capture_begin, "cuStreamBeginCapture_v2", GPU_RECORDS),
    SHARED(capture_end, "cuStreamEndCapture", GPU_RECORDS),
    SHARED(graph_destroy, "cuGraphDestroy", GPU_RECORDS),
    SHARED(executable_destroy, "cuGraphExecDestroy", GPU_RECORDS),
    SHARED(graph_launch, "cuGraphLaunch", GPU_RECORDS),
    OWN(error_string, "cuGetErrorString", GPU_NEEDED),
    OWN(device_get, "cuDeviceGet", GPU_NEEDED),
    OWN(device_name, "cuDeviceGetName", GPU_NEEDED),
    OWN(context_retain, "cuDevicePrimaryCtxRetain", GPU_NEEDED),
    OWN(context_release, "cuDevicePrimaryCtxRelease_v2", GPU_NEEDED),
    OWN(context_set, "cuCtxSetCurrent", GPU_NEEDED),
    OWN(fill, "cuMemsetD8Async", GPU_NEEDED),
    OWN(to_device, "cuMemcpyHtoDAsync_v2", GPU_NEEDED),
    OWN(to_host, "cuMemcpyDtoHAsync_v2", GPU_NEEDED),
    OWN(instantiate, "cuGraphInstantiateWithFlags", GPU_RECORDS),
    OWN(module_compile, "cuModuleLoadDataEx", GPU_WANTED),
};

static cuda_driver *of(gpu_driver *d) {
    return (cuda_driver *)d;
}

static const char *cuda_error_text(gpu_driver *d, int error) {
    const char *text = NULL;
    of(d)->error_string(error, &text);
    return text != NULL ? text : "unknown error";
}

static int cuda_info(gpu_driver *d, int index, gpu_info *info) {
    cuda_driver *c = of(d);
    gpu_info found = {0};
    char name[256] = "";
    int device = 0, major = 0, minor = 0, integrated = 0, error;
    size_t bytes = 0;
    if ((error = c->device_get(&device, index)) != 0) return error;
    if ((error = c->device_name(name, (int)sizeof name - 1, device)) != 0) return error;
    gpu_name_write(&found, "NVIDIA", name);
    if ((error = c->base.e.total_memory(&bytes, device)) != 0) return error;
    if ((error = c->base.e.attribute(&major, CUDA_MAJOR, device)) != 0) return error;
    if ((error = c->base.e.attribute(&minor, CUDA_MINOR, device)) != 0) return error;
    if ((error = c->base.e.attribute(&found.multiprocessors, CUDA_MULTIPROCESSORS, device)) != 0) return error;
    if ((error = c->base.e.attribute(&found.wave_width, CUDA_WARP_SIZE, device)) != 0) return error;
    c->base.e.attribute(&found.shared_bytes, CUDA_SHARED_BYTES, device);
    c->base.e.attribute(&integrated, CUDA_INTEGRATED, device);
    snprintf(found.arch, sizeof found.arch, "sm_%d%d", major, minor);
    found.memory_bytes = bytes;
    found.integrated = integrated != 0;
    *info = found;
    return 0;
}

static int cuda_version(gpu_driver *d, char *text, size_t bytes) {
    int version = 0;
    const int error = of(d)->base.e.driver_version(&version);
    if (error != 0 || version <= 0)
        snprintf(text, bytes, "CUDA driver of unknown version");
    else
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

static int cuda_fill(gpu_driver *d, gpu_pointer p, int byte, size_t bytes, void *stream) {
    return of(d)->fill(p, (unsigned char)byte, bytes, stream);
}

static int cuda_to_device(gpu_driver *d, gpu_pointer to, const void *from, size_t bytes, void *stream) {
    return of(d)->to_device(to, from, bytes, stream);
}

static int cuda_to_host(gpu_driver *d, void *to, gpu_pointer from, size_t bytes, void *stream) {
    return of(d)->to_host(to, from, bytes, stream);
}

/* PTX is compiled by as many threads as there are processors, where the driver can. */
static int cuda_module_load(gpu_driver *d, void **module, const void *image) {
    cuda_driver *c = of(d);
    int version = 0, option = CUDA_JIT_SPLIT_COMPILE;
    void *all_processors = NULL;
    if (c->module_compile != NULL && c->base.e.driver_version(&version) == 0 && version >= CUDA_SPLITS_FROM &&
        c->module_compile(module, image, 1, &option, &all_processors) == 0)
        return 0;
    return c->base.e.module_load(module, image);
}

static int cuda_instantiate(gpu_library_driver *d, void **executable, void *graph) {
    return ((cuda_driver *)d)->instantiate(executable, graph, 0);
}

static const gpu_vendor vendor = {.own = {.name = "cuda",
                                          .vendor = "NVIDIA",
                                          .error_text = cuda_error_text,
                                          .device_info = cuda_info,
                                          .version = cuda_version,
                                          .bind = cuda_bind,
                                          .unbind = cuda_unbind,
                                          .fill = cuda_fill,
                                          .to_device = cuda_to_device,
                                          .to_host = cuda_to_host,
                                          .module_load = cuda_module_load},
                                  .instantiate = cuda_instantiate,
                                  .what = "the NVIDIA driver",
                                  .too_old = "the NVIDIA driver is older than 11.1; update it",
                                  .driver_bytes = sizeof(cuda_driver),
                                  .entries = entries,
                                  .n_entries = sizeof entries / sizeof *entries};

ol_status gpu_driver_cuda_open(ol_context *ctx, gpu_driver **out) {
#if defined(_WIN32)
    static const char *const libraries[] = {"nvcuda.dll", NULL};
#else
    static const char *const libraries[] = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1", NULL};
#endif
    return gpu_vendor_open(ctx, &vendor, libraries, out);
}
