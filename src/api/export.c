/* Export: the model in another program's format, beside the file it came from. */
#include "api/model.h"
#include "api/precision.h"
#include "base/file.h"
#include "base/numbers.h"
#include "base/progress.h"
#include "formats/onnx_export.h"
#include "formats/safetensors.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* One call of ol_export. */
typedef struct exporting {
    ol_model *handle;
    const settings *s;
    int height, width, batch;
    const char *path; /* to be written */
} exporting;

static bool is_full(const settings *s) {
    const value *q = s->quantize;
    if (q->kind == VALUE_INT) return q->as.integer == 32;
    return q->kind == VALUE_NULL || (q->kind == VALUE_STRING && (strcasecmp(q->as.string, "fp32") == 0 ||
                                                                 strcasecmp(q->as.string, "w32a32") == 0));
}

/* The arguments as the metadata shows them (data document, section 8.3). */
static ol_status shown_arguments(arena *a, const settings *s, const value **out) {
    static const setting_id shown[] = {SETTING_ID_data, SETTING_ID_batch,   SETTING_ID_fraction, SETTING_ID_quantize,
                                       SETTING_ID_nms,  SETTING_ID_dynamic, SETTING_ID_simplify, SETTING_ID_opset};
    value *map = value_map(a);
    ol_status status = map != NULL ? OL_OK : OL_ERROR_MEMORY;
    for (size_t i = 0; status == OL_OK && i < sizeof shown / sizeof *shown; i++)
        status = value_set(a, map, setting_infos[shown[i]].name, s->values[shown[i]]);
    if (status == OL_OK) *out = map;
    return status;
}

static ol_status write_onnx(exporting *e) {
    const settings *s = e->s;
    const ol_model *m = e->handle;
    arena a;
    arena_init(&a, m->ctx, 0);
    const value *arguments = NULL;
    ol_status status = shown_arguments(&a, s, &arguments);
    const char *data = s->data != NULL ? path_name(s->data) : NULL;
    const onnx_export_options o = {.height = e->height,
                                   .width = e->width,
                                   .batch = e->batch,
                                   .opset = s->opset == SETTING_UNSET ? 0 : s->opset,
                                   .dynamic = s->dynamic,
                                   .half = precision_is_half(s),
                                   .nms = s->nms,
                                   .max_det = s->max_det,
                                   .conf = s->conf,
                                   .iou = s->iou,
                                   .data = data,
                                   .arguments = arguments};
    if (status == OL_OK) status = onnx_export(m->ctx, e->path, m->model, &o);
    arena_deinit(&a);
    return status;
}

/* What later runs inherit, and nothing else of the source file: no paths of another machine. */
static ol_status kept_arguments(arena *a, const value *stored, const value **out) {
    static const char *const kept[] = {"task", "imgsz", "single_cls"};
    value *map = value_map(a);
    ol_status status = map != NULL ? OL_OK : OL_ERROR_MEMORY;
    for (size_t i = 0; status == OL_OK && i < sizeof kept / sizeof *kept; i++) {
        const value *v = value_get(stored, kept[i]);
        if (v != NULL) status = value_set(a, map, kept[i], v);
    }
    const value *data = value_get(stored, "data");
    if (status == OL_OK && data != NULL && data->kind == VALUE_STRING)
        status = value_set(a, map, "data", value_string(a, path_name(data->as.string)));
    if (status == OL_OK) *out = map;
    return status;
}

typedef ol_status (*weights_writer)(ol_context *ctx, const char *path, const checkpoint *c, const model *m, bool half);

static ol_status write_weights(exporting *e, weights_writer write) {
    const ol_model *m = e->handle;
    checkpoint c;
    checkpoint_init(&c, m->ctx);
    c.epoch = -1;
    ol_status status = kept_arguments(&c.arena, m->stored.train_args, &c.train_args);
    if (status == OL_OK) status = tensor_list_copy(&c.weights, &m->model->state);
    const bool half = precision_is_half(e->s) || e->s->quantize->kind == VALUE_NULL;
    if (status == OL_OK) status = write(m->ctx, e->path, &c, m->model, half);
    checkpoint_deinit(&c);
    return status;
}

