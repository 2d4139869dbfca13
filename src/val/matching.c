#include "val/matching.h"

#include <stdlib.h>
#include <string.h>

#define CONFUSION_IOU 0.45f

const float val_iou_thresholds[VAL_N_IOU] = {0.50f, 0.55f, 0.60f, 0.65f, 0.70f, 0.75f, 0.80f, 0.85f, 0.90f, 0.95f};

static float box_iou(const float *a, const detection *b) {
    float left = a[0] > b->x1 ? a[0] : b->x1, top = a[1] > b->y1 ? a[1] : b->y1;
    float right = a[2] < b->x2 ? a[2] : b->x2, bottom = a[3] < b->y2 ? a[3] : b->y2;
    float w = right - left, h = bottom - top;
    float inter = (w > 0 ? w : 0) * (h > 0 ? h : 0);
    float area_a = (a[2] - a[0]) * (a[3] - a[1]), area_b = (b->x2 - b->x1) * (b->y2 - b->y1);
    return inter / (area_a + area_b - inter + 1e-7f);
}

void match_iou(const float *label_boxes, size_t n_labels, const detection *detections, size_t n_detections,
               float *iou) {
    for (size_t l = 0; l < n_labels; l++) {
        for (size_t d = 0; d < n_detections; d++)
            iou[l * n_detections + d] = box_iou(label_boxes + 4 * l, detections + d);
    }
}

/* The free label with the largest IoU, the lowest index on ties; -1 when none reaches the threshold. */
static int64_t best_free_label(const float *iou, size_t n_labels, size_t n_detections, size_t d, const uint8_t *taken,
                               float threshold) {
    int64_t best = -1;
    float best_iou = 0;
    for (size_t l = 0; l < n_labels; l++) {
        float x = iou[l * n_detections + d];
        if (!taken[l] && x >= threshold && (best < 0 || x > best_iou)) {
            best = (int64_t)l;
            best_iou = x;
        }
    }
    return best;
}

ol_status match_detections(ol_context *ctx, const float *label_boxes, const int32_t *label_classes, size_t n_labels,
                           const detection *detections, size_t n_detections, uint8_t *hits) {
    if (n_detections) memset(hits, 0, n_detections * VAL_N_IOU);
    if (!n_labels || !n_detections) return OL_OK;
    size_t n_pairs;
    if (!size_mul(n_labels, n_detections, &n_pairs))
        return ctx_fail(ctx, OL_ERROR_MEMORY, "too many labels and detections in one picture");
    float *iou = mem_alloc(ctx, n_pairs, sizeof *iou);
    uint8_t *taken = mem_alloc0(ctx, n_labels, VAL_N_IOU);
    ol_status status = OL_ERROR_MEMORY;
    if (!iou || !taken) goto fail;
    match_iou(label_boxes, n_labels, detections, n_detections, iou);
    for (size_t l = 0; l < n_labels; l++) {
        for (size_t d = 0; d < n_detections; d++) {
            if (label_classes[l] != detections[d].class_id) iou[l * n_detections + d] = 0;
        }
    }
    for (size_t d = 0; d < n_detections; d++) {
        for (int t = 0; t < VAL_N_IOU; t++) {
            uint8_t *taken_here = taken + (size_t)t * n_labels;
            int64_t l = best_free_label(iou, n_labels, n_detections, d, taken_here, val_iou_thresholds[t]);
            if (l < 0) continue;
            taken_here[l] = 1;
            hits[d * VAL_N_IOU + (size_t)t] = 1;
        }
    }
    status = OL_OK;
fail:
    mem_free(ctx, iou);
    mem_free(ctx, taken);
    return status;
}

ol_status confusion_init(confusion *m, ol_context *ctx, int nc) {
    size_t side = (size_t)nc + 1, count;
    if (!size_mul(side, side, &count)) return ctx_fail(ctx, OL_ERROR_ARGUMENT, "nc=%d is too large", nc);
    int64_t *cells = mem_alloc0(ctx, count, sizeof *cells);
    if (!cells) return OL_ERROR_MEMORY;
    *m = (confusion){.ctx = ctx, .nc = nc, .cells = cells};
    return OL_OK;
}

void confusion_deinit(confusion *m) {
    if (!m->ctx) return;
    mem_free(m->ctx, m->cells);
    *m = (confusion){0};
}

static void count_cell(confusion *m, int64_t predicted, int64_t truth) {
    if (predicted < 0 || predicted > m->nc || truth < 0 || truth > m->nc) return;
    m->cells[predicted * (m->nc + 1) + truth]++;
}

typedef struct ranked {
    float score;
    size_t at;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* One picture that has labels; `order` holds the detections above the threshold, `iou` and `taken` are scratch. */
static void count_picture(confusion *m, const int32_t *label_classes, size_t n_labels, const detection *detections,
                          size_t n_detections, const ranked *order, size_t n, const float *iou, uint8_t *taken) {
    for (size_t i = 0; i < n; i++) {
        size_t d = order[i].at;
        int64_t best = -1;
        float best_iou = CONFUSION_IOU;
        for (size_t l = 0; l < n_labels; l++) {
            float x = iou[l * n_detections + d];
            if (!taken[l] && x > best_iou) {
                best = (int64_t)l;
                best_iou = x;
            }
        }
        if (best >= 0) taken[best] = 1;
        count_cell(m, detections[d].class_id, best >= 0 ? label_classes[best] : m->nc);
    }
    for (size_t l = 0; l < n_labels; l++) {
        if (!taken[l]) count_cell(m, m->nc, label_classes[l]);
    }
}

ol_status confusion_add(confusion *m, const float *label_boxes, const int32_t *label_classes, size_t n_labels,
                        const detection *detections, size_t n_detections, float conf) {
    size_t n_pairs;
    if (!size_mul(n_labels, n_detections, &n_pairs))
        return ctx_fail(m->ctx, OL_ERROR_MEMORY, "too many labels and detections in one picture");
    ranked *order = mem_alloc(m->ctx, n_detections, sizeof *order);
    float *iou = mem_alloc(m->ctx, n_pairs, sizeof *iou);
    uint8_t *taken = mem_alloc0(m->ctx, n_labels, 1);
    ol_status status = OL_ERROR_MEMORY;
    if (!order || !iou || !taken) goto fail;
    size_t n = 0;
    for (size_t d = 0; d < n_detections; d++) {
        float score = detections[d].score;
        if (score > conf) order[n++] = (ranked){score, d};
    }
    if (n > 1) qsort(order, n, sizeof *order, by_score);
    match_iou(label_boxes, n_labels, detections, n_detections, iou);
    count_picture(m, label_classes, n_labels, detections, n_detections, order, n, iou, taken);
    status = OL_OK;
fail:
    mem_free(m->ctx, order);
    mem_free(m->ctx, iou);
    mem_free(m->ctx, taken);
    return status;
}
