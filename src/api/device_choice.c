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

/* ", reaches the memory of cuda:1 cuda:2": the driver's own numbers. */
static void peers_print(text *t, const device_entry *e) {
    const int prefix = (int)strcspn(e->name, ":");
    if (e->reaches != 0) text_printf(t, ", reaches the memory of");
    for (int peer = 0; peer < DEVICES_MAX; peer++)
        if ((e->reaches >> peer & 1) != 0) text_printf(t, " %.*s:%d", prefix, e->name, peer);
}

void device_report(ol_context *ctx, ol_report_fn line, void *user) {
    gpu_diagnosis_question q = {.root = "/"};
    devices_survey *s = &q.survey;
    report_lines to = {line, user};
    text t;
    text_init(&t, ctx);
    devices_look(ctx, true, s);
    line(user, "Device cpu", "ready");
    for (size_t i = 0; i < s->n; i++) {
        const device_entry *e = &s->list[i];
        char label[32];
        snprintf(label, sizeof label, "Device %.15s", e->name);
        text_clear(&t);
        text_printf(&t, "%s, %s, %llu MiB, %s%s%s%s", e->title, e->arch, (unsigned long long)(e->memory_bytes >> 20),
                    e->driver, e->integrated ? ", integrated" : "",
                    e->has_code ? "" : ", but this build has no code for its architecture",
                    e->silent ? ", but it does not answer" : "");
        peers_print(&t, e);
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

/* One element of a list of devices: "1", "-1", "cuda:1", "hip", "gpu:0". */
typedef enum device_kind { KIND_ANY, KIND_CUDA, KIND_HIP } device_kind;
typedef struct wish {
    device_kind kind;
    bool exact; /* an index of the vendor's own driver; else one in the order of preference */
    long index; /* -1: the one with most free memory */
} wish;

/* Parses up to the next comma; false when that is no device. */
static bool wish_parse(const char **at, wish *out) {
    static const struct {
        const char *prefix;
        device_kind kind;
    } prefixes[] = {{"cuda", KIND_CUDA}, {"hip", KIND_HIP}, {"gpu", KIND_ANY}};
    const char *s = *at;
    *out = (wish){.kind = KIND_ANY};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i].prefix);
        if (strncmp(s, prefixes[i].prefix, n) != 0) continue;
        out->kind = prefixes[i].kind;
        s += n;
        if (*s == '\0' || *s == ',') { /* the first of them */
            *at = s;
            return true;
        }
        if (*s++ != ':') return false;
        out->exact = out->kind != KIND_ANY;
        break;
    }
    const bool least_busy = s[0] == '-' && s[1] == '1';
    const size_t digits = strspn(s, "0123456789");
    if (digits > 9 || (digits == 0 && !least_busy)) return false;
    out->index = least_busy ? -1 : strtol(s, NULL, 10);
    *at = s + (least_busy ? 2 : digits);
    return **at == '\0' || **at == ',';
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
    for (const char *c = text_c(absent); *c != '\0'; c++) text_append(&line, *c == '\n' ? "; " : c, *c == '\n' ? 2 : 1);
    ol_status status =
        ctx_fail(ctx, OL_ERROR_DEVICE,
                 "'device=%.60s' cannot be used: no GPU was found (%s); use 'device=cpu' ('yolo checks' tells "
                 "why)",
                 typed, text_c(&line));
    text_deinit(&line);
    return status;
}

typedef struct choice {
    device_entry list[DEVICES_MAX];
    bool taken[DEVICES_MAX];
    size_t n;
    bool has_nvidia;
} choice;

/* AMD's cards answer to cuda:N too where there is no NVIDIA card, as under PyTorch. */
static bool is_of_kind(const choice *c, const device_entry *e, device_kind kind) {
    const bool hip = strncmp(e->name, "hip", 3) == 0;
    return kind == KIND_ANY || (kind == KIND_HIP ? hip : !hip || !c->has_nvidia);
}

static int rank_of(const device_entry *e) {
    return (e->has_code ? 0 : 2) + (e->integrated ? 1 : 0);
}

/* A number past the devices that are meant may be one of the machine's, of which an environment variable shows a few.
 */
