/* Complete IoU of two boxes given by corners and its derivative, in the float32 operation order of the model document,
 * section 4.4. Pure functions; any thread. */
#ifndef OPS_CIOU_H
#define OPS_CIOU_H

/* Boxes are (x1, y1, x2, y2); either may be inverted. At most 1. */
float ciou_value(const float a[4], const float b[4]);

/* The same value; `grad` receives d ciou / d a. The trade-off factor alpha counts as a constant. */
float ciou_gradient(const float a[4], const float b[4], float grad[4]);

#endif
