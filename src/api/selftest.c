/* The public self-test: op table, short training run, report file. */
#include "device/selftest.h"

#include "api/device_choice.h"
#include "api/model.h"
#include "api/selftest_exact.h"
#include "base/file.h"
#include "base/numbers.h"
#include "ops/detect_loss.h"
#include "train/optimizer.h"
#include "train/step_plans.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N_STEPS = 3, N_PICTURES = 2, SIDE = 64, N_TARGETS = 4 };
/* Short runs in each number format, with the loss scale. Limits are of a loss item, relative to the CPU's in f32: the
 * first step sees the same weights, later ones what rounding made of them. A network with fresh weights multiplies any
 * difference by about ten a step, so f16 is judged by the step that sees equal weights alone: a limit that the later
 * ones keep on a right card would pass a wrong one too. */
static const struct training_kind {
    dtype compute;
    double scale;
    int n_steps;
    double limits[N_STEPS];
} training_kinds[] = {{DTYPE_F32, 1.0, 3, {1e-3, 1e-2, 3e-2}}, {DTYPE_F16, 128.0, 1, {2e-2}}};

typedef struct selftest_run {
    ol_context *ctx;
    device *dev;
    ol_report_fn line;
    void *user;
    const char *path; /* of the report; NULL: none */
    text report, facts;
    int n_wrong, n_lines;
} selftest_run;

/* What was found so far, then what `yolo checks` says. The file is there from the start and names what is under way: a
 * kernel that goes astray lets some drivers end the program at once. */
static ol_status report_save(selftest_run *r, const char *under_way) {
    if (r->path == NULL) return OL_OK;
    text all;
    text_init(&all, r->ctx);
    text_append(&all, text_c(&r->report), r->report.length);
    if (under_way != NULL) text_printf(&all, "%-23s UNFINISHED  the program ended during: %s\n", "Verdict", under_way);
    text_printf(&all, "\n");
    text_append(&all, text_c(&r->facts), r->facts.length);
    const bool failed = all.failed || r->report.failed || r->facts.failed;
    const ol_status status =
        failed ? OL_ERROR_MEMORY
               : (under_way != NULL ? file_write_whole : file_write_atomic)(r->ctx, r->path, text_c(&all), all.length);
    text_deinit(&all);
    return status;
}

static void report_line(void *user, const char *label, const char *words) {
    selftest_run *r = user;
    text_printf(&r->report, "%-23s%s\n", label, words);
}

static void fact_line(void *user, const char *label, const char *words) {
    selftest_run *r = user;
    text_printf(&r->facts, "%-23s%s\n", label, words);
}

static void tell(selftest_run *r, const char *label, const char *words) {
    report_line(r, label, words);
    r->line(r->user, label, words);
}

static void op_line(void *user, const selftest_line *l) {
    selftest_run *r = user;
    char label[64], words[512];
    snprintf(label, sizeof label, "%s %s", op_info_of(l->kind)->name, dtype_name(l->compute));
    if (l->message[0] != '\0')
        snprintf(words, sizeof words, " FAILED  %s", l->message);
    else if (l->n_cases == 0)
        snprintf(words, sizeof words, " FAILED  not reached");
    else
        snprintf(words, sizeof words, " %s  error %.1e (limit %.0e)  %9.4f ms  %d case%s", l->ok ? "ok    " : "WRONG ",
                 l->error, l->limit, l->milliseconds, l->n_cases, l->n_cases == 1 ? "" : "s");
    r->n_lines++;
    tell(r, label, words);
}

/* The final report says it when writing fails here. */
static void op_begin(void *user, op_kind kind, dtype compute) {
    selftest_run *r = user;
    char under_way[64];
    snprintf(under_way, sizeof under_way, "%s %s", op_info_of(kind)->name, dtype_name(compute));
    if (report_save(r, under_way) != OL_OK) ctx_clear(r->ctx);
}

static void exact_tell(void *user, const exact_line *l) {
    selftest_run *r = user;
    char words[512];
    if (l->message[0] != '\0')
        snprintf(words, sizeof words, " FAILED  %s", l->message);
    else
        snprintf(words, sizeof words, " %s  %d of %d equal to the CPU's  %9.4f ms",
                 l->n_wrong == 0 ? "ok    " : "WRONG ", l->n_cases - l->n_wrong, l->n_cases, l->milliseconds);
    r->n_lines++;
    r->n_wrong += l->n_wrong > 0 ? 1 : 0;
    tell(r, l->name, words);
}

