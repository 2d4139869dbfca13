/* Part of Onelook, Apache License 2.0.
 * Test double of libamdhip64 on the CUDA driver: the HIP host code of a program runs on an NVIDIA GPU, which it sees as
 * architecture sm_NN (or HIPCUDA_ARCH). No CUDA headers are needed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define API __attribute__((visibility("default")))
static void *cu;
static void *ctx[16];
static int cur = 0, ndev = -1;
static __thread int last;
static __thread void *bound;
static void *sym(void *h, const char *n) {
    void *p = h ? dlsym(h, n) : 0;
    if (!p) fprintf(stderr, "hipcuda: no %s\n", n);
    return p;
}
/* CUDA error -> HIP error: the driver numbers are the same for almost all; these differ */
static int E(int e) {
    if (e) last = e;
    return e;
}
static void open_(void) {
    if (cu) return;
    cu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
}
#define CU(name, args, vals)                                                                                           \
    ({                                                                                                                 \
        static int(*f_) args;                                                                                          \
        if (!f_) {                                                                                                     \
            open_();                                                                                                   \
            f_ = (int(*) args)sym(cu, name);                                                                           \
        }                                                                                                              \
        f_ ? f_ vals : 100;                                                                                            \
    })
static int use(void) {
    if (ndev < 0) {
        int e = CU("cuInit", (unsigned), (0));
        if (e) return e == 100 ? 100 : e;
        e = CU("cuDeviceGetCount", (int *), (&ndev));
        if (e) return e;
    }
    if (!ndev) return 100;
    if (!ctx[cur]) {
        int d;
        int e = CU("cuDeviceGet", (int *, int), (&d, cur));
        if (!e) e = CU("cuDevicePrimaryCtxRetain", (void **, int), (&ctx[cur], d));
        if (e) return e;
    }
    if (bound != ctx[cur]) {
        int e = CU("cuCtxSetCurrent", (void *), (ctx[cur]));
        if (e) return e;
        bound = ctx[cur];
    }
    return 0;
}
#define U                                                                                                              \
    do {                                                                                                               \
        int e_ = use();                                                                                                \
        if (e_) return E(e_);                                                                                          \
    } while (0)
