#include "ops/assign.h"

#include "ops/bce.h"
#include "ops/ciou.h"

#include <math.h>
#include <string.h>

#define ASSIGN_INSIDE_EPS 1e-9f
#define ASSIGN_SCORE_EPS  1e-9f
#define ASSIGN_MIN_SIDE   16.0f /* the second stride: smaller objects get a region of this side (STAL) */

anchor_grid anchor_grid_of(const op_attr *attr) {
    anchor_grid g = {.n_levels = attr->n_levels};
    for (int l = 0; l < g.n_levels; l++) {
        g.h[l] = attr->level_h[l];
        g.w[l] = attr->level_w[l];
        g.stride[l] = attr->level_stride[l];
        g.first[l] = g.n_anchors;
        g.n_anchors += g.h[l] * g.w[l];
    }
    g.image_w = (float)(g.w[0] * g.stride[0]);
    g.image_h = (float)(g.h[0] * g.stride[0]);
    return g;
}

int anchor_place(const anchor_grid *grid, int anchor, float *x, float *y) {
    int level = 0;
    while (level + 1 < grid->n_levels && anchor >= grid->first[level + 1]) level++;
    const int cell = anchor - grid->first[level], row = cell / grid->w[level];
    *x = (float)(cell % grid->w[level]) + 0.5f;
    *y = (float)row + 0.5f;
    return level;
}

void target_corners(const anchor_grid *grid, const float *targets, int t, float corners[4]) {
    const float *row = targets + (size_t)t * 5;
    const float cx = row[1] * grid->image_w, cy = row[2] * grid->image_h;
    const float half_w = row[3] * grid->image_w / 2.0f, half_h = row[4] * grid->image_h / 2.0f;
    corners[0] = cx - half_w;
    corners[1] = cy - half_h;
    corners[2] = cx + half_w;
    corners[3] = cy + half_h;
}

static bool target_class(const assign_image *image, int t, int *class_index) {
    const float c = image->targets[(size_t)t * 5];
    if (!(c >= 0.0f && c < (float)image->nc)) return false;
    *class_index = (int)c;
    return true;
}

typedef struct region {
    float corners[4]; /* the object, pixels */
    float lt_x, lt_y, rb_x, rb_y;
} region;

static bool region_of(const assign_image *image, int t, region *r) {
    int class_index;
    target_corners(image->grid, image->targets, t, r->corners);
    const float *c = r->corners;
    if (!(c[0] + c[1] + c[2] + c[3] > 0.0f) || !target_class(image, t, &class_index)) return false;
    float w = c[2] - c[0], h = c[3] - c[1];
    const float cx = (c[0] + c[2]) / 2.0f, cy = (c[1] + c[3]) / 2.0f;
    if (w < ASSIGN_MIN_SIDE) w = ASSIGN_MIN_SIDE;
    if (h < ASSIGN_MIN_SIDE) h = ASSIGN_MIN_SIDE;
    r->lt_x = cx - w / 2.0f;
    r->lt_y = cy - h / 2.0f;
    r->rb_x = cx + w / 2.0f;
    r->rb_y = cy + h / 2.0f;
    return true;
}

static inline bool region_has(const region *r, float px, float py) {
    return px - r->lt_x > ASSIGN_INSIDE_EPS && py - r->lt_y > ASSIGN_INSIDE_EPS && r->rb_x - px > ASSIGN_INSIDE_EPS &&
           r->rb_y - py > ASSIGN_INSIDE_EPS;
}

/* CIoU of the object with the box that the anchor predicts, not below 0. `x`, `y`: anchor centre in grid units. */
static float overlap_of(const assign_image *image, const region *r, int anchor, int level, float x, float y) {
    const float *b = image->boxes + anchor;
    const size_t plane = (size_t)image->grid->n_anchors;
    const float stride = (float)image->grid->stride[level];
    const float predicted[4] = {(x - b[0]) * stride, (y - b[plane]) * stride, (x + b[2 * plane]) * stride,
                                (y + b[3 * plane]) * stride};
    const float o = ciou_value(r->corners, predicted);
    return o > 0.0f ? o : 0.0f;
}

