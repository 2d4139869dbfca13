/* One batch of a run: warm-up values, then forward, loss, backward and, when enough batches are in, the optimizer step,
 * all of which the device does by itself; and what came of it, read a batch later. */
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
    return status == OL_OK ? device_make_pictures(r->setup->device, b->recipes, r->opt->step, buffer, offset) : status;
}

static ol_status batch_write(train_run_state *r, const step_plan *s, const batch *b, const double weight[2]) {
    const size_t n = (size_t)b->n, nc = (size_t)r->setup->model->desc.nc;
    ol_status status = images_write(r, s->plan, s->refs.image, b);
    if (status == OL_OK)
        status = plan_write(s->plan, s->refs.targets, b->targets, n * (size_t)b->max_targets * 5 * sizeof(float));
    if (status == OL_OK) status = plan_write(s->plan, s->refs.target_count, b->n_targets, n * sizeof(int32_t));
    for (int branch = 0; branch < 2 && status == OL_OK; branch++) {
        if (s->refs.gains[branch] == TENSOR_NONE) continue;
        /* LOSS_GAIN_IMAGES is left to the step on the device, which knows the loss scale: only gradients depend on it,
         * so the items are free of the scale */
        r->gains[branch][LOSS_GAIN_BRANCH] = (float)weight[branch];
        status = plan_write(s->plan, s->refs.gains[branch], r->gains[branch], (LOSS_GAIN_CLASSES + nc) * sizeof(float));
    }
    return status;
}

static void rates_set(train_run_state *r, int64_t iteration) {
    for (int g = 0; g < r->store->n_groups; g++) {
        r->opt->lr[g] =
            schedule_lr(&r->schedule, iteration, r->epoch, r->opt->initial_lr[g], r->store->groups[g].is_bias);
        r->opt->momentum[g] = schedule_momentum(&r->schedule, iteration, r->opt->momentum[g]);
    }
}

/* --- what came of a batch --- */

static void step_tell(train_run_state *r, const batch_begun *b, const step_outcome *o, int reported) {
    if (!r->setup->on_step) return;
    train_step step = {.epoch = r->epoch,
                       .iteration = b->iteration,
                       .grad_norm = o->norm,
                       .n_groups = r->store->n_groups,
                       .loss_scale = o->scale,
                       .skipped = o->skipped};
    for (int k = 0; k < LOSS_ITEM_COUNT; k++) {
        step.items[k] = (double)o->items[reported][k];
        for (int branch = 0; branch < 2; branch++)
            step.loss += (double)o->items[branch][k] * (double)(float)b->weight[branch] * b->plan->n;
    }
    memcpy(step.lr, b->lr, sizeof step.lr);
    memcpy(step.momentum, b->momentum, sizeof step.momentum);
    r->setup->on_step(r->setup->user, &step);
}

static ol_status oldest_finish(train_run_state *r) {
    const batch_begun b = r->begun[0];
    step_outcome o;
    memmove(r->begun, r->begun + 1, (size_t)--r->n_begun * sizeof *r->begun);
    const ol_status status = optimizer_outcome(r->opt, &o);
    if (status != OL_OK) return status;
    if (o.stopped) {
        r->n_begun = 0; /* a batch that was begun after it does nothing */
        return run_diagnose(r, b.plan, o.items);
    }
    const int reported = b.plan->refs.loss_items[1] != TENSOR_NONE ? 1 : 0;
    r->stepped = b.takes;
    if (b.takes) step_tell(r, &b, &o, reported);
    for (int k = 0; k < LOSS_ITEM_COUNT; k++) r->loss_sums[k] += (double)o.items[reported][k];
    r->n_objects = b.objects;
    r->n_pictures += b.plan->n;
    r->height = b.plan->h;
    r->width = b.plan->w;
    r->batch++;
    return OL_OK;
}

static ol_status finish_but(train_run_state *r, int left) {
    ol_status status = OL_OK;
    while (status == OL_OK && r->n_begun > left) status = oldest_finish(r);
    return status;
}

ol_status run_batches_finish(train_run_state *r) {
    return finish_but(r, 0);
}

/* --- a batch --- */

/* What validation keeps gives way where memory is short. */
static ol_status step_plan_find(train_run_state *r, const batch *b, step_plan **out) {
    const ol_status status = step_plans_get(r->plans, b->n, b->h, b->w, out);
    if (status != OL_ERROR_MEMORY || !r->setup->give_back || !r->setup->give_back(r->setup->user)) return status;
    ctx_clear(r->ctx);
    return step_plans_get(r->plans, b->n, b->h, b->w, out);
}

/* Whether a batch may be begun before it is known what came of the one before, whose plan is needed for that: no plan
 * has to be made, and no pictures are copied over those which a diagnosis would look at. */
static bool can_go_on(const train_run_state *r, const batch *b) {
    return b->recipes != NULL && picture_batch_is_whole(b->recipes) && step_plans_has(r->plans, b->n, b->h, b->w);
}

static ol_status batch_begin(train_run_state *r, const batch *b) {
    batch_begun *begun = &r->begun[r->n_begun];
    *begun = (batch_begun){.objects = b->n_objects,
                           .iteration = r->batch + r->n_begun + (int64_t)r->schedule.batches * r->epoch};
    rates_set(r, begun->iteration);
    begun->takes = begun->iteration - r->last_step >= schedule_accumulate(&r->schedule, begun->iteration);
    schedule_branch_weights(r->epoch, r->epochs, &begun->weight[0], &begun->weight[1]);
    memcpy(begun->lr, r->opt->lr, sizeof begun->lr);
    for (int g = 0; g < r->store->n_groups; g++) begun->momentum[g] = optimizer_momentum(r->opt, g);
    ol_status status = step_plan_find(r, b, &begun->plan);
    if (status == OL_OK) status = batch_write(r, begun->plan, b, begun->weight);
    if (status == OL_OK) status = run_scale_search(r, begun->plan);
    if (status == OL_OK) status = optimizer_order(r->opt, b->n, begun->takes);
    if (status == OL_OK) status = plan_start(begun->plan->plan);
    if (status != OL_OK) return status;
    if (begun->takes) r->last_step = begun->iteration;
    r->n_begun++;
    return OL_OK;
}

/* Pictures come while the device still works on the batch before; what came of that one is read when the device has the
 * next one to do. */
ol_status run_batch(train_run_state *r, const batch *b) {
    ol_status status = b->recipes != NULL ? device_bring_pictures(r->setup->device, b->recipes) : OL_OK;
    if (status == OL_OK && !can_go_on(r, b)) status = run_batches_finish(r);
    if (status == OL_OK) status = batch_begin(r, b);
    return status == OL_OK ? finish_but(r, device_has_queue(r->setup->device) ? 1 : 0) : status;
}