static ol_status write_checkpoint(exporting *e) {
    return write_weights(e, checkpoint_write);
}
static ol_status write_safetensors(exporting *e) {
    return write_weights(e, safetensors_write);
}

static const struct format {
    const char *name, *suffix, *title;
    ol_status (*write)(exporting *e);
} formats[] = {{"onnx", ".onnx", "ONNX", write_onnx},
               {"safetensors", ".safetensors", "Safetensors", write_safetensors},
               {"pt", ".pt", "PyTorch", write_checkpoint}};
#define N_FORMATS (sizeof formats / sizeof *formats)

/* Formats of the field that are not written here. */
static const char *const other_formats[] = {"torchscript", "openvino", "engine",     "coreml",  "coreai", "saved_model",
                                            "pb",          "edgetpu",  "litert",     "paddle",  "mnn",    "ncnn",
                                            "imx",         "rknn",     "executorch", "axelera", "deepx",  "qnn",
                                            "hailo",       "ascend",   "xilinx"};

static ol_status find_format(ol_context *ctx, const char *asked, const struct format **out) {
    const struct format *best = NULL;
    double similarity = 0.6;
    for (size_t i = 0; i < N_FORMATS; i++) {
        const double x = text_similarity(formats[i].name, asked);
        if (x < similarity) continue;
        best = &formats[i];
        similarity = x;
    }
    for (size_t i = 0; i < sizeof other_formats / sizeof *other_formats; i++) {
        if (strcasecmp(other_formats[i], asked) == 0)
            return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                            "'format=%.60s' is not supported yet; valid formats are 'onnx', 'safetensors' and 'pt'",
                            asked);
    }
    if (best == NULL)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "Invalid export format='%.60s'. Valid formats are 'onnx', 'safetensors' and 'pt'.", asked);
    if (strcasecmp(best->name, asked) != 0)
        ctx_log(ctx, OL_LOG_WARNING, "Invalid export format='%.60s', updating to format='%s'", asked, best->name);
    *out = best;
    return OL_OK;
}

/* What a format does not honour is refused when it was asked for. */
static ol_status check_arguments(ol_context *ctx, const settings *s, const struct format *f) {
    const bool onnx = f->write == write_onnx;
    const struct {
        setting_id id;
        bool refused;
    } rows[] = {{SETTING_ID_workspace, s->workspace == s->workspace},
                {SETTING_ID_optimize, s->optimize},
                {SETTING_ID_dynamic, !onnx && s->dynamic},
                {SETTING_ID_opset, !onnx && s->opset != SETTING_UNSET},
                {SETTING_ID_nms, !onnx && s->nms != SETTING_NONE},
                {SETTING_ID_batch, !onnx && s->batch != 1.0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].refused)
            return ctx_fail(ctx, OL_ERROR_ARGUMENT, "argument '%s' is not supported for format='%s'; leave it out",
                            setting_infos[rows[i].id].name, f->name);
    }
    if (!is_full(s) && !precision_is_half(s))
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "argument 'quantize' takes 16 or 32 for format='%s' in this version",
                        f->name);
    if (s->batch < 1.0 || s->batch > 65536.0)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'batch=%.15g' cannot be exported; give an int of 1 to 65536",
                        s->batch);
    if (s->opset != SETTING_UNSET && (s->opset < ONNX_MIN_OPSET || s->opset > ONNX_MAX_OPSET))
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'opset=%d' is out of range; valid opsets are %d to %d", s->opset,
                        ONNX_MIN_OPSET, ONNX_MAX_OPSET);
    return OL_OK;
}

