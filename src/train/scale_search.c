/* The loss scale that a run begins with. At the usual one the gradients of an untrained network can overflow for
 * several steps, all of which would be skipped. The first batch is therefore gone through beforehand, from a large
 * scale downwards until its gradients are finite, and nothing of that stays: gradients are cleared, batch statistics
 * put back. */
#include "base/context.h"
#include "train/run.h"

#include <math.h>
#include <string.h>

#define SCALE_MARGIN 4.0 /* room for gradients that grow in the steps that follow */

/* What a pass changes: gradients on a device, and the running statistics, which follow the parameters. */
typedef struct scale_search {
    float *grads, *statistics;
    size_t grad_bytes, statistics_bytes;
} scale_search;

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static ol_status scale_set(train_run_state *r, double scale) {
    r->opt->numbers.scaler.scale = scale;
    return optimizer_load(r->opt);
}

/* One pass without a step, with the scale as it is set. */
static ol_status scale_try(train_run_state *r, const step_plan *s, const scale_search *u, bool *losses, bool *grads) {
    const param_store *store = r->store;
    step_outcome outcome;
    ol_status status = optimizer_order(r->opt, s->n, false);
    if (status == OL_OK) status = plan_run(s->plan);
    if (status == OL_OK) status = optimizer_outcome(r->opt, &outcome);
    if (status == OL_OK) status = device_buffer_read(store->grads, 0, u->grads, u->grad_bytes);
    if (status != OL_OK) return status;
    *losses = !outcome.stopped;
    *grads = all_finite(u->grads, u->grad_bytes / sizeof(float));
    memset(u->grads, 0, u->grad_bytes);
    status = device_buffer_write(store->grads, 0, u->grads, u->grad_bytes);
    return status == OL_OK ? device_buffer_write(store->values, u->grad_bytes, u->statistics, u->statistics_bytes)
                           : status;
}

/* Where no scale helps the run goes on with the usual one, which tells what is wrong. */
static ol_status scale_lower(train_run_state *r, const step_plan *s, const scale_search *u) {
    double scale = LOSS_SCALE_START * SCALE_MARGIN;
    for (int i = 0; i < LOSS_SCALE_MAX_SKIPS; i++, scale *= LOSS_SCALE_BACKOFF) {
        bool losses = false, grads = false;
        ol_status status = scale_set(r, scale);
        if (status == OL_OK) status = scale_try(r, s, u, &losses, &grads);
        if (status == OL_OK) status = scale_set(r, grads ? scale / SCALE_MARGIN : LOSS_SCALE_START);
        if (status != OL_OK || !losses || grads) return status;
    }
    return OL_OK;
}

ol_status run_scale_search(train_run_state *r, const step_plan *s) {
    const param_store *store = r->store;
    if (!r->opt->numbers.scaler.on || r->scale_is_set) return OL_OK;
    r->scale_is_set = true;
    float *memory = mem_alloc(r->ctx, store->n_floats, sizeof *memory);
    if (!memory) return OL_ERROR_MEMORY;
    const scale_search u = {.grads = memory,
                            .statistics = memory + store->n_trained_floats,
                            .grad_bytes = store->n_trained_floats * sizeof(float),
                            .statistics_bytes = (store->n_floats - store->n_trained_floats) * sizeof(float)};
    ol_status status = device_buffer_read(store->values, u.grad_bytes, u.statistics, u.statistics_bytes);
    if (status == OL_OK) status = scale_lower(r, s, &u);
    if (status == OL_OK && r->opt->numbers.scaler.scale < LOSS_SCALE_START)
        ctx_log(r->ctx, OL_LOG_INFO, "AMP: loss scale %g, which the gradients of the first batch bear",
                r->opt->numbers.scaler.scale);
    mem_free(r->ctx, memory);
    return status;
}
