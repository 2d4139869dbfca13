#include "formats/onnx_export.h"

#include "formats/onnx_graph.h"
#include "model/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct exporter {
    ol_context *ctx;
    const model *m;
    onnx_export_options o; /* with defaults filled in */
    onnx_model *onnx;
    graph *g;
    model_graph_refs refs;
    tensor_list folded;
} exporter;

static ol_status fill_defaults(exporter *x, const onnx_export_options *options) {
    onnx_export_options *o = &x->o;
    *o = *options;
    if (o->batch == 0) o->batch = 1;
    if (o->opset == 0) o->opset = ONNX_DEFAULT_OPSET;
    if (o->max_det == 0) o->max_det = 300;
    if (isnan(o->conf)) o->conf = 0.25;
    if (isnan(o->iou)) o->iou = 0.7;
    if (o->opset < ONNX_MIN_OPSET || o->opset > ONNX_MAX_OPSET)
        return ctx_fail(x->ctx, OL_ERROR_ARGUMENT, "opset=%d is not supported; give one from %d to %d", o->opset,
                        ONNX_MIN_OPSET, ONNX_MAX_OPSET);
    if (o->nms == SETTING_FALSE && !x->m->has_one2one) {
        ctx_log(x->ctx, OL_LOG_WARNING,
                "the model has no one-to-one head: nms=False is ignored, the one-to-many output is exported");
        o->nms = SETTING_NONE;
    }
    if (o->nms != SETTING_FALSE && !x->m->has_one2many) {
        ctx_log(x->ctx, OL_LOG_WARNING, "the model has only its one-to-one head: the export is NMS-free (nms=False)");
        o->nms = SETTING_FALSE;
    }
    return OL_OK;
}

static ol_status build(exporter *x) {
    const model_branch branch = x->o.nms == SETTING_FALSE ? MODEL_ONE2ONE : MODEL_ONE2MANY;
    const model_graph_options options = {.mode = MODEL_EVAL,
                                         .batch = x->o.batch,
                                         .height = x->o.height,
                                         .width = x->o.width,
                                         .branches = branch,
                                         .decode = true};
    ol_status status = graph_create(x->ctx, &x->g);
    if (status == OL_OK) status = model_build(x->m, x->g, &options, &x->refs);
    if (status == OL_OK) status = model_fold(x->m, &x->m->state, &x->folded);
    return status;
}

/* --- metadata: section 8.3 --- */

static void metadata_value(exporter *x, const char *key, const value *v) {
    text t;
    text_init(&t, x->ctx);
    if (v == NULL || literal_write(&t, v) != OL_OK)
        onnx_model_fail(x->onnx, OL_ERROR_MEMORY);
    else
        onnx_metadata(x->onnx, key, text_c(&t));
    text_deinit(&t);
}

static void metadata_int(exporter *x, const char *key, int n) {
    metadata_value(x, key, value_int(onnx_model_arena(x->onnx), n));
}

static const value *names_value(exporter *x) {
    arena *a = onnx_model_arena(x->onnx);
    value *map = value_map(a);
    for (int i = 0; map != NULL && i < x->m->desc.nc; i++)
        if (value_set_key(a, map, value_int(a, i), value_string(a, x->m->names[i])) != OL_OK) return NULL;
    return map;
}

static const value *arguments_value(exporter *x) {
    const onnx_export_options *o = &x->o;
    arena *a = onnx_model_arena(x->onnx);
    if (o->arguments != NULL) return o->arguments;
    value *map = value_map(a);
    if (map == NULL) return NULL;
    value_set(a, map, "batch", value_int(a, o->batch));
    value_set(a, map, "quantize", o->half ? value_int(a, 16) : &value_null);
    value_set(a, map, "nms", o->nms == SETTING_NONE ? &value_null : value_bool(a, o->nms == SETTING_TRUE));
    value_set(a, map, "dynamic", value_bool(a, o->dynamic));
    value_set(a, map, "opset", value_int(a, o->opset));
    return map;
}

static void put_description(exporter *x) {
    const char scale[2] = {x->m->desc.scale, '\0'};
    const char *tail = x->o.data != NULL ? " trained on " : "";
    char *description =
        arena_printf(onnx_model_arena(x->onnx), "YOLO26%s model%s%s", scale, tail, x->o.data != NULL ? x->o.data : "");
    onnx_metadata(x->onnx, "description", description != NULL ? description : "");
}

