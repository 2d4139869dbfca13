/* The training run on a tiny network: parameter groups, files, resume to the last bit, early stop, time, faults. */
#include "golden.h"
#include "scratch.h"
#include "tiny_model.h"
#include "tiny_set.h"
#include "train_case.h"

#include "base/file.h"
#include "device/device.h"
#include "train/param_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_STEPS 64

/* What a run showed through its callbacks. */
typedef struct witness {
    ol_context *ctx;
    train_step steps[MAX_STEPS];
    train_epoch epochs[MAX_STEPS];
    int n_steps, n_epochs, n_validations;
    int interrupt_after_steps, interrupt_after_epochs; /* 0: never */
    int copy_after_epoch; /* keeps a copy of last.pt as of that epoch: what a kill leaves */
    const char *last, *copy;
    double fitness; /* < 0: follows the weights */
    long n_allocations, allocations_at_step[MAX_STEPS];
} witness;

static void on_step(void *user, const train_step *step) {
    witness *w = user;
    assert_true(w->n_steps < MAX_STEPS);
    w->allocations_at_step[w->n_steps] = w->n_allocations;
    w->steps[w->n_steps++] = *step;
    if (w->n_steps == w->interrupt_after_steps) ol_context_interrupt(w->ctx);
}

static void on_epoch(void *user, const train_epoch *epoch) {
    witness *w = user;
    w->epochs[w->n_epochs++] = *epoch;
    if (w->n_epochs == w->interrupt_after_epochs) ol_context_interrupt(w->ctx);
}

/* Fitness that depends on the averaged weights, so that it shows whether they are the same. */
static ol_status validate(void *user, const tensor_list *weights, const float *gains, train_metrics *out) {
    witness *w = user;
    double sum = 0.0;
    for (size_t i = 0; i < weights->count; i++)
        if (weights->items[i].t.type == DTYPE_F32) sum += fabs((double)tensor_f32(&weights->items[i].t)[0]);
    w->n_validations++;
    assert_true(gains[0] > 0.0f);
    *out = (train_metrics){.precision = 0.25,
                           .recall = 0.5,
                           .map50 = 0.125,
                           .map50_95 = w->fitness < 0.0 ? fmod(sum, 1.0) : w->fitness,
                           .losses = {sum, 2.0, 3.0}};
    /* the file of the epoch before is what a kill in this epoch leaves */
    if (w->copy && w->n_validations == w->copy_after_epoch + 1) {
        char *bytes = NULL;
        size_t n = 0;
        if (file_read(w->ctx, w->last, 0, &bytes, &n) != OL_OK || file_write_atomic(w->ctx, w->copy, bytes, n) != OL_OK)
            fail_msg("no copy of last.pt");
        mem_free(w->ctx, bytes);
    }
    return OL_OK;
}

typedef struct run_result {
    ol_status status;
    char message[1000];
    train_outcome outcome;
    float *weights; /* of the average at the end */
    size_t n_weights;
} run_result;

static void weights_keep(const model *m, run_result *r) {
    for (size_t i = 0; i < m->state.count; i++)
        if (m->state.items[i].t.type == DTYPE_F32) r->n_weights += (size_t)shape_elements(&m->state.items[i].t.shape);
    float *at = r->weights = malloc(r->n_weights * sizeof *at);
    for (size_t i = 0; i < m->state.count; i++) {
        const tensor *t = &m->state.items[i].t;
        if (t->type != DTYPE_F32) continue;
        memcpy(at, t->data, (size_t)shape_elements(&t->shape) * sizeof *at);
        at += shape_elements(&t->shape);
    }
}

/* Runs go as on a device with a queue: what came of a batch is read when the next one is there. */
static bool with_queue;