static void choose_size(ol_context *ctx, const settings *s, int stride, int *height, int *width) {
    int hw[2], raised[2];
    settings_image_size(s, hw);
    for (int i = 0; i < 2; i++) raised[i] = (hw[i] + stride - 1) / stride * stride;
    if (raised[0] != hw[0] || raised[1] != hw[1])
        ctx_log(ctx, OL_LOG_WARNING, "imgsz=[%d, %d] must be multiple of max stride %d, updating to [%d, %d]", hw[0],
                hw[1], stride, raised[0], raised[1]);
    *height = raised[0];
    *width = raised[1];
}

static double megabytes(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (double)st.st_size / 1e6 : 0.0;
}

static void log_start(const exporting *e, const struct format *f) {
    const ol_model *m = e->handle;
    int64_t anchors = 0;
    for (int i = 0; i < m->model->n_levels; i++)
        anchors += (int64_t)(e->height / m->model->strides[i]) * (e->width / m->model->strides[i]);
    ctx_log(m->ctx, OL_LOG_INFO, "%s", "");
    ctx_log(m->ctx, OL_LOG_INFO,
            "Onelook: starting from '%s' with input shape (%d, %d, %d, %d) BCHW, %lld anchors, %d classes (%.1f MB)",
            m->path, e->batch, m->model->desc.channels, e->height, e->width, (long long)anchors, m->model->desc.nc,
            megabytes(m->path));
    if (f->write == write_onnx)
        ctx_log(m->ctx, OL_LOG_INFO, "ONNX: starting export with opset %d...",
                e->s->opset == SETTING_UNSET ? ONNX_DEFAULT_OPSET : e->s->opset);
}

/* <stem><suffix> beside the model's file; never the file itself. */
static ol_status target_path(ol_model *m, const char *suffix, const char **out) {
    const char *path = path_with_suffix(&m->results, m->path, suffix);
    if (path != NULL && strcmp(path, m->path) == 0)
        path = arena_printf(&m->results, "%.*s-exported%s", (int)(path_suffix(m->path) - m->path), m->path, suffix);
    if (path == NULL) return OL_ERROR_MEMORY;
    *out = path;
    return OL_OK;
}

ol_status ol_export(ol_model *m, const ol_options *options, const char **path) {
    NUMBERS_WITH_POINT();
    ol_context *ctx = m->ctx;
    ctx_clear(ctx);
    settings s;
    ol_status status = mode_settings(m, options, "export", &s);
    if (status != OL_OK) return status;
    arena_deinit(&m->results);
    arena_init(&m->results, ctx, 0);
    exporting e = {.handle = m, .s = &s};
    const struct format *f = &formats[0];
    const double started = progress_clock();
    status = find_format(ctx, s.format, &f);
    if (status == OL_OK) status = check_arguments(ctx, &s, f);
    if (status == OL_OK) status = model_device(m, &s);
    if (status == OL_OK) status = target_path(m, f->suffix, &e.path);
    if (status != OL_OK) goto fail;
    choose_size(ctx, &s, model_stride(m->model), &e.height, &e.width);
    e.batch = (int)s.batch;
    if (s.verbose) {
        log_device_line(ctx, m->device);
        log_start(&e, f);
    }
    status = f->write(&e);
    if (status != OL_OK) goto fail;
    const char *whole = path_absolute(&m->results, e.path),
               *folder = whole != NULL ? path_parent(&m->results, whole) : NULL;
    if (folder == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    ctx_log(ctx, OL_LOG_INFO, "%s: export success ✅ %.1fs, saved as '%s' (%.1f MB)", f->title,
            progress_clock() - started, e.path, megabytes(e.path));
    if (s.verbose && f->write == write_onnx && !s.dynamic)
        ctx_log(
            ctx, OL_LOG_INFO,
            "The file takes pictures padded to %dx%d, predict pads them less unless rect=False: boxes differ a little",
            e.width, e.height);
    if (s.verbose) ctx_log(ctx, OL_LOG_INFO, "Results saved to %s", folder);
    if (path != NULL) *path = e.path;
fail:
    settings_deinit(&s);
    return status;
}
