#include "ops/detect_loss.h"

#include "ops/bce.h"
#include "ops/ciou.h"

#include <math.h>
#include <string.h>

/* Layout of the scratch: a header per image, then positives and assigner scratch per image, then class sums per (image,
 * class). */
typedef struct image_result {
    double target_sum, box, l1; /* sums over the positives */
    int32_t n_positive;
} image_result;

typedef struct loss_scratch {
    image_result *images;
    double *class_sums; /* (N,nc) */
    unsigned char *positives, *assigner;
    size_t positives_bytes, assigner_bytes; /* of one image */
} loss_scratch;

static size_t round64(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

/* Places the parts in `memory` and returns the bytes they need; with NULL only the latter. */
static size_t scratch_layout(const op_attr *attr, int n, int nc, int max_targets, void *memory, loss_scratch *s) {
    const int n_anchors = anchor_grid_of(attr).n_anchors;
    const size_t images = (size_t)n;
    s->positives_bytes = round64((assign_capacity(n_anchors, max_targets, attr->topk) + 1) * sizeof(assigned));
    s->assigner_bytes = assign_scratch_bytes(n_anchors, max_targets, attr->topk);
    const size_t sums_at = round64(images * sizeof(image_result));
    const size_t positives_at = sums_at + round64(images * (size_t)nc * sizeof(double));
    const size_t assigner_at = positives_at + images * s->positives_bytes;
    unsigned char *const base = memory;
    s->images = memory;
    s->class_sums = base ? (double *)(void *)(base + sums_at) : NULL;
    s->positives = base ? base + positives_at : NULL;
    s->assigner = base ? base + assigner_at : NULL;
    return assigner_at + images * s->assigner_bytes;
}

size_t detect_loss_scratch_bytes(const op_attr *attr, int n, int nc, int max_targets) {
    loss_scratch s;
    return scratch_layout(attr, n, nc, max_targets, NULL, &s);
}

static assigned *positives_of(const loss_scratch *s, int image) {
    return (assigned *)(void *)(s->positives + (size_t)image * s->positives_bytes);
}

static int threads_of(const detect_loss_args *a) {
    return a->n_threads > 0 ? a->n_threads : 1;
}

static int image_count(const detect_loss_args *a, int image) {
    const int32_t count = a->counts[image];
    return count < 0 ? 0 : count > a->max_targets ? a->max_targets : count;
}

static void assign_one(const detect_loss_args *a, const anchor_grid *grid, const loss_scratch *s, int i) {
    const size_t n_anchors = (size_t)grid->n_anchors;
    const assign_image image = {.grid = grid,
                                .nc = a->nc,
                                .topk = a->attr->topk,
                                .topk2 = a->attr->topk2,
                                .alpha = a->attr->alpha,
                                .beta = a->attr->beta,
                                .boxes = a->boxes + (size_t)i * 4 * n_anchors,
                                .scores = a->scores + (size_t)i * (size_t)a->nc * n_anchors,
                                .targets = a->targets + (size_t)i * (size_t)a->max_targets * 5,
                                .count = image_count(a, i)};
    assigned *positives = positives_of(s, i);
    image_result *r = &s->images[i];
    r->n_positive = assign_targets(&image, s->assigner + (size_t)i * s->assigner_bytes, positives);
    r->target_sum = 0.0;
    for (int32_t k = 0; k < r->n_positive; k++) r->target_sum += (double)positives[k].score;
}

/* Box and L1 terms of one positive anchor; adds weight * gradient to grad_boxes where wanted. */
static void box_terms(const detect_loss_args *a, const anchor_grid *grid, int image, const assigned *p, float box_scale,
                      float l1_scale, image_result *r) {
    const size_t plane = (size_t)grid->n_anchors, at = (size_t)image * 4 * plane + (size_t)p->anchor;
    float x, y, corners[4], grad[4];
    const int level = anchor_place(grid, p->anchor, &x, &y);
    const float stride = (float)grid->stride[level];
    const float *raw = a->boxes + at;
    target_corners(grid, a->targets + (size_t)image * (size_t)a->max_targets * 5, p->target, corners);
    for (int k = 0; k < 4; k++) corners[k] /= stride;
    const float predicted[4] = {x - raw[0], y - raw[plane], x + raw[2 * plane], y + raw[3 * plane]};
    r->box += (double)((1.0f - ciou_gradient(predicted, corners, grad)) * p->score);
    const float wanted[4] = {x - corners[0], y - corners[1], corners[2] - x, corners[3] - y};
    float l1 = 0.0f;
    for (int k = 0; k < 4; k++) {
        const float side = k % 2 == 0 ? grid->image_w : grid->image_h;
        const float d = raw[(size_t)k * plane] * stride / side - wanted[k] * stride / side;
        l1 += fabsf(d);
        if (a->grad_boxes) {
            const float corner = k < 2 ? grad[k] : -grad[k]; /* 1 - ciou; the low corner is x - raw */
            const float sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
            a->grad_boxes[at + (size_t)k * plane] =
                p->score * (corner * box_scale + sign * (stride / side) * 0.25f * l1_scale);
        }
    }
    r->l1 += (double)(l1 * 0.25f * p->score);
}

/* Class term of one (image, class) plane: all entries as background, then the positives put right. */
static double class_plane(const detect_loss_args *a, const anchor_grid *grid, const loss_scratch *s, int image, int c,
                          float scale) {
    const size_t plane = (size_t)grid->n_anchors, at = ((size_t)image * (size_t)a->nc + (size_t)c) * plane;
    const float *logits = a->scores + at;
    float *grad = a->grad_scores ? a->grad_scores + at : NULL;
    double sum = bce_background(logits, scale, grad, plane);
    const assigned *positives = positives_of(s, image);
    const float *targets = a->targets + (size_t)image * (size_t)a->max_targets * 5;
    for (int32_t k = 0; k < s->images[image].n_positive; k++) {
        const assigned *p = &positives[k];
        if ((int)targets[(size_t)p->target * 5] != c || p->score == 0.0f) continue;
        const float z = logits[p->anchor];
        sum += (double)bce_value(z, p->score) - (double)bce_value(z, 0.0f);
        if (grad) grad[p->anchor] = bce_gradient(z, p->score) * scale;
    }
    return sum;
}

void detect_loss(const detect_loss_args *a, void *scratch) {
    const anchor_grid grid = anchor_grid_of(a->attr);
    loss_scratch s;
    scratch_layout(a->attr, a->n, a->nc, a->max_targets, scratch, &s);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(a))
    for (int i = 0; i < a->n; i++) assign_one(a, &grid, &s, i);
    double target_sum = 0.0;
    for (int i = 0; i < a->n; i++) target_sum += s.images[i].target_sum;
    const float normal = fmaxf((float)target_sum, 1.0f);
    const float outer = a->gains[LOSS_GAIN_BRANCH] * a->gains[LOSS_GAIN_IMAGES];
    const float box_scale = outer * a->gains[LOSS_GAIN_BOX] / normal,
                cls_scale = outer * a->gains[LOSS_GAIN_CLS] / normal,
                l1_scale = outer * a->gains[LOSS_GAIN_L1] / normal;
    const size_t boxes_per_image = 4 * (size_t)grid.n_anchors;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(a))
    for (int i = 0; i < a->n; i++) {
        image_result *r = &s.images[i];
        const assigned *positives = positives_of(&s, i);
        r->box = r->l1 = 0.0;
        if (a->grad_boxes) memset(a->grad_boxes + (size_t)i * boxes_per_image, 0, boxes_per_image * sizeof(float));
        for (int32_t k = 0; k < r->n_positive; k++) box_terms(a, &grid, i, &positives[k], box_scale, l1_scale, r);
    }
    const int planes = a->n * a->nc;
