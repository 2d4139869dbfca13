/* One batch of a run: warm-up values, forward, loss and backward, and the optimizer step when enough batches are in. */
#include "ops/detect_loss.h"
#include "train/run.h"

#include <math.h>
#include <string.h>

static ol_status images_write(train_run_state *r, plan *p, tensor_ref image, const batch *b) {
    if (b->recipes == NULL)
        return plan_write(p, image, b->images, (size_t)b->n * (size_t)b->channels * (size_t)b->h * (size_t)b->w);
    device_buffer *buffer;
    size_t offset;
    const ol_status status = plan_locate(p, image, &buffer, &offset);
    return status == OL_OK ? device_make_pictures(r->setup->device, b->recipes, buffer, offset) : status;
}

static ol_status batch_write(train_run_state *r, const step_plan *s, const batch *b) {
    const size_t n = (size_t)b->n;
    ol_status status = images_write(r, s->plan, s->refs.image, b);
    if (status == OL_OK)
        status = plan_write(s->plan, s->refs.targets, b->targets, n * (size_t)b->max_targets * 5 * sizeof(float));
    if (status == OL_OK) status = plan_write(s->plan, s->refs.target_count, b->n_targets, n * sizeof(int32_t));
    return status;
}

/* What the losses are multiplied by: the branches' weights and, for the gradients alone, the loss scale. */
static ol_status gains_write(train_run_state *r, const step_plan *s) {
    const size_t nc = (size_t)r->setup->model->desc.nc;
    ol_status status = OL_OK;
    double weight[2];
    schedule_branch_weights(r->epoch, r->epochs, &weight[0], &weight[1]);
    for (int branch = 0; branch < 2 && status == OL_OK; branch++) {
        if (s->refs.gains[branch] == TENSOR_NONE) continue;
        r->gains[branch][LOSS_GAIN_BRANCH] = (float)weight[branch];
        /* only gradients depend on this factor: the loss scale enters here, so the items are free of it */
        r->gains[branch][LOSS_GAIN_IMAGES] = (float)(s->n * r->scaler.scale);
        status = plan_write(s->plan, s->refs.gains[branch], r->gains[branch], (LOSS_GAIN_CLASSES + nc) * sizeof(float));
    }
    return status;
}