typedef uint64_t D;
API int hipInit(unsigned f) {
    (void)f;
    return E(use());
}
API int hipGetDeviceCount(int *n) {
    int e = use();
    *n = e ? 0 : ndev;
    return E(e);
}
API int hipSetDevice(int d) {
    U;
    if (d < 0 || d >= ndev) return E(101);
    cur = d;
    return E(use());
}
API int hipGetDevice(int *d) {
    *d = cur;
    return 0;
}
API int hipDeviceGet(int *d, int i) {
    *d = i;
    return 0;
}
API int hipDeviceGetName(char *s, int n, int d) {
    U;
    return E(CU("cuDeviceGetName", (char *, int, int), (s, n, d)));
}
API int hipDeviceTotalMem(size_t *n, int d) {
    U;
    return E(CU("cuDeviceTotalMem_v2", (size_t *, int), (n, d)));
}
API int hipMemGetInfo(size_t *f, size_t *t) {
    U;
    return E(CU("cuMemGetInfo_v2", (size_t *, size_t *), (f, t)));
}
/* HIP attribute numbers (ROCm 6/7) -> CUDA numbers: only what a program asks for */
API int hipDeviceGetAttribute(int *v, int a, int d) {
    U;
    static const int m[][2] = {{87, 10}, {56, 1}, {63, 16}, {74, 8}};
    for (unsigned i = 0; i < sizeof m / sizeof *m; i++)
        if (m[i][0] == a) return E(CU("cuDeviceGetAttribute", (int *, int, int), (v, m[i][1], d)));
    *v = 0;
    return E(1);
}
API int hipGetDevicePropertiesR0600(char *p, int d) {
    U;
    memset(p, 0, 1472);
    hipDeviceGetName(p, 256, d);
    size_t t;
    hipDeviceTotalMem(&t, d);
    memcpy(p + 288, &t, 8);
    int a, b;
    CU("cuDeviceGetAttribute", (int *, int, int), (&a, 75, d));
    CU("cuDeviceGetAttribute", (int *, int, int), (&b, 76, d));
    static const int at[][2] = {{296, 8}, {308, 10}, {320, 1}, {360, 75}, {364, 76}, {388, 16}};
    for (int i = 0; i < 6; i++) CU("cuDeviceGetAttribute", (int *, int, int), ((int *)(p + at[i][0]), at[i][1], d));
    snprintf(p + 1160, 256, "%s",
             getenv("HIPCUDA_ARCH") ? getenv("HIPCUDA_ARCH")
                                    : (snprintf(p + 1160, 256, "sm_%d%d", a, b), strdup(p + 1160)));
    return 0;
}
API int hipRuntimeGetVersion(int *v) {
    *v = 60342134;
    return 0;
}
API int hipDriverGetVersion(int *v) {
    *v = 60342134;
    return 0;
}
API int hipGetLastError(void) {
    int e = last;
    last = 0;
    return e;
}
API int hipPeekAtLastError(void) {
    return last;
}
API const char *hipGetErrorName(int e) {
    const char *s = 0;
    CU("cuGetErrorName", (int, const char **), (e, &s));
    return s ? s : "hipErrorUnknown";
}
API const char *hipGetErrorString(int e) {
    const char *s = 0;
    CU("cuGetErrorString", (int, const char **), (e, &s));
    return s ? s : "unknown";
}
API int hipDeviceSynchronize(void) {
    U;
    return E(CU("cuCtxSynchronize", (void), ()));
}
API int hipMalloc(void **p, size_t n) {
    U;
    return E(CU("cuMemAlloc_v2", (void **, size_t), (p, n)));
}
API int hipFree(void *p) {
    if (!p) return 0;
    U;
    return E(CU("cuMemFree_v2", (void *), (p)));
}
API int hipHostMalloc(void **p, size_t n, unsigned f) {
    (void)f;
    U;
    return E(CU("cuMemHostAlloc", (void **, size_t, unsigned), (p, n, 1)));
}
API int hipHostFree(void *p) {
    U;
    return E(CU("cuMemFreeHost", (void *), (p)));
}
API int hipMemcpy(void *d, const void *s, size_t n, int k) {
    (void)k;
    U;
    return E(CU("cuMemcpy", (void *, const void *, size_t), (d, s, n)));
}
API int hipMemcpyAsync(void *d, const void *s, size_t n, int k, void *st) {
    (void)k;
    U;
    return E(CU("cuMemcpyAsync", (void *, const void *, size_t, void *), (d, s, n, st)));
}
API int hipMemset(void *d, int v, size_t n) {
    U;
    return E(CU("cuMemsetD8_v2", (void *, unsigned char, size_t), (d, v, n)));
}
API int hipMemsetAsync(void *d, int v, size_t n, void *s) {
    U;
    return E(CU("cuMemsetD8Async", (void *, unsigned char, size_t, void *), (d, v, n, s)));
}
API int hipStreamCreateWithFlags(void **s, unsigned f) {
    U;
    return E(CU("cuStreamCreate", (void **, unsigned), (s, f)));
}
API int hipStreamCreate(void **s) {
    return hipStreamCreateWithFlags(s, 0);
}
API int hipStreamDestroy(void *s) {
    U;
    return E(CU("cuStreamDestroy_v2", (void *), (s)));
}
API int hipStreamSynchronize(void *s) {
    U;
    return E(CU("cuStreamSynchronize", (void *), (s)));
}
API int hipStreamWaitEvent(void *s, void *e, unsigned f) {
    U;
    return E(CU("cuStreamWaitEvent", (void *, void *, unsigned), (s, e, f)));
}
API int hipEventCreateWithFlags(void **e, unsigned f) {
    U;
    return E(CU("cuEventCreate", (void **, unsigned), (e, f & 7)));
}
API int hipEventCreate(void **e) {
    return hipEventCreateWithFlags(e, 0);
}
API int hipEventDestroy(void *e) {
    U;
    return E(CU("cuEventDestroy_v2", (void *), (e)));
}
API int hipEventRecord(void *e, void *s) {
    U;
    return E(CU("cuEventRecord", (void *, void *), (e, s)));
}
API int hipEventSynchronize(void *e) {
    U;
    return E(CU("cuEventSynchronize", (void *), (e)));
}
API int hipEventElapsedTime(float *t, void *a, void *b) {
    U;
    return E(CU("cuEventElapsedTime", (float *, void *, void *), (t, a, b)));
}
API int hipModuleLoadData(void **m, const void *i) {
    U;
    return E(CU("cuModuleLoadData", (void **, const void *), (m, i)));
}
API int hipModuleUnload(void *m) {
    U;
    return E(CU("cuModuleUnload", (void *), (m)));
}
API int hipModuleGetFunction(void **f, void *m, const char *n) {
    U;
    return E(CU("cuModuleGetFunction", (void **, void *, const char *), (f, m, n)));
}
API int hipModuleGetGlobal(void **p, size_t *n, void *m, const char *s) {
    U;
    return E(CU("cuModuleGetGlobal_v2", (void **, size_t *, void *, const char *), (p, n, m, s)));
}
API int hipModuleLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned x, unsigned y, unsigned z,
                              unsigned sh, void *st, void **kp, void **ex) {
    U;
    return E(
        CU("cuLaunchKernel",
           (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
           (f, a, b, c, x, y, z, sh, st, kp, ex)));
}
API int hipStreamBeginCapture(void *s, int m) {
    U;
    return E(CU("cuStreamBeginCapture_v2", (void *, int), (s, m)));
}
API int hipStreamEndCapture(void *s, void **g) {
    U;
    return E(CU("cuStreamEndCapture", (void *, void **), (s, g)));
}
API int hipGraphInstantiate(void **x, void *g, void *n, char *l, size_t z) {
    (void)n;
    (void)l;
    (void)z;
    U;
    return E(CU("cuGraphInstantiateWithFlags", (void **, void *, unsigned long long), (x, g, 0)));
}
API int hipGraphLaunch(void *x, void *s) {
    U;
    return E(CU("cuGraphLaunch", (void *, void *), (x, s)));
}
API int hipGraphExecDestroy(void *x) {
    U;
    return E(CU("cuGraphExecDestroy", (void *), (x)));
}
API int hipGraphDestroy(void *x) {
    U;
    return E(CU("cuGraphDestroy", (void *), (x)));
}
API int hipDeviceCanAccessPeer(int *c, int a, int b) {
    U;
    return E(CU("cuDeviceCanAccessPeer", (int *, int, int), (c, a, b)));
}
API int hipDeviceEnablePeerAccess(int p, unsigned f) {
    U;
    int k = cur;
    hipSetDevice(p);
    void *pc = ctx[p];
    hipSetDevice(k);
    return E(CU("cuCtxEnablePeerAccess", (void *, unsigned), (pc, f)));
}
API int hipMemcpyPeerAsync(void *d, int di, const void *s, int si, size_t n, void *st) {
    U;
    int k = cur;
    hipSetDevice(di);
    hipSetDevice(si);
    hipSetDevice(k);
    return E(CU("cuMemcpyPeerAsync", (void *, void *, const void *, void *, size_t, void *),
                (d, ctx[di], s, ctx[si], n, st)));
}
