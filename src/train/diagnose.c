/* What went wrong when a loss or a gradient is not finite: runs the forward pass of the batch again and looks at the
 * output of every layer, a stretch of the graph at a time so that little memory is needed. */
#include "base/file.h"
#include "ops/detect_loss.h"
#include "train/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIAGNOSE_STRETCH ((size_t)24) /* ops whose outputs are kept at once */

static const char *const item_names[LOSS_ITEM_COUNT] = {"box_loss", "cls_loss", "l1_loss"};

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Name of the first parameter that is not finite, NULL when there is none. (Statistics take part in the failed pass.)
 */
static const char *bad_parameter(const train_run_state *r) {
    const param_store *s = r->store;
    const char *name = NULL;
    float *values = mem_alloc(r->ctx, s->n_trained_floats, sizeof *values);
    if (values && device_buffer_read(s->values, 0, values, s->n_trained_floats * sizeof *values) == OL_OK)
        for (int i = 0; i < s->n_params && !name; i++)
            if (!all_finite(values + s->params[i].offset, s->params[i].count)) name = s->params[i].name;
    mem_free(r->ctx, values);
    return name;
}

/* Name of the parameter whose gradient is the first on the way back that is not finite, NULL when there is none: layers
 * stand in the state dict as the forward pass takes them. */
static const char *bad_gradient(const train_run_state *r) {
    const param_store *s = r->store;
    const param_entry *first = NULL;
    float *grads = mem_alloc(r->ctx, s->n_trained_floats, sizeof *grads);
    if (grads && device_buffer_read(s->grads, 0, grads, s->n_trained_floats * sizeof *grads) == OL_OK)
        for (int i = 0; i < s->n_params; i++) {
            const param_entry *e = &s->params[i];
            if (all_finite(grads + e->offset, e->count)) continue;
            if (!first || e->state_index > first->state_index) first = e;
        }
    mem_free(r->ctx, grads);
    return first ? first->name : NULL;
}

/* The pictures of the failed batch still lie in its plan. */
static ol_status images_copy(train_run_state *r, const step_plan *s, plan *to, tensor_ref image) {
    const size_t bytes = (size_t)shape_elements(graph_shape(s->graph, s->refs.image));
    uint8_t *host = mem_alloc(r->ctx, bytes, 1);
    if (!host) return OL_ERROR_MEMORY;
    ol_status status = plan_read(s->plan, s->refs.image, host, bytes);
    if (status == OL_OK) status = plan_write(to, image, host, bytes);
    mem_free(r->ctx, host);
    return status;
}

/* Runs ops [begin, begin + DIAGNOSE_STRETCH) with readable outputs and copies the name of the first whose output is not
 * finite. */
static ol_status stretch_check(train_run_state *r, const step_plan *s, size_t begin, bool *more, char *name,
                               size_t name_bytes) {
    const model_graph_options options = {.mode = MODEL_TRAIN,
                                         .batch = s->n,
                                         .height = s->h,
                                         .width = s->w,
                                         .compute = r->setup->compute,
                                         .image_u8 = true,
                                         .branches = MODEL_BOTH};
    graph *g = NULL;
    plan *p = NULL;
    float *host = NULL;
    model_graph_refs refs;
    ol_status status = graph_create(r->ctx, &g);
    if (status == OL_OK) status = model_build(r->setup->model, g, &options, &refs);
    if (status != OL_OK) goto fail;
    const size_t end = begin + DIAGNOSE_STRETCH < g->n_ops ? begin + DIAGNOSE_STRETCH : g->n_ops;
    *more = end < g->n_ops;
    for (size_t i = begin; i < end; i++)
        if (g->tensors[g->ops[i].out[0]].role == ROLE_TEMP) graph_output_mark(g, g->ops[i].out[0], "inspected");
    if ((status = plan_create(r->ctx, r->setup->device, g, &p)) != OL_OK) goto fail;
    if ((status = param_store_bind(r->store, g, p)) != OL_OK) goto fail;
    if ((status = images_copy(r, s, p, refs.image)) != OL_OK) goto fail;
    if ((status = plan_run(p)) != OL_OK) goto fail;
    for (size_t i = begin; i < end && name[0] == '\0'; i++) {
        const tensor_ref t = g->ops[i].out[0];
        const size_t n = (size_t)shape_elements(graph_shape(g, t));
        float *room = mem_resize(r->ctx, host, n, sizeof *host);
        if (!room) {
            status = OL_ERROR_MEMORY;
            goto fail;
        }
        host = room;
        if ((status = plan_read(p, t, host, n * sizeof *host)) != OL_OK) goto fail;
        if (!all_finite(host, n)) snprintf(name, name_bytes, "%s", g->ops[i].name);
    }
fail:
    mem_free(r->ctx, host);
    plan_destroy(p);
    graph_destroy(g);
    return status;
}

