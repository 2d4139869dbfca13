/* From decoded head outputs to detections of a picture: the rows that ops/select.h finds are mapped back to its pixels.
 * Plain arrays in, plain arrays out; pure functions, any thread. Data document, section 4.3. */
#ifndef MODEL_POSTPROCESS_H
#define MODEL_POSTPROCESS_H

#include "ops/select.h"

/* Network pixels to source pixels, gains and pads recomputed from the sizes (predict), then clipped. */
void scale_boxes(detection *rows, size_t n, int net_h, int net_w, int src_h, int src_w);
/* The same with a stored letterbox: (x - pad_x) / gain_x (validation). */
void scale_boxes_by(detection *rows, size_t n, double gain_x, double gain_y, double pad_x, double pad_y, int src_h,
                    int src_w);

/* Pairwise IoU of corner boxes, a (n,4), b (m,4) -> (n,m); epsilon 1e-7 in the denominator. */
void box_iou_matrix(const float *a, int n, const float *b, int m, float *iou);

#endif