static void put_metadata(exporter *x) {
    const model *m = x->m;
    arena *a = onnx_model_arena(x->onnx);
    char date[40];
    const time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S+00:00", gmtime_r(&now, &utc));
    value *size = value_list(a);
    if (size == NULL || value_append(a, size, value_int(a, x->o.height)) != OL_OK ||
        value_append(a, size, value_int(a, x->o.width)) != OL_OK)
        onnx_model_fail(x->onnx, OL_ERROR_MEMORY);
    put_description(x);
    onnx_metadata(x->onnx, "author", "Onelook");
    onnx_metadata(x->onnx, "date", date);
    onnx_metadata(x->onnx, "version", ol_version());
    onnx_metadata(x->onnx, "license",
                  "that of the weights and of the data they were trained on; the exporter adds no terms");
    onnx_metadata(x->onnx, "docs", "docs/ of the Onelook source");
    metadata_int(x, "stride", m->strides[m->n_levels - 1]);
    onnx_metadata(x->onnx, "task", "detect");
    onnx_metadata(x->onnx, "head", "Detect");
    metadata_int(x, "batch", x->o.batch);
    metadata_value(x, "imgsz", size);
    metadata_value(x, "names", names_value(x));
    metadata_value(x, "args", arguments_value(x));
    onnx_metadata(
        x->onnx, "layout",
        x->o.nms == SETTING_NONE
            ? "output0 (batch, 4+classes, anchors): centre x, centre y, width, height in input pixels, then class "
              "scores 0..1; suppression follows outside"
            : "output0 (batch, rows, 6): x1, y1, x2, y2 in input pixels, score, class; best first");
    metadata_int(x, "channels", m->desc.channels);
    metadata_value(x, "end2end", value_bool(a, x->o.nms == SETTING_FALSE));
}

/* --- the graph --- */

static ol_status emit(exporter *x) {
    const onnx_export_options *o = &x->o;
    const bool one2one = x->refs.decoded[1] != TENSOR_NONE;
    const bool free_size = o->dynamic && o->nms != SETTING_FALSE;
    const onnx_graph_options options = {.free_batch = o->dynamic, .free_size = free_size, .half = o->half};
    const tensor_ref decoded = x->refs.decoded[one2one ? 1 : 0];
    const int nc = x->m->desc.nc, k = o->max_det < x->refs.anchors ? o->max_det : x->refs.anchors;
    const onnx_dim batch = {o->batch, o->dynamic ? "batch" : NULL};
    const onnx_dim input[4] = {batch,
                               {x->m->desc.channels, NULL},
                               {o->height, free_size ? "height" : NULL},
                               {o->width, free_size ? "width" : NULL}};
    onnx_input(x->onnx, "images", ONNX_FLOAT, input, 4);
    const char *y = onnx_emit_graph(x->onnx, x->g, x->refs.image, decoded, &x->folded, &options);
    if (o->nms == SETTING_NONE) {
        const onnx_dim dims[3] = {batch, {4 + nc, NULL}, {x->refs.anchors, free_size ? "anchors" : NULL}};
        onnx_output(x->onnx, y, "output0", ONNX_FLOAT, dims, 3);
    } else {
        const bool suppress = o->nms == SETTING_TRUE;
        y = suppress ? onnx_emit_nms(x->onnx, y, nc, o->max_det, o->conf, o->iou) : onnx_emit_topk(x->onnx, y, nc, k);
        const onnx_dim dims[3] = {batch, {suppress ? o->max_det : k, NULL}, {6, NULL}};
        onnx_output(x->onnx, y, "output0", ONNX_FLOAT, dims, 3);
    }
    put_metadata(x);
    return onnx_model_status(x->onnx);
}

ol_status onnx_export(ol_context *ctx, const char *path, const model *m, const onnx_export_options *options) {
    exporter x = {.ctx = ctx, .m = m};
    tensor_list_init(&x.folded, ctx);
    ol_status status = fill_defaults(&x, options);
    if (status == OL_OK) status = build(&x);
    if (status == OL_OK) status = onnx_model_create(ctx, x.o.opset, &x.onnx);
    if (status == OL_OK) status = emit(&x);
    if (status == OL_OK) status = onnx_model_save(x.onnx, path);
    onnx_model_destroy(x.onnx);
    if (x.g != NULL) graph_destroy(x.g);
    tensor_list_deinit(&x.folded);
    return status;
}
