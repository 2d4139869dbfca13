/* From a train_setup to the state before the first batch: optimizer choice, schedule, memory, class weights, resume. */
#include "base/file.h"
#include "ops/detect_loss.h"
#include "train/run.h"

#include <math.h>
#include <string.h>

int train_batch_size(ol_context *ctx, const settings *s) {
    if (s->batch >= 1.0) return (int)s->batch;
    ctx_log(ctx, OL_LOG_WARNING,
            "batch=%g asks for the size that fits the device's memory, which is for GPUs; taking batch=16", s->batch);
    return 16;
}

void train_class_weights(double cls_pw, const int64_t *counts, int nc, float *weights) {
    double present = 0.0, sum = 0.0;
    int n_present = 0;
    for (int c = 0; c < nc; c++) {
        weights[c] = 1.0f;
        if (cls_pw > 0.0 && counts && counts[c] > 0) {
            present += pow(1.0 / (double)counts[c], cls_pw);
            n_present++;
        }
    }
    if (n_present == 0) return;
    present /= n_present;
    for (int c = 0; c < nc; c++) sum += counts[c] > 0 ? pow(1.0 / (double)counts[c], cls_pw) : present;
    for (int c = 0; c < nc; c++)
        weights[c] = (float)((counts[c] > 0 ? pow(1.0 / (double)counts[c], cls_pw) : present) / (sum / nc));
}

static ol_status chosen_set(train_run_state *r, setting_id id, const value *v) {
    return v ? settings_set_quietly(&r->chosen, id, v) : OL_ERROR_MEMORY;
}

/* Settles optimizer, rate and momentum; `chosen` gets what auto decided (section 5.1). */
static ol_status optimizer_choose(train_run_state *r, double *lr0, double *momentum) {
    const settings *s = r->s;
    *lr0 = s->lr0;
    *momentum = s->momentum;
    if (strcmp(s->optimizer, "auto") != 0) {
        if (optimizer_by_name(s->optimizer, &r->kind)) return OL_OK;
        return ctx_fail(
            r->ctx, OL_ERROR_ARGUMENT,
            "optimizer=%s is not known; choose auto, SGD, MuSGD, Adam, AdamW, Adamax, NAdam, RAdam or RMSProp",
            s->optimizer);
    }
    const schedule_auto choice =
        schedule_auto_choice(r->setup->n_images, r->setup->batch, s->nbs, s->epochs, r->setup->model->desc.nc);
    ctx_log(r->ctx, OL_LOG_INFO,
            "optimizer: 'optimizer=auto' found, ignoring 'lr0=%g' and determining best 'optimizer' and 'lr0' "
            "automatically...",
            s->lr0);
    r->kind = choice.musgd ? OPTIMIZER_MUSGD : OPTIMIZER_ADAMW;
    *lr0 = choice.lr0;
    *momentum = choice.momentum;
    ol_status status = chosen_set(r, SETTING_ID_optimizer, value_string(&r->arena, optimizer_info_of(r->kind)->name));
    if (status == OL_OK) status = chosen_set(r, SETTING_ID_lr0, value_float(&r->arena, *lr0));
    if (status == OL_OK) status = chosen_set(r, SETTING_ID_warmup_bias_lr, value_float(&r->arena, 0.0));
    return status;
}

static void optimizer_tell(const train_run_state *r, double lr0, double momentum, double decay) {
    int n[3] = {0}; /* bn, weight (muon with it), bias: the order of the field's line */
    for (int g = 0; g < r->store->n_groups; g++) {
        const param_group *group = &r->store->groups[g];
        n[group->decays ? 1 : group->is_bias ? 2 : 0] += group->n_params;
    }
    ctx_log(r->ctx, OL_LOG_INFO,
            "optimizer: %s(lr=%g, momentum=%g) with parameter groups %d weight(decay=0.0), %d weight(decay=%g), %d "
            "bias(decay=0.0)",
            optimizer_info_of(r->kind)->name, lr0, momentum, n[0], n[1], decay, n[2]);
}

static void schedule_fill(train_run_state *r) {
    const settings *s = &r->chosen;
    r->schedule = (schedule){.batches = loader_n_batches(r->setup->loader),
                             .epochs = r->epochs,
                             .batch = r->setup->batch,
                             .nbs = s->nbs,
                             .cosine = s->cos_lr,
                             .timed = !isnan(s->time),
                             .lrf = s->lrf,
                             .warmup_epochs = s->warmup_epochs,
                             .warmup_bias_lr = s->warmup_bias_lr,
                             .warmup_momentum = s->warmup_momentum,
                             .momentum = s->momentum};
    schedule_derive(&r->schedule);
}

