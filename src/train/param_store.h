/* The trained numbers of a run: flat device buffers of values, gradients, moving averages and optimizer state, in which
 * the parameters of one optimizer group lie side by side. A step is therefore a few launches over ranges, not one a
 * parameter. Owns the buffers; plans are bound to them. One thread at a time. */
#ifndef TRAIN_PARAM_STORE_H
#define TRAIN_PARAM_STORE_H

#include "graph/plan.h"
#include "model/model.h"
#include "ops/optim.h"

#define PARAM_MAX_GROUPS 8

/* A parameter or a floating buffer (batch-norm statistics). */
typedef struct param_entry {
    const char *name;
    size_t state_index;   /* in model->state */
    size_t offset, count; /* floats, in the flat buffers; offsets are multiples of 16 */
    shape shape;
    int group; /* -1: a buffer */
    bool frozen;
} param_entry;

/* A group of the optimizer (model document, section 5.2): [begin, trained_end) moves, [trained_end, end) is frozen. */
typedef struct param_group {
    const char *name; /* "weight", "bn", "bias", "muon": as the reference's parameter groups are named */
    bool decays, is_bias, muon;
    double lr_factor;
    size_t begin, trained_end, end;
    int first, n_params; /* params[first … ) in the order of a torch state_dict */
} param_group;

typedef struct param_store {
    ol_context *ctx;
    device *dev;
    const model *model;
    param_entry *params; /* group by group, state-dict order within: a parameter's position is its torch index */
    param_entry *buffers;
    int n_params, n_buffers, n_groups;
    param_group groups[PARAM_MAX_GROUPS];
    size_t n_trained_floats; /* length of gradients and states: all parameters with padding, frozen ones too */
    size_t n_floats;         /* length of values and averages: parameters, then buffers */
    int n_states;
    device_buffer *values, *grads, *ema, *states[OPTIMIZER_MAX_STATES];
} param_store;

/* Lays out the model's parameters for an optimizer and uploads model->state into values and averages. */
ol_status param_store_create(ol_context *ctx, device *dev, const model *m, optimizer_kind kind, param_store **out);
void param_store_destroy(param_store *s);

/* Binds every PARAM, BUFFER and GRAD ("grad/<name>") tensor of the graph. */
ol_status param_store_bind(const param_store *s, const graph *g, plan *p);

typedef enum param_kind { PARAM_VALUES, PARAM_EMA, PARAM_GRADS, PARAM_STATE_0, PARAM_STATE_1 } param_kind;
device_buffer *param_store_buffer(const param_store *s, param_kind kind);
/* Copies a buffer into the tensors of equal name in `to` (a state dict), or back; tensors that `to` lacks are passed
 * over when reading and are an error when writing. Gradients and states have no entries for buffers. */
ol_status param_store_read(const param_store *s, param_kind kind, tensor_list *to);
ol_status param_store_write(param_store *s, param_kind kind, const tensor_list *from);

#endif
