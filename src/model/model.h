/* The model handle: description, module tree, state dict (host, float32; counters int64), class names, strides. Weights
 * go in and out by state-dict name. Does not run anything: build.h makes graphs, runner.h runs them. One thread at a
 * time. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/module.h"
#include "tensor/tensor_list.h"

typedef struct model {
    ol_context *ctx;
    arena arena;
    model_desc desc;
    module *root;
    const module *head;             /* the Detect module */
    tensor_list state;              /* names, shapes and order of spec/yolo26*-state-dict.tsv */
    bool *frozen;                   /* one a state entry: gets no gradient (always false for buffers) */
    const char **names;             /* desc.nc class names */
    bool has_one2many, has_one2one; /* branches with weights: both, but for fused files */
    int n_levels, strides[OP_MAX_LEVELS];
} model;

/* A model with a cleared state dict and placeholder names "0", "1", … */
ol_status model_create(ol_context *ctx, const model_spec *spec, model **out);
void model_destroy(model *m);

/* Fresh weights: uniform in ±1/sqrt(fan_in), batch norm 1/0/0/1, head biases, one-to-one equal to one-to-many
 * (sections 2 and 3.1). The same seed gives the same weights on every machine. */
void model_initialize(model *m, uint64_t seed);
/* Head biases alone: box 2.0, class ln(5 / nc / (640/stride)^2). */
void model_initialize_head_bias(model *m);

/* Copies `names` (desc.nc of them). */
ol_status model_set_names(model *m, const char *const *names, int n);
/* False when all names are the placeholder digits of their index. */
bool names_are_real(const char *const *names, int n);

/* What a weights file offers, in the terms of this room. `yaml` may be NULL for files that carry none (`name` is used).
 */
typedef struct model_source {
    const char *name;  /* file, for messages and the scale letter */
    const value *yaml; /* description stored in the file */
    char scale;        /* 0: unknown */
    const tensor_list *state;
    const char *const *names; /* n_names of them, or NULL */
    int n_names;
} model_source;

/* The model of a file, exactly as stored: class count, class-branch width and input channels are taken from the
 * tensors. Fused files are accepted (their batch norms become identities; a dropped branch is marked absent). A
 * missing, surplus or misshapen tensor is an error that names it. For predict, val, export and resume. */
ol_status model_create_from_source(ol_context *ctx, const model_source *source, model **out);
/* Copies a state dict of equal keys and shapes (an EMA, a resumed run) into the model. */
ol_status model_load_state(model *m, const tensor_list *state);

/* A fresh model for `nc` classes that starts from `source` by the rules of section 3.2. `spec` describes the target;
 * names are the data set's (NULL: none). Logs the remap and transfer lines. */
typedef struct transfer_report {
    int n_transferred, n_total, n_remapped, n_classes;
} transfer_report;
ol_status model_create_transferred(ol_context *ctx, const model_spec *spec, const char *const *names,
                                   const model_source *source, bool cls_remap, uint64_t seed, model **out,
                                   transfer_report *report);

/* freeze=N, freeze=[…] (section 3.3): `freeze` is an int, a list of ints or strings, a string, or NULL for none. Sets
 * model.frozen and the `frozen` mark of batch norms. Freezing everything is an error. */
ol_status model_freeze(model *m, const value *freeze);

/* Trainable parameter or buffer, by state position. */
bool model_is_param(const model *m, size_t position);
int64_t model_parameter_count(const model *m);

/* Weights for evaluation (section 7): conv and batch norm folded in float32, entries "….conv.weight", "….conv.bias" and
 * the plain head convs, in state order. `state` is a dict of this model (m->state, an EMA). `folded` is an initialised
 * list: filled when empty, else overwritten in place. */
ol_status model_fold(const model *m, const tensor_list *state, tensor_list *folded);

#endif