static void terms_print(float items[2][LOSS_ITEM_COUNT], char *buffer, size_t bytes) {
    static const char *const branches[2] = {"one-to-many", "one-to-one"};
    size_t at = 0;
    buffer[0] = '\0';
    for (int branch = 0; branch < 2; branch++)
        for (int k = 0; k < LOSS_ITEM_COUNT && at < bytes; k++)
            if (!isfinite(items[branch][k]))
                at += (size_t)snprintf(buffer + at, bytes - at, "%s%s of the %s branch is %f", at > 0 ? ", " : "",
                                       item_names[k], branches[branch], (double)items[branch][k]);
    if (at == 0) snprintf(buffer, bytes, "the gradient is not finite while the loss is");
}

/* A resumed run keeps its lr0, so that going on means a new run from the last good weights. */
static void remedy_print(const train_run_state *r, char *buffer, size_t bytes) {
    const dtype maps = r->setup->compute;
    const char *precision = maps == DTYPE_F16 ? "amp=False, amp=bf16, " : maps == DTYPE_BF16 ? "amp=False, " : "";
    const bool kept = run_can_resume(r);
    snprintf(buffer, bytes, "%s%s%s with %sa smaller lr0 or a longer warm-up, or check the labels",
             kept ? "last.pt is the last good state: start a new run from it (model=" : "start again",
             kept ? r->last_path : "", kept ? ")" : "", precision);
}

ol_status run_diagnose(train_run_state *r, const step_plan *s, float items[2][LOSS_ITEM_COUNT]) {
    char terms[400], layer[200] = "", where[300];
    const int64_t iteration = r->batch + (int64_t)r->schedule.batches * r->epoch;
    terms_print(items, terms, sizeof terms);
    const char *parameter = bad_parameter(r), *gradient = NULL;
    bool more = true;
    for (size_t begin = 0; !parameter && more && layer[0] == '\0'; begin += DIAGNOSE_STRETCH)
        if (stretch_check(r, s, begin, &more, layer, sizeof layer) != OL_OK) {
            ctx_clear(r->ctx);
            break;
        }
    if (parameter)
        snprintf(where, sizeof where, "the weights are already not finite, first '%s'", parameter);
    else if (layer[0] != '\0')
        snprintf(where, sizeof where, "the first layer whose output is not finite is '%s'", layer);
    else if ((gradient = bad_gradient(r)) != NULL)
        snprintf(where, sizeof where,
                 "all layers' outputs are finite; the first gradient on the way back that is not is that of '%s'",
                 gradient);
    else
        snprintf(where, sizeof where, "all layers' outputs are finite, so it arose in the loss or the backward pass");
    char skipped[160] = "";
    const loss_scaler *scaler = &r->opt->numbers.scaler;
    if (scaler->on && scaler->n_skipped > 0)
        snprintf(skipped, sizeof skipped, " (%d steps in a row were skipped, loss scale now %g)", scaler->n_skipped,
                 scaler->scale);
    else if (scaler->skips && scaler->n_skipped > 0)
        snprintf(skipped, sizeof skipped, " (%d steps in a row were skipped)", scaler->n_skipped);
    char remedy[700];
    remedy_print(r, remedy, sizeof remedy);
    return ctx_fail(r->ctx, OL_ERROR_NUMERIC,
                    "training stopped at epoch %d, batch %d (step %lld): %s%s; %s. To go on, %s", r->epoch + 1,
                    r->batch + 1, (long long)iteration, terms, skipped, where, remedy);
}
