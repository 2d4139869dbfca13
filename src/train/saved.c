/* Checkpoints of a run: what last.pt holds so that the reference package can resume it, what is added so that we resume
 * it to the last bit, and the way back. Model document, sections 6.5 and 6.6. */
#include "base/file.h"
#include "train/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXTRA_FORMAT 1
static const char grad_prefix[] = "grad/";

/* Where a parameter's state `index` stands in a torch state_dict: MuSGD's plain groups call their one buffer as SGD
 * does. */
static const char *state_name(const train_run_state *r, const param_entry *e, int index) {
    if (r->kind == OPTIMIZER_MUSGD && !r->store->groups[e->group].muon) return index == 1 ? "momentum_buffer" : NULL;
    return optimizer_info_of(r->kind)->state_names[index];
}

/* --- writing --- */

static ol_status scalar_add(tensor_list *list, int index, const char *key, double x) {
    char name[64];
    tensor *t;
    snprintf(name, sizeof name, "%d/%s", index, key);
    const ol_status status = tensor_list_add(list, name, DTYPE_F32, (shape){.rank = 0}, &t);
    if (status == OL_OK) tensor_f32(t)[0] = (float)x;
    return status;
}

static ol_status state_of_param(train_run_state *r, int index, tensor_list *list) {
    const param_store *s = r->store;
    const param_entry *e = &s->params[index];
    ol_status status = OL_OK;
    if (optimizer_info_of(r->kind)->has_step) status = scalar_add(list, index, "step", (double)r->opt->numbers.step);
    if (status == OL_OK && r->kind == OPTIMIZER_NADAM)
        status = scalar_add(list, index, "mu_product", r->opt->numbers.mu_product);
    for (int k = 0; status == OL_OK && k < s->n_states; k++) {
        const char *key = state_name(r, e, k);
        char name[64];
        tensor *t;
        if (!key) continue;
        snprintf(name, sizeof name, "%d/%s", index, key);
        status = tensor_list_add(list, name, DTYPE_F32, e->shape, &t);
        if (status == OL_OK)
            status = device_buffer_read(s->states[k], e->offset * sizeof(float), t->data, e->count * sizeof(float));
    }
    return status;
}

/* Entries of a torch parameter group that we neither read nor vary, by optimizer. */
#define IS(kind)  (1u << OPTIMIZER_##kind)
#define ADAM_LIKE (IS(ADAM) | IS(ADAMW) | IS(ADAMAX) | IS(NADAM) | IS(RADAM))
static const struct {
    unsigned kinds;
    const char *key, *literal;
} fixed_options[] = {
    {IS(SGD) | IS(MUSGD), "nesterov", "True"},
    {IS(SGD), "dampening", "0"},
    {ADAM_LIKE | IS(RMSPROP), "eps", "1e-8"},
    {IS(RMSPROP), "alpha", "0.99"},
    {IS(RMSPROP), "centered", "False"},
    {IS(ADAM) | IS(ADAMW), "amsgrad", "False"},
    {IS(NADAM), "momentum_decay", "0.004"},
    {IS(ADAMW), "decoupled_weight_decay", "True"},
    {IS(ADAM) | IS(NADAM) | IS(RADAM), "decoupled_weight_decay", "False"},
    {ADAM_LIKE | IS(RMSPROP), "capturable", "False"},
    {ADAM_LIKE | IS(RMSPROP) | IS(SGD), "maximize", "False"},
    {ADAM_LIKE | IS(RMSPROP) | IS(SGD), "foreach", "None"},
    {ADAM_LIKE | IS(RMSPROP) | IS(SGD), "differentiable", "False"},
    {IS(SGD) | IS(ADAM) | IS(ADAMW), "fused", "None"},
};

static ol_status betas_value(arena *a, const optimizer *o, const value **out) {
    value *betas = value_list(a);
    ol_status status = betas ? value_append(a, betas, value_float(a, o->beta1)) : OL_ERROR_MEMORY;
    if (status == OL_OK) status = value_append(a, betas, value_float(a, o->beta2));
    *out = betas;
    return status;
}

