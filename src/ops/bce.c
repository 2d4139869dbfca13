#include "ops/bce.h"

#include "ops/vector_math.h"

#include <math.h>
#include <stdbool.h>

#define BCE_LANES 16
#define BCE_BLOCK 256 /* float32 partial sums span this many values, then go to double */

/* Background value z - l(z) and sigmoid(z). */
static inline float background(float z, float *sigmoid) {
    const float e = vector_exp_negative(-fabsf(z));
    const float log_sigmoid = (z < 0.0f ? z : 0.0f) - vector_log1p(e);
    *sigmoid = (z < 0.0f ? e : 1.0f) / (1.0f + e);
    return z - log_sigmoid;
}

float bce_value(float logit, float target) {
    const float e = vector_exp_negative(-fabsf(logit));
    const float log_sigmoid = (logit < 0.0f ? logit : 0.0f) - vector_log1p(e);
    return (1.0f - target) * logit - log_sigmoid;
}

float sigmoid_value(float logit) {
    const float e = vector_exp_negative(-fabsf(logit));
    return (logit < 0.0f ? e : 1.0f) / (1.0f + e);
}

float bce_gradient(float logit, float target) {
    return sigmoid_value(logit) - target;
}

static inline __attribute__((always_inline)) double background_block(const float *restrict logits, float scale,
                                                                     float *restrict grad, size_t n, bool wanted) {
    float lane[BCE_LANES] = {0};
    size_t i = 0;
    for (; i + BCE_LANES <= n; i += BCE_LANES)
        for (size_t k = 0; k < BCE_LANES; k++) {
            float s;
            lane[k] += background(logits[i + k], &s);
            if (wanted) grad[i + k] = s * scale;
        }
    for (size_t k = 0; i < n; i++, k++) {
        float s;
        lane[k] += background(logits[i], &s);
        if (wanted) grad[i] = s * scale;
    }
    double sum = 0.0;
    for (size_t k = 0; k < BCE_LANES; k++) sum += (double)lane[k];
    return sum;
}

VECTOR_CLONES
double bce_background(const float *restrict logits, float scale, float *restrict grad, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i += BCE_BLOCK) {
        const size_t count = n - i < BCE_BLOCK ? n - i : BCE_BLOCK;
        sum += grad ? background_block(logits + i, scale, grad + i, count, true)
                    : background_block(logits + i, scale, NULL, count, false);
    }
    return sum;
}
