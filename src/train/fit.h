/* How large a batch may be on a device with memory of its own: by the sizes of plans, nothing is tried out. Keeps
 * nothing; one thread at a time. */
#ifndef TRAIN_FIT_H
#define TRAIN_FIT_H

#include "data/loader.h"
#include "train/step_plans.h"

typedef struct train_fit {
    ol_context *ctx;
    device *dev;
    const model *model;
    dtype compute;
    int size;     /* picture side, px; the largest where it varies */
    int n_images; /* of the training set: a last, smaller batch has a plan of its own; larger batches are pointless */
    int n_validation; /* pictures of the validation set; 0: not known */
    int stride;       /* by which validation's padded pictures may be larger */
    int max_targets;
    const loader_options *loader; /* of training, whose pictures the device may make; NULL: the host does */
    const settings *settings;     /* of the run, for its optimizer; NULL: the one that takes most */
} train_fit;

/* Bytes that a run with this batch size takes at most: parameters, gradients, optimizer, plans of steps and validation,
 * pictures on their way. */
ol_status train_fit_bytes(const train_fit *f, int batch, uint64_t *bytes);
/* The largest batch size for `budget` bytes; 0 when not even one picture fits. */
ol_status train_fit_batch(const train_fit *f, uint64_t budget, int *batch);

#endif
