/* What the modes share: settings of a call, the device, the runner. */
#include "api/device_choice.h"
#include "api/effect.h"
#include "api/model.h"
#include "api/precision.h"
#include "api/system.h"
#include "model/summary.h"

#include <string.h>
#include <strings.h>

/* Arguments that a checkpoint hands on to later runs. */
static ol_status inherit(const ol_model *m, settings *s) {
    static const setting_id inherited[] = {SETTING_ID_imgsz, SETTING_ID_data, SETTING_ID_task, SETTING_ID_single_cls};
    for (size_t i = 0; m->has_checkpoint && i < sizeof inherited / sizeof *inherited; i++) {
        const value *v = value_get(m->stored.train_args, setting_infos[inherited[i]].name);
        if (v == NULL || v->kind == VALUE_NULL || s->given[inherited[i]]) continue;
        ol_status status = settings_set_quietly(s, inherited[i], v);
        if (status == OL_ERROR_MEMORY) return status;
        ctx_clear(m->ctx); /* an unusable stored value leaves the default */
    }
    return OL_OK;
}

static ol_status set_default(settings *s, setting_id id, value v) {
    return s->given[id] ? OL_OK : settings_set_quietly(s, id, &v);
}

static ol_status set_mode_defaults(settings *s, const char *mode) {
    static const struct {
        const char *mode;
        setting_id id;
        value value;
    } defaults[] = {
        {"predict", SETTING_ID_batch, {.kind = VALUE_INT, .as.integer = 1}},
        {"predict", SETTING_ID_rect, {.kind = VALUE_BOOL, .as.boolean = true}},
        {"predict", SETTING_ID_save, {.kind = VALUE_BOOL, .as.boolean = false}},
        {"val", SETTING_ID_rect, {.kind = VALUE_BOOL, .as.boolean = true}},
        {"export", SETTING_ID_batch, {.kind = VALUE_INT, .as.integer = 1}},
    };
    ol_status status = OL_OK;
    for (size_t i = 0; status == OL_OK && i < sizeof defaults / sizeof *defaults; i++) {
        if (strcmp(defaults[i].mode, mode) == 0) status = set_default(s, defaults[i].id, defaults[i].value);
    }
    return status;
}

static ol_status set_text(settings *s, setting_id id, const char *x) {
    const value v = {.kind = VALUE_STRING, .as.string = x};
    return settings_set_quietly(s, id, &v);
}

static bool is_8_bit(const value *q) {
    static const char *const words[] = {"int8", "w8a8", "w8a16", "w8a32"};
    if (q->kind == VALUE_INT) return q->as.integer == 8;
    for (size_t i = 0; q->kind == VALUE_STRING && i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(q->as.string, words[i]) == 0) return true;
    }
    return false;
}

/* Arguments that would change the result but that this version does not honour: refused, not passed over. */
static ol_status refuse_unsupported(ol_context *ctx, const settings *s, const char *mode) {
    if (strcmp(mode, "train") == 0 && s->distill_model != NULL)
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "'distill_model=%s' is not supported yet; leave it out",
                        s->distill_model);
    if (strcmp(mode, "export") != 0 && is_8_bit(s->quantize))
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "argument 'quantize' takes 16 or 32 for %s in this version", mode);
    return OL_OK;
}

ol_status mode_settings(const ol_model *m, const ol_options *options, const char *mode, settings *out) {
    settings s;
    ol_status status = settings_copy(&options->settings, &s);
    if (status != OL_OK) return status;
    status = set_text(&s, SETTING_ID_mode, mode);
    if (status == OL_OK && strcmp(mode, "train") != 0) status = inherit(m, &s);
    if (status == OL_OK) status = set_mode_defaults(&s, mode);
    if (status == OL_OK) status = refuse_unsupported(m->ctx, &s, mode);
    if (status == OL_OK) status = effect_warn(m->ctx, &s, mode);
    if (status == OL_OK && strcmp(s.task, "detect") != 0) {
        ctx_log(m->ctx, OL_LOG_WARNING,
                "'task=%s' does not match the model %s, whose task is 'detect'; continuing with 'detect'", s.task,
                m->path);
        status = set_text(&s, SETTING_ID_task, "detect");
    }
    if (status == OL_OK) status = set_text(&s, SETTING_ID_model, m->path);
    if (status != OL_OK) {
        settings_deinit(&s);
        return status;
    }
    *out = s;
    return OL_OK;
}

ol_status end_call(ol_context *ctx, ol_status status) {
    if (status == OL_ERROR_INTERRUPTED) ctx_interrupt_clear(ctx);
    return status;
}

int model_stride(const model *m) {
    int stride = 1;
    for (int i = 0; i < m->n_levels; i++) stride = m->strides[i] > stride ? m->strides[i] : stride;
    return stride;
}

ol_status model_device(ol_model *m, const settings *s) {
    char name[16];
    ol_status status = device_choose(m->ctx, s, name);
    if (status != OL_OK) return status;
    if (m->device != NULL && strcmp(m->device_name, name) == 0) return OL_OK;
    if (m->device != NULL) {
        model_forget_runner(m); /* its plans live on the old device */
        device_close(m->device);
        m->device = NULL;
    }
    status = device_open(m->ctx, name, &m->device);
    if (status == OL_OK) memcpy(m->device_name, name, sizeof name);
    return status;
}

void log_device_line(ol_context *ctx, const device *dev) {
    text line;
    text_init(&line, ctx);
    system_device_line(&line, dev);
    ctx_log(ctx, OL_LOG_INFO, "%s", text_c(&line));
    text_deinit(&line);
}

void model_forget_runner(ol_model *m) {
    if (m->runner != NULL) runner_destroy(m->runner);
    m->runner = NULL;
}

ol_status model_runner(ol_model *m, const settings *s, runner **out) {
    const model_branch branch = s->nms == SETTING_FALSE ? MODEL_ONE2ONE : MODEL_ONE2MANY;
    ol_status status = model_device(m, s);
    if (status != OL_OK) return status;
    if (s->verbose && !m->announced) {
        m->announced = true;
        log_device_line(m->ctx, m->device);
        status = model_log_summary(m->model, true, branch);
        if (status != OL_OK) return status;
    }
    const dtype compute = precision_of_inference(m->device, s);
    if (m->runner != NULL && (m->runner_branch != branch || m->runner_compute != compute)) model_forget_runner(m);
    if (m->runner == NULL) {
        if (compute == DTYPE_F32 && precision_is_half(s))
            ctx_log(m->ctx, OL_LOG_WARNING, "'quantize=16' is for GPUs and exports: the CPU computes in fp32");
        const runner_options options = {.decode = branch, .compute = compute};
        status = runner_create(m->ctx, m->device, m->model, &options, &m->runner);
        m->runner_branch = branch;
        m->runner_compute = compute;
    }
    if (status == OL_OK) *out = m->runner;
    return status;
}