/* --- the short training run --- */

typedef struct trial_batch {
    uint8_t images[N_PICTURES * 3 * SIDE * SIDE];
    float targets[N_PICTURES * N_TARGETS * 5];
    int32_t counts[N_PICTURES];
} trial_batch;

/* Smooth colours, and two boxes a picture. */
static void batch_draw(trial_batch *b, int channels) {
    for (int i = 0; i < N_PICTURES * channels; i++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                b->images[(i * SIDE + y) * SIDE + x] = (uint8_t)(40 * i + 3 * x + (5 + i) * y + x * y / 9);
    for (int i = 0; i < N_PICTURES; i++) {
        b->counts[i] = 2;
        for (int k = 0; k < 2; k++) {
            const float row[5] = {0.0f, 0.3f + 0.35f * (float)k, 0.4f + 0.1f * (float)i, 0.4f, 0.3f + 0.1f * (float)k};
            memcpy(b->targets + (i * N_TARGETS + k) * 5, row, sizeof row);
        }
    }
}

static ol_status gains_write(const step_plan *s, int nc, float *gains) {
    const float first[LOSS_GAIN_CLASSES] = {7.5f, 0.5f, 1.5f, 1.0f}; /* the step has the rest */
    memcpy(gains, first, sizeof first);
    for (int c = 0; c < nc; c++) gains[LOSS_GAIN_CLASSES + c] = 1.0f;
    ol_status status = OL_OK;
    for (int branch = 0; branch < 2 && status == OL_OK; branch++)
        if (s->refs.gains[branch] != TENSOR_NONE)
            status =
                plan_write(s->plan, s->refs.gains[branch], gains, ((size_t)nc + LOSS_GAIN_CLASSES) * sizeof *gains);
    return status;
}

static ol_status step_run(const step_plan *s, const trial_batch *b, const model *m, optimizer *opt, float *gains,
                          float items[6]) {
    step_outcome outcome;
    ol_status status =
        plan_write(s->plan, s->refs.image, b->images, (size_t)N_PICTURES * (size_t)m->desc.channels * SIDE * SIDE);
    if (status == OL_OK) status = plan_write(s->plan, s->refs.targets, b->targets, sizeof b->targets);
    if (status == OL_OK) status = plan_write(s->plan, s->refs.target_count, b->counts, sizeof b->counts);
    if (status == OL_OK) status = gains_write(s, m->desc.nc, gains);
    if (status == OL_OK) status = optimizer_order(opt, N_PICTURES, true);
    if (status == OL_OK) status = plan_run(s->plan);
    if (status == OL_OK) status = optimizer_outcome(opt, &outcome);
    if (status != OL_OK) return status;
    memcpy(items, outcome.items, sizeof outcome.items);
    if (outcome.stopped)
        return ctx_fail(m->ctx, OL_ERROR_NUMERIC, "a loss or a gradient is not finite (gradient norm %g)",
                        outcome.norm);
    return OL_OK;
}

/* A few steps of MuSGD from the model's weights, which stay as they are. */
static ol_status steps_run(ol_context *ctx, device *dev, const model *m, const trial_batch *b,
                           const struct training_kind *kind, float items[N_STEPS][6]) {
    param_store *store = NULL;
    optimizer *opt = NULL;
    step_plans *plans = NULL;
    step_plan *s = NULL;
    float *gains = mem_alloc0(ctx, (size_t)m->desc.nc + LOSS_GAIN_CLASSES, sizeof *gains);
    ol_status status = gains == NULL ? OL_ERROR_MEMORY : param_store_create(ctx, dev, m, OPTIMIZER_MUSGD, &store);
    if (status == OL_OK) status = optimizer_create(store, OPTIMIZER_MUSGD, 0.001, 0.9, 0.0005, DTYPE_F32, &opt);
    if (status == OL_OK) opt->numbers.scaler.scale = kind->scale;
    if (status == OL_OK) status = optimizer_load(opt);
    if (status == OL_OK) status = step_plans_create(ctx, dev, m, opt, N_TARGETS, kind->compute, &plans);
    if (status == OL_OK) status = step_plans_get(plans, N_PICTURES, SIDE, SIDE, &s);
    for (int i = 0; i < kind->n_steps && status == OL_OK; i++) status = step_run(s, b, m, opt, gains, items[i]);
    step_plans_destroy(plans);
    optimizer_destroy(opt);
    param_store_destroy(store);
    mem_free(ctx, gains);
    return status;
}

/* Both devices' loss items of one step; false when they are too far apart. */
static bool step_compare(selftest_run *r, const struct training_kind *kind, int step, const float found[6],
                         const float expected[6]) {
    char label[32], words[256];
    double worst = 0.0;
    for (int k = 0; k < 6; k++) {
        const double size = fabs((double)expected[k]) > 1e-3 ? fabs((double)expected[k]) : 1e-3;
        const double error = fabs((double)found[k] - (double)expected[k]) / size;
        if (!(error <= worst)) worst = isnan(error) ? (double)INFINITY : error;
    }
    const bool ok = worst <= kind->limits[step];
    snprintf(label, sizeof label, "training step %d %s", step + 1, dtype_name(kind->compute));
    snprintf(words, sizeof words, " %s  error %.1e (limit %.0e)  box %.4f cls %.4f l1 %.4f, CPU %.4f %.4f %.4f",
             ok ? "ok    " : "WRONG ", worst, kind->limits[step], (double)found[0], (double)found[1], (double)found[2],
             (double)expected[0], (double)expected[1], (double)expected[2]);
    tell(r, label, words);
    return ok;
}

static ol_status kind_compare(selftest_run *r, const struct training_kind *kind, const model *m, const trial_batch *b,
                              float expected[N_STEPS][6]) {
    float found[N_STEPS][6] = {{0}};
    const ol_status status = steps_run(r->ctx, r->dev, m, b, kind, found);
    if (status == OL_ERROR_INTERRUPTED) return status;
    r->n_lines += kind->n_steps;
    if (status == OL_OK) {
        for (int i = 0; i < kind->n_steps; i++) r->n_wrong += step_compare(r, kind, i, found[i], expected[i]) ? 0 : 1;
        return OL_OK;
    }
    char why[512], label[32], words[560];
    ctx_message(r->ctx, why, sizeof why);
    ctx_clear(r->ctx);
    snprintf(label, sizeof label, "training %s", dtype_name(kind->compute));
    snprintf(words, sizeof words, " FAILED  %s", why[0] != '\0' ? why : ol_status_name(status));
    tell(r, label, words);
    r->n_wrong += kind->n_steps;
    return OL_OK;
}

static ol_status model_find(ol_context *ctx, const char *path, ol_model **m) {
    if (path[0] == '\0') return OL_OK;
    const ol_status status = model_open(ctx, path, m);
    if (status != OL_OK || (*m)->model->desc.channels == 3) return status;
    return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s: the self-test needs a model of three channels", path);
}

static ol_status stage_begin(selftest_run *r, const char *name) {
    return ctx_interrupted(r->ctx) ? OL_ERROR_INTERRUPTED : report_save(r, name);
}

static ol_status training_compare(selftest_run *r, const ol_model *m, size_t n_kinds) {
    device *cpu = NULL;
    float expected[N_STEPS][6] = {{0}};
    trial_batch *b = mem_alloc0(r->ctx, 1, sizeof *b);
    ol_status status = b == NULL ? OL_ERROR_MEMORY : device_open(r->ctx, "cpu", &cpu);
    if (status == OL_OK) {
        batch_draw(b, 3);
        status = steps_run(r->ctx, cpu, m->model, b, &training_kinds[0], expected);
    }
    for (size_t i = 0; i < n_kinds && status == OL_OK; i++) {
        status = stage_begin(r, i == 0 ? "training f32" : "training f16");
        if (status == OL_OK) status = kind_compare(r, &training_kinds[i], m->model, b, expected);
    }
    device_close(cpu);
    mem_free(r->ctx, b);
    return status;
}

static void head_tell(selftest_run *r) {
    char words[320], now[32] = "";
    device_description d;
    device_describe(r->dev, &d);
    snprintf(words, sizeof words, "%s (%s%s%llu MiB%s%s)", d.label, d.title, d.title[0] != '\0' ? ", " : "",
             (unsigned long long)(d.memory_bytes >> 20), d.driver[0] != '\0' ? ", " : "", d.driver);
    const time_t t = time(NULL);
    struct tm utc;
    if (gmtime_r(&t, &utc) != NULL) strftime(now, sizeof now, "%Y-%m-%d %H:%M UTC", &utc);
    report_line(r, "Onelook self-test", ol_version());
    report_line(r, "Date", now);
    tell(r, "Device", words);
}

static ol_status tests_run(selftest_run *r, const ol_model *m) {
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    const selftest_listener to = {op_line, op_begin, r};
    device_description d;
    device_describe(r->dev, &d);
    ol_status status = stage_begin(r, "start");
    for (size_t i = 0; i < (d.is_gpu ? 3u : 1u) && status == OL_OK; i++) { /* CPUs compute in f32 alone */
        int n_wrong = 0;
        status = device_selftest(r->ctx, r->dev, types[i], &to, &n_wrong);
        r->n_wrong += n_wrong;
    }
    if (status == OL_OK) status = stage_begin(r, "rows of detections and pictures");
    if (status == OL_OK) status = selftest_exact(r->ctx, r->dev, exact_tell, r);
    if (status == OL_OK && m != NULL) status = training_compare(r, m, d.is_gpu ? 2 : 1);
    return status == OL_OK && ctx_interrupted(r->ctx) ? OL_ERROR_INTERRUPTED : status;
}

/* What the driver made of the kernels, which its own compiler may change: registers that spill cost speed. */
static void code_tell(selftest_run *r) {
    device_code c;
    char words[256], spilled[80] = "none spilled", shared[80] = "";
    if (!device_code_look(r->dev, &c)) return;
    if (c.spilled_bytes > 0) snprintf(spilled, sizeof spilled, "%d bytes spilled (%s)", c.spilled_bytes, c.spilled_of);
    if (c.shared_bytes > 0)
        snprintf(shared, sizeof shared, "; %d bytes of shared memory (%s)", c.shared_bytes, c.shared_of);
    snprintf(words, sizeof words, " %d used; at most %d registers (%s), %s%s", c.n_kernels, c.registers, c.registers_of,
             spilled, shared);
    tell(r, "Kernels", words);
}

static ol_status verdict(selftest_run *r) {
    char words[256];
    device_description d;
    device_describe(r->dev, &d);
    if (r->n_wrong == 0)
        snprintf(words, sizeof words, " PASSED  all %d checks on %s", r->n_lines, d.label);
    else
        snprintf(words, sizeof words, " FAILED  %d of %d checks on %s", r->n_wrong, r->n_lines, d.label);
    tell(r, "Verdict", words);
    const ol_status status = report_save(r, NULL);
    if (status != OL_OK || r->n_wrong == 0) return status;
    return ctx_fail(r->ctx, OL_ERROR_DEVICE,
                    "%s fails %d of %d checks of the self-test: do not train on it; please report it%s%s", d.label,
                    r->n_wrong, r->n_lines, r->path != NULL ? " and attach " : "", r->path != NULL ? r->path : "");
}

ol_status ol_selftest(ol_context *ctx, const ol_selftest_options *options, ol_report_fn line, void *user) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    selftest_run r = {.ctx = ctx, .line = line, .user = user};
    ol_model *m = NULL;
    char name[16];
    ol_selftest_options o = {0};
    memcpy(&o, options, options->struct_bytes < sizeof o ? options->struct_bytes : sizeof o);
    r.path = o.report != NULL && o.report[0] != '\0' ? o.report : NULL;
    text_init(&r.report, ctx);
    text_init(&r.facts, ctx);
    ol_status status = device_choose_text(ctx, o.device != NULL ? o.device : "", false, name);
    if (status == OL_OK) status = model_find(ctx, o.model != NULL ? o.model : "yolo26n.yaml", &m);
    if (status == OL_OK && r.path != NULL) ol_system_report(ctx, fact_line, &r);
    if (status == OL_OK) status = device_open(ctx, name, &r.dev);
    if (status == OL_OK) {
        head_tell(&r);
        status = tests_run(&r, m);
        if (status == OL_OK) code_tell(&r);
        if (status == OL_OK) status = verdict(&r);
    }
    device_close(r.dev);
    ol_model_destroy(m);
    text_deinit(&r.report);
    text_deinit(&r.facts);
    return end_call(ctx, status);
}