static ol_status gains_create(train_run_state *r) {
    const int nc = r->setup->model->desc.nc;
    for (int branch = 0; branch < 2; branch++) {
        float *g = r->gains[branch] = mem_alloc0(r->ctx, LOSS_GAIN_CLASSES + (size_t)nc, sizeof *g);
        if (!g) return OL_ERROR_MEMORY;
        g[LOSS_GAIN_BOX] = (float)r->s->box;
        g[LOSS_GAIN_CLS] = (float)r->s->cls;
        g[LOSS_GAIN_L1] = (float)r->s->dfl;
        train_class_weights(r->s->cls_pw, r->setup->class_counts, nc, g + LOSS_GAIN_CLASSES);
    }
    return OL_OK;
}

static ol_status paths_create(train_run_state *r) {
    const char *folder = r->s->save_dir;
    if (!folder) return OL_OK;
    const char *weights = path_join(&r->arena, folder, "weights");
    if (!weights) return OL_ERROR_MEMORY;
    r->last_path = path_join(&r->arena, weights, "last.pt");
    r->best_path = path_join(&r->arena, weights, "best.pt");
    r->csv_path = path_join(&r->arena, folder, "results.csv");
    if (!r->last_path || !r->best_path || !r->csv_path) return OL_ERROR_MEMORY;
    const ol_status status = folder_create(r->ctx, weights);
    if (status == OL_OK) file_atomic_sweep(weights);
    return status;
}

/* Memory and numbers of a run that starts at its beginning. */
static ol_status state_create(train_run_state *r) {
    const train_setup *u = r->setup;
    double lr0, momentum;
    if (loader_n_batches(u->loader) <= 0)
        return ctx_fail(r->ctx, OL_ERROR_ARGUMENT, "the training set is empty; check 'train' in the data file");
    ol_status status = optimizer_choose(r, &lr0, &momentum);
    if (status != OL_OK) return status;
    schedule_fill(r);
    const double decay = schedule_weight_decay(&r->schedule, r->s->weight_decay);
    if ((status = param_store_create(r->ctx, u->device, u->model, r->kind, &r->store)) != OL_OK) return status;
    if ((status = optimizer_create(r->store, r->kind, lr0, momentum, decay, u->compute, &r->opt)) != OL_OK)
        return status;
    optimizer_tell(r, lr0, momentum, decay);
    if ((status = step_plans_create(r->ctx, u->device, u->model, r->opt, loader_max_targets(u->loader), u->compute,
                                    &r->plans)) != OL_OK)
        return status;
    results_init(&r->results, r->ctx, r->store->n_groups);
    if ((status = tensor_list_copy(&r->average, &u->model->state)) != OL_OK) return status;
    if ((status = gains_create(r)) != OL_OK) return status;
    return paths_create(r);
}

ol_status run_init(train_run_state *r, const train_setup *setup) {
    *r = (train_run_state){.ctx = setup->ctx,
                           .setup = setup,
                           .s = setup->settings,
                           .last_step = -1,
                           .stepped = true,
                           .best_fitness = NAN,
                           .epochs = setup->settings->epochs,
                           .started = run_clock()};
    arena_init(&r->arena, r->ctx, 0);
    tensor_list_init(&r->average, r->ctx);
    results_init(&r->results, r->ctx, 0);
    ol_status status = settings_copy(r->s, &r->chosen);
    r->has_chosen = status == OL_OK;
    if (status == OL_OK) status = state_create(r);
    if (status == OL_OK && setup->resume) status = run_restore(r, setup->resume);
    if (status == OL_OK && setup->resume) status = optimizer_load(r->opt);
    r->first_epoch = r->epoch;
    if (status == OL_OK && r->epoch >= r->epochs)
        status = ctx_fail(r->ctx, OL_ERROR_ARGUMENT,
                          "training to %d epochs is finished, nothing to resume; start a new run from the weights with "
                          "model=…, or ask for more with epochs=…",
                          r->epochs);
    return status;
}

void run_deinit(train_run_state *r) {
    step_plans_destroy(r->plans);
    optimizer_destroy(r->opt);
    param_store_destroy(r->store);
    results_deinit(&r->results);
    tensor_list_deinit(&r->average);
    for (int branch = 0; branch < 2; branch++) mem_free(r->ctx, r->gains[branch]);
    if (r->has_chosen) settings_deinit(&r->chosen);
    arena_deinit(&r->arena);
}