static float metric_of(const assign_image *image, int class_index, int anchor, float overlap) {
    const float score =
        sigmoid_value(image->scores[(size_t)class_index * (size_t)image->grid->n_anchors + (size_t)anchor]);
    if (image->alpha == 0.5f && image->beta == 6.0f) {
        const double o2 = (double)overlap * (double)overlap;
        return sqrtf(score) * (float)(o2 * o2 * o2);
    }
    return powf(score, image->alpha) * powf(overlap, image->beta);
}

/* Keeps the k entries of largest metric, best first; the earlier anchor wins a tie. */
static int keep_best(assigned *best, int n, int k, assigned candidate) {
    int at = n;
    while (at > 0 && best[at - 1].metric < candidate.metric) at--;
    if (at >= k) return n;
    const int last = n < k ? n : k - 1;
    memmove(best + at + 1, best + at, (size_t)(last - at) * sizeof *best);
    best[at] = candidate;
    return last + 1;
}

/* The cells of one axis that a region may touch: a generous bracket, the exact test follows. */
static void cell_range(float low, float high, float stride, int cells, int *begin, int *end) {
    const float b = floorf(low / stride) - 1.0f, e = ceilf(high / stride) + 1.0f;
    *begin = b > 0.0f ? (b < (float)cells ? (int)b : cells) : 0;
    *end = e > 0.0f ? (e < (float)cells ? (int)e : cells) : 0;
}

/* Candidates of target t: the topk anchors of largest metric inside its region. */
static int candidates_of(const assign_image *image, const region *r, int t, assigned *best) {
    const anchor_grid *g = image->grid;
    int n = 0, class_index = 0;
    target_class(image, t, &class_index);
    for (int level = 0; level < g->n_levels; level++) {
        const float stride = (float)g->stride[level];
        int x0, x1, y0, y1;
        cell_range(r->lt_x, r->rb_x, stride, g->w[level], &x0, &x1);
        cell_range(r->lt_y, r->rb_y, stride, g->h[level], &y0, &y1);
        for (int yi = y0; yi < y1; yi++)
            for (int xi = x0; xi < x1; xi++) {
                const float x = (float)xi + 0.5f, y = (float)yi + 0.5f;
                if (!region_has(r, x * stride, y * stride)) continue;
                const int anchor = g->first[level] + yi * g->w[level] + xi;
                assigned c = {.anchor = anchor, .target = t, .overlap = overlap_of(image, r, anchor, level, x, y)};
                c.metric = c.overlap > 0.0f ? metric_of(image, class_index, anchor, c.overlap) : 0.0f;
                n = keep_best(best, n, image->topk, c);
            }
    }
    return n;
}

/* Of several targets that chose one anchor, the target of largest overlap among all of the image's keeps it, the first
 * on ties: possibly one that did not choose the anchor itself. */
static assigned settle(const assign_image *image, int anchor) {
    float x, y;
    const int level = anchor_place(image->grid, anchor, &x, &y);
    const float stride = (float)image->grid->stride[level];
    assigned winner = {.anchor = anchor, .target = 0, .overlap = 0.0f, .metric = 0.0f};
    for (int t = 0; t < image->count; t++) {
        region r;
        if (!region_of(image, t, &r) || !region_has(&r, x * stride, y * stride)) continue;
        const float o = overlap_of(image, &r, anchor, level, x, y);
        if (o > winner.overlap) {
            winner.target = t;
            winner.overlap = o;
        }
    }
    int class_index;
    if (winner.overlap > 0.0f && target_class(image, winner.target, &class_index))
        winner.metric = metric_of(image, class_index, anchor, winner.overlap);
    return winner;
}

/* Scratch: an entry per anchor (how many chose it), then per target its largest metric and overlap, and the anchor
 * kept. */
typedef struct assign_scratch {
    int32_t *chosen;
    float *best_metric, *best_overlap;
    int32_t *kept;
    assigned *candidates;
} assign_scratch;

