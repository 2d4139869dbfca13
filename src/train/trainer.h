/* The training run: epochs over a loader, steps, averages, validation through a callback, checkpoints, results. Owns
 * the run's state; models, devices, loaders and settings are lent. Draws nothing and measures no precision itself:
 * validation comes from the caller. One thread drives it. Model document, section 6. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/settings.h"
#include "data/loader.h"
#include "formats/checkpoint.h"
#include "graph/plan.h"
#include "model/model.h"

typedef struct train_metrics {
    double precision, recall, map50, map50_95;
    double losses[3]; /* box, cls, l1 over the validation batches */
} train_metrics;

/* Validates `weights` (a state dict of the model: the moving average). `gains` are those that detect_loss takes, 5+nc,
 * with branch weight 1; the image-count factor is left to the caller. */
typedef ol_status (*train_validate_fn)(void *user, const tensor_list *weights, const float *gains, train_metrics *out);

/* What one finished epoch came to: the row of results.csv. */
typedef struct train_epoch {
    int epoch, epochs; /* 1-based, total */
    double seconds, train_losses[3];
    train_metrics metrics;
    double lr[8];
    int n_groups;
    double fitness;
    bool is_best, validated;
} train_epoch;

/* A step, for tests and logs: what the reference records of an optimizer step. */
typedef struct train_step {
    int epoch; /* 0-based */
    int64_t iteration;
    double loss, items[3]; /* of the last batch: what backward ran on; reported items */
    double grad_norm;      /* before clipping */
    double lr[8], momentum[8];
    int n_groups;
    bool skipped;      /* the gradients were not finite: nothing moved */
    double loss_scale; /* that the step ran with; 1 without loss scaling */
} train_step;

typedef struct train_setup {
    ol_context *ctx;
    const settings *settings; /* save_dir set and the folder made; NULL save_dir: nothing is written */
    device *device;
    model *model;                /* with start weights, names and freezing; receives the averaged weights at the end */
    loader *loader;              /* of the training set */
    int64_t n_images;            /* in the training set */
    const int64_t *class_counts; /* (nc) objects a class, for cls_pw; NULL: not known */
    int batch;                   /* pictures a batch as asked for, before capping by the set */
    dtype compute;               /* of activations: F32 (0), F16 with loss scaling, BF16 */
    const checkpoint *resume;    /* NULL: a new run */
    train_validate_fn validate;  /* NULL: never */
    /* NULL or frees device memory that validation only keeps for its next run; false when there was none */
    bool (*give_back)(void *user);
    void (*on_epoch)(void *user, const train_epoch *epoch); /* NULL or after each epoch */
    void (*on_step)(void *user, const train_step *step);    /* NULL or after each optimizer step */
    void *user;
} train_setup;

typedef struct train_outcome {
    int epochs_done;
    double best_fitness; /* NAN: never validated */
    double seconds;
    bool stopped_early, timed_out;
    char last[1024], best[1024]; /* paths, "" when not written */
} train_outcome;

/* Runs to the end, then strips last.pt and best.pt. OL_ERROR_INTERRUPTED after ol_context_interrupt: the step is
 * finished and last.pt can be resumed. OL_ERROR_NUMERIC for a loss that is not finite: names step, term and layer;
 * last.pt stays. */
ol_status train_run(const train_setup *setup, train_outcome *out);

/* Settings of a resumed run: those of the checkpoint, with the few that may change taken from `given` (section 6.6) and
 * a warning for the others. More epochs than before are taken when `given` says so; fewer than are done, a finished or
 * a stripped file are errors that say so. `out` is initialised by the caller. */
ol_status train_resume_settings(const checkpoint *c, const char *path, const settings *given, settings *out);

/* How many pictures `batch` means: itself, or 16 with a warning where the size is left to the program (batch=-1, a
 * share). */
int train_batch_size(ol_context *ctx, const settings *s);

/* Class weights of cls_pw (section 4.6): (nc), all 1 when it is 0. */
void train_class_weights(double cls_pw, const int64_t *counts, int nc, float *weights);

#endif