/* The options of a group in torch's words. */
static ol_status group_options(const train_run_state *r, arena *a, int g, const value **out) {
    const param_group *group = &r->store->groups[g];
    const optimizer *o = r->opt;
    const value *betas;
    value *map = value_map(a);
    ol_status status = map ? betas_value(a, o, &betas) : OL_ERROR_MEMORY;
    if (status == OL_OK) status = value_set(a, map, "lr", value_float(a, o->lr[g]));
    if (status == OL_OK)
        status = optimizer_info_of(r->kind)->has_momentum
                     ? value_set(a, map, "momentum", value_float(a, o->momentum[g]))
                     : value_set(a, map, "betas", betas);
    if (status == OL_OK) status = value_set(a, map, "weight_decay", value_float(a, o->weight_decay[g]));
    if (status == OL_OK) status = value_set(a, map, "param_group", value_string(a, group->name));
    if (status == OL_OK) status = value_set(a, map, "initial_lr", value_float(a, o->initial_lr[g]));
    if (status == OL_OK && r->kind == OPTIMIZER_MUSGD)
        status = value_set(a, map, "use_muon", value_bool(a, group->muon));
    for (size_t i = 0; status == OL_OK && i < sizeof fixed_options / sizeof fixed_options[0]; i++) {
        const value *item;
        if (!(fixed_options[i].kinds & (1u << r->kind))) continue;
        status = literal_parse(a, fixed_options[i].literal, &item);
        if (status == OL_OK) status = value_set(a, map, fixed_options[i].key, item);
    }
    *out = map;
    return status;
}

static ol_status optimizer_fill(train_run_state *r, checkpoint *c) {
    const param_store *s = r->store;
    checkpoint_optimizer *o = &c->optimizer;
    o->groups = arena_alloc(&c->arena, (size_t)s->n_groups, sizeof *o->groups);
    if (!o->groups) return OL_ERROR_MEMORY;
    o->n_groups = (size_t)s->n_groups;
    for (int g = 0; g < s->n_groups; g++) {
        const param_group *group = &s->groups[g];
        o->groups[g].n_params = (size_t)group->n_params;
        o->groups[g].params = arena_alloc(&c->arena, (size_t)group->n_params, sizeof(int64_t));
        if (!o->groups[g].params) return OL_ERROR_MEMORY;
        for (int i = 0; i < group->n_params; i++) o->groups[g].params[i] = group->first + i;
        const ol_status status = group_options(r, &c->arena, g, &o->groups[g].options);
        if (status != OL_OK) return status;
    }
    for (int i = 0; r->opt->numbers.step > 0 && i < s->n_params; i++) {
        if (s->params[i].frozen) continue;
        const ol_status status = state_of_param(r, i, &o->state);
        if (status != OL_OK) return status;
    }
    c->has_optimizer = true;
    return OL_OK;
}

/* Trained values, and the gradients that a step has yet to take. */
static ol_status live_fill(train_run_state *r, tensor_list *live) {
    const param_store *s = r->store;
    for (int i = 0; i < s->n_params + s->n_buffers; i++) {
        const param_entry *e = i < s->n_params ? &s->params[i] : &s->buffers[i - s->n_params];
        const ol_status status = tensor_list_add(live, e->name, DTYPE_F32, e->shape, NULL);
        if (status != OL_OK) return status;
    }
    ol_status status = param_store_read(s, PARAM_VALUES, live);
    for (int i = 0; status == OL_OK && !r->stepped && i < s->n_params; i++) {
        const param_entry *e = &s->params[i];
        char name[300];
        tensor *t;
        if (e->frozen) continue;
        snprintf(name, sizeof name, "%s%s", grad_prefix, e->name);
        status = tensor_list_add(live, name, DTYPE_F32, e->shape, &t);
        if (status == OL_OK)
            status = device_buffer_read(s->grads, e->offset * sizeof(float), t->data, e->count * sizeof(float));
    }
    return status;
}

/* The numbers of the run that are not tensors: doubles and counters by name. */
typedef struct extra_number {
    const char *name;
    double *real;
    int64_t *whole;
    int *number;
} extra_number;

#define EXTRA_MAX 32
static int extra_numbers(train_run_state *r, extra_number list[EXTRA_MAX]) {
    const extra_number all[] = {
        {.name = "epoch", .number = &r->epoch},
        {.name = "batch", .number = &r->batch},
        {.name = "epoch_done", .number = &r->epoch_done},
        {.name = "epochs", .number = &r->stored_epochs},
        {.name = "last_step", .whole = &r->last_step},
        {.name = "optimizer_steps", .whole = &r->opt->numbers.step},
        {.name = "mu_product", .real = &r->opt->numbers.mu_product},
        {.name = "box_sum", .real = &r->loss_sums[0]},
        {.name = "cls_sum", .real = &r->loss_sums[1]},
        {.name = "l1_sum", .real = &r->loss_sums[2]},
        {.name = "precision", .real = &r->metrics.precision},
        {.name = "recall", .real = &r->metrics.recall},
        {.name = "map50", .real = &r->metrics.map50},
        {.name = "map50_95", .real = &r->metrics.map50_95},
        {.name = "val_box", .real = &r->metrics.losses[0]},
        {.name = "val_cls", .real = &r->metrics.losses[1]},
        {.name = "val_l1", .real = &r->metrics.losses[2]},
        {.name = "fitness", .real = &r->fitness},
        {.name = "seconds", .real = &r->seconds_before},
    };
    memcpy(list, all, sizeof all);
    return (int)(sizeof all / sizeof all[0]);
}

