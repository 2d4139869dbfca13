/* The AMD runtime: libamdhip64.so of any version from 5 to 7, amdhip64_7.dll and _6 on Windows. Declarations are ours;
 * names and meanings are HIP's. The device properties struct changed its layout in version 6: the new entry is asked
 * for first, and only the name and the architecture are read from it, the rest through attributes, whose numbers did
 * not change. */
#include "device/gpu/drivers/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of hipDeviceAttribute_t, equal in versions 5 to 7. */
enum { HIP_INTEGRATED = 16, HIP_MULTIPROCESSORS = 63, HIP_SHARED_BYTES = 74, HIP_WARP_SIZE = 87 };
/* Offsets of gcnArchName in hipDeviceProp_t; name is at 0 in both. */
enum { HIP_ARCH_AT_5 = 396, HIP_ARCH_AT_6 = 1160 };
enum { HIP_TO_DEVICE = 1, HIP_TO_HOST = 2 };

typedef struct hip_driver {
    gpu_library_driver base;
    const char *(*error_string)(int error);
    int (*runtime_version)(int *version);
    int (*device_set)(int index);
    int (*fill)(gpu_pointer p, int byte, size_t n, void *stream);
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, int kind, void *stream);
    int (*properties_6)(void *properties, int index);
    int (*properties_5)(void *properties, int index);
    int (*instantiate)(void **executable, void *graph, void **node, char *log, size_t log_bytes);
} hip_driver;

#define SHARED(member, name, need)                                                                                     \
    { offsetof(hip_driver, base.e.member), name, need }
#define OWN(member, name, need)                                                                                        \
    { offsetof(hip_driver, member), name, need }
static const gpu_entry entries[] = {
    SHARED(init, "hipInit", GPU_NEEDED),
    SHARED(driver_version, "hipDriverGetVersion", GPU_NEEDED),
    SHARED(count, "hipGetDeviceCount", GPU_NEEDED),
    SHARED(attribute, "hipDeviceGetAttribute", GPU_NEEDED),
    SHARED(total_memory, "hipDeviceTotalMem", GPU_NEEDED),
    SHARED(memory_info, "hipMemGetInfo", GPU_NEEDED),
    SHARED(allocate, "hipMalloc", GPU_NEEDED),
    SHARED(release, "hipFree", GPU_NEEDED),
    SHARED(host_allocate, "hipHostMalloc", GPU_NEEDED),
    SHARED(host_release, "hipHostFree", GPU_NEEDED),
    SHARED(stream_create, "hipStreamCreateWithFlags", GPU_NEEDED),
    SHARED(stream_destroy, "hipStreamDestroy", GPU_NEEDED),
    SHARED(stream_wait, "hipStreamSynchronize", GPU_NEEDED),
    SHARED(event_create, "hipEventCreateWithFlags", GPU_NEEDED),
    SHARED(event_destroy, "hipEventDestroy", GPU_NEEDED),
    SHARED(event_record, "hipEventRecord", GPU_NEEDED),
    SHARED(event_wait, "hipEventSynchronize", GPU_NEEDED),
    SHARED(event_elapsed, "hipEventElapsedTime", GPU_NEEDED),
    SHARED(module_load, "hipModuleLoadData", GPU_NEEDED),
    SHARED(module_unload, "hipModuleUnload", GPU_NEEDED),
    SHARED(function_get, "hipModuleGetFunction", GPU_NEEDED),
    SHARED(function_attribute, "hipFuncGetAttribute", GPU_WANTED),
    SHARED(can_reach, "hipDeviceCanAccessPeer", GPU_WANTED),
    SHARED(launch, "hipModuleLaunchKernel", GPU_NEEDED),
    SHARED(capture_begin, "hipStreamBeginCapture", GPU_RECORDS),
    SHARED(capture_end, "hipStreamEndCapture", GPU_RECORDS),
    SHARED(graph_destroy, "hipGraphDestroy", GPU_RECORDS),
    SHARED(executable_destroy, "hipGraphExecDestroy", GPU_RECORDS),
    SHARED(graph_launch, "hipGraphLaunch", GPU_RECORDS),
    OWN(error_string, "hipGetErrorString", GPU_WANTED),
    OWN(runtime_version, "hipRuntimeGetVersion", GPU_NEEDED),
    OWN(device_set, "hipSetDevice", GPU_NEEDED),
    OWN(fill, "hipMemsetAsync", GPU_NEEDED),
    OWN(copy, "hipMemcpyAsync", GPU_NEEDED),
    OWN(properties_6, "hipGetDevicePropertiesR0600", GPU_WANTED),
    OWN(properties_5, "hipGetDeviceProperties", GPU_WANTED),
    OWN(instantiate, "hipGraphInstantiate", GPU_RECORDS),
};

