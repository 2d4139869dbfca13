/* Checkpoints (.pt) of the reference family: weights, model description and training state as plain data. The reader
 * builds data only and can never run anything from a file; the writer emits what the reference package loads, predicts
 * with and resumes from. Owns the content it reads; knows nothing of graphs or optimizers. One thread at a time per
 * checkpoint. */
#ifndef FORMATS_CHECKPOINT_H
#define FORMATS_CHECKPOINT_H

#include "base/value.h"
#include "model/model.h"
#include "tensor/tensor_list.h"

#define CHECKPOINT_MAX_STRIDES 8

/* A group of parameters with equal settings, in the reference's order (model document, section 5.2). */
typedef struct checkpoint_group {
    /* Map: lr, initial_lr, momentum or betas, weight_decay, nesterov, param_group ("weight", "bn", "bias", "muon") and
     * what else torch's optimizer of that name keeps; without "params". */
    const value *options;
    int64_t *params; /* indices of its parameters: 0, 1, … over all groups in order */
    size_t n_params;
} checkpoint_group;

/* An optimizer's state_dict. `state` names its tensors "<parameter index>/<key>": "12/momentum_buffer", "12/exp_avg",
 * "12/step" (a number: shape (), f32). */
typedef struct checkpoint_optimizer {
    checkpoint_group *groups;
    size_t n_groups;
    tensor_list state;
} checkpoint_optimizer;

/* Texts and values live in `arena`; a writer fills the same struct (pointers may then point anywhere that lives long
 * enough). NULL, or the stated value, means "not in the file". */
typedef struct checkpoint {
    ol_context *ctx;
    arena arena;

    tensor_list weights; /* state dict of `ema`, else of `model`, in its order; f32, counters i64 */
    const value *yaml;   /* map: nc, scale, scales, backbone, head, … */
    int64_t nc;          /* -1 */
    const char *scale;   /* "n", or NULL when the description has none */
    const value *names;  /* map from int to str */
    float strides[CHECKPOINT_MAX_STRIDES];
    int n_strides;
    const char *task;               /* "detect", … ; from the head's class when the file does not say it */
    const char *head;               /* class of the last layer: "Detect" */
    bool fused;                     /* batch norm is folded into the convolutions: cannot be trained from */
    bool has_one2many, has_one2one; /* head branches present */

    int64_t epoch;       /* 0-based number of the finished epoch; -1: stripped, not resumable */
    double best_fitness; /* NAN */
    int64_t updates;     /* EMA updates; -1 */
    const value *train_args, *train_metrics, *train_results; /* maps */
    const value *stopper;                                    /* map: best_fitness, best_epoch */
    const value *scaler;                                     /* map, empty when AMP is off */
    bool has_optimizer;
    checkpoint_optimizer optimizer;
    const char *date, *version;

    /* Ours, ignored by the reference: what a resume needs to be bit-equal. `live` holds the trained (not averaged)
     * weights in full precision, empty when absent. */
    tensor_list live;
    const value *extra; /* map */
} checkpoint;

/* What a file without a model gets as its message names the remedy: legacy and TorchScript files, plain state dicts,
 * other pickles, files cut short. `out` need not be initialised and is untouched on failure; the caller deinits it. */
ol_status checkpoint_read(ol_context *ctx, const char *path, checkpoint *out);
/* The same from memory; `name` is for messages. */
ol_status checkpoint_read_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes, checkpoint *out);

/* Writes `c` atomically (temporary name, sync, rename) in the form that the reference package loads, predicts with and
 * trains from. The model part (classes, yaml, names, strides) comes from `m`, its weights from c->weights, which must
 * be a state dict of `m` with batch norms. With epoch >= 0 the file is resumable: the model is stored as `ema`, and
 * updates, optimizer, scaler, stopper, live and extra with it. With epoch -1 it is the stripped form: those entries are
 * null or absent. `half`: the model's floats in half precision, as the reference stores them; optimizer state and
 * `live` are always f32. Only what `c` and `m` hold is written: no path, licence, author or version-control entry of a
 * file that was read. c->date NULL: now. */
ol_status checkpoint_write(ol_context *ctx, const char *path, const checkpoint *c, const model *m, bool half);

/* What the model room needs to build the model of a read checkpoint; borrows from `c` and the arena `a` (names). `name`
 * is the file. */
ol_status checkpoint_model_source(arena *a, const checkpoint *c, const char *name, model_source *out);

/* Sets fused, has_one2many and has_one2one from the names of the weights. For readers. */
void checkpoint_note_form(checkpoint *c);

void checkpoint_init(checkpoint *c, ol_context *ctx);
void checkpoint_deinit(checkpoint *c);

#endif
