#include "api/system.h"

#include "api/device_choice.h"
#include "base/arena.h"
#include "base/numbers.h"

#include <stdio.h> /* before jpeglib.h, which needs FILE */

#include <cJSON.h>
#include <cairo.h>
#include <oneapi/dnnl/dnnl.h>
#include <protobuf-c/protobuf-c.h>
#include <sched.h>
#include <spng.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <tiffio.h>
#include <unistd.h>
#include <webp/decode.h>
#include <yaml.h>
#include <zip.h>

#include <jpeglib.h>

#define QUOTED(x)       #x
#define QUOTED_VALUE(x) QUOTED(x)

/* The value of the first "key : value" line of a file of /proc; false when there is none. */
static bool proc_line(const char *path, const char *key, char *out, size_t out_bytes) {
    FILE *f = fopen(path, "r");
    if (f == NULL) return false;
    char line[4096];
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        const size_t n = strlen(key);
        if (strncmp(line, key, n) != 0) continue;
        const char *colon = strchr(line + n, ':');
        if (colon == NULL) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, out_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    fclose(f);
    return found;
}

void system_cpu_name(text *out) {
    char name[256];
    struct utsname u;
    if (proc_line("/proc/cpuinfo", "model name", name, sizeof name))
        text_printf(out, "%s", name);
    else
        text_printf(out, "%s", uname(&u) == 0 ? u.machine : "unknown");
}

void system_device_line(text *out, const device *dev) {
    const dnnl_version_t *dnnl = dnnl_version();
    device_description d;
    device_describe(dev, &d);
    text_printf(out, "Onelook %s 🚀 oneDNN-%d.%d.%d ", ol_version(), dnnl->major, dnnl->minor, dnnl->patch);
    if (d.is_gpu) {
        text_printf(out, "%s (%s, %lluMiB, %s)", d.label, d.title, (unsigned long long)(d.memory_bytes >> 20),
                    d.driver);
        return;
    }
    text_printf(out, "CPU (");
    system_cpu_name(out);
    text_printf(out, ")");
}

static void isa(text *out) {
#if defined(__x86_64__)
    static const char *const flags[] = {"sse4_2",  "avx",      "avx2",        "fma",         "f16c",
                                        "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_bf16"};
    char have[4096];
    text_printf(out, "x86-64");
    if (!proc_line("/proc/cpuinfo", "flags", have, sizeof have)) return;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const size_t n = strlen(flags[i]);
        for (const char *at = have; (at = strstr(at, flags[i])) != NULL; at += n) {
            if (at == have || at[-1] == ' ') {
                if (at[n] == ' ' || at[n] == '\0') {
                    text_printf(out, " %s", flags[i]);
                    break;
                }
            }
        }
    }
#else
    struct utsname u;
    text_printf(out, "%s", uname(&u) == 0 ? u.machine : "unknown");
#endif
}

static void memory(text *out) {
    char total[64] = "", available[64] = "";
    unsigned long long total_kib = 0, available_kib = 0;
    if (proc_line("/proc/meminfo", "MemTotal", total, sizeof total)) sscanf(total, "%llu", &total_kib);
    if (proc_line("/proc/meminfo", "MemAvailable", available, sizeof available))
        sscanf(available, "%llu", &available_kib);
    text_printf(out, "%.2f GB, %.2f GB free", (double)total_kib / 0x1p20, (double)available_kib / 0x1p20);
}

static void disk(text *out) {
    struct statvfs v;
    if (statvfs(".", &v) != 0) {
        text_printf(out, "unknown");
        return;
    }
    const double unit = (double)v.f_frsize / 0x1p30;
    text_printf(out, "%.1f/%.1f GB free in this folder", (double)v.f_bavail * unit, (double)v.f_blocks * unit);
}

static void libraries(text *out) {
    const dnnl_version_t *dnnl = dnnl_version();
    const int webp = WebPGetDecoderVersion();
    char tiff[32] = "";
    sscanf(TIFFGetVersion(), "LIBTIFF, Version %31[0-9.]", tiff);
    text_printf(out,
                "oneDNN %d.%d.%d, libjpeg-turbo %s, libspng %s, libwebp %d.%d.%d, libtiff %s, cairo %s, libyaml "
                "%s, libzip %s, cJSON %s, protobuf-c %s",
                dnnl->major, dnnl->minor, dnnl->patch, QUOTED_VALUE(LIBJPEG_TURBO_VERSION), spng_version_string(),
                webp >> 16, (webp >> 8) & 255, webp & 255, tiff, cairo_version_string(), yaml_get_version_string(),
                zip_libzip_version(), cJSON_Version(), protobuf_c_version());
}

static int cpus_usable(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void ol_system_report(ol_context *ctx, ol_report_fn line, void *user) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    text t;
    text_init(&t, ctx);
    struct utsname u;
    if (uname(&u) == 0) text_printf(&t, "%s %s %s", u.sysname, u.release, u.machine);
    line(user, "OS", text_c(&t));
    static const struct {
        const char *label;
        void (*write)(text *out);
    } rows[] = {
        {"CPU", system_cpu_name}, {"Instruction sets", isa}, {"RAM", memory}, {"Disk", disk}, {"Libraries", libraries}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_clear(&t);
        rows[i].write(&t);
        line(user, rows[i].label, text_c(&t));
    }
    text_clear(&t);
    text_printf(&t, "%ld online, %d usable by this process", sysconf(_SC_NPROCESSORS_ONLN), cpus_usable());
    line(user, "CPU count", text_c(&t));
    text_clear(&t);
    text_printf(&t, "%d for computing", ctx_threads(ctx));
    line(user, "Threads", text_c(&t));
    device_report(ctx, line, user);
    text_deinit(&t);
}
