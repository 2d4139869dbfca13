/* Runs a model on image batches: evaluation plans cached by (batch, height, width), folded weights on the device. Used
 * by predict, val and the validation inside training. Does no preprocessing. One thread at a time. */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

#include "device/pictures.h"
#include "device/select.h"
#include "model/build.h"

typedef struct runner runner;

typedef struct runner_options {
    model_branch decode; /* the branch whose decoded output is wanted: ONE2MANY (default when 0) or ONE2ONE; the
                            remaining one when a fused file has no other, with a warning */
    dtype compute;       /* of activations, as model_graph_options has it */
    bool decoded;        /* bring the decoded map to the host after each run */
    bool raw;            /* the raw maps of the decoded branch too */
    bool loss;           /* also run the loss of the reported branch (one-to-one where it exists) */
    int max_plans;       /* plans kept; 0: 8. The least recently used goes first */
} runner_options;

/* Targets of a batch for the loss items. */
typedef struct runner_targets {
    const float *rows;    /* (n, max_targets, 5): class, cx, cy, w, h normalised; unused rows zero */
    const int32_t *count; /* (n) */
    int max_targets;
    const float *gains; /* 5 + nc, as detect_loss wants them */
} runner_targets;

typedef struct runner_result {
    int n, rows, anchors;        /* rows = 4 + nc */
    model_branch branch;         /* which branch was decoded: ONE2ONE has corner boxes */
    const float *decoded;        /* (n, 4+nc, anchors) when asked for; these pointers are valid until the next run */
    const float *boxes, *scores; /* raw maps (n,4,A), (n,nc,A) when asked for, else NULL */
    float loss_items[3];         /* when asked for */
} runner_result;

/* `m` and `dev` must outlive the runner. Weights are m->state until runner_set_weights. */
ol_status runner_create(ol_context *ctx, device *dev, const model *m, const runner_options *options, runner **out);
void runner_destroy(runner *r);
/* Folds and uploads another state dict of the same model (EMA weights each epoch) without rebuilding plans. */
ol_status runner_set_weights(runner *r, const tensor_list *state);
/* Frees the plans, which are made anew when they are asked for; false when there were none. */
bool runner_drop_plans(runner *r);
/* `images` (n, channels, h, w) u8 RGB; h and w multiples of the largest stride. `targets` may be NULL unless
 * options.loss. */
ol_status runner_run(runner *r, const uint8_t *images, int n, int h, int w, const runner_targets *targets,
                     runner_result *out);
/* The same from pictures as they were decoded, where the device scales them (runner_scales_pictures). */
bool runner_scales_pictures(const runner *r);
ol_status runner_run_pictures(runner *r, const picture_batch *pictures, runner_result *out);
/* Host memory for them that copies at full speed. */
ol_status runner_host_create(runner *r, size_t bytes, void **out);
void runner_host_destroy(runner *r, void *memory);
/* The rows of the last run, by suppression or by top-k selection as its branch wants; they are made where the outputs
 * lie. `rows` has a list for each of its pictures. */
ol_status runner_select(runner *r, const nms_options *options, detection_list *rows);

#endif
