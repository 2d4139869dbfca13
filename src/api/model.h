/* The public model handle: the model, where it came from, and the results of its last call. */
#ifndef API_MODEL_H
#define API_MODEL_H

#include "api/options.h"
#include "formats/checkpoint.h"
#include "model/model.h"
#include "model/runner.h"

struct ol_model {
    ol_context *ctx;
    arena arena;      /* path and other texts that live as long as the handle */
    const char *path; /* the file it came from */
    model *model;
    checkpoint stored; /* what came with the weights; without them unless the file can be resumed; empty for a yaml */
    bool has_checkpoint;
    char device_name[16];
    device *device; /* opened by the first call that computes */
    runner *runner; /* of the last predict or val, with its plans; NULL when weights, branch or precision changed */
    model_branch runner_branch;
    dtype runner_compute;
    bool announced; /* the device line and the summary were logged */
    arena results;  /* of the last call */
};

/* ol_model_load without forgetting the pending message. */
ol_status model_open(ol_context *ctx, const char *path, ol_model **out);
/* The handle goes on with another file's model; untouched on failure. */
ol_status model_replace(ol_model *m, const char *path);

/* The model as a source of weights for another one. */
model_source model_as_source(const ol_model *m);

/* The settings of one call: a copy of the options with the mode's own defaults and what a checkpoint hands on (imgsz,
 * data, task, single_cls; data document, section 5.1) for arguments that were not set. `out` is not initialised before.
 */
ol_status mode_settings(const ol_model *m, const ol_options *options, const char *mode, settings *out);

/* Opens the device that the settings ask for, unless it is open. */
ol_status model_device(ol_model *m, const settings *s);
/* The runner for the head branch that `nms` asks for; logs device line and fused summary the first time. */
ol_status model_runner(ol_model *m, const settings *s, runner **out);
/* "Onelook 0.1.0 🚀 oneDNN-2.6.3 CPU (AMD EPYC)" */
void log_device_line(ol_context *ctx, const device *dev);
/* Drops the runner: the weights have changed. */
void model_forget_runner(ol_model *m);

/* The largest stride of a model. */
int model_stride(const model *m);

/* The end of every public call that may be interrupted. */
ol_status end_call(ol_context *ctx, ol_status status);

/* Copies as much of a filled struct as the caller's has room for. `to` starts with its struct_bytes. */
ol_status copy_out(ol_context *ctx, void *to, const void *from, size_t from_bytes);

#endif
