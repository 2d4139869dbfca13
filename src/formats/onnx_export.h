/* Export of a model to one ONNX file with the names, shapes, value conventions and metadata keys of the reference (data
 * document, section 8). Does not run anything. */
#ifndef FORMATS_ONNX_EXPORT_H
#define FORMATS_ONNX_EXPORT_H

#include "base/settings.h"
#include "model/model.h"

#define ONNX_DEFAULT_OPSET 18
#define ONNX_MIN_OPSET     11
#define ONNX_MAX_OPSET     22

typedef struct onnx_export_options {
    int height, width; /* multiples of the largest stride */
    int batch;         /* 0: 1 */
    int opset;         /* 0: the default */
    bool dynamic;      /* batch, height and width are free; with nms FALSE only the batch */
    bool half;         /* weights and inner values in half precision; input and output stay float32 */
    setting_tristate
        nms;     /* NONE: raw output0 (N,4+nc,A); TRUE: suppression inside; FALSE: NMS-free selection; both (N,k,6) */
    int max_det; /* 0: 300 */
    double conf, iou;       /* for nms TRUE; NAN: 0.25 and 0.7 */
    const char *data;       /* data set's name for the description, may be NULL */
    const value *arguments; /* map for the metadata key "args", may be NULL: written from the fields above */
} onnx_export_options;

/* Replaces `path` atomically. A branch that the model lacks is replaced by the other with a warning.
 */
ol_status onnx_export(ol_context *ctx, const char *path, const model *m, const onnx_export_options *options);

#endif
