/* Suppression of the one-to-many head's boxes. Data document, section 3.8; float32 in the reference's order of
 * operations. */
#include "ops/select.h"
#include "ops/top_k.h"

#include <stdlib.h>

#define MAX_CANDIDATES 30000 /* unless the options name another bound */
#define CLASS_OFFSET   7680.0F

typedef struct candidate {
    float score;
    int32_t anchor, class_id;
} candidate;

typedef struct candidate_list {
    candidate *items;
    size_t count, capacity;
} candidate_list;

/* Score-descending; equal scores in the order anchor, class, which is the order of collection. */
static int candidate_compare(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->anchor != y->anchor) return x->anchor < y->anchor ? -1 : 1;
    return (x->class_id > y->class_id) - (x->class_id < y->class_id);
}

static bool class_kept(int class_id, const int *classes, int n_classes) {
    if (classes == NULL) return true;
    for (int i = 0; i < n_classes; i++) {
        if (classes[i] == class_id) return true;
    }
    return false;
}

static ol_status candidate_add(ol_context *ctx, candidate_list *list, candidate c) {
    if (list->count == list->capacity) {
        const ol_status status =
            mem_grow(ctx, (void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items);
        if (status != OL_OK) return status;
    }
    list->items[list->count++] = c;
    return OL_OK;
}

static ol_status collect(ol_context *ctx, const float *scores, int nc, int anchors, const nms_options *o,
                         const float *best, const int32_t *best_class, candidate_list *list) {
    const bool multi_label = o->multi_label && nc > 1;
    ol_status status = OL_OK;
    for (int a = 0; a < anchors && status == OL_OK; a++) {
        if (!(best[a] > o->conf)) continue;
        if (!multi_label) {
            if (!class_kept(best_class[a], o->classes, o->n_classes)) continue;
            status = candidate_add(ctx, list, (candidate){best[a], a, best_class[a]});
            continue;
        }
        for (int c = 0; c < nc && status == OL_OK; c++) {
            const float score = scores[(size_t)c * (size_t)anchors + (size_t)a];
            if (!(score > o->conf) || !class_kept(c, o->classes, o->n_classes)) continue;
            status = candidate_add(ctx, list, (candidate){score, a, c});
        }
    }
    return status;
}

int nms_max_candidates(const nms_options *options) {
    return options->max_candidates > 0 ? options->max_candidates : MAX_CANDIDATES;
}

static ol_status keep_best(ol_context *ctx, candidate_list *list, size_t most) {
    if (list->count <= most) return OL_OK;
    float *scores = mem_alloc(ctx, list->count, sizeof *scores);
    int32_t *order = mem_alloc(ctx, most, sizeof *order);
    candidate *kept = mem_alloc(ctx, most, sizeof *kept);
    ol_status status = scores == NULL || order == NULL || kept == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK) {
        for (size_t i = 0; i < list->count; i++) scores[i] = list->items[i].score;
        top_k(scores, (int32_t)list->count, (int32_t)most, order);
        for (size_t i = 0; i < most; i++) kept[i] = list->items[order[i]];
        for (size_t i = 0; i < most; i++) list->items[i] = kept[i];
        list->count = most;
    }
    mem_free(ctx, scores);
    mem_free(ctx, order);
    mem_free(ctx, kept);
    return status;
}

typedef struct corner_box {
    float x1, y1, x2, y2, area;
} corner_box;

static corner_box corner_box_make(float x1, float y1, float x2, float y2) {
    return (corner_box){x1, y1, x2, y2, (x2 - x1) * (y2 - y1)};
}

static bool suppresses(const corner_box *kept, const corner_box *b, float iou) {
    const float w = (kept->x2 < b->x2 ? kept->x2 : b->x2) - (kept->x1 > b->x1 ? kept->x1 : b->x1);
    const float h = (kept->y2 < b->y2 ? kept->y2 : b->y2) - (kept->y1 > b->y1 ? kept->y1 : b->y1);
    if (!(w > 0.0F && h > 0.0F)) return false;
    const float inter = w * h;
    return inter / (kept->area + b->area - inter) > iou;
}

