/* One optimizer over a param_store: clipping, the step, the moving average, and the numbers that belong to a step.
 * Knows no schedule and no files. One thread at a time. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "train/param_store.h"

typedef struct optimizer {
    param_store *store;
    optimizer_kind kind;
    double lr[PARAM_MAX_GROUPS], initial_lr[PARAM_MAX_GROUPS], momentum[PARAM_MAX_GROUPS],
        weight_decay[PARAM_MAX_GROUPS];
    double beta1, beta2;
    int64_t step;      /* steps done */
    double mu_product; /* NAdam */
    int64_t ema_updates;
    struct muon_work *muon; /* MuSGD: private */
} optimizer;

/* `lr0` and `momentum` as section 5.1 settles them; `weight_decay` as schedule_weight_decay gives it. The store
 * outlives it. */
ol_status optimizer_create(param_store *store, optimizer_kind kind, double lr0, double momentum, double weight_decay,
                           optimizer **out);
void optimizer_destroy(optimizer *o);

/* Divides the gradients by `scale` (what the losses were multiplied by), clips their total norm to 10, moves the
 * parameters, clears the gradients, updates the averages. *norm is the norm before clipping; when it is not finite
 * nothing is changed and OL_ERROR_NUMERIC is returned without a message. */
ol_status optimizer_advance(optimizer *o, double scale, double *norm);
/* Clears the gradients without a step: nothing else moves. */
ol_status optimizer_skip(optimizer *o);

#endif
