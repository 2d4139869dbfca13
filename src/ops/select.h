/* From decoded head outputs to detections: suppression and top-k selection. The reference of device/select.h. Plain
 * arrays in, plain arrays out; pure functions, any thread. Data document, sections 3.8 and 3.9. */
#ifndef OPS_SELECT_H
#define OPS_SELECT_H

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
    int max_candidates; /* of suppression: the best of them are looked at; 0: 30000 */
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

/* What a decoded picture is turned into rows by: suppression of the one-to-many head's centres, or (`corners`) top-k
 * selection of the one-to-one head and its filter. */
ol_status detections_select(ol_context *ctx, const float *pred, int nc, int anchors, bool corners,
                            const nms_options *options, detection_list *out);
/* The number of rows that the top-k head selects before they are filtered. */
int select_head_rows(const nms_options *options, int anchors);
/* conf and iou in range, and sizes that 32 bits can count: else a message. */
ol_status select_check(ol_context *ctx, int nc, int anchors, bool corners, const nms_options *options);
int nms_max_candidates(const nms_options *options);

#endif
