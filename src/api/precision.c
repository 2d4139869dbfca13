#include "api/precision.h"

#include "model/half_check.h"

#include <strings.h>

#define CHECK_MAX_BATCH 16

bool precision_is_half(const settings *s) {
    const value *q = s->quantize;
    if (q->kind == VALUE_INT) return q->as.integer == 16;
    return q->kind == VALUE_STRING &&
           (strcasecmp(q->as.string, "fp16") == 0 || strcasecmp(q->as.string, "w16a16") == 0);
}

static bool is_gpu(const device *dev) {
    device_description d;
    device_describe(dev, &d);
    return d.is_gpu;
}

dtype precision_of_inference(const device *dev, const settings *s) {
    return precision_is_half(s) && is_gpu(dev) ? DTYPE_F16 : DTYPE_F32;
}

static dtype type_of_amp(const value *amp) {
    if (amp->kind == VALUE_BOOL) return amp->as.boolean ? DTYPE_F16 : DTYPE_F32;
    if (amp->kind != VALUE_STRING) return DTYPE_F32;
    return strcasecmp(amp->as.string, "fp16") == 0   ? DTYPE_F16
           : strcasecmp(amp->as.string, "bf16") == 0 ? DTYPE_BF16
                                                     : DTYPE_F32;
}

ol_status precision_of_training(ol_context *ctx, device *dev, const model *m, const settings *s, int batch, int imgsz,
                                dtype *out) {
    dtype type = is_gpu(dev) ? type_of_amp(s->amp) : DTYPE_F32;
    if (!is_gpu(dev) && s->given[SETTING_ID_amp] && s->amp->kind == VALUE_STRING && type_of_amp(s->amp) != DTYPE_F32)
        ctx_log(ctx, OL_LOG_WARNING, "'amp=%s' is for GPUs: the CPU trains in fp32", s->amp->as.string);
    if (type == DTYPE_F16) {
        half_report report;
        ctx_log(ctx, OL_LOG_INFO, "AMP: running Automatic Mixed Precision (AMP) checks...");
        const int n = batch < CHECK_MAX_BATCH ? batch : CHECK_MAX_BATCH;
        const ol_status status = half_check(ctx, dev, m, type, n, imgsz, imgsz, &report);
        if (status == OL_ERROR_DEVICE || status == OL_ERROR_INTERRUPTED) return status;
        if (status != OL_OK) {
            char message[600];
            ctx_message(ctx, message, sizeof message);
            ctx_clear(ctx);
            ctx_log(ctx, OL_LOG_WARNING, "AMP: checks skipped, AMP stays on: %s", message);
        } else if (report.passed) {
            ctx_log(ctx, OL_LOG_INFO,
                    "AMP: checks passed (boxes within %.2f pixels, scores within %.4f, %.2f times as fast as fp32)",
                    report.box_error, report.score_error, report.seconds_f32 / report.seconds_half);
        } else {
            ctx_log(ctx, OL_LOG_WARNING,
                    "AMP: checks failed, so AMP is off and training runs in fp32: %s. amp=bf16 is another way, "
                    "amp=False leaves out the check",
                    report.why);
            type = DTYPE_F32;
        }
    }
    *out = type;
    return OL_OK;
}
