/* Part of Onelook, Apache License 2.0.
 * Test double of libamdhip64 for machines without an AMD GPU: device memory is a file shared with a child process,
 * amdserve.py, which runs the real code objects in an interpreter. The device address range is reserved but not mapped,
 * so that the host cannot touch device memory through a device pointer. Every call is finished when it returns.
 * Environment: AMDEMU_ARCH (gfx1100), AMDEMU_DIR (folder of the scripts), AMDEMU_PYTHON, AMDEMU_MB, AMDEMU_DEVICES=0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define API __attribute__((visibility("default")))
enum {
    OK = 0,
    INVAL = 1,
    OOM = 2,
    NOTINIT = 3,
    INVIMG = 200,
    NOTFOUND = 500,
    LAUNCHFAIL = 719,
    NODEV = 100,
    INVDEV = 101
};
#define BASE 0x200000000000ull
static size_t SZ;
static const size_t OWN = 16u << 20;
static uint8_t *host, *okmap;
static FILE *io_in;
static int io_fd = -1;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static __thread int lasterr;
static char errtext[4096];
static int E(int e) {
    if (e) lasterr = e;
    return e;
}
static const char *env(const char *n, const char *d) {
    const char *v = getenv(n);
    return v && *v ? v : d;
}
struct blk {
    size_t o, n;
    int used;
    struct blk *next;
};
static struct blk *heap;
static int start(void) {
    if (io_fd >= 0) return OK;
    if (!strcmp(env("AMDEMU_DEVICES", "1"), "0")) return NODEV;
    SZ = (size_t)atol(env("AMDEMU_MB", "512")) << 20;
    int m = memfd_create("amdemu", 0);
    if (m < 0 || ftruncate(m, 2 * SZ)) return OOM;
    host = mmap(0, 2 * SZ, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0);
    okmap = host + SZ;
    if (mmap((void *)BASE, SZ, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0) !=
        (void *)BASE)
        return OOM;
    heap = calloc(1, sizeof *heap);
    heap->o = 4096;
    heap->n = SZ - OWN - 4096;
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return OOM;
    pid_t p = fork();
    if (!p) {
        if (fork()) _exit(0);
        close(sv[0]);
        char a[6][40];
        snprintf(a[0], 40, "%d", sv[1]);
        snprintf(a[1], 40, "%d", m);
        snprintf(a[2], 40, "%zu", SZ);
        snprintf(a[3], 40, "%llu", BASE);
        snprintf(a[4], 40, "%zu", OWN);
        char s[4096];
        snprintf(s, sizeof s, "%s/amdserve.py", env("AMDEMU_DIR", "."));
        execlp(env("AMDEMU_PYTHON", "python3"), env("AMDEMU_PYTHON", "python3"), s, a[0], a[1], a[2], a[3], a[4],
               (char *)0);
        _exit(127);
    }
    waitpid(p, 0, 0);
    close(sv[1]);
    close(m);
    io_in = fdopen(dup(sv[0]), "r");
    io_fd = sv[0];
    return OK;
}
static char *ask(const char *f, ...) {
    static char *line;
    static size_t cap;
    char *q;
    va_list v;
    va_start(v, f);
    if (vasprintf(&q, f, v) < 0) abort();
    va_end(v);
    size_t n = strlen(q), k = 0;
    while (k < n) {
        ssize_t w = send(io_fd, q + k, n - k, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) break;
        k += w;
    }
    free(q);
    ssize_t got;
    do { /* a signal that the program handles may interrupt the wait */
        errno = 0;
        clearerr(io_in);
        got = getline(&line, &cap, io_in);
    } while (got <= 0 && errno == EINTR);
    if (got <= 0) {
        strcpy(errtext, "emulator ended");
        return 0;
    }
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "ok", 2)) {
        snprintf(errtext, sizeof errtext, "%s", line);
        fprintf(stderr, "amdemu: %s\n", line);
        return 0;
    }
    return line + 2;
}
static uint8_t *h(const void *p) {
    uint64_t a = (uint64_t)p;
    return a >= BASE && a < BASE + SZ ? host + (a - BASE) : (uint8_t *)p;
}
API int hipInit(unsigned f) {
    (void)f;
    return E(start());
}
API int hipGetDeviceCount(int *n) {
    int e = start();
    *n = !e;
    return E(e);
}
API int hipRuntimeGetVersion(int *v) {
    *v = 60342134;
    return 0;
}
API int hipDriverGetVersion(int *v) {
    *v = 60342134;
    return 0;
}
API int hipSetDevice(int d) {
    return E(d ? INVDEV : start());
}
API int hipGetDevice(int *d) {
    *d = 0;
    return 0;
}
API int hipDeviceGet(int *d, int i) {
    *d = i;
    return E(i ? INVDEV : OK);
}
API int hipDeviceGetName(char *n, int l, int d) {
    (void)d;
    snprintf(n, l, "AMD emulated %s", env("AMDEMU_ARCH", "gfx1100"));
    return 0;
}
API int hipDeviceTotalMem(size_t *n, int d) {
    (void)d;
    start();
    *n = SZ - OWN;
    return 0;
}
API int hipMemGetInfo(size_t *f, size_t *t) {
    start();
    *t = SZ - OWN;
    *f = 0;
    for (struct blk *b = heap; b; b = b->next)
        if (!b->used) *f += b->n;
    return 0;
}
/* fields filled: name, totalGlobalMem, sharedMemPerBlock, warpSize, maxThreadsPerBlock, major, multiProcessorCount,
 * gcnArchName */