#pragma omp parallel for schedule(static) num_threads(threads_of(a))
    for (int q = 0; q < planes; q++) {
        const int image = q / a->nc, c = q % a->nc;
        s.class_sums[q] = class_plane(a, &grid, &s, image, c, cls_scale * a->gains[LOSS_GAIN_CLASSES + c]);
    }
    double box = 0.0, l1 = 0.0, cls = 0.0;
    for (int i = 0; i < a->n; i++) {
        box += s.images[i].box;
        l1 += s.images[i].l1;
    }
    for (int q = 0; q < planes; q++) cls += s.class_sums[q] * (double)a->gains[LOSS_GAIN_CLASSES + q % a->nc];
    a->items[LOSS_ITEM_BOX] = (float)(box / (double)normal) * a->gains[LOSS_GAIN_BOX];
    a->items[LOSS_ITEM_CLS] = (float)(cls / (double)normal) * a->gains[LOSS_GAIN_CLS];
    a->items[LOSS_ITEM_L1] = (float)(l1 / (double)normal) * a->gains[LOSS_GAIN_L1];
}

const assigned *detect_loss_assigned(const detect_loss_args *a, const void *scratch, int image, int *count) {
    loss_scratch s;
    scratch_layout(a->attr, a->n, a->nc, a->max_targets, (void *)(uintptr_t)scratch, &s);
    *count = s.images[image].n_positive;
    return positives_of(&s, image);
}
