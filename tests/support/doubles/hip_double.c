/* Stands in for AMD's HIP runtime (and, included by cuda_double.c, for NVIDIA's driver) in tests of what is said about
 * devices and of what happens when they fail: shows as many as HIP_DOUBLE_DEVICES names ("gfx1100,gfx1036i": an i marks
 * an integrated one). HIP_DOUBLE_ERROR is what hipInit returns. It computes nothing: with HIP_DOUBLE_MB=n a device has
 * n MiB of memory and every launch is fine and leaves the memory as it is, without it everything that would compute is
 * refused. HIP_DOUBLE_NAME is the marketing name. HIP_DOUBLE_FREE="3,9": GiB free on each device. HIP_DOUBLE_LOG=file
 * writes the name of each call. HIP_DOUBLE_FAIL=n:error lets the n-th call (from 1) fail with that number, and all
 * after it when HIP_DOUBLE_LOST is set, as those of a device that is gone do. HIP_DOUBLE_REFUSE=name:error lets that
 * function fail always, HIP_DOUBLE_REFUSE=name@1:error on device 1 alone; it is for those that look and are not
 * counted. HIP_DOUBLE_ABORT=name: kernels whose names begin so end the program, as a fault of memory access does.
 * HIP_VERSION_OF_DOUBLE is the version that the library claims to be. HIP_DOUBLE_CODE=file receives a line for each
 * piece of code that is handed over, for each kernel in PTX, and for each that is asked for. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
enum { TO_DEVICE = 1, TO_HOST = 2, NON_BLOCKING = 1, RELAXED = 2 };
enum { NO_DEVICE = 100, NOT_SUPPORTED = 801 };
#ifndef DOUBLE_IS_CUDA
#define ENV(name) getenv("HIP_DOUBLE_" name)
enum { INTEGRATED = 16, MULTIPROCESSORS = 63, WARP_SIZE = 87 };
/* The struct of properties changed in version 6, and with it the name of the function. */
#ifndef HIP_VERSION_OF_DOUBLE
#define HIP_VERSION_OF_DOUBLE 60443484
#endif
#if HIP_VERSION_OF_DOUBLE < 60000000
#define hipGetDevicePropertiesR0600 hipGetDeviceProperties
enum { ARCH_AT = 396, PROPERTIES_BYTES = 792 };
#else
enum { ARCH_AT = 1160, PROPERTIES_BYTES = 1472 };
#endif
#endif