static run_result run(train_case_options *o, witness *w, void (*spoil)(model *)) {
    train_case c = train_case_open(o);
    run_result r = {0};
    train_case_model(&c, tiny_model(&c.arena));
    const device_api *honest = c.dev->api;
    device_api queued = *honest;
    queued.queue = true;
    if (with_queue) c.dev->api = &queued;
    if (spoil) spoil(c.model);
    w->ctx = c.ctx;
    c.setup.user = w;
    c.setup.on_step = on_step;
    c.setup.on_epoch = on_epoch;
    c.setup.validate = validate;
    r.status = train_run(&c.setup, &r.outcome);
    snprintf(r.message, sizeof r.message, "%s", ol_context_message(c.ctx));
    weights_keep(c.model, &r);
    c.dev->api = honest;
    train_case_close(&c);
    return r;
}

static run_result resume(const char *data, const char *last, const char *const *settings, witness *w) {
    ol_context *ctx = test_context();
    checkpoint c;
    if (checkpoint_read(ctx, last, &c) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    train_case_options o = {.data = data, .settings = settings, .resume = &c, .resume_path = last};
    const run_result r = run(&o, w, NULL);
    checkpoint_deinit(&c);
    ol_context_destroy(ctx);
    return r;
}

static void groups_have_the_reference_sizes(void **state) {
    (void)state;
    static const int plain[] = {126, 114, 126}, muon[] = {0, 0, 24, 90, 30, 96, 30, 96};
    ol_context *ctx = test_context();
    model *m = NULL;
    device *dev = NULL;
    const model_spec spec = {.name = "yolo26n.yaml"};
    assert_int_equal(model_create(ctx, &spec, &m), OL_OK);
    assert_int_equal(device_open(ctx, "cpu", &dev), OL_OK);
    model_initialize(m, 0);
    for (int musgd = 0; musgd < 2; musgd++) {
        param_store *s = NULL;
        assert_int_equal(param_store_create(ctx, dev, m, musgd ? OPTIMIZER_MUSGD : OPTIMIZER_ADAMW, &s), OL_OK);
        assert_int_equal(s->n_groups, musgd ? 8 : 3);
        for (int g = 0; g < s->n_groups; g++) {
            assert_int_equal(s->groups[g].n_params, musgd ? muon[g] : plain[g]);
            assert_true(s->groups[g].lr_factor == (musgd && g % 2 == 0 ? 3.0 : 1.0));
        }
        /* what goes in comes out */
        tensor_list copy;
        tensor_list_init(&copy, ctx);
        assert_int_equal(tensor_list_copy(&copy, &m->state), OL_OK);
        for (size_t i = 0; i < copy.count; i++)
            if (copy.items[i].t.type == DTYPE_F32)
                memset(copy.items[i].t.data, 0, (size_t)shape_elements(&copy.items[i].t.shape) * sizeof(float));
        assert_int_equal(param_store_read(s, PARAM_EMA, &copy), OL_OK);
        for (size_t i = 0; i < copy.count; i++)
            assert_memory_equal(copy.items[i].t.data, m->state.items[i].t.data,
                                (size_t)shape_elements(&copy.items[i].t.shape) * dtype_bytes(copy.items[i].t.type));
        tensor_list_deinit(&copy);
        param_store_destroy(s);
    }
    device_close(dev);
    model_destroy(m);
    ol_context_destroy(ctx);
}

static size_t count_lines(ol_context *ctx, const char *path, char *header, size_t header_bytes) {
    char *bytes = NULL;
    size_t n = 0, lines = 0;
    if (file_read(ctx, path, 0, &bytes, &n) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    snprintf(header, header_bytes, "%.*s", (int)strcspn(bytes, "\n"), bytes);
    for (size_t i = 0; i < n; i++) lines += bytes[i] == '\n';
    mem_free(ctx, bytes);
    return lines;
}

#define SMALL "imgsz=64", "batch=2", "epochs=4", "workers=0", "warmup_epochs=1", "close_mosaic=1", "seed=3"

static void a_run_leaves_its_files(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", "save_period=2", NULL};
    train_case_options o = {.data = tiny_set(&s, 5, 1), .save_dir = scratch_path(&s, "run"), .settings = settings};
    witness w = {.fitness = -1.0};
    run_result r = run(&o, &w, NULL);
    assert_string_equal(r.message, "");
    assert_int_equal(r.status, OL_OK);
    assert_int_equal(w.n_epochs, 4);
    assert_int_equal(w.n_steps, 12); /* 3 batches of 2, 2 and 1 */
    assert_int_equal(r.outcome.epochs_done, 4);
    char header[600];
    assert_int_equal(count_lines(s.ctx, scratch_path(&s, "run/results.csv"), header, sizeof header), 5);
    assert_string_equal(header, "epoch,time,train/box_loss,train/cls_loss,train/l1_loss,metrics/precision(B),metrics/"
                                "recall(B),metrics/mAP50(B),"
                                "metrics/mAP50-95(B),val/box_loss,val/cls_loss,val/l1_loss,lr/pg0,lr/pg1,lr/pg2");
    assert_true(file_exists(scratch_path(&s, "run/weights/epoch0.pt")) &&
                file_exists(scratch_path(&s, "run/weights/epoch2.pt")));
    assert_false(file_exists(scratch_path(&s, "run/weights/epoch1.pt")));
    char **left = NULL;
    size_t n_left = 0;
    assert_int_equal(folder_list(&s.arena, scratch_path(&s, "run/weights"), false, &left, &n_left), OL_OK);
    assert_int_equal(n_left, 4); /* and nothing half-made */
    checkpoint kept;             /* later epochs did not change it */
    assert_int_equal(checkpoint_read(s.ctx, scratch_path(&s, "run/weights/epoch0.pt"), &kept), OL_OK);
    assert_int_equal(kept.epoch, 0);
    assert_true(kept.has_optimizer);
    checkpoint_deinit(&kept);
    static const char *const files[] = {"run/weights/last.pt", "run/weights/best.pt"};
    for (int i = 0; i < 2; i++) { /* stripped: weights and results, nothing to resume */
        checkpoint c;
        assert_int_equal(checkpoint_read(s.ctx, scratch_path(&s, files[i]), &c), OL_OK);
        assert_int_equal(c.epoch, -1);
        assert_false(c.has_optimizer);
        assert_int_equal(c.live.count, 0);
        assert_int_equal(value_get(c.train_results, "epoch")->as.list.count, 4);
        checkpoint_deinit(&c);
    }
    free(r.weights);
    scratch_destroy(&s);
}

/* The file of the best weights, the table and the record of the run speak of the same epoch; a fitness of 0 is one too.
 */
static void best_is_the_epoch_that_the_table_shows(void **state) {
    (void)state;
    for (int zero = 0; zero < 2; zero++) {
        scratch s = scratch_create(NULL, NULL);
        static const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", NULL};
        train_case_options o = {.data = tiny_set(&s, 4, 1), .save_dir = scratch_path(&s, "run"), .settings = settings};
        witness w = {.fitness = zero ? 0.0 : -1.0};
        run_result r = run(&o, &w, NULL);
        assert_int_equal(r.status, OL_OK);
        int best = -1;
        for (int e = 0; e < w.n_epochs; e++)
            if (w.epochs[e].is_best) best = e;
        for (int e = 0; e < w.n_epochs; e++) assert_true(w.epochs[e].fitness <= w.epochs[best].fitness);
        if (zero) assert_int_equal(best, w.n_epochs - 1); /* ties take the later */
        checkpoint c;
        assert_int_equal(checkpoint_read(s.ctx, r.outcome.best, &c), OL_OK);
        assert_true(value_as_double(value_get(c.train_metrics, "fitness")) == w.epochs[best].fitness);
        assert_true(value_as_double(value_get(c.train_results, "metrics/mAP50-95(B)")->as.list.items[best]) ==
                    w.epochs[best].fitness);
        assert_true(r.outcome.best_fitness == w.epochs[best].fitness);
        checkpoint_deinit(&c);
        free(r.weights);
        scratch_destroy(&s);
    }
}

static void *counting_realloc(void *user, void *block, size_t bytes) {
    witness *w = user;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    w->n_allocations++;
    return realloc(block, bytes);
}

/* From the second epoch on, nothing is allocated between one step of an epoch and the next. (With mosaics the label
 * lists may still grow to their largest.) */
static void steady_steps_allocate_nothing(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "optimizer=MuSGD", "nbs=2", "mosaic=0.0", NULL};
    witness w = {.fitness = 0.5};
    train_case_options o = {
        .data = tiny_set(&s, 8, 1), .settings = settings, .realloc_block = counting_realloc, .realloc_user = &w};
    run_result r = run(&o, &w, NULL);
    assert_int_equal(r.status, OL_OK);
    assert_true(w.n_allocations > 0);
    int n_pairs = 0;
    for (int i = 1; i < w.n_steps; i++) {
        if (w.steps[i].epoch == 0 || w.steps[i].epoch != w.steps[i - 1].epoch) continue;
        assert_int_equal(w.allocations_at_step[i], w.allocations_at_step[i - 1]);
        n_pairs++;
    }
    assert_int_equal(n_pairs, 9);
    free(r.weights);
    scratch_destroy(&s);
}

static void assert_same_steps(const witness *a, int from_a, const witness *b, int from_b, int n) {
    for (int i = 0; i < n; i++) assert_memory_equal(&a->steps[from_a + i], &b->steps[from_b + i], sizeof(train_step));
}

/* Stopped after an epoch, stopped inside one, and killed inside one: the resumed run ends at the same bits. */
static void resume_with(const char *const *optimizers, size_t n) {
    for (size_t k = 0; k < n; k++) {
        scratch s = scratch_create(NULL, NULL);
        const char *data = tiny_set(&s, 5, 1);
        /* 3 batches an epoch and a step every 2: gradients wait across the ends of epochs */
        const char *const settings[] = {SMALL, optimizers[k], "nbs=4", "lr0=0.002", NULL};
        static const char *const none[] = {NULL};
        train_case_options o = {.data = data, .settings = settings};
        witness whole = {.fitness = -1.0,
                         .last = scratch_path(&s, "whole/weights/last.pt"),
                         .copy = scratch_path(&s, "killed/weights/last.pt"),
                         .copy_after_epoch = 1};
        assert_int_equal(folder_create(s.ctx, scratch_path(&s, "killed/weights")), OL_OK);
        o.save_dir = scratch_path(&s, "whole");
        run_result a = run(&o, &whole, NULL);
        assert_int_equal(a.status, OL_OK);
        for (int how = 0; how < 3; how++) {
            const char *last = whole.copy;
            int done = 0, epochs_done = 1; /* gradients wait at its end */
            if (how < 2) {
                witness first = {.fitness = -1.0,
                                 .interrupt_after_epochs = how == 0 ? 1 : 0,
                                 .interrupt_after_steps = how == 1 ? 3 : 0};
                o.save_dir = scratch_path(&s, how == 0 ? "epoch" : "batch");
                last = scratch_path(&s, how == 0 ? "epoch/weights/last.pt" : "batch/weights/last.pt");
                run_result b = run(&o, &first, NULL);
                assert_int_equal(b.status, OL_ERROR_INTERRUPTED);
                assert_non_null(strstr(b.message, "resume=True"));
                assert_same_steps(&whole, 0, &first, 0, first.n_steps);
                done = first.n_steps;
                epochs_done = first.n_epochs;
                free(b.weights);
            } else {
                while (done < whole.n_steps && whole.steps[done].epoch < 1) done++;
            }
            witness rest = {.fitness = -1.0};
            run_result c = resume(data, last, none, &rest);
            assert_string_equal(c.message, "");
            assert_int_equal(c.status, OL_OK);
            assert_int_equal(done + rest.n_steps, whole.n_steps);
            assert_same_steps(&whole, done, &rest, 0, rest.n_steps);
            assert_int_equal(epochs_done + rest.n_epochs, whole.n_epochs);
            for (int e = 0; e < rest.n_epochs; e++) {
                assert_memory_equal(rest.epochs[e].train_losses, whole.epochs[epochs_done + e].train_losses,
                                    sizeof rest.epochs[e].train_losses);
                assert_true(rest.epochs[e].fitness == whole.epochs[epochs_done + e].fitness);
                assert_true(rest.epochs[e].is_best == whole.epochs[epochs_done + e].is_best);
            }
            assert_true(c.n_weights == a.n_weights);
            assert_memory_equal(c.weights, a.weights, a.n_weights * sizeof(float));
            free(c.weights);
        }
        free(a.weights);
        scratch_destroy(&s);
    }
}

static void resume_is_bit_equal(void **state) {
    (void)state;
    static const char *const optimizers[] = {"optimizer=SGD", "optimizer=AdamW", "optimizer=MuSGD", "optimizer=NAdam",
                                             "optimizer=RMSProp"};
    resume_with(optimizers, sizeof optimizers / sizeof optimizers[0]);
}

static void a_loss_that_is_not_finite_names_its_origin(void **state);

static void steps_read_late_are_the_same_steps(void **state) {
    (void)state;
    static const char *const optimizers[] = {"optimizer=AdamW", "optimizer=MuSGD"};
    scratch s = scratch_create(NULL, NULL);
    const char *const settings[] = {SMALL, optimizers[1], "nbs=4", NULL};
    train_case_options o = {.data = tiny_set(&s, 5, 1), .settings = settings};
    witness at_once = {.fitness = -1.0}, late = {.fitness = -1.0};
    run_result a = run(&o, &at_once, NULL);
    with_queue = true;
    run_result b = run(&o, &late, NULL);
    assert_int_equal(a.status, OL_OK);
    assert_int_equal(b.status, OL_OK);
    assert_int_equal(at_once.n_steps, late.n_steps);
    assert_same_steps(&at_once, 0, &late, 0, late.n_steps);
    assert_int_equal(at_once.n_epochs, late.n_epochs);
    for (int e = 0; e < late.n_epochs; e++)
        assert_memory_equal(late.epochs[e].train_losses, at_once.epochs[e].train_losses,
                            sizeof late.epochs[e].train_losses);
    assert_memory_equal(a.weights, b.weights, a.n_weights * sizeof(float));
    free(a.weights);
    free(b.weights);
    scratch_destroy(&s);
    resume_with(optimizers, sizeof optimizers / sizeof optimizers[0]);
    a_loss_that_is_not_finite_names_its_origin(state);
    with_queue = false;
}

static void patience_and_time_end_a_run(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "epochs=10", "optimizer=AdamW", "nbs=2", "patience=2", NULL};
    train_case_options o = {.data = tiny_set(&s, 3, 1), .settings = settings};
    witness w = {.fitness = 0.5};
    run_result r = run(&o, &w, NULL);
    assert_int_equal(r.status, OL_OK);
    assert_true(r.outcome.stopped_early);
    assert_int_equal(r.outcome.epochs_done, 3); /* best at 1, nothing better in 2 */
    free(r.weights);

    static const char *const timed[] = {SMALL, "optimizer=AdamW", "nbs=2", "time=1e-9", NULL};
    o.settings = timed;
    w = (witness){.fitness = 0.5};
    r = run(&o, &w, NULL);
    assert_int_equal(r.status, OL_OK);
    assert_true(r.outcome.timed_out);
    assert_int_equal(w.n_steps, 1); /* the step in which the time ran out, then validation */
    assert_int_equal(w.n_validations, 1);
    free(r.weights);
    scratch_destroy(&s);
}