static ol_status extra_fill(train_run_state *r, arena *a, const value **out) {
    extra_number list[EXTRA_MAX];
    value *map = value_map(a);
    if (!map) return OL_ERROR_MEMORY;
    const double before = r->seconds_before;
    r->stored_epochs = r->epochs;
    r->seconds_before += run_clock() - r->started;
    const int n = extra_numbers(r, list);
    ol_status status = value_set(a, map, "format", value_int(a, EXTRA_FORMAT));
    for (int i = 0; status == OL_OK && i < n; i++) {
        const value *item = list[i].real ? value_float(a, *list[i].real)
                                         : value_int(a, list[i].whole ? *list[i].whole : *list[i].number);
        status = value_set(a, map, list[i].name, item);
    }
    r->seconds_before = before;
    *out = map;
    return status;
}

/* In the words of torch's GradScaler. */
static ol_status scaler_fill(const train_run_state *r, arena *a, const value **out) {
    const loss_scaler *scaler = &r->opt->numbers.scaler;
    if (!scaler->on) return OL_OK;
    value *map = value_map(a);
    ol_status status = map ? value_set(a, map, "scale", value_float(a, scaler->scale)) : OL_ERROR_MEMORY;
    if (status == OL_OK) status = value_set(a, map, "growth_factor", value_float(a, LOSS_SCALE_GROWTH));
    if (status == OL_OK) status = value_set(a, map, "backoff_factor", value_float(a, LOSS_SCALE_BACKOFF));
    if (status == OL_OK) status = value_set(a, map, "growth_interval", value_int(a, LOSS_SCALE_INTERVAL));
    if (status == OL_OK) status = value_set(a, map, "_growth_tracker", value_int(a, scaler->n_good));
    if (status == OL_OK) *out = map;
    return status;
}

static ol_status metrics_fill(const train_run_state *r, arena *a, const value **metrics, const value **stopper) {
    static const char *const names[] = {
        "metrics/precision(B)", "metrics/recall(B)", "metrics/mAP50(B)", "metrics/mAP50-95(B)",
        "val/box_loss",         "val/cls_loss",      "val/l1_loss",      "fitness"};
    const train_metrics *m = &r->metrics;
    const double values[] = {m->precision, m->recall,    m->map50,     m->map50_95,
                             m->losses[0], m->losses[1], m->losses[2], r->fitness};
    value *map = value_map(a), *stop = value_map(a);
    if (!map || !stop) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    for (size_t i = 0; status == OL_OK && i < sizeof names / sizeof names[0]; i++)
        status = value_set(a, map, names[i], value_float(a, results_round(values[i])));
    if (status == OL_OK) status = value_set(a, stop, "best_fitness", value_float(a, r->stopper_fitness));
    if (status == OL_OK) status = value_set(a, stop, "best_epoch", value_int(a, r->stopper_epoch));
    *metrics = map;
    *stopper = stop;
    return status;
}

bool run_can_resume(const train_run_state *r) {
    return r->last_path && (r->epoch > r->first_epoch || r->setup->resume) && file_exists(r->last_path);
}

ol_status run_save(train_run_state *r, const char *path) {
    checkpoint c;
    checkpoint_init(&c, r->ctx);
    /* A run that is stopped inside an epoch names the one before: that is what the reference continues from. */
    c.epoch = r->epoch_done ? r->epoch : r->epoch > 0 ? r->epoch - 1 : 0;
    c.best_fitness = isnan(r->best_fitness) ? 0.0 : r->best_fitness;
    c.updates = r->opt->numbers.ema_updates;
    ol_status status = param_store_read(r->store, PARAM_EMA, &r->average);
    const tensor_list own = c.weights;
    c.weights = r->average;
    if (status == OL_OK) status = settings_to_map(&c.arena, &r->chosen, &c.train_args);
    if (status == OL_OK) status = results_to_value(&c.arena, &r->results, &c.train_results);
    if (status == OL_OK) status = metrics_fill(r, &c.arena, &c.train_metrics, &c.stopper);
    if (status == OL_OK) status = optimizer_fill(r, &c);
    if (status == OL_OK) status = scaler_fill(r, &c.arena, &c.scaler);
    if (status == OL_OK) status = live_fill(r, &c.live);
    if (status == OL_OK) status = extra_fill(r, &c.arena, &c.extra);
    if (status == OL_OK) status = checkpoint_write(r->ctx, path, &c, r->setup->model, false);
    c.weights = own;
    checkpoint_deinit(&c);
    return status;
}