/* Greedy: `list` is score-descending. Stops once max_det rows are kept. */
static ol_status suppress(ol_context *ctx, const float *boxes, int anchors, const nms_options *o,
                          const candidate_list *list, detection_list *out) {
    const size_t limit = (size_t)o->max_det < list->count ? (size_t)o->max_det : list->count;
    corner_box *kept = mem_alloc(ctx, limit, sizeof *kept);
    ol_status status = kept == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK && limit > out->capacity) {
        status = mem_grow(ctx, (void **)&out->items, &out->capacity, limit, sizeof *out->items);
    }
    out->count = 0;
    const size_t n = (size_t)anchors;
    for (size_t i = 0; i < list->count && status == OL_OK && out->count < limit; i++) {
        const candidate *c = &list->items[i];
        const float *column = boxes + c->anchor;
        const float half_w = column[2 * n] / 2.0F, half_h = column[3 * n] / 2.0F;
        const float x1 = column[0] - half_w, y1 = column[n] - half_h;
        const float x2 = column[0] + half_w, y2 = column[n] + half_h;
        const float shift = o->agnostic ? 0.0F : (float)c->class_id * CLASS_OFFSET;
        const corner_box b = corner_box_make(x1 + shift, y1 + shift, x2 + shift, y2 + shift);
        bool dropped = false;
        for (size_t k = 0; k < out->count && !dropped; k++) dropped = suppresses(&kept[k], &b, o->iou);
        if (dropped) continue;
        kept[out->count] = b;
        out->items[out->count++] = (detection){x1, y1, x2, y2, c->score, c->class_id, c->anchor};
    }
    mem_free(ctx, kept);
    return status;
}

ol_status nms_run(ol_context *ctx, const float *pred, int nc, int anchors, const nms_options *options,
                  detection_list *out) {
    const ol_status wrong = select_check(ctx, nc, anchors, false, options);
    if (wrong != OL_OK) return wrong;
    const float *scores = pred + 4 * (size_t)anchors;
    candidate_list list = {0};
    float *best = mem_alloc(ctx, (size_t)anchors, sizeof *best);
    int32_t *best_class = mem_alloc(ctx, (size_t)anchors, sizeof *best_class);
    ol_status status = best == NULL || best_class == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK) {
        best_classes(scores, nc, anchors, best, best_class);
        status = collect(ctx, scores, nc, anchors, options, best, best_class, &list);
    }
    if (status == OL_OK) status = keep_best(ctx, &list, (size_t)nms_max_candidates(options));
    if (status == OL_OK) {
        if (list.count > 1) qsort(list.items, list.count, sizeof *list.items, candidate_compare);
        status = suppress(ctx, pred, anchors, options, &list, out);
    }
    mem_free(ctx, best);
    mem_free(ctx, best_class);
    mem_free(ctx, list.items);
    return status;
}

ol_status nms_boxes(ol_context *ctx, const float *boxes, const float *scores, int n, float iou, int *keep,
                    int *n_keep) {
    candidate *order = mem_alloc(ctx, (size_t)n, sizeof *order);
    corner_box *kept = mem_alloc(ctx, (size_t)n, sizeof *kept);
    ol_status status = order == NULL || kept == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK) {
        int count = 0;
        for (int i = 0; i < n; i++) order[i] = (candidate){scores[i], i, 0};
        qsort(order, (size_t)n, sizeof *order, candidate_compare);
        for (int i = 0; i < n; i++) {
            const float *p = boxes + 4 * (size_t)order[i].anchor;
            const corner_box b = corner_box_make(p[0], p[1], p[2], p[3]);
            bool dropped = false;
            for (int k = 0; k < count && !dropped; k++) dropped = suppresses(&kept[k], &b, iou);
            if (dropped) continue;
            kept[count] = b;
            keep[count++] = order[i].anchor;
        }
        *n_keep = count;
    }
    mem_free(ctx, order);
    mem_free(ctx, kept);
    return status;
}
