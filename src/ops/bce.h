/* Binary cross entropy with logits as the reference rounds it (model document, section 4.5): value (1-t)*z - l(z) with
 * l(z) = min(z,0) - log(1+e^-|z|), every step in float32; gradient sigmoid(z) - t. Pure functions; any thread. */
#ifndef OPS_BCE_H
#define OPS_BCE_H

#include <stddef.h>

float bce_value(float logit, float target);
float bce_gradient(float logit, float target);
float sigmoid_value(float logit);

/* Background entries (target 0), n of them: writes scale * sigmoid(z) to `grad` (may be NULL) and returns the sum of
 * the values. The sum does not depend on the number of threads or on the instruction set. */
double bce_background(const float *logits, float scale, float *grad, size_t n);

#endif
