#include "api/device_choice.h"

#include "device/gpu/diagnosis.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct report_lines {
    ol_report_fn line;
    void *user;
} report_lines;

static void report_finding(void *user, const char *id, const char *what, const char *remedy) {
    const report_lines *to = user;
    (void)id;
    to->line(to->user, "Note", what);
    to->line(to->user, "  what to do", remedy);
}

void device_report(ol_context *ctx, ol_report_fn line, void *user) {
    gpu_diagnosis_question q = {.root = "/"};
    devices_survey *s = &q.survey;
    report_lines to = {line, user};
    text t;
    text_init(&t, ctx);
    devices_look(ctx, s);
    line(user, "Device cpu", "ready");
    for (size_t i = 0; i < s->n; i++) {
        const device_entry *e = &s->list[i];
        char label[32];
        snprintf(label, sizeof label, "Device %.15s", e->name);
        text_clear(&t);
        text_printf(&t, "%s, %s, %llu MiB, %s%s%s", e->title, e->arch, (unsigned long long)(e->memory_bytes >> 20),
                    e->driver, e->integrated ? ", integrated" : "",
                    e->has_code ? "" : ", but this build has no code for its architecture");
        line(user, label, text_c(&t));
    }
    const char *const reasons[] = {s->no_code, s->cuda.message, s->hip.message};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i][0] != '\0') line(user, "No device", reasons[i]);
    gpu_diagnose(ctx, &q, report_finding, &to);
    text_deinit(&t);
}

/* The kinds of the field that are recognised only to say what is wrong with them. */
static const char *const other_kinds[] = {"mps", "npu", "xpu", "tpu", "intel", "vulkan", "dla"};

static bool is_other_kind(const char *asked) {
    for (size_t i = 0; i < sizeof other_kinds / sizeof *other_kinds; i++)
        if (strncmp(asked, other_kinds[i], strlen(other_kinds[i])) == 0) return true;
    return false;
}

/* The part after "cuda:", "hip:" or "gpu:"; `hip_only` when the prefix names AMD. */
static const char *strip_prefix(const char *asked, bool *hip_only) {
    static const char *const prefixes[] = {"cuda", "hip", "gpu"};
    *hip_only = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(asked, prefixes[i], n) != 0 || (asked[n] != '\0' && asked[n] != ':')) continue;
        *hip_only = i == 1;
        return asked[n] == '\0' ? "0" : asked + n + 1;
    }
    return asked;
}

static ol_status no_such_device(ol_context *ctx, const char *typed, size_t n, const text *absent) {
    if (n > 0)
        return ctx_fail(
            ctx, OL_ERROR_DEVICE,
            "'device=%.60s' cannot be used: this machine has %zu GPU%s ('yolo checks' lists them); use 'device=0' or "
            "'device=cpu'",
            typed, n, n == 1 ? "" : "s");
    text line;
    text_init(&line, ctx);
    text_printf(&line, "%s", text_c(absent));
    for (char *c = line.bytes; c != NULL && *c != '\0'; c++)
        if (*c == '\n') *c = ';';
    ol_status status =
        ctx_fail(ctx, OL_ERROR_DEVICE,
                 "'device=%.60s' cannot be used: no GPU was found (%s); use 'device=cpu' ('yolo checks' tells "
                 "why)",
                 typed, text_c(&line));
    text_deinit(&line);
    return status;
}

static const device_entry *pick(const device_entry *list, size_t n, int64_t index, bool hip_only) {
    const device_entry *best = NULL;
    int64_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        if (hip_only && strncmp(list[i].name, "hip", 3) != 0) continue;
        if (index >= 0 && seen++ == index) return &list[i];
        if (index == -1 && (best == NULL || list[i].free_bytes > best->free_bytes)) best = &list[i];
    }
    return best;
}

static ol_status judge(ol_context *ctx, const char *typed, const char *asked, bool on_cpu_by_default, char name[16]) {
    const bool open_choice = *asked == '\0' || strcmp(asked, "none") == 0;
    if (strcmp(asked, "cpu") == 0 || (open_choice && on_cpu_by_default)) {
        snprintf(name, 16, "cpu");
        return OL_OK;
    }
    if (is_other_kind(asked))
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                        "'device=%.60s' is not supported: '%s' devices are unknown to Onelook; use 'device=cpu'", typed,
                        asked);
    bool hip_only = false;
    const char *rest = strip_prefix(asked, &hip_only);
    if (!open_choice && !is_index_list(rest))
        return ctx_fail(
            ctx, OL_ERROR_ARGUMENT,
            "'device=%.60s' is not a device; use 'device=cpu', an index as in 'device=0', or a list as in 'device=0,1'",
            typed);
    device_entry list[DEVICES_MAX];
    text absent;
    text_init(&absent, ctx);
    const size_t n = devices_list(ctx, list, &absent);
    ol_status status = OL_OK;
    if (open_choice) {
        snprintf(name, 16, "%s", n > 0 && list[0].has_code ? list[0].name : "cpu");
    } else {
        const device_entry *e = pick(list, n, strtol(rest, NULL, 10), hip_only);
        if (e == NULL)
            status = no_such_device(ctx, typed, n, &absent);
        else
            snprintf(name, 16, "%s", e->name);
        if (e != NULL && strchr(rest, ',') != NULL)
            ctx_log(ctx, OL_LOG_WARNING,
                    "'device=%.60s': several GPUs in one run are not supported yet; using %s alone", typed, e->name);
    }
    text_deinit(&absent);
    return status;
}

ol_status device_choose_text(ol_context *ctx, const char *typed, bool on_cpu_by_default, char name[16]) {
    text asked;
    text_init(&asked, ctx);
    normalise(&asked, typed);
    const ol_status status =
        asked.failed ? OL_ERROR_MEMORY : judge(ctx, typed, text_c(&asked), on_cpu_by_default, name);
    text_deinit(&asked);
    return status;
}

ol_status device_choose(ol_context *ctx, const settings *s, char name[16]) {
    text typed;
    text_init(&typed, ctx);
    if (s->device->kind == VALUE_STRING)
        text_printf(&typed, "%s", s->device->as.string);
    else if (s->device->kind != VALUE_NULL)
        literal_write(&typed, s->device);
    const ol_status status =
        typed.failed ? OL_ERROR_MEMORY : device_choose_text(ctx, text_c(&typed), strcmp(s->mode, "export") == 0, name);
    text_deinit(&typed);
    return status;
}
