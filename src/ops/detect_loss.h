/* Detection loss of one head branch over a batch, with its gradients (model document, section 4). Plain C on host
 * arrays, threads over images and classes through OpenMP; results do not depend on the number of threads. No
 * allocation. */
#ifndef OPS_DETECT_LOSS_H
#define OPS_DETECT_LOSS_H

#include "ops/assign.h"

/* Offsets in `gains`. */
enum { LOSS_GAIN_BOX, LOSS_GAIN_CLS, LOSS_GAIN_L1, LOSS_GAIN_BRANCH, LOSS_GAIN_IMAGES, LOSS_GAIN_CLASSES };
enum { LOSS_ITEM_BOX, LOSS_ITEM_CLS, LOSS_ITEM_L1, LOSS_ITEM_COUNT };

typedef struct detect_loss_args {
    const op_attr *attr;   /* levels, topk, topk2, alpha, beta */
    int n, nc;             /* images, classes */
    int max_targets;       /* M */
    const float *boxes;    /* (N,4,A) raw l,t,r,b in grid units */
    const float *scores;   /* (N,nc,A) raw logits */
    const float *targets;  /* (N,M,5) class,cx,cy,w,h normalised to the image */
    const int32_t *counts; /* (N) rows of each image that are in use, at most M */
    const float *gains;    /* (5+nc) box, cls, l1, branch weight, image-count factor, class weights */
    float *items;          /* (3) box, cls, l1 after gains; not times the branch weight or the batch */
    float *grad_boxes;     /* (N,4,A), or NULL; of sum(items) * branch weight * image-count factor */
    float *grad_scores;    /* (N,nc,A), or NULL */
    int n_threads;
} detect_loss_args;

/* Scratch that detect_loss needs (64-byte aligned). */
size_t detect_loss_scratch_bytes(const op_attr *attr, int n, int nc, int max_targets);
void detect_loss(const detect_loss_args *args, void *scratch);

/* The positives of image `image` that the last detect_loss on this scratch found, for tests and pictures. */
const assigned *detect_loss_assigned(const detect_loss_args *args, const void *scratch, int image, int *count);

#endif