static void frozen_layers_keep_their_weights(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "optimizer=MuSGD", "nbs=2", "freeze=3", "epochs=2", NULL};
    const train_case_options o = {.data = tiny_set(&s, 3, 1), .settings = settings};
    train_case c = train_case_open(&o);
    train_case_model(&c, tiny_model(&c.arena));
    model *before = tiny_model(&c.arena);
    train_outcome out;
    assert_int_equal(train_run(&c.setup, &out), OL_OK);
    int n_moved = 0;
    for (size_t i = 0; i < before->state.count; i++) {
        const named_tensor *a = &before->state.items[i], *b = &c.model->state.items[i];
        const bool same =
            memcmp(a->t.data, b->t.data, (size_t)shape_elements(&a->t.shape) * dtype_bytes(a->t.type)) == 0;
        const bool frozen = strncmp(a->name, "model.0.", 8) == 0 || strncmp(a->name, "model.1.", 8) == 0 ||
                            strncmp(a->name, "model.2.", 8) == 0;
        if (frozen) assert_true(same); /* statistics too */
        n_moved += !same;
    }
    assert_true(n_moved > 100);
    model_destroy(before);
    train_case_close(&c);
    scratch_destroy(&s);
}

static void spoil_layer(model *m) {
    tensor *t = tensor_list_find(&m->state, "model.3.conv.weight");
    for (int64_t i = 0; i < shape_elements(&t->shape); i++) tensor_f32(t)[i] = 3e38f;
}

