/* Top-k selection of the one-to-one head and the filter after it. Data document, section 3.9. */
#include "ops/select.h"
#include "ops/top_k.h"

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static detection row_of(const float *pred, int anchors, int anchor, int class_id, float score) {
    const size_t n = (size_t)anchors;
    const float *column = pred + anchor;
    return (detection){column[0], column[n], column[2 * n], column[3 * n], score, class_id, anchor};
}

#define HEAD_ROWS 300 /* the top-k head gives at least this many before filters */

int select_head_rows(const nms_options *options, int anchors) {
    return smaller(options->max_det > HEAD_ROWS ? options->max_det : HEAD_ROWS, anchors);
}

ol_status select_check(ol_context *ctx, int nc, int anchors, bool corners, const nms_options *o) {
    if (!corners && (!(o->conf >= 0.0F && o->conf <= 1.0F) || !(o->iou >= 0.0F && o->iou <= 1.0F)))
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "conf (%g) and iou (%g) must lie in [0, 1]", (double)o->conf,
                        (double)o->iou);
    size_t n;
    if (!size_mul((size_t)anchors, (size_t)nc, &n) || n > INT32_MAX)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%d anchors with %d classes are too many; lower imgsz", anchors, nc);
    return OL_OK;
}

/* The k best entries of the k x nc scores of the selected anchors; a class may repeat an anchor. */
static ol_status second_stage(ol_context *ctx, const float *pred, int nc, int anchors, const int32_t *selected, int k,
                              detection_list *out) {
    const float *scores = pred + 4 * (size_t)anchors;
    size_t n;
    if (!size_mul((size_t)k, (size_t)nc, &n) || n > INT32_MAX) {
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "max_det %d with %d classes is too large; lower max_det", k, nc);
    }
    float *flat = mem_alloc(ctx, n, sizeof *flat);
    int32_t *order = mem_alloc(ctx, (size_t)k, sizeof *order);
    const ol_status status = flat == NULL || order == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK) {
        for (int i = 0; i < k; i++) {
            for (int c = 0; c < nc; c++) {
                flat[(size_t)i * (size_t)nc + (size_t)c] = scores[(size_t)c * (size_t)anchors + (size_t)selected[i]];
            }
        }
        top_k(flat, (int32_t)n, k, order);
        for (int i = 0; i < k; i++) {
            out->items[i] = row_of(pred, anchors, selected[order[i] / nc], order[i] % nc, flat[order[i]]);
        }
    }
    mem_free(ctx, flat);
    mem_free(ctx, order);
    return status;
}

ol_status topk_select(ol_context *ctx, const float *pred, int nc, int anchors, int k, bool agnostic,
                      detection_list *out) {
    k = smaller(k, anchors);
    if (k < 1) {
        out->count = 0;
        return OL_OK;
    }
    float *best = mem_alloc(ctx, (size_t)anchors, sizeof *best);
    int32_t *best_class = mem_alloc(ctx, (size_t)anchors, sizeof *best_class);
    int32_t *selected = mem_alloc(ctx, (size_t)k, sizeof *selected);
    ol_status status = best == NULL || best_class == NULL || selected == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK && (size_t)k > out->capacity) {
        status = mem_grow(ctx, (void **)&out->items, &out->capacity, (size_t)k, sizeof *out->items);
    }
    if (status == OL_OK) {
        best_classes(pred + 4 * (size_t)anchors, nc, anchors, best, best_class);
        top_k(best, anchors, k, selected);
        if (agnostic) {
            for (int i = 0; i < k; i++) {
                const int32_t a = selected[i];
                out->items[i] = row_of(pred, anchors, a, best_class[a], best[a]);
            }
        } else {
            status = second_stage(ctx, pred, nc, anchors, selected, k, out);
        }
    }
    if (status == OL_OK) out->count = (size_t)k;
    mem_free(ctx, best);
    mem_free(ctx, best_class);
    mem_free(ctx, selected);
    return status;
}

void detections_filter(detection_list *list, float conf, const int *classes, int n_classes, int max_det) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count && kept < (size_t)max_det; i++) {
        bool wanted = classes == NULL;
        for (int k = 0; k < n_classes && !wanted; k++) wanted = classes[k] == list->items[i].class_id;
        if (wanted && list->items[i].score > conf) list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

ol_status detections_select(ol_context *ctx, const float *pred, int nc, int anchors, bool corners,
                            const nms_options *options, detection_list *out) {
    if (!corners) return nms_run(ctx, pred, nc, anchors, options, out);
    const ol_status status =
        topk_select(ctx, pred, nc, anchors, select_head_rows(options, anchors), options->agnostic, out);
    if (status == OL_OK) detections_filter(out, options->conf, options->classes, options->n_classes, options->max_det);
    return status;
}
