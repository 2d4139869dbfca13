/* Stands in for AMD's HIP runtime in tests of what is said about devices: shows as many as HIP_DOUBLE_DEVICES names
 * ("gfx1100,gfx1036i": an i marks an integrated one), and computes nothing. HIP_DOUBLE_ERROR is what hipInit returns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
enum { NO_DEVICE = 100, NOT_SUPPORTED = 801, ARCH_AT = 1160, INTEGRATED = 16, MULTIPROCESSORS = 63, WARP_SIZE = 87 };

/* The architecture of a device; false past the last. */
static int device_at(int index, char *arch, size_t bytes) {
    const char *list = getenv("HIP_DOUBLE_DEVICES");
    for (int i = 0; list != NULL && *list != '\0'; i++) {
        const size_t n = strcspn(list, ",");
        if (i == index) {
            snprintf(arch, bytes, "%.*s", (int)n, list);
            return 1;
        }
        list += n + (list[n] == ',');
    }
    return 0;
}

static int is_integrated(int index) {
    char arch[32] = "";
    return device_at(index, arch, sizeof arch) && arch[0] != '\0' && arch[strlen(arch) - 1] == 'i';
}

SHOWN int hipInit(unsigned flags);
int hipInit(unsigned flags) {
    const char *error = getenv("HIP_DOUBLE_ERROR");
    (void)flags;
    return error != NULL ? atoi(error) : 0;
}

SHOWN int hipGetDeviceCount(int *count);
int hipGetDeviceCount(int *count) {
    char arch[32];
    for (*count = 0; device_at(*count, arch, sizeof arch);) (*count)++;
    return *count > 0 ? 0 : NO_DEVICE;
}

SHOWN int hipGetDevicePropertiesR0600(void *properties, int index);
int hipGetDevicePropertiesR0600(void *properties, int index) {
    char arch[32];
    if (!device_at(index, arch, sizeof arch)) return NO_DEVICE;
    if (is_integrated(index)) arch[strlen(arch) - 1] = '\0';
    memset(properties, 0, 1472);
    snprintf(properties, 256, "AMD double %d", index);
    snprintf((char *)properties + ARCH_AT, 256, "%s:sramecc+:xnack-", arch);
    return 0;
}

SHOWN int hipDeviceGetAttribute(int *value, int attribute, int index);
int hipDeviceGetAttribute(int *value, int attribute, int index) {
    *value = attribute == INTEGRATED        ? is_integrated(index)
             : attribute == WARP_SIZE       ? 32
             : attribute == MULTIPROCESSORS ? 8
                                            : 65536;
    return 0;
}

SHOWN int hipDeviceTotalMem(size_t *bytes, int index);
int hipDeviceTotalMem(size_t *bytes, int index) {
    *bytes = is_integrated(index) ? (size_t)512 << 20 : (size_t)16 << 30;
    return 0;
}

SHOWN int hipMemGetInfo(size_t *free_bytes, size_t *total_bytes);
int hipMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = (size_t)8 << 30;
    *total_bytes = (size_t)16 << 30;
    return 0;
}

SHOWN int hipSetDevice(int index);
int hipSetDevice(int index) {
    (void)index;
    return 0;
}

SHOWN int hipDriverGetVersion(int *version);
int hipDriverGetVersion(int *version) {
    *version = 60443484;
    return 0;
}

SHOWN int hipRuntimeGetVersion(int *version);
int hipRuntimeGetVersion(int *version) {
    *version = 60443484;
    return 0;
}

SHOWN const char *hipGetErrorString(int error);
const char *hipGetErrorString(int error) {
    return error == NO_DEVICE ? "no ROCm-capable device is detected" : "the double's error";
}

/* Everything that would compute. */
#define REFUSED(name)                                                                                                  \
    SHOWN int name(void);                                                                                              \
    int name(void) {                                                                                                   \
        return NOT_SUPPORTED;                                                                                          \
    }
REFUSED(hipMalloc)
REFUSED(hipFree)
REFUSED(hipHostMalloc)
REFUSED(hipHostFree)
REFUSED(hipMemsetAsync)
REFUSED(hipMemcpyAsync)
REFUSED(hipStreamCreateWithFlags)
REFUSED(hipStreamDestroy)
REFUSED(hipStreamSynchronize)
REFUSED(hipEventCreateWithFlags)
REFUSED(hipEventDestroy)
REFUSED(hipEventRecord)
REFUSED(hipEventSynchronize)
REFUSED(hipEventElapsedTime)
REFUSED(hipModuleLoadData)
REFUSED(hipModuleUnload)
REFUSED(hipModuleGetFunction)
REFUSED(hipModuleLaunchKernel)