static void spoil_weight(model *m) {
    tensor_f32(tensor_list_find(&m->state, "model.5.conv.weight"))[1] = NAN;
}

static void a_loss_that_is_not_finite_names_its_origin(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", NULL};
    train_case_options o = {.data = tiny_set(&s, 3, 1), .save_dir = scratch_path(&s, "run"), .settings = settings};
    witness w = {.fitness = 0.5};
    run_result r = run(&o, &w, spoil_layer);
    assert_int_equal(r.status, OL_ERROR_NUMERIC);
    assert_non_null(strstr(r.message, "epoch 1, batch 1 (step 0)"));
    assert_non_null(strstr(r.message, "box_loss of the one-to-many branch"));
    assert_non_null(strstr(r.message, "first layer whose output is not finite is 'model.3"));
    assert_false(file_exists(scratch_path(&s, "run/weights/last.pt"))); /* there was no good state */
    assert_non_null(strstr(r.message, "start again with a smaller lr0"));
    assert_null(strstr(r.message, "last.pt"));
    free(r.weights);
    r = run(&o, &w, spoil_weight);
    assert_int_equal(r.status, OL_ERROR_NUMERIC);
    assert_non_null(strstr(r.message, "'model.5.conv.weight'"));
    free(r.weights);
    scratch_destroy(&s);
}