/* Items of both branches; those of a branch that is absent are zero. */
static ol_status items_read(const step_plan *s, float items[2][LOSS_ITEM_COUNT]) {
    memset(items, 0, 2 * LOSS_ITEM_COUNT * sizeof(float));
    for (int branch = 0; branch < 2; branch++) {
        if (s->refs.loss_items[branch] == TENSOR_NONE) continue;
        const ol_status status =
            plan_read(s->plan, s->refs.loss_items[branch], items[branch], LOSS_ITEM_COUNT * sizeof(float));
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static bool items_finite(float items[2][LOSS_ITEM_COUNT]) {
    for (int branch = 0; branch < 2; branch++)
        for (int k = 0; k < LOSS_ITEM_COUNT; k++)
            if (!isfinite(items[branch][k])) return false;
    return true;
}

ol_status run_gradients(train_run_state *r, const step_plan *s, bool *finite) {
    float items[2][LOSS_ITEM_COUNT];
    ol_status status = gains_write(r, s);
    if (status == OL_OK) status = plan_run(s->plan);
    if (status == OL_OK) status = items_read(s, items);
    if (status == OL_OK) *finite = items_finite(items);
    return status;
}

static void rates_set(train_run_state *r, int64_t iteration) {
    for (int g = 0; g < r->store->n_groups; g++) {
        r->opt->lr[g] =
            schedule_lr(&r->schedule, iteration, r->epoch, r->opt->initial_lr[g], r->store->groups[g].is_bias);
        r->opt->momentum[g] = schedule_momentum(&r->schedule, iteration, r->opt->momentum[g]);
    }
}

/* `scale` is the loss scale of the step; a norm that is not finite tells of a skipped step. */
static void step_tell(train_run_state *r, int64_t iteration, float items[2][LOSS_ITEM_COUNT], int n, int reported,
                      double norm, double scale) {
    if (!r->setup->on_step) return;
    train_step step = {.epoch = r->epoch,
                       .iteration = iteration,
                       .grad_norm = norm,
                       .n_groups = r->store->n_groups,
                       .loss_scale = scale,
                       .skipped = !isfinite(norm)};
    for (int k = 0; k < LOSS_ITEM_COUNT; k++) {
        step.items[k] = (double)items[reported][k];
        for (int branch = 0; branch < 2; branch++)
            step.loss += (double)items[branch][k] * (double)r->gains[branch][LOSS_GAIN_BRANCH] * n;
    }
    const bool has_momentum = optimizer_info_of(r->kind)->has_momentum;
    for (int g = 0; g < r->store->n_groups; g++) {
        step.lr[g] = r->opt->lr[g];
        step.momentum[g] = has_momentum ? r->opt->momentum[g] : r->opt->beta1;
    }
    r->setup->on_step(r->setup->user, &step);
}

static int64_t iteration_of(const train_run_state *r) {
    return r->batch + (int64_t)r->schedule.batches * r->epoch;
}

/* The optimizer step after the batch of `s`, or none because the gradients are not finite. */
static ol_status step_take(train_run_state *r, const step_plan *s, float items[2][LOSS_ITEM_COUNT], int reported) {
    const double scale = r->scaler.scale;
    double norm;
    ol_status status = optimizer_advance(r->opt, scale, &norm);
    if (status == OL_OK) {
        loss_scaler_grow(&r->scaler);
    } else if (status == OL_ERROR_NUMERIC) {
        if (!loss_scaler_back_off(&r->scaler)) return run_diagnose(r, s, items);
        status = optimizer_skip(r->opt);
    }
    if (status != OL_OK) return status;
    r->last_step = iteration_of(r);
    r->stepped = true;
    step_tell(r, r->last_step, items, s->n, reported, norm, scale);
    return OL_OK;
}

ol_status run_batch_finish(train_run_state *r) {
    const step_plan *s = r->begun;
    float items[2][LOSS_ITEM_COUNT];
    if (s == NULL) return OL_OK;
    r->begun = NULL;
    ol_status status = items_read(s, items);
    if (status != OL_OK) return status;
    if (!items_finite(items)) return run_diagnose(r, s, items);
    const int reported = s->refs.loss_items[1] != TENSOR_NONE ? 1 : 0;
    r->stepped = false;
    if (iteration_of(r) - r->last_step >= schedule_accumulate(&r->schedule, iteration_of(r))) {
        status = step_take(r, s, items, reported);
        if (status != OL_OK) return status;
    }
    for (int k = 0; k < LOSS_ITEM_COUNT; k++) r->loss_sums[k] += (double)items[reported][k];
    r->n_objects = r->begun_objects;
    r->n_pictures += s->n;
    r->height = s->h;
    r->width = s->w;
    r->batch++;
    return OL_OK;
}

/* What validation keeps gives way where memory is short. */
static ol_status step_plan_find(train_run_state *r, const batch *b, step_plan **out) {
    const ol_status status = step_plans_get(r->plans, b->n, b->h, b->w, out);
    if (status != OL_ERROR_MEMORY || !r->setup->give_back || !r->setup->give_back(r->setup->user)) return status;
    ctx_clear(r->ctx);
    return step_plans_get(r->plans, b->n, b->h, b->w, out);
}

/* Pictures come while the device still works on the batch before; its losses are read after that, and the host's work
 * on the step is done while the device has the next one to do. */
ol_status run_batch(train_run_state *r, const batch *b) {
    step_plan *s;
    ol_status status = b->recipes != NULL ? device_bring_pictures(r->setup->device, b->recipes) : OL_OK;
    if (status == OL_OK) status = run_batch_finish(r);
    if (status != OL_OK) return status;
    rates_set(r, iteration_of(r));
    status = step_plan_find(r, b, &s);
    if (status == OL_OK) status = batch_write(r, s, b);
    if (status == OL_OK) status = run_scale_search(r, s);
    if (status == OL_OK) status = gains_write(r, s);
    if (status == OL_OK) status = plan_start(s->plan);
    if (status != OL_OK) return status;
    r->begun = s;
    r->begun_objects = b->n_objects;
    return device_has_queue(r->setup->device) ? OL_OK : run_batch_finish(r);
}
