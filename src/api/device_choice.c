#include "api/device_choice.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* Lower case, without blanks, brackets and quotes: "[0, 1]" and "(0,1)" become "0,1" (section 7.1). */
static void normalise(text *out, const char *typed) {
    for (; *typed != '\0'; typed++) {
        const char c = (char)tolower((unsigned char)*typed);
        if (strchr("[]()'\" ", c) == NULL) text_append(out, &c, 1);
    }
}

/* "0", "-1", "0,1" */
static bool is_index_list(const char *s) {
    bool digit = false;
    for (; *s != '\0'; s++) {
        if (isdigit((unsigned char)*s))
            digit = true;
        else if (*s == ',' && digit)
            digit = false;
        else if (*s != '-' || digit)
            return false;
    }
    return digit;
}

static const struct gpu_kind {
    const char *label, *driver, *lacking;
} gpu_kinds[] = {{"NVIDIA GPU", "libcuda.so.1", "no NVIDIA driver (libcuda.so.1) on this machine"},
                 {"AMD GPU", "libamdhip64.so", "no HIP runtime (libamdhip64.so) on this machine"}};
static const char not_yet[] = "this version computes on CPUs only";

static bool driver_present(const struct gpu_kind *kind) {
    void *library = dlopen(kind->driver, RTLD_LAZY | RTLD_LOCAL);
    if (library != NULL) dlclose(library);
    return library != NULL;
}

void device_report(ol_report_fn line, void *user) {
    line(user, "Device cpu", "ready");
    for (size_t i = 0; i < sizeof gpu_kinds / sizeof *gpu_kinds; i++)
        line(user, gpu_kinds[i].label,
             driver_present(&gpu_kinds[i]) ? "driver found, but this version computes on CPUs only"
                                           : gpu_kinds[i].lacking);
}

/* The kinds of the field that are recognised only to say what is wrong with them. */
static const char *const other_kinds[] = {"mps", "npu", "xpu", "tpu", "intel", "vulkan", "dla"};

static ol_status judge(ol_context *ctx, const char *typed, const char *asked) {
    if (*asked == '\0' || strcmp(asked, "cpu") == 0 || strcmp(asked, "none") == 0) return OL_OK;
    for (size_t i = 0; i < sizeof other_kinds / sizeof *other_kinds; i++) {
        if (strncmp(asked, other_kinds[i], strlen(other_kinds[i])) == 0)
            return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                            "'device=%.60s' is not supported: '%s' devices are unknown to Onelook; use 'device=cpu'",
                            typed, other_kinds[i]);
    }
    static const char *const prefixes[] = {"cuda", "hip", "gpu"};
    const char *rest = asked;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(asked, prefixes[i], n) == 0 && (asked[n] == '\0' || asked[n] == ':'))
            rest = asked[n] == '\0' ? "0" : asked + n + 1;
    }
    if (!is_index_list(rest))
        return ctx_fail(
            ctx, OL_ERROR_ARGUMENT,
            "'device=%.60s' is not a device; use 'device=cpu', an index as in 'device=0', or a list as in 'device=0,1'",
            typed);
    const bool any = driver_present(&gpu_kinds[0]) || driver_present(&gpu_kinds[1]);
    return ctx_fail(ctx, OL_ERROR_DEVICE,
                    "'device=%.60s' cannot be used: %s%s; use 'device=cpu' ('yolo checks' lists the devices)", typed,
                    not_yet,
                    any ? " (a GPU driver is present)"
                        : " and neither an NVIDIA driver (libcuda.so.1) nor a HIP runtime (libamdhip64.so) was found");
}

ol_status device_choose(ol_context *ctx, const settings *s) {
    text typed, asked;
    text_init(&typed, ctx);
    text_init(&asked, ctx);
    if (s->device->kind == VALUE_STRING)
        text_printf(&typed, "%s", s->device->as.string);
    else if (s->device->kind != VALUE_NULL)
        literal_write(&typed, s->device);
    normalise(&asked, text_c(&typed));
    const ol_status status =
        typed.failed || asked.failed ? OL_ERROR_MEMORY : judge(ctx, text_c(&typed), text_c(&asked));
    text_deinit(&asked);
    text_deinit(&typed);
    return status;
}