static void log_keep(void *user, ol_log_level level, const char *line) {
    if (level == OL_LOG_WARNING) snprintf(user, 600, "%s", line);
}

static ol_status resume_settings_of(const checkpoint *c, ol_context *ctx, const char *typed, settings *out) {
    settings given;
    assert_int_equal(settings_init(&given, ctx), OL_OK);
    char name[64];
    snprintf(name, sizeof name, "%s", typed);
    char *equal = strchr(name, '=');
    *equal = '\0';
    assert_int_equal(settings_set_text(&given, name, equal + 1), OL_OK);
    assert_int_equal(settings_init(out, ctx), OL_OK);
    const ol_status status = train_resume_settings(c, "run/weights/last.pt", &given, out);
    settings_deinit(&given);
    return status;
}

/* With nbs = batch every batch is a step, so that the callbacks show all of an epoch's items. */
static void an_epoch_reports_the_mean_of_its_batches(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", NULL};
    train_case_options o = {.data = tiny_set(&s, 6, 1), .settings = settings};
    witness w = {.fitness = 0.5};
    const run_result r = run(&o, &w, NULL);
    assert_int_equal(r.status, OL_OK);
    assert_int_equal(w.n_steps, 3 * w.n_epochs);
    for (int e = 0; e < w.n_epochs; e++)
        for (int k = 0; k < 3; k++) {
            double sum = 0.0;
            for (int i = 0; i < 3; i++) sum += w.steps[3 * e + i].items[k];
            if (k == 1) assert_true(sum > 0.0); /* classes; boxes may find no positives in so small a network */
            assert_true(fabs(w.epochs[e].train_losses[k] - sum / 3) <= 1e-9 * sum);
        }
    free(r.weights);
    scratch_destroy(&s);
}

