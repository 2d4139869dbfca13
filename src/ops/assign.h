/* The task-aligned assigner: which anchors of one image answer for which objects, and how strongly (model document,
 * sections 4.2 and 4.3). Plain C on host arrays, no allocation; different images may run on different threads. */
#ifndef OPS_ASSIGN_H
#define OPS_ASSIGN_H

#include "graph/graph.h"

/* Anchors of all levels, row-major per level, finest level first. */
typedef struct anchor_grid {
    int n_levels;
    int h[OP_MAX_LEVELS], w[OP_MAX_LEVELS], stride[OP_MAX_LEVELS], first[OP_MAX_LEVELS];
    int n_anchors;
    float image_w, image_h; /* pixels: columns and rows of the finest map times its stride */
} anchor_grid;

anchor_grid anchor_grid_of(const op_attr *attr);
/* Level of an anchor, and its centre in grid units of that level. */
int anchor_place(const anchor_grid *grid, int anchor, float *x, float *y);

/* A positive anchor. */
typedef struct assigned {
    int32_t anchor, target; /* target: row of the image's targets */
    float overlap, metric;  /* o and m of section 4.3 */
    float score;            /* soft target score n(a) */
} assigned;

typedef struct assign_image {
    const anchor_grid *grid;
    int nc, topk, topk2;
    float alpha, beta;
    const float *boxes;   /* (4,A) raw l,t,r,b in grid units */
    const float *scores;  /* (nc,A) raw logits */
    const float *targets; /* (count,5) class,cx,cy,w,h normalised; rows with a class outside 0..nc-1 are passed over */
    int count;
} assign_image;

/* Bytes of scratch for an image of at most `max_targets` rows. */
size_t assign_scratch_bytes(int n_anchors, int max_targets, int topk);
/* Room for positives that `out` must offer. */
size_t assign_capacity(int n_anchors, int max_targets, int topk);
/* Writes the positives in ascending anchor order and returns their number. */
int assign_targets(const assign_image *image, void *scratch, assigned *out);

/* Corners in pixels of target row `t`, in the operation order of section 4.2. */
void target_corners(const anchor_grid *grid, const float *targets, int t, float corners[4]);

#endif