static hip_driver *of(gpu_driver *d) {
    return (hip_driver *)d;
}

static const char *hip_error_text(gpu_driver *d, int error) {
    const char *text = of(d)->error_string != NULL ? of(d)->error_string(error) : NULL;
    return text != NULL ? text : "unknown error";
}

static int hip_info(gpu_driver *d, int index, gpu_info *info) {
    hip_driver *c = of(d);
    gpu_info found = {0};
    unsigned char properties[4096] = {0}; /* roomier than any version's struct */
    const bool new_layout = c->properties_6 != NULL;
    int error = new_layout ? c->properties_6(properties, index) : c->properties_5(properties, index), integrated = 0;
    if (error != 0) return error;
    properties[255] = '\0';
    gpu_name_write(&found, "AMD", (const char *)properties);
    snprintf(found.arch, sizeof found.arch, "%.63s",
             (const char *)properties + (new_layout ? HIP_ARCH_AT_6 : HIP_ARCH_AT_5));
    found.arch[strcspn(found.arch, ":")] = '\0'; /* "gfx90a:sramecc+:xnack-" */
    size_t bytes = 0;
    if ((error = c->base.e.total_memory(&bytes, index)) != 0) return error;
    if ((error = c->base.e.attribute(&found.multiprocessors, HIP_MULTIPROCESSORS, index)) != 0) return error;
    if ((error = c->base.e.attribute(&found.wave_width, HIP_WARP_SIZE, index)) != 0) return error;
    c->base.e.attribute(&found.shared_bytes, HIP_SHARED_BYTES, index);
    if (c->base.e.attribute(&integrated, HIP_INTEGRATED, index) == 0) found.integrated = integrated != 0;
    found.memory_bytes = bytes;
    *info = found;
    return 0;
}

static int hip_version(gpu_driver *d, char *text, size_t bytes) {
    int numbers[2] = {0, 0};
    char names[2][24] = {"unknown", "unknown"};
    const int errors[2] = {of(d)->runtime_version(&numbers[0]), of(d)->base.e.driver_version(&numbers[1])};
    for (int i = 0; i < 2; i++)
        if (errors[i] == 0 && numbers[i] > 0)
            snprintf(names[i], sizeof names[i], "%d.%d", numbers[i] / 10000000, numbers[i] / 100000 % 100);
    snprintf(text, bytes, "HIP runtime %s, driver %s", names[0], names[1]);
    return errors[0] != 0 ? errors[0] : errors[1];
}

static int hip_bind(gpu_driver *d, int index) {
    return of(d)->device_set(index);
}

static int hip_unbind(gpu_driver *d, int index) {
    (void)d, (void)index;
    return 0;
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

static int hip_module_load(gpu_driver *d, void **module, const void *image) {
    return of(d)->base.e.module_load(module, image);
}

static int hip_instantiate(gpu_library_driver *d, void **executable, void *graph) {
    return ((hip_driver *)d)->instantiate(executable, graph, NULL, NULL, 0);
}

static const gpu_vendor vendor = {.own = {.name = "hip",
                                          .vendor = "AMD",
                                          .error_text = hip_error_text,
                                          .device_info = hip_info,
                                          .version = hip_version,
                                          .bind = hip_bind,
                                          .unbind = hip_unbind,
                                          .fill = hip_fill,
                                          .to_device = hip_to_device,
                                          .to_host = hip_to_host,
                                          .module_load = hip_module_load},
                                  .instantiate = hip_instantiate,
                                  .what = "the AMD HIP runtime",
                                  .too_old = "it is older than HIP 5; update ROCm",
                                  .driver_bytes = sizeof(hip_driver),
                                  .entries = entries,
                                  .n_entries = sizeof entries / sizeof *entries};

ol_status gpu_driver_hip_open(ol_context *ctx, gpu_driver **out) {
#if defined(_WIN32)
    static const char *const libraries[] = {"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll", NULL};
#else
    /* AMD's own packages go to /opt/rocm without telling the loader */
    const char *prefix = getenv("ROCM_PATH");
    if (prefix == NULL) prefix = "/opt/rocm";
    char placed[3][512];
    for (int i = 0; i < 3; i++) snprintf(placed[i], sizeof placed[i], "%.480s/lib/libamdhip64.so.%d", prefix, 7 - i);
    const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                     placed[0],          placed[1],          placed[2],          NULL};
#endif
    gpu_driver *d = NULL;
    const ol_status status = gpu_vendor_open(ctx, &vendor, libraries, &d);
    if (status != OL_OK) return status;
    if (of(d)->properties_5 == NULL && of(d)->properties_6 == NULL) {
        const ol_status failed = ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s cannot describe its devices", d->library);
        d->call.close(d);
        return failed;
    }
    *out = d;
    return OL_OK;
}