/* The architecture of a device; false past the last. */
static int device_at(int index, char *arch, size_t bytes) {
    const char *list = ENV("DEVICES");
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

/* The error that a function which looks has to answer. */
static int refused(const char *name, int index) {
    const char *plan = ENV("REFUSE");
    const size_t n = strlen(name);
    if (plan == NULL || strncmp(plan, name, n) != 0 || (plan[n] != '@' && plan[n] != ':')) return 0;
    if (plan[n] == '@' && atoi(plan + n + 1) != index) return 0;
    return atoi(strchr(plan, ':') + 1);
}
#define LOOK(index)                                                                                                    \
    if (refused(__func__, index) != 0) return refused(__func__, index)

SHOWN int hipInit(unsigned flags);
int hipInit(unsigned flags) {
    const char *error = ENV("ERROR");
    (void)flags;
    return error != NULL ? atoi(error) : 0;
}

static int call(const char *name);
static size_t room(void);
static int current;

SHOWN int hipGetDeviceCount(int *count);
int hipGetDeviceCount(int *count) {
    char arch[32];
    LOOK(0);
    for (*count = 0; device_at(*count, arch, sizeof arch);) (*count)++;
    return *count > 0 ? 0 : NO_DEVICE;
}

static void name_of(int index, char *out, size_t bytes) {
    if (ENV("NAME") != NULL)
        snprintf(out, bytes, "%s", ENV("NAME"));
    else
        snprintf(out, bytes, "AMD double %d", index);
}

#ifndef DOUBLE_IS_CUDA
SHOWN int hipGetDevicePropertiesR0600(void *properties, int index);
int hipGetDevicePropertiesR0600(void *properties, int index) {
    char arch[32];
    LOOK(index);
    if (!device_at(index, arch, sizeof arch)) return NO_DEVICE;
    if (is_integrated(index)) arch[strlen(arch) - 1] = '\0';
    memset(properties, 0, PROPERTIES_BYTES);
    name_of(index, properties, 256);
    snprintf((char *)properties + ARCH_AT, 256, "%s:sramecc+:xnack-", arch);
    return 0;
}

SHOWN int hipDeviceGetAttribute(int *value, int attribute, int index);
int hipDeviceGetAttribute(int *value, int attribute, int index) {
    LOOK(index);
    *value = attribute == INTEGRATED        ? is_integrated(index)
             : attribute == WARP_SIZE       ? 32
             : attribute == MULTIPROCESSORS ? 8
                                            : 65536;
    return 0;
}
#endif

SHOWN int hipDeviceCanAccessPeer(int *can, int index, int peer);
int hipDeviceCanAccessPeer(int *can, int index, int peer) {
    *can = index != peer && !is_integrated(index) && !is_integrated(peer);
    return 0;
}

SHOWN int hipDeviceTotalMem(size_t *bytes, int index);
int hipDeviceTotalMem(size_t *bytes, int index) {
    LOOK(index);
    *bytes = is_integrated(index) ? (size_t)512 << 20 : room();
    return 0;
}

#ifndef DOUBLE_IS_CUDA
SHOWN int hipSetDevice(int index);
int hipSetDevice(int index) {
    LOOK(index);
    current = index;
    return ENV("MB") != NULL ? call("hipSetDevice") : 0;
}

SHOWN int hipDriverGetVersion(int *version);
int hipDriverGetVersion(int *version) {
    LOOK(0);
    *version = HIP_VERSION_OF_DOUBLE;
    return 0;
}

SHOWN int hipRuntimeGetVersion(int *version);
int hipRuntimeGetVersion(int *version) {
    LOOK(0);
    *version = HIP_VERSION_OF_DOUBLE;
    return 0;
}

SHOWN const char *hipGetErrorString(int error);
const char *hipGetErrorString(int error) {
    return error == NO_DEVICE ? "no ROCm-capable device is detected" : "the double's error";
}
#endif

/* --- what would compute --- */

enum { OUT_OF_MEMORY = 2, INVALID = 1, NO_BINARY = 209, REGISTERS = 4 };

/* Counts the call; the error that it has to answer. */
static int call(const char *name) {
    static FILE *log;
    static long n;
    const char *path = ENV("LOG"), *plan = ENV("FAIL");
    if (ENV("MB") == NULL) return NOT_SUPPORTED;
    n++;
    if (path != NULL && log == NULL) log = fopen(path, "w");
    if (log != NULL) {
        fprintf(log, "%s\n", name);
        fflush(log);
    }
    if (plan == NULL) return 0;
    const long at = atol(plan);
    const char *colon = strchr(plan, ':');
    return n == at || (n > at && ENV("LOST") != NULL) ? atoi(colon != NULL ? colon + 1 : "719") : 0;
}

/* Stands before each block of the device's memory. */
typedef struct block_head {
    struct block_head *next;
    size_t bytes;
} block_head;
enum { HEAD = 256 };
static block_head *blocks;
static size_t in_use;

/* Are these bytes the device's? */
static int is_inside(const void *p, size_t bytes) {
    const uintptr_t at = (uintptr_t)p;
    for (const block_head *b = blocks; b != NULL; b = b->next) {
        const uintptr_t start = (uintptr_t)b + HEAD;
        if (at >= start && at + bytes <= start + b->bytes) return 1;
    }
    return 0;
}

static size_t room(void) {
    const char *mib = ENV("MB");
    return mib != NULL ? (size_t)atol(mib) << 20 : (size_t)16 << 30;
}

#define CALL(name, parameters)                                                                                         \
    SHOWN int name parameters;                                                                                         \
    int name parameters
#define BEGIN                                                                                                          \
    const int error = call(__func__);                                                                                  \
    if (error != 0) return error

CALL(hipMemGetInfo, (size_t * free_bytes, size_t *total_bytes)) {
    const char *list = ENV("FREE");
    LOOK(current);
    for (int i = 0; list != NULL && i < current; i++) list += strcspn(list, ",") + 1;
    *free_bytes = list != NULL ? (size_t)atol(list) << 30 : ENV("MB") != NULL ? room() - in_use : (size_t)8 << 30;
    *total_bytes = room();
    return 0;
}
/* Notes what does not fit (HIP_DOUBLE_REFUSED names a file): whether something had to give way. */
static int refuse(size_t bytes) {
    const char *path = getenv("HIP_DOUBLE_REFUSED");
    FILE *f = path != NULL ? fopen(path, "a") : NULL;
    if (f != NULL) fprintf(f, "%zu of %zu\n", bytes, room() - in_use);
    if (f != NULL) fclose(f);
    return OUT_OF_MEMORY;
}
CALL(hipMalloc, (void **p, size_t bytes)) {
    BEGIN;
    if (bytes > room() - in_use) return refuse(bytes);
    block_head *block = calloc(1, bytes + HEAD);
    if (block == NULL) return OUT_OF_MEMORY;
    *block = (block_head){blocks, bytes};
    blocks = block;
    in_use += bytes;
    *p = (unsigned char *)block + HEAD;
    return 0;
}
CALL(hipFree, (void *p)) {
    int found = p == NULL;
    for (block_head **at = &blocks; p != NULL && *at != NULL; at = &(*at)->next) {
        block_head *block = *at; /* also when the device is lost: nothing of ours may leak then */
        if ((unsigned char *)block + HEAD != p) continue;
        *at = block->next;
        in_use -= block->bytes;
        free(block);
        found = 1;
        break;
    }
    BEGIN;
    return found ? 0 : INVALID;
}
CALL(hipHostMalloc, (void **p, size_t bytes, unsigned flags)) {
    (void)flags;
    BEGIN;
    *p = calloc(1, bytes + 1);
    return *p != NULL ? 0 : OUT_OF_MEMORY;
}
CALL(hipHostFree, (void *p)) {
    free(p);
    BEGIN;
    return 0;
}
#ifndef DOUBLE_IS_CUDA
CALL(hipMemsetAsync, (void *p, int byte, size_t bytes, void *stream)) {
    (void)stream;
    BEGIN;
    if (!is_inside(p, bytes)) return INVALID;
    memset(p, byte, bytes);
    return 0;
}
CALL(hipMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream)) {
    (void)stream;
    BEGIN;
    if (kind != TO_DEVICE && kind != TO_HOST) return INVALID;
    if (!is_inside(kind == TO_DEVICE ? to : from, bytes) || is_inside(kind == TO_DEVICE ? from : to, 1)) return INVALID;
    memmove(to, from, bytes);
    return 0;
}
#endif
static void code_note(const char *what, const char *name) {
    FILE *f = ENV("CODE") != NULL ? fopen(ENV("CODE"), "a") : NULL;
    if (f != NULL) fprintf(f, "%s %s\n", what, name);
    if (f != NULL) fclose(f);
}
static int code_take(const char *how, const char *image) {
    const int is_machine_code = memcmp(image, "\177ELF", 4) == 0;
    code_note(how, is_machine_code ? "machine code" : "ptx");
    if (is_machine_code) return ENV("FOREIGN") != NULL ? NO_BINARY : 0;
    for (const char *at = strstr(image, ".entry "); at != NULL; at = strstr(at + 1, ".entry ")) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 7, "(\n"), at + 7);
        code_note("kernel", name);
    }
    return 0;
}

