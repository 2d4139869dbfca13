/* The state of a training run, shared by the files of this room that drive it. Not for other rooms. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "train/loss_scaler.h"
#include "train/optimizer.h"
#include "train/results.h"
#include "train/schedule.h"
#include "train/step_plans.h"

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
    loss_scaler scaler;
    bool scale_is_set; /* by a file or by scale_search.c */
    schedule schedule;
    float *gains[2];     /* of detect_loss, by branch */
    tensor_list average; /* state dict for validation and files */

    int epoch, epochs;   /* 0-based current, total (changes in timed runs) */
    int first_epoch;     /* of this process */
    int batch;           /* batches of the epoch that are done */
    int stored_epochs;   /* total of the run that is resumed: goes on in timed runs */
    int epoch_done;      /* 1: its validation is done too */
    int64_t last_step;   /* iteration of the last optimizer step */
    bool stepped;        /* gradients are clear */
    double loss_sums[3]; /* reported items of the epoch's batches */
    step_plan *begun;    /* of the batch that is on the device; NULL: none */
    int64_t begun_objects;
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
/* Where a device has a queue, the batch is only begun: what came of it is read when the next one has been brought. */
ol_status run_batch(train_run_state *r, const batch *b);
/* Reads what came of the batch that was begun last, and steps the optimizer; nothing when there is none. */
ol_status run_batch_finish(train_run_state *r);
/* The gradients of the batch that lies in the plan, added to those that wait; *finite tells of its losses. */
ol_status run_gradients(train_run_state *r, const step_plan *s, bool *finite);
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
