/* The stand-in of hip_double.c as NVIDIA's driver: CUDA_DOUBLE_DEVICES="sm_90,sm_70" and so on, of driver
 * version CUDA_DOUBLE_VERSION (12080). With CUDA_DOUBLE_FOREIGN machine code is refused, as by a card that it is not
 * for. */
#define DOUBLE_IS_CUDA
#define ENV(name)              getenv("CUDA_DOUBLE_" name)
#define hipInit                cuInit
#define hipGetDeviceCount      cuDeviceGetCount
#define hipDeviceTotalMem      cuDeviceTotalMem_v2
#define hipDeviceCanAccessPeer cuDeviceCanAccessPeer
#define hipFuncGetAttribute    cuFuncGetAttribute
#define hipMemGetInfo          cuMemGetInfo_v2
#ifdef NVIDIA_LACKS_VERSIONS
#define hipMalloc cuMemAlloc
#else
#define hipMalloc cuMemAlloc_v2
#endif
#define hipFree                  cuMemFree_v2
#define hipHostMalloc            cuMemHostAlloc
#define hipHostFree              cuMemFreeHost
#define hipModuleGetFunction     cuModuleGetFunction
#define hipModuleLaunchKernel    cuLaunchKernel
#define hipEventElapsedTime      cuEventElapsedTime
#define hipStreamCreateWithFlags cuStreamCreate
#define hipEventCreateWithFlags  cuEventCreate
#define hipModuleLoadData        cuModuleLoadData
#define hipGraphInstantiate      cuGraphInstantiateWithFlags
#define hipStreamDestroy         cuStreamDestroy_v2
#define hipStreamSynchronize     cuStreamSynchronize
#define hipEventDestroy          cuEventDestroy_v2
#define hipEventRecord           cuEventRecord
#define hipEventSynchronize      cuEventSynchronize
#define hipModuleUnload          cuModuleUnload
#define hipStreamBeginCapture    cuStreamBeginCapture_v2
#define hipGraphDestroy          cuGraphDestroy
#define hipGraphExecDestroy      cuGraphExecDestroy
#define hipGraphLaunch           cuGraphLaunch
#define hipStreamEndCapture      cuStreamEndCapture
#include "hip_double.c"

enum { WARP_SIZE = 10, MULTIPROCESSORS = 16, INTEGRATED = 18, MAJOR = 75, MINOR = 76 };
enum { SPLIT_COMPILE = 34 };

CALL(cuDriverGetVersion, (int *version)) {
    LOOK(0);
    *version = ENV("VERSION") != NULL ? atoi(ENV("VERSION")) : 12080;
    return 0;
}
CALL(cuDeviceGet, (int *device, int index)) {
    LOOK(index);
    *device = index;
    return 0;
}
CALL(cuDeviceGetName, (char *name, int bytes, int index)) {
    LOOK(index);
    if (ENV("NAME") != NULL)
        name_of(index, name, (size_t)bytes);
    else
        snprintf(name, (size_t)bytes, "NVIDIA double %d", index);
    return 0;
}
CALL(cuDeviceGetAttribute, (int *value, int attribute, int index)) {
    char arch[32];
    LOOK(index);
    if (!device_at(index, arch, sizeof arch)) return NO_DEVICE;
    const int number = atoi(arch + 3); /* of "sm_90" */
    *value = attribute == INTEGRATED        ? is_integrated(index)
             : attribute == WARP_SIZE       ? 32
             : attribute == MULTIPROCESSORS ? 8
             : attribute == MAJOR           ? number / 10
             : attribute == MINOR           ? number % 10
                                            : 65536;
    return 0;
}
CALL(cuGetErrorString, (int error, const char **text)) {
    *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "the double's error";
    return 0;
}
static char contexts[64];
CALL(cuDevicePrimaryCtxRetain, (void **context, int device)) {
    LOOK(device);
    code_note("context", "");
    *context = &contexts[device];
    return ENV("MB") != NULL ? call(__func__) : 0;
}
CALL(cuDevicePrimaryCtxRelease_v2, (int device)) {
    LOOK(device);
    return ENV("MB") != NULL ? call(__func__) : 0;
}
CALL(cuCtxSetCurrent, (void *context)) {
    current = (int)((char *)context - contexts);
    LOOK(current);
    return ENV("MB") != NULL ? call("cuCtxSetCurrent") : 0;
}
CALL(cuMemsetD8Async, (void *p, unsigned char byte, size_t bytes, void *stream)) {
    (void)stream;
    BEGIN;
    if (!is_inside(p, bytes)) return INVALID;
    memset(p, byte, bytes);
    return 0;
}
CALL(cuMemcpyHtoDAsync_v2, (void *to, const void *from, size_t bytes, void *stream)) {
    (void)stream;
    BEGIN;
    if (!is_inside(to, bytes) || is_inside(from, 1)) return INVALID;
    memmove(to, from, bytes);
    return 0;
}
CALL(cuMemcpyDtoHAsync_v2, (void *to, const void *from, size_t bytes, void *stream)) {
    (void)stream;
    BEGIN;
    if (!is_inside(from, bytes) || is_inside(to, 1)) return INVALID;
    memmove(to, from, bytes);
    return 0;
}
CALL(cuModuleLoadDataEx, (void **made, const char *image, unsigned n, const int *options, void *const *values)) {
    BEGIN;
    if (n != 1 || options[0] != SPLIT_COMPILE || values[0] != NULL) return INVALID;
    *made = &nothing;
    return code_take("split", image);
}