typedef struct closing {
    int n_epochs, closed_after; /* epochs that were over when the mosaic was closed; -1: never */
} closing;

static void closing_log(void *user, ol_log_level level, const char *line) {
    closing *c = user;
    if (level == OL_LOG_INFO && strstr(line, "Closing dataloader mosaic")) c->closed_after = c->n_epochs;
}

static void closing_epoch(void *user, const train_epoch *epoch) {
    ((closing *)user)->n_epochs = epoch->epoch;
}

static void the_mosaic_is_closed_for_the_last_epochs(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *const settings[] = {"imgsz=64", "batch=4", "epochs=4", "workers=0", "close_mosaic=3", NULL};
    closing seen = {.closed_after = -1};
    train_case_options o = {.data = tiny_set(&s, 4, 1), .settings = settings, .log = closing_log, .log_user = &seen};
    train_case c = train_case_open(&o);
    train_outcome out;
    train_case_model(&c, tiny_model(&c.arena));
    c.setup.user = &seen;
    c.setup.on_epoch = closing_epoch;
    assert_int_equal(train_run(&c.setup, &out), OL_OK);
    assert_int_equal(seen.n_epochs, 4);
    assert_int_equal(seen.closed_after, 1);
    train_case_close(&c);
    scratch_destroy(&s);
}

