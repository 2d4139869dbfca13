/* One optimizer over a param_store: the rates of its groups, the step on the device (device/step.h), and the numbers
 * that belong to it. Knows no schedule and no files. One thread at a time. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "device/step.h"
#include "train/param_store.h"

typedef struct optimizer {
    param_store *store;
    optimizer_kind kind;
    double lr[PARAM_MAX_GROUPS], initial_lr[PARAM_MAX_GROUPS], momentum[PARAM_MAX_GROUPS],
        weight_decay[PARAM_MAX_GROUPS];
    double beta1, beta2;
    step_numbers numbers; /* after the last outcome that was read; the loss scale starts as loss_scaler_init has it */
    device_step *step;    /* for plan_take_step and device_make_pictures */
} optimizer;

/* `lr0` and `momentum` as section 5.1 settles them; `weight_decay` as schedule_weight_decay gives it; `maps` is the
 * precision that the gradients come from, for loss_scaler_init. The store outlives it. */
ol_status optimizer_create(param_store *store, optimizer_kind kind, double lr0, double momentum, double weight_decay,
                           dtype maps, optimizer **out);
void optimizer_destroy(optimizer *o);

/* Takes numbers that were set from outside to the device. No batch is under way. */
ol_status optimizer_load(optimizer *o);
/* What the next plan run is to do, by the rates as they are now. */
ol_status optimizer_order(optimizer *o, int n_images, bool take);
/* What came of the first batch that was not read yet; waits for its end. */
ol_status optimizer_outcome(optimizer *o, step_outcome *out);
/* The momentum that a group's rule takes: beta1 where the optimizer has no momentum. */
double optimizer_momentum(const optimizer *o, int group);

#endif