API int hipGetDevicePropertiesR0600(char *p, int d) {
    if (d) return E(INVDEV);
    memset(p, 0, 1472);
    hipDeviceGetName(p, 256, 0);
    size_t t;
    hipDeviceTotalMem(&t, 0);
    memcpy(p + 288, &t, 8);
    const char *g = env("AMDEMU_ARCH", "gfx1100");
    snprintf(p + 1160, 256, "%s", g);
    int v[] = {296, 65536, 308, !strncmp(g, "gfx9", 4) ? 64 : 32,
               320, 1024,  360, atoi(g + 3) / (strlen(g) > 6 ? 100 : 1) % 100,
               388, 4};
    for (int i = 0; i < 10; i += 2) memcpy(p + v[i], v + i + 1, 4);
    return 0;
}
API int hipDeviceGetAttribute(int *v, int a, int d) {
    (void)d;
    const char *g = env("AMDEMU_ARCH", "gfx1100");
    int w = !strncmp(g, "gfx9", 4) ? 64 : 32;
    switch (a) {
    case 87:
        *v = w;
        break;
    case 56:
        *v = 1024;
        break;
    case 63:
        *v = 4;
        break;
    case 74:
        *v = 65536;
        break;
    default:
        *v = 0;
    }
    return 0;
}
API int hipDeviceSynchronize(void) {
    return 0;
}
API int hipDeviceReset(void) {
    return 0;
}
API int hipGetLastError(void) {
    int e = lasterr;
    lasterr = 0;
    return e;
}
API int hipPeekAtLastError(void) {
    return lasterr;
}
API const char *hipGetErrorName(int e) {
    switch (e) {
    case 0:
        return "hipSuccess";
    case 1:
        return "hipErrorInvalidValue";
    case 2:
        return "hipErrorOutOfMemory";
    case 100:
        return "hipErrorNoDevice";
    case 101:
        return "hipErrorInvalidDevice";
    case 200:
        return "hipErrorInvalidImage";
    case 500:
        return "hipErrorNotFound";
    case 719:
        return "hipErrorLaunchFailure";
    }
    return "hipErrorUnknown";
}
API const char *hipGetErrorString(int e) {
    return e && errtext[0] ? errtext : hipGetErrorName(e);
}
API int hipMalloc(void **p, size_t n) {
    int e = start();
    if (e) return E(e);
    pthread_mutex_lock(&mu);
    size_t want = (n + 256 + 255) & ~(size_t)255;
    e = OOM;
    for (struct blk *b = heap; b; b = b->next)
        if (!b->used && b->n >= want) {
            if (b->n > want) {
                struct blk *c = malloc(sizeof *c);
                c->o = b->o + want;
                c->n = b->n - want;
                c->used = 0;
                c->next = b->next;
                b->next = c;
                b->n = want;
            }
            b->used = 1;
            *p = (void *)(BASE + b->o);
            memset(okmap + b->o, 1, n);
            memset(host + b->o, 0xcd, n);
            e = OK;
            break;
        }
    pthread_mutex_unlock(&mu);
    return E(e);
}
API int hipFree(void *p) {
    if (!p) return 0;
    int e = INVAL;
    pthread_mutex_lock(&mu);
    for (struct blk *b = heap; b; b = b->next)
        if (b->used && BASE + b->o == (uint64_t)p) {
            b->used = 0;
            memset(okmap + b->o, 0, b->n);
            e = OK;
        }
    for (struct blk *b = heap; b; b = b->next) {
        while (!b->used && b->next && !b->next->used) {
            struct blk *c = b->next;
            b->n += c->n;
            b->next = c->next;
            free(c);
        }
    }
    pthread_mutex_unlock(&mu);
    return E(e);
}
/* For tests: which bytes of device memory programs and copies may touch, below the size of an allocation. */
API int amdemuAllow(void *p, size_t n, int allowed) {
    uint64_t a = (uint64_t)p;
    if (io_fd < 0 || a < BASE || n > SZ || a - BASE > SZ - n) return INVAL;
    memset(okmap + (a - BASE), allowed != 0, n);
    return OK;
}
API int hipHostMalloc(void **p, size_t n, unsigned f) {
    (void)f;
    *p = malloc(n);
    return E(*p ? OK : OOM);
}
API int hipHostFree(void *p) {
    free(p);
    return 0;
}
static int inside(const void *p, size_t n) {
    uint64_t a = (uint64_t)p;
    if (a < BASE || a >= BASE + SZ) return 1;
    return !memchr(okmap + (a - BASE), 0, n);
}
API int hipMemcpy(void *d, const void *s, size_t n, int k) {
    (void)k;
    if (!inside(d, n) || !inside(s, n)) {
        strcpy(errtext, "hipMemcpy outside an allocation");
        return E(INVAL);
    }
    memmove(h(d), h(s), n);
    return 0;
}
API int hipMemcpyAsync(void *d, const void *s, size_t n, int k, void *st) {
    (void)st;
    return hipMemcpy(d, s, n, k);
}
API int hipMemcpyHtoD(void *d, void *s, size_t n) {
    return hipMemcpy(d, s, n, 1);
}
API int hipMemcpyDtoH(void *d, void *s, size_t n) {
    return hipMemcpy(d, s, n, 2);
}
API int hipMemset(void *d, int v, size_t n) {
    if (!inside(d, n)) return E(INVAL);
    memset(h(d), v, n);
    return 0;
}
API int hipMemsetAsync(void *d, int v, size_t n, void *s) {
    (void)s;
    return hipMemset(d, v, n);
}
API int hipStreamCreate(void **s) {
    *s = malloc(8);
    return 0;
}
API int hipStreamCreateWithFlags(void **s, unsigned f) {
    (void)f;
    return hipStreamCreate(s);
}
API int hipStreamDestroy(void *s) {
    free(s);
    return 0;
}
API int hipStreamSynchronize(void *s) {
    (void)s;
    return 0;
}
API int hipStreamWaitEvent(void *s, void *e, unsigned f) {
    (void)s;
    (void)e;
    (void)f;
    return 0;
}
API int hipEventCreate(void **e) {
    *e = calloc(1, 8);
    return 0;
}
API int hipEventCreateWithFlags(void **e, unsigned f) {
    (void)f;
    return hipEventCreate(e);
}
API int hipEventDestroy(void *e) {
    free(e);
    return 0;
}
API int hipEventSynchronize(void *e) {
    (void)e;
    return 0;
}
API int hipEventQuery(void *e) {
    (void)e;
    return 0;
}
API int hipEventRecord(void *e, void *s) {
    (void)s;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    *(double *)e = t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
    return 0;
}
API int hipEventElapsedTime(float *ms, void *a, void *b) {
    *ms = *(double *)b - *(double *)a;
    return 0;
}
API int hipDeviceCanAccessPeer(int *c, int a, int b) {
    (void)a;
    (void)b;
    *c = 0;
    return 0;
}
struct mod {
    int id;
};
struct fun {
    int id, n, lds, maxthr, sz[64];
    char name[256];
};
API int hipModuleLoadData(void **m, const void *img) {
    int e = start();
    if (e) return E(e);
    const uint8_t *b = img;
    if (memcmp(b, "\177ELF", 4)) return E(INVIMG);
    uint64_t sh;
    memcpy(&sh, b + 40, 8);
    uint16_t es, en;
    memcpy(&es, b + 58, 2);
    memcpy(&en, b + 60, 2);
    size_t n = sh + (size_t)es * en;
    char path[] = "/tmp/amdemuXXXXXX";
    int f = mkstemp(path);
    if (f < 0 || write(f, b, n) != (ssize_t)n) return E(INVIMG);
    close(f);
    pthread_mutex_lock(&mu);
    char *r = ask("L %s\n", path);
    int id = 0;
    char g[64] = "";
    if (r) sscanf(r, "%d %63s", &id, g);
    pthread_mutex_unlock(&mu);
    unlink(path);
    if (!r) return E(INVIMG);
    if (strcmp(g, env("AMDEMU_ARCH", "gfx1100"))) {
        snprintf(errtext, sizeof errtext, "code object is for %s", g);
        return E(209);
    }
    struct mod *q = malloc(sizeof *q);
    q->id = id;
    *m = q;
    return 0;
}
API int hipModuleUnload(void *m) {
    free(m);
    return 0;
}
API int hipModuleGetFunction(void **f, void *m, const char *name) {
    struct fun *q = calloc(1, sizeof *q);
    q->id = ((struct mod *)m)->id;
    snprintf(q->name, 256, "%s", name);
    pthread_mutex_lock(&mu);
    char *r = ask("F %d %s\n", q->id, name);
    if (r) {
        int o;
        sscanf(r, "%d %d %d%n", &q->n, &q->lds, &q->maxthr, &o);
        r += o;
        for (int i = 0; i < q->n; i++) {
            q->sz[i] = strtol(r, &r, 10);
        }
    }
    pthread_mutex_unlock(&mu);
    if (!r) {
        free(q);
        return E(NOTFOUND);
    }
    *f = q;
    return 0;
}
API int hipModuleGetGlobal(void **p, size_t *n, void *m, const char *name) {
    pthread_mutex_lock(&mu);
    char *r = ask("G %d %s\n", ((struct mod *)m)->id, name);
    unsigned long long a = 0;
    size_t z = 0;
    if (r) sscanf(r, "%llu %zu", &a, &z);
    pthread_mutex_unlock(&mu);
    if (!r) return E(NOTFOUND);
    *p = (void *)a;
    if (n) *n = z;
    return 0;
}
API int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned dyn, void *st, void **kp, void **extra) {
    (void)st;
    struct fun *q = f;
    if (!gx || !gy || !gz || !bx || !by || !bz || (size_t)bx * by * bz > (size_t)q->maxthr) return E(INVAL);
    char hex[8192], *o = hex;
    *o = 0;
    if (!kp && extra) return E(801);
    for (int i = 0; i < q->n; i++)
        for (int j = 0; j < q->sz[i]; j++) o += sprintf(o, "%02x", ((uint8_t *)kp[i])[j]);
    pthread_mutex_lock(&mu);
    char *r = ask("K %d %s %u %u %u %u %u %u %u %s\n", q->id, q->name, gx, gy, gz, bx, by, bz, dyn, hex);
    pthread_mutex_unlock(&mu);
    return E(r ? OK : LAUNCHFAIL);
}