static void resumed_runs_take_the_settings_that_may_change(void **state) {
    (void)state;
    char warning[600] = "";
    ol_context *ctx = NULL;
    const ol_context_options options = {.struct_bytes = sizeof options, .log = log_keep, .log_user = warning};
    assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
    arena a;
    arena_init(&a, ctx, 0);
    value *args = value_map(&a);
    value_set(&a, args, "epochs", value_int(&a, 8));
    value_set(&a, args, "lr0", value_float(&a, 0.02));
    value_set(&a, args, "optimizer", value_string(&a, "SGD"));
    checkpoint c;
    checkpoint_init(&c, ctx);
    c.epoch = 4;
    c.has_optimizer = true;
    c.train_args = args;
    settings s;
    assert_int_equal(resume_settings_of(&c, ctx, "patience=5", &s), OL_OK);
    assert_int_equal(s.patience, 5);
    assert_int_equal(s.epochs, 8);
    assert_true(s.lr0 == 0.02);
    assert_non_null(strstr(s.save_dir, "/run"));
    assert_string_equal(warning, "");
    settings_deinit(&s);
    assert_int_equal(resume_settings_of(&c, ctx, "lr0=0.5", &s), OL_OK); /* may not: said, and not taken */
    assert_true(s.lr0 == 0.02);
    assert_non_null(strstr(warning, "lr0="));
    settings_deinit(&s);
    assert_int_equal(resume_settings_of(&c, ctx, "epochs=20", &s), OL_OK);
    assert_int_equal(s.epochs, 20);
    assert_non_null(strstr(warning, "epochs=20 instead of 8"));
    settings_deinit(&s);
    assert_int_equal(resume_settings_of(&c, ctx, "epochs=3", &s), OL_ERROR_ARGUMENT);
    settings_deinit(&s);
    c.epoch = -1; /* stripped */
    ol_context *fresh = NULL;
    assert_int_equal(ol_context_create(&options, &fresh), OL_OK);
    c.ctx = fresh;
    assert_int_equal(resume_settings_of(&c, fresh, "patience=5", &s), OL_ERROR_ARGUMENT);
    assert_non_null(strstr(ol_context_message(fresh), "nothing to resume"));
    settings_deinit(&s);
    c.ctx = ctx;
    checkpoint_deinit(&c);
    arena_deinit(&a);
    ol_context_destroy(fresh);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_have_the_reference_sizes),
        cmocka_unit_test(a_run_leaves_its_files),
        cmocka_unit_test(resume_is_bit_equal),
        cmocka_unit_test(steps_read_late_are_the_same_steps),
        cmocka_unit_test(best_is_the_epoch_that_the_table_shows),
        cmocka_unit_test(steady_steps_allocate_nothing),
        cmocka_unit_test(patience_and_time_end_a_run),
        cmocka_unit_test(an_epoch_reports_the_mean_of_its_batches),
        cmocka_unit_test(the_mosaic_is_closed_for_the_last_epochs),
        cmocka_unit_test(frozen_layers_keep_their_weights),
        cmocka_unit_test(a_loss_that_is_not_finite_names_its_origin),
        cmocka_unit_test(resumed_runs_take_the_settings_that_may_change),
    };
    test_choose();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
