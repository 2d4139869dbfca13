/* Numbers that steer a run: learning-rate factor, warm-up, accumulation, weights of the two head branches, choice of
 * the automatic optimizer (model document, sections 4.1, 5.1, 5.4 to 5.6). Pure arithmetic in double; no state but the
 * structs. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Factor of the initial learning rate in epoch `epoch` (0-based). */
double schedule_factor(bool cosine, double lrf, int epoch, int epochs);

typedef struct schedule {
    int batches; /* per epoch */
    int epochs, batch, nbs;
    bool cosine;
    bool timed; /* a time budget: the accumulation is not capped by the number of batches */
    double lrf, warmup_epochs, warmup_bias_lr, warmup_momentum, momentum;
    int64_t warmup; /* iterations of warm-up (the last is included); derived */
    int accumulate; /* batches a step after the warm-up; derived */
} schedule;

/* Fills the derived fields from the others. */
void schedule_derive(schedule *s);
/* Decay of the weight and muon groups: weight_decay * batch * nominal accumulation / nbs. */
double schedule_weight_decay(const schedule *s, double weight_decay);
bool schedule_is_warm_up(const schedule *s, int64_t iteration);
int schedule_accumulate(const schedule *s, int64_t iteration);
/* iteration = batch of the epoch + batches * epoch. */
double schedule_lr(const schedule *s, int64_t iteration, int epoch, double initial_lr, bool is_bias);
/* `current` outside the warm-up. */
double schedule_momentum(const schedule *s, int64_t iteration, double current);

/* Weight of the one-to-many branch in epoch `epoch` (0-based); the one-to-one branch has the rest. */
void schedule_branch_weights(int epoch, int epochs, double *one_to_many, double *one_to_one);

/* optimizer=auto: MuSGD for long runs, else AdamW with a rate that follows from the number of classes. */
typedef struct schedule_auto {
    bool musgd;
    double lr0, momentum;
} schedule_auto;
schedule_auto schedule_auto_choice(int64_t n_images, int batch, int nbs, int epochs, int nc);

#endif
