/* The state of a training run, shared by the files of this room that drive it. Not for other rooms. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "train/optimizer.h"
#include "train/results.h"
#include "train/schedule.h"
#include "train/step_plans.h"

/* A batch that the device was given and whose outcome was not read yet. */
typedef struct batch_begun {
    step_plan *plan;
    int64_t objects, iteration;
    bool takes;       /* a step of the optimizer follows it */
    double weight[2]; /* of the branches' losses */
    double lr[PARAM_MAX_GROUPS], momentum[PARAM_MAX_GROUPS];
} batch_begun;

typedef struct train_run_state {
    ol_context *ctx;
    const train_setup *setup;
    const settings *s;
    arena arena;
    settings chosen; /* the settings with what optimizer=auto decided: what checkpoints carry */
    bool has_chosen;

    optimizer_kind kind;
    param_store *store;
    optimizer *opt;
    step_plans *plans;
    bool scale_is_set; /* of the loss, by a file or by scale_search.c */
    schedule schedule;
    float *gains[2];     /* of detect_loss, by branch */
    tensor_list average; /* state dict for validation and files */

    int epoch, epochs;   /* 0-based current, total (changes in timed runs) */
    int first_epoch;     /* of this process */
    int batch;           /* batches of the epoch that are done */
    int stored_epochs;   /* total of the run that is resumed: goes on in timed runs */
    int epoch_done;      /* 1: its validation is done too */
    int64_t last_step;   /* iteration of the last optimizer step that was asked for */
    bool stepped;        /* gradients are clear after the last batch that is done */
    double loss_sums[3]; /* reported items of the epoch's batches */
    batch_begun begun[STEP_AHEAD];
    int n_begun;
    int64_t n_objects;  /* of the last batch */
    int64_t n_pictures; /* seen in this epoch since it was started or resumed */
    int height, width;

    results results;
    train_metrics metrics; /* of the last validation */
    double fitness, best_fitness;
    double stopper_fitness;
    int stopper_epoch;     /* 1-based */
    double seconds_before; /* of the run before it was resumed */
    double started, epoch_started;
    bool timed_out, interrupted, stopped_early;
    double last_progress;
    const char *last_path, *best_path, *csv_path;
} train_run_state;

double run_clock(void); /* seconds, monotonic */

/* --- step.c: one batch --- */
/* Where a device has a queue, the batch is only begun: what came of it is read when the next one is under way. */
ol_status run_batch(train_run_state *r, const batch *b);
/* Waits for all batches that were begun and reads what came of them. */
ol_status run_batches_finish(train_run_state *r);
/* --- scale_search.c: the loss scale of a run's first step, where none is set; the batch lies in the plan --- */
ol_status run_scale_search(train_run_state *r, const step_plan *s);
/* --- diagnose.c: names the layer whose output or gradient is not finite and fails with OL_ERROR_NUMERIC --- */
ol_status run_diagnose(train_run_state *r, const step_plan *s, float items[2][3]);
/* --- saved.c: checkpoints --- */
ol_status run_save(train_run_state *r, const char *path);
/* Whether last.pt is of this run: an earlier one may have left its file in the same folder. */
bool run_can_resume(const train_run_state *r);
ol_status run_restore(train_run_state *r, const checkpoint *c);
ol_status run_strip(train_run_state *r, const char *path, const value *results);
/* --- report.c: console lines --- */
void run_report_header(train_run_state *r);
void run_report_progress(train_run_state *r, bool last);
/* --- setup.c: from a train_setup to the state before the first batch --- */
ol_status run_init(train_run_state *r, const train_setup *setup);
void run_deinit(train_run_state *r);

#endif
