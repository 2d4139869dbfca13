/* Which detections hit which labels: true-positive flags at ten IoU thresholds and the cells of a confusion matrix.
 * Plain arrays in, plain arrays out; no files, no drawing. Thread-safe as long as the outputs are not shared. */
#ifndef VAL_MATCHING_H
#define VAL_MATCHING_H

#include "model/postprocess.h"

#define VAL_N_IOU 10 /* thresholds 0.50, 0.55 … 0.95 */

/* Labels are boxes x1,y1,x2,y2 (n,4) plus their classes; all boxes of a picture are in the same pixel space. */

/* The float32 values of the thresholds. */
extern const float val_iou_thresholds[VAL_N_IOU];

/* iou[l * n_detections + d] = inter / (area_l + area_d - inter + 1e-7) in float32 (data document, section 3.3). */
void match_iou(const float *label_boxes, size_t n_labels, const detection *detections, size_t n_detections, float *iou);

/* Greedy matching in the order given (score-descending), for each threshold on its own (data document, section 3.3).
 * hits: n_detections x VAL_N_IOU, overwritten with 0 or 1. */
ol_status match_detections(ol_context *ctx, const float *label_boxes, const int32_t *label_classes, size_t n_labels,
                           const detection *detections, size_t n_detections, uint8_t *hits);

/* (nc+1) x (nc+1) counts, cell [predicted * (nc+1) + true]; index nc is the background (data document, section 3.6). */
typedef struct confusion {
    ol_context *ctx;
    int nc;
    int64_t *cells;
} confusion;

ol_status confusion_init(confusion *m, ol_context *ctx, int nc);
void confusion_deinit(confusion *m);
/* Adds one picture: detections with score > conf, pairs with IoU > 0.45 whatever their class. Classes outside 0..nc-1
 * are left out. */
ol_status confusion_add(confusion *m, const float *label_boxes, const int32_t *label_classes, size_t n_labels,
                        const detection *detections, size_t n_detections, float conf);

#endif