ol_status run_strip(train_run_state *r, const char *path, const value *results) {
    checkpoint c;
    ol_status status = checkpoint_read(r->ctx, path, &c);
    if (status != OL_OK) return status;
    c.epoch = -1;
    if (results) c.train_results = results;
    status = checkpoint_write(r->ctx, path, &c, r->setup->model, true);
    checkpoint_deinit(&c);
    return status;
}

/* --- reading --- */

static void number_take(const value *map, const char *key, double *to) {
    const value *v = value_get(map, key);
    if (v && value_is_number(v)) *to = value_as_double(v);
}

static ol_status groups_restore(train_run_state *r, const checkpoint_optimizer *o) {
    const param_store *s = r->store;
    bool fits = (int)o->n_groups == s->n_groups;
    for (int g = 0; fits && g < s->n_groups; g++) fits = (int)o->groups[g].n_params == s->groups[g].n_params;
    if (!fits)
        return ctx_fail(
            r->ctx, OL_ERROR_FORMAT,
            "the checkpoint's optimizer has other parameter groups than %s on this model; it cannot be resumed",
            optimizer_info_of(r->kind)->name);
    for (int g = 0; g < s->n_groups; g++) {
        const value *options = o->groups[g].options, *betas = value_get(options, "betas");
        number_take(options, "lr", &r->opt->lr[g]);
        number_take(options, "initial_lr", &r->opt->initial_lr[g]);
        number_take(options, "momentum", &r->opt->momentum[g]);
        number_take(options, "weight_decay", &r->opt->weight_decay[g]);
        if (betas && betas->kind == VALUE_LIST && betas->as.list.count == 2) {
            r->opt->beta1 = value_as_double(betas->as.list.items[0]);
            r->opt->beta2 = value_as_double(betas->as.list.items[1]);
        }
    }
    return OL_OK;
}

static ol_status states_restore(train_run_state *r, const tensor_list *state) {
    const param_store *s = r->store;
    for (int i = 0; i < s->n_params; i++) {
        const param_entry *e = &s->params[i];
        char name[64];
        snprintf(name, sizeof name, "%d/step", i);
        const tensor *step = tensor_list_find(state, name);
        if (step && step->type == DTYPE_F32) r->opt->numbers.step = (int64_t)tensor_f32(step)[0];
        snprintf(name, sizeof name, "%d/mu_product", i);
        const tensor *product = tensor_list_find(state, name);
        if (product && product->type == DTYPE_F32) r->opt->numbers.mu_product = (double)tensor_f32(product)[0];
        for (int k = 0; k < s->n_states; k++) {
            const char *key = state_name(r, e, k);
            if (!key) continue;
            snprintf(name, sizeof name, "%d/%s", i, key);
            const tensor *t = tensor_list_find(state, name);
            if (!t) continue; /* a parameter that was frozen, or no step was taken yet */
            if (t->type != DTYPE_F32 || !shape_equal(&t->shape, &e->shape))
                return ctx_fail(r->ctx, OL_ERROR_FORMAT,
                                "the checkpoint's optimizer state '%s' has not the shape of '%s'", name, e->name);
            const ol_status status =
                device_buffer_write(s->states[k], e->offset * sizeof(float), t->data, e->count * sizeof(float));
            if (status != OL_OK) return status;
        }
    }
    return OL_OK;
}

