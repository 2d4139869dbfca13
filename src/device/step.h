/* What follows the gradients in a training step, on the device that made them: norm, clipping, the loss scale, the
 * optimizer, the moving average, the clearing of the gradients. The numbers that a step decides by (loss scale, counts)
 * live on the device too, so nothing waits: the host says beforehand what the next batch is to do and reads what came
 * of it later, in order. A plan takes a step along (plan_take_step). One thread at a time a device. */
#ifndef DEVICE_STEP_H
#define DEVICE_STEP_H

#include "graph/plan.h"
#include "ops/detect_loss.h"
#include "ops/loss_scaler.h"
#include "ops/optim.h"

#define STEP_MAX_GROUPS 8
#define STEP_BRANCHES   2
#define STEP_AHEAD      2 /* batches that may be under way before the outcome of the first is read */

/* What goes on from step to step and belongs into checkpoints. */
typedef struct step_numbers {
    loss_scaler scaler;
    int64_t step; /* steps taken */
    int64_t ema_updates;
    double mu_product; /* NAdam: 1 at the start */
} step_numbers;

/* [begin, end) of values, gradients and states moves. */
typedef struct step_group {
    size_t begin, end;
    bool muon; /* MuSGD orthogonalises its matrices */
} step_group;

/* A matrix of MuSGD: rows x cols floats at `offset`; `scale` as section 5.3 of the model document gives it. */
typedef struct step_matrix {
    size_t offset;
    int rows, cols, group;
    float scale;
} step_matrix;

/* Where the numbers of a model lie. Buffers are lent and outlive the step. */
typedef struct step_layout {
    optimizer_kind kind;
    double clip_norm;
    device_buffer *values, *ema;                         /* n_values floats */
    device_buffer *grads, *states[OPTIMIZER_MAX_STATES]; /* n_trained floats, as the first of the values lie */
    size_t n_trained, n_values;
    int n_groups;
    step_group groups[STEP_MAX_GROUPS]; /* in rising order */
    const step_matrix *matrices;        /* of the muon groups; only device_step_create looks at them */
    int n_matrices;
} step_layout;

/* What the host says for one batch. */
typedef struct step_orders {
    double lr[STEP_MAX_GROUPS], momentum[STEP_MAX_GROUPS], weight_decay[STEP_MAX_GROUPS]; /* as optim_step has them */
    double beta2;
    int images; /* the losses are multiplied by images * loss scale */
    bool take;  /* false: the gradients stay and wait for those of the next batch */
} step_orders;

/* What came of one batch. */
typedef struct step_outcome {
    float items[STEP_BRANCHES][LOSS_ITEM_COUNT]; /* as they are reported; zeros where there is no branch */
    double norm;                                 /* of the gradients before clipping, free of the loss scale */
    double scale;                                /* loss scale of this batch */
    bool skipped;                                /* the norm is not finite: nothing moved, the gradients are clear */
    /* A loss is not finite, or a norm where none is skipped (f32) or too many were in a row: from this batch on
     * nothing moves, and the pictures stay (device_make_pictures). Gradients are not cleared, but a batch that is under
     * way adds its own. */
    bool stopped;
    step_numbers numbers; /* after it */
} step_outcome;

ol_status device_step_create(device *dev, const step_layout *layout, device_step **out);
void device_step_destroy(device_step *s);
/* Numbers from which the next batch goes on; a step that had stopped goes on too. */
ol_status device_step_load(device_step *s, const step_numbers *numbers);
/* For the next run of a plan that takes the step along. */
ol_status device_step_order(device_step *s, const step_orders *orders);
/* Of the first run whose outcome was not read yet; waits for the end of that run, not of later ones. */
ol_status device_step_outcome(device_step *s, step_outcome *out);

#endif
