/* From decoded head outputs to detections: suppression, top-k selection, mapping boxes back. Plain arrays in, plain
 * arrays out; pure functions, any thread. Data document, sections 3.8, 3.9 and 4.3. */
#ifndef MODEL_POSTPROCESS_H
#define MODEL_POSTPROCESS_H

#include "base/context.h"

typedef struct detection {
    float x1, y1, x2, y2; /* pixels */
    float score;
    int32_t class_id;
    int32_t anchor; /* column of the head output it came from */
} detection;

/* A growing array; deinit with mem_free(ctx, items). */
typedef struct detection_list {
    detection *items;
    size_t count, capacity;
} detection_list;

typedef struct nms_options {
    float conf, iou; /* [0,1] */
    int max_det;
    bool multi_label; /* one row a class above conf (val) instead of the best class (predict) */
    bool agnostic;
    const int *classes; /* keep only these; NULL: all */
    int n_classes;
} nms_options;

/* `pred` (4+nc, A): cx,cy,w,h in pixels, sigmoid scores. Replaces the content of `out` by at most max_det rows,
 * score-descending. */
ol_status nms_run(ol_context *ctx, const float *pred, int nc, int anchors, const nms_options *options,
                  detection_list *out);
/* Greedy suppression of plain corner boxes (n,4), equal-score order by index: indices of the kept, score-descending.
 * `keep` has room for n. */
ol_status nms_boxes(ol_context *ctx, const float *boxes, const float *scores, int n, float iou, int *keep, int *n_keep);

/* `pred` (4+nc, A): corners in pixels, sigmoid scores of the one-to-one branch. Replaces `out` by min(k, A) rows,
 * score-descending. */
ol_status topk_select(ol_context *ctx, const float *pred, int nc, int anchors, int k, bool agnostic,
                      detection_list *out);
/* After topk_select: keeps rows with score > conf, of `classes` (NULL: all), at most max_det. */
void detections_filter(detection_list *list, float conf, const int *classes, int n_classes, int max_det);

/* Network pixels to source pixels, gains and pads recomputed from the sizes (predict), then clipped. */
void scale_boxes(detection *rows, size_t n, int net_h, int net_w, int src_h, int src_w);
/* The same with a stored letterbox: (x - pad_x) / gain_x (validation). */
void scale_boxes_by(detection *rows, size_t n, double gain_x, double gain_y, double pad_x, double pad_y, int src_h,
                    int src_w);

/* Pairwise IoU of corner boxes, a (n,4), b (m,4) -> (n,m); epsilon 1e-7 in the denominator. */
void box_iou_matrix(const float *a, int n, const float *b, int m, float *iou);

#endif