/* Kernels leave no trace: the outcome of a step stays what its memory was cleared to, a norm of zero. */
static char nothing, astray;
CALL(hipModuleGetFunction, (void **made, void *module, const char *name)) {
    (void)module;
    const char *fatal = ENV("ABORT");
    BEGIN;
    code_note("function", name);
    *made = fatal != NULL && strncmp(name, fatal, strlen(fatal)) == 0 ? &astray : &nothing;
    return 0;
}
CALL(hipModuleLaunchKernel, (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, void *stream, void **parameters, void **extra)) {
    (void)shared, (void)stream;
    BEGIN;
    if (gx < 1 || gy < 1 || gz < 1 || gx > 0x7fffffff || gy > 65535 || gz > 65535) return INVALID;
    if (bx < 1 || bx > 1024 || by != 1 || bz != 1 || parameters == NULL || extra != NULL) return INVALID;
    if (f == &astray) abort();
    return 0;
}
CALL(hipEventElapsedTime, (float *ms, void *from, void *to)) {
    (void)from, (void)to;
    BEGIN;
    *ms = 1.0f;
    return 0;
}

CALL(hipModuleLoadData, (void **made, const char *image)) {
    BEGIN;
    *made = &nothing;
    return code_take("load", image);
}
CALL(hipFuncGetAttribute, (int *value, int attribute, void *function)) {
    (void)function;
    BEGIN;
    *value = attribute == REGISTERS ? 40 : 0;
    return 0;
}

/* What hands out things that are nothing, and what takes them. */
#define MAKER(name, parameters)                                                                                        \
    CALL(name, parameters) {                                                                                           \
        BEGIN;                                                                                                         \
        *made = &nothing;                                                                                              \
        return 0;                                                                                                      \
    }
#define TAKER(name)                                                                                                    \
    CALL(name, (void)) {                                                                                               \
        BEGIN;                                                                                                         \
        return 0;                                                                                                      \
    }
CALL(hipStreamCreateWithFlags, (void **made, unsigned flags)) {
    BEGIN;
    *made = &nothing;
    return flags == NON_BLOCKING ? 0 : INVALID; /* not ordered with the default stream */
}
CALL(hipEventCreateWithFlags, (void **made, unsigned flags)) {
    BEGIN;
    *made = &nothing;
    return flags == 0 ? 0 : INVALID; /* with times */
}
CALL(hipStreamBeginCapture, (void *stream, int mode)) {
    (void)stream;
    BEGIN;
    return mode == RELAXED ? 0 : INVALID; /* other threads may use the driver meanwhile */
}
MAKER(hipGraphInstantiate, (void **made))
TAKER(hipStreamDestroy)
TAKER(hipStreamSynchronize)
TAKER(hipEventDestroy)
TAKER(hipEventRecord)
TAKER(hipEventSynchronize)
TAKER(hipModuleUnload)
TAKER(hipGraphDestroy)
TAKER(hipGraphExecDestroy)
TAKER(hipGraphLaunch)
CALL(hipStreamEndCapture, (void *stream, void **made)) {
    (void)stream;
    BEGIN;
    *made = &nothing;
    return 0;
}