static size_t round64(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

static assign_scratch scratch_place(void *memory, int n_anchors, int max_targets) {
    unsigned char *at = memory;
    const size_t rows = (size_t)max_targets;
    assign_scratch s;
    s.chosen = (int32_t *)(void *)at;
    at += round64((size_t)n_anchors * sizeof(int32_t));
    s.best_metric = (float *)(void *)at;
    at += round64(rows * sizeof(float));
    s.best_overlap = (float *)(void *)at;
    at += round64(rows * sizeof(float));
    s.kept = (int32_t *)(void *)at;
    at += round64(rows * sizeof(int32_t));
    s.candidates = (assigned *)(void *)at;
    return s;
}

size_t assign_scratch_bytes(int n_anchors, int max_targets, int topk) {
    return round64((size_t)n_anchors * sizeof(int32_t)) + 3 * round64((size_t)max_targets * sizeof(float)) +
           round64(((size_t)max_targets * (size_t)topk + 1) * sizeof(assigned));
}

size_t assign_capacity(int n_anchors, int max_targets, int topk) {
    const size_t chosen = (size_t)max_targets * (size_t)topk;
    return chosen < (size_t)n_anchors ? chosen : (size_t)n_anchors;
}

/* Second top-k: of each target only its topk2 positives of largest metric stay; the earlier anchor wins a tie. */
static int keep_second(const assign_image *image, const assign_scratch *s, assigned *out, int n) {
    for (int pass = 0; pass < image->topk2; pass++) {
        for (int t = 0; t < image->count; t++) s->kept[t] = -1;
        for (int i = 0; i < n; i++) {
            const int32_t t = out[i].target;
            if (s->chosen[out[i].anchor] < 0) continue; /* kept by an earlier pass */
            if (s->kept[t] < 0 || out[i].metric > out[s->kept[t]].metric) s->kept[t] = i;
        }
        for (int t = 0; t < image->count; t++)
            if (s->kept[t] >= 0) s->chosen[out[s->kept[t]].anchor] = -1;
    }
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (s->chosen[out[i].anchor] < 0) out[kept++] = out[i];
    return kept;
}

static void soft_scores(const assign_image *image, const assign_scratch *s, assigned *out, int n) {
    for (int t = 0; t < image->count; t++) s->best_metric[t] = s->best_overlap[t] = 0.0f;
    for (int i = 0; i < n; i++) {
        const int32_t t = out[i].target;
        if (out[i].metric > s->best_metric[t]) s->best_metric[t] = out[i].metric;
        if (out[i].overlap > s->best_overlap[t]) s->best_overlap[t] = out[i].overlap;
    }
    for (int i = 0; i < n; i++) {
        const int32_t t = out[i].target;
        out[i].score = out[i].metric * s->best_overlap[t] / (s->best_metric[t] + ASSIGN_SCORE_EPS);
    }
}

int assign_targets(const assign_image *image, void *scratch, assigned *out) {
    const anchor_grid *g = image->grid;
    if (image->count <= 0) return 0;
    const assign_scratch s = scratch_place(scratch, g->n_anchors, image->count);
    memset(s.chosen, 0, (size_t)g->n_anchors * sizeof *s.chosen);
    int n_candidates = 0;
    for (int t = 0; t < image->count; t++) {
        region r;
        if (!region_of(image, t, &r)) continue;
        const int n = candidates_of(image, &r, t, s.candidates + n_candidates);
        for (int i = 0; i < n; i++) s.chosen[s.candidates[n_candidates + i].anchor]++;
        n_candidates += n;
    }
    /* From here `chosen` holds, for an anchor chosen once, the 1-based candidate; 0 for none. */
    for (int i = 0; i < n_candidates; i++) {
        int32_t *chosen = &s.chosen[s.candidates[i].anchor];
        if (*chosen == 1) *chosen = -(i + 1);
    }
    int n = 0;
    for (int anchor = 0; anchor < g->n_anchors; anchor++) {
        if (s.chosen[anchor] == 0) continue;
        out[n++] = s.chosen[anchor] < 0 ? s.candidates[-s.chosen[anchor] - 1] : settle(image, anchor);
        s.chosen[anchor] = 0;
    }
    if (image->topk2 != image->topk) n = keep_second(image, &s, out, n);
    soft_scores(image, &s, out, n);
    return n;
}