static long visible_position(const choice *c, const wish *w) {
    static const struct {
        const char *name;
        bool amd_only;
    } rows[] = {{"HIP_VISIBLE_DEVICES", true}, {"CUDA_VISIBLE_DEVICES", false}, {"ROCR_VISIBLE_DEVICES", true}};
    long n = 0;
    bool has_amd = false;
    for (size_t i = 0; i < c->n; i++) {
        if (!is_of_kind(c, &c->list[i], w->kind)) continue;
        has_amd = has_amd || strncmp(c->list[i].name, "hip", 3) == 0;
        n++;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows && w->index >= n; i++) {
        const char *value = getenv(rows[i].name);
        if (rows[i].amd_only && !has_amd) continue;
        for (long at = 0; value != NULL && *value != '\0'; at++) {
            char *end = NULL;
            if (strtol(value, &end, 10) == w->index && end != value && at < n) return at;
            value += strcspn(value, ",");
            value += *value == ',';
        }
    }
    return w->index;
}

/* The position in the list; n when there is no such device. */
static size_t pick(const choice *c, const wish *w) {
    size_t best = c->n;
    long seen = 0;
    const bool by_name = w->exact && (w->kind == KIND_HIP || c->has_nvidia);
    const long index = visible_position(c, w);
    for (size_t i = 0; i < c->n; i++) {
        const device_entry *e = &c->list[i];
        if (!is_of_kind(c, e, w->kind)) continue;
        if (index >= 0 && by_name && strtol(strchr(e->name, ':') + 1, NULL, 10) == index) return i;
        if (index >= 0 && !by_name && seen++ == index) return i;
        if (index >= 0 || c->taken[i]) continue;
        const device_entry *b = best < c->n ? &c->list[best] : NULL;
        if (b == NULL || rank_of(e) < rank_of(b) || (rank_of(e) == rank_of(b) && e->free_bytes > b->free_bytes))
            best = i;
    }
    return best;
}

static ol_status not_a_device(ol_context *ctx, const char *typed) {
    return ctx_fail(
        ctx, OL_ERROR_ARGUMENT,
        "'device=%.60s' is not a device; use 'device=cpu', an index as in 'device=0', or a list as in 'device=0,1'",
        typed);
}

/* Every device of the list must be there; the first is used. */
static ol_status list_judge(ol_context *ctx, const char *typed, const char *asked, choice *c, const text *absent,
                            char name[16]) {
    size_t first = c->n, n_named = 0;
    while (*asked != '\0') {
        wish w;
        if (*asked == ',') { /* "0," is what "(0,)" leaves */
            asked++;
            continue;
        }
        if (!wish_parse(&asked, &w)) return not_a_device(ctx, typed);
        const size_t at = pick(c, &w);
        if (at == c->n) return no_such_device(ctx, typed, c->n, absent);
        if (c->taken[at])
            return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'device=%.60s' names %s twice", typed, c->list[at].name);
        c->taken[at] = true;
        if (n_named++ == 0) first = at;
    }
    if (n_named == 0) return not_a_device(ctx, typed);
    snprintf(name, 16, "%.15s", c->list[first].name);
    if (n_named > 1)
        ctx_log(ctx, OL_LOG_WARNING, "'device=%.60s': several GPUs in one run are not supported yet; using %s alone",
                typed, name);
    return OL_OK;
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
    bool by_free_memory = false;
    for (const char *at = asked; *at != '\0';) { /* before drivers are asked, which takes time */
        wish w = {0};
        if (open_choice) break;
        if (*at == ',')
            at++;
        else if (!wish_parse(&at, &w))
            return not_a_device(ctx, typed);
        by_free_memory = by_free_memory || w.index < 0;
    }
    choice *c = mem_alloc0(ctx, 1, sizeof *c);
    if (c == NULL) return OL_ERROR_MEMORY;
    text absent;
    text_init(&absent, ctx);
    c->n = devices_list(ctx, by_free_memory, c->list, &absent);
    for (size_t i = 0; i < c->n; i++) c->has_nvidia = c->has_nvidia || strncmp(c->list[i].name, "cuda", 4) == 0;
    ol_status status = OL_OK;
    if (open_choice && c->n > 0 && !c->list[0].has_code)
        ctx_log(ctx, OL_LOG_INFO,
                "%s (%s) is not used, because this build has no code for %s; 'yolo checks' tells more", c->list[0].name,
                c->list[0].title, c->list[0].arch);
    if (open_choice)
        snprintf(name, 16, "%.15s", c->n > 0 && c->list[0].has_code ? c->list[0].name : "cpu");
    else
        status = list_judge(ctx, typed, asked, c, &absent, name);
    text_deinit(&absent);
    mem_free(ctx, c);
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

bool device_names_cpu(ol_context *ctx, const char *typed) {
    text asked;
    text_init(&asked, ctx);
    normalise(&asked, typed);
    const bool is_cpu = strcmp(text_c(&asked), "cpu") == 0;
    text_deinit(&asked);
    return is_cpu;
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
