#include "ops/ciou.h"

#include <math.h>
#include <stddef.h>

#define CIOU_EPS 1e-7f
static const float four_over_pi_squared = 0.405284734569351f;

typedef struct ciou_terms {
    float w1, h1, w2, h2;
    float overlap_w, overlap_h; /* before the clamp at 0 */
    float inter, unite, iou;
    float cw, ch, c2; /* enclosing box, squared diagonal */
    float dx, dy, rho2;
    float angle, v, alpha;
} ciou_terms;

static inline float positive(float x) {
    return x < 0.0f ? 0.0f : x;
} /* keeps NaN */

static float ciou_evaluate(const float a[4], const float b[4], ciou_terms *t) {
    t->w1 = a[2] - a[0];
    t->h1 = a[3] - a[1] + CIOU_EPS;
    t->w2 = b[2] - b[0];
    t->h2 = b[3] - b[1] + CIOU_EPS;
    t->overlap_w = fminf(a[2], b[2]) - fmaxf(a[0], b[0]);
    t->overlap_h = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
    t->inter = positive(t->overlap_w) * positive(t->overlap_h);
    t->unite = t->w1 * t->h1 + t->w2 * t->h2 - t->inter + CIOU_EPS;
    t->iou = t->inter / t->unite;
    t->cw = fmaxf(a[2], b[2]) - fminf(a[0], b[0]);
    t->ch = fmaxf(a[3], b[3]) - fminf(a[1], b[1]);
    t->c2 = t->cw * t->cw + t->ch * t->ch + CIOU_EPS;
    t->dx = b[0] + b[2] - a[0] - a[2];
    t->dy = b[1] + b[3] - a[1] - a[3];
    t->rho2 = (t->dx * t->dx + t->dy * t->dy) / 4.0f;
    t->angle = atanf(t->w2 / t->h2) - atanf(t->w1 / t->h1);
    t->v = four_over_pi_squared * (t->angle * t->angle);
    t->alpha = t->v / (t->v - t->iou + (1.0f + CIOU_EPS));
    return t->iou - (t->rho2 / t->c2 + t->v * t->alpha);
}

float ciou_value(const float a[4], const float b[4]) {
    ciou_terms t;
    return ciou_evaluate(a, b, &t);
}

/* Share of the derivative that min(x, y) passes to x: all, half on a tie, none. */
static inline float share_of_min(float x, float y) {
    return x < y ? 1.0f : x == y ? 0.5f : 0.0f;
}
static inline float share_of_max(float x, float y) {
    return share_of_min(y, x);
}

float ciou_gradient(const float a[4], const float b[4], float grad[4]) {
    ciou_terms t;
    const float value = ciou_evaluate(a, b, &t);
    const float d_inter = (t.unite + t.inter) / (t.unite * t.unite); /* iou by I, U = … - I */
    const float d_area = -t.inter / (t.unite * t.unite);
    const float d_overlap_w = t.overlap_w >= 0.0f ? d_inter * positive(t.overlap_h) : 0.0f;
    const float d_overlap_h = t.overlap_h >= 0.0f ? d_inter * positive(t.overlap_w) : 0.0f;
    const float d_c2 = t.rho2 / (t.c2 * t.c2); /* of -rho2/c2 */
    const float d_cw = d_c2 * 2.0f * t.cw, d_ch = d_c2 * 2.0f * t.ch;
    const float d_dx = -t.dx / (2.0f * t.c2), d_dy = -t.dy / (2.0f * t.c2);
    const float d_atan1 = 2.0f * four_over_pi_squared * t.angle * t.alpha; /* of -v*alpha by atan(w1/h1) */
    const float size2 = t.w1 * t.w1 + t.h1 * t.h1;
    const float d_w1 = d_area * t.h1 + d_atan1 * t.h1 / size2;
    const float d_h1 = d_area * t.w1 - d_atan1 * t.w1 / size2;
    grad[0] = -d_w1 - d_overlap_w * share_of_max(a[0], b[0]) - d_cw * share_of_min(a[0], b[0]) - d_dx;
    grad[1] = -d_h1 - d_overlap_h * share_of_max(a[1], b[1]) - d_ch * share_of_min(a[1], b[1]) - d_dy;
    grad[2] = d_w1 + d_overlap_w * share_of_min(a[2], b[2]) + d_cw * share_of_max(a[2], b[2]) - d_dx;
    grad[3] = d_h1 + d_overlap_h * share_of_min(a[3], b[3]) + d_ch * share_of_max(a[3], b[3]) - d_dy;
    return value;
}