/* Times `factor`, which is that of the loss scale. */
static ol_status grads_restore(train_run_state *r, const tensor_list *live, float factor) {
    const param_store *s = r->store;
    float *scaled = mem_alloc(r->ctx, s->n_trained_floats, sizeof *scaled);
    ol_status status = scaled ? OL_OK : OL_ERROR_MEMORY;
    for (int i = 0; i < s->n_params && status == OL_OK; i++) {
        const param_entry *e = &s->params[i];
        char name[300];
        snprintf(name, sizeof name, "%s%s", grad_prefix, e->name);
        const tensor *t = tensor_list_find(live, name);
        if (!t || e->frozen || t->type != DTYPE_F32 || !shape_equal(&t->shape, &e->shape)) continue;
        for (size_t k = 0; k < e->count; k++) scaled[k] = tensor_f32(t)[k] * factor;
        status = device_buffer_write(s->grads, e->offset * sizeof(float), scaled, e->count * sizeof(float));
        r->stepped = false;
    }
    mem_free(r->ctx, scaled);
    return status;
}

static void extra_restore(train_run_state *r, const value *extra) {
    extra_number list[EXTRA_MAX];
    const int n = extra_numbers(r, list);
    for (int i = 0; i < n; i++) {
        const value *v = value_get(extra, list[i].name);
        int64_t whole = 0;
        if (!v || !value_is_number(v)) continue;
        if (list[i].real) *list[i].real = value_as_double(v);
        if (list[i].whole && value_as_int(v, &whole)) *list[i].whole = whole;
        if (list[i].number && value_as_int(v, &whole) && whole >= 0 && whole < INT32_MAX) *list[i].number = (int)whole;
    }
}

/* The file's loss scale goes on where losses are still scaled. Gradients that wait carry the scale that they were made
 * with: returns what they are to be multiplied by. */
static float scaler_restore(train_run_state *r, const value *scaler) {
    loss_scaler *now = &r->opt->numbers.scaler;
    double stored = 1.0;
    int64_t n_good = 0;
    number_take(scaler, "scale", &stored);
    const bool usable = isfinite(stored) && stored >= LOSS_SCALE_LEAST;
    if (!usable) stored = 1.0;
    const value *tracker = value_get(scaler, "_growth_tracker");
    if (now->on && usable && value_get(scaler, "scale")) {
        now->scale = stored;
        r->scale_is_set = true;
        if (tracker && value_as_int(tracker, &n_good) && n_good > 0) now->n_good = n_good;
    }
    return (float)(now->scale / stored);
}

/* What a file of the reference says about the run so far. */
static void reference_restore(train_run_state *r, const checkpoint *c) {
    r->epoch = (int)c->epoch;
    r->epoch_done = 1;
    number_take(c->train_metrics, "fitness", &r->fitness);
    if (r->opt->numbers.step == 0) r->opt->numbers.step = c->updates > 0 ? c->updates : 0;
}

ol_status run_restore(train_run_state *r, const checkpoint *c) {
    int64_t format = 0, best_epoch = 0;
    const value *v = value_get(c->extra, "format");
    const bool own = c->live.count > 0 && v && value_as_int(v, &format) && format == EXTRA_FORMAT;
    /* the caller may have moved the weights into the model that is trained */
    const tensor_list *average = c->weights.count > 0 ? &c->weights : &r->setup->model->state;
    ol_status status = param_store_write(r->store, PARAM_EMA, average);
    if (status == OL_OK) status = param_store_write(r->store, PARAM_VALUES, own ? &c->live : average);
    if (status == OL_OK) status = groups_restore(r, &c->optimizer);
    if (status == OL_OK) status = states_restore(r, &c->optimizer.state);
    const float factor = scaler_restore(r, c->scaler);
    if (status == OL_OK && own) status = grads_restore(r, &c->live, factor);
    r->scale_is_set = r->scale_is_set || !r->stepped; /* gradients that wait have one already */
    if (status != OL_OK) return status;
    r->opt->numbers.ema_updates = c->updates > 0 ? c->updates : 0;
    r->best_fitness = r->stopper_fitness = c->best_fitness;
    number_take(c->stopper, "best_fitness", &r->stopper_fitness);
    v = value_get(c->stopper, "best_epoch");
    if (v && value_as_int(v, &best_epoch)) r->stopper_epoch = (int)best_epoch;
    if (own)
        extra_restore(r, c->extra);
    else
        reference_restore(r, c);
    /* A whole epoch is behind: go on with the next. */
    status = results_from_value(&r->results, c->train_results, r->epoch_done ? r->epoch + 1 : r->epoch);
    if (!isnan(r->s->time) && r->stored_epochs > r->epoch) r->epochs = r->schedule.epochs = r->stored_epochs;
    if (r->epoch_done) {
        r->epoch++;
        r->batch = r->epoch_done = 0;
        memset(r->loss_sums, 0, sizeof r->loss_sums);
    }
    return status;
}
