/* Mixed precision where no half-precision device is needed: the loss scale's numbers, a training run with scaled losses
 * against one without, steps that overflow, and the comparison of two predictions. */
#include "golden.h"
#include "scratch.h"
#include "tiny_model.h"
#include "tiny_set.h"
#include "train_case.h"

#include "base/rng.h"
#include "model/half_check.h"
#include "ops/loss_scaler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_STEPS 64

static void the_scale_follows_the_gradients(void **state) {
    (void)state;
    loss_scaler s;
    loss_scaler_init(&s, DTYPE_F16);
    assert_true(s.scale == 65536.0);
    for (int i = 0; i < 1999; i++) loss_scaler_grow(&s);
    assert_true(s.scale == 65536.0);
    loss_scaler_grow(&s);
    assert_true(s.scale == 131072.0 && s.n_good == 0);
    for (int i = 0; i < 1500; i++) loss_scaler_grow(&s);
    assert_true(loss_scaler_back_off(&s));
    assert_true(s.scale == 65536.0);
    for (int i = 0; i < 1999; i++) loss_scaler_grow(&s); /* counts anew */
    assert_true(s.scale == 65536.0);
    for (int i = 0; i < 19; i++) assert_true(loss_scaler_back_off(&s));
    loss_scaler_grow(&s); /* one good step between them */
    for (int i = 0; i < 19; i++) assert_true(loss_scaler_back_off(&s));
    assert_false(loss_scaler_back_off(&s));
}

static void without_scaling_the_scale_stays(void **state) {
    (void)state;
    loss_scaler s;
    loss_scaler_init(&s, DTYPE_F32);
    for (int i = 0; i < 5000; i++) loss_scaler_grow(&s);
    assert_true(s.scale == 1.0);
    assert_false(loss_scaler_back_off(&s)); /* the first overflow is one too many */
    loss_scaler_init(&s, DTYPE_BF16);
    for (int i = 0; i < 5000; i++) loss_scaler_grow(&s);
    for (int i = 0; i < 19; i++) assert_true(loss_scaler_back_off(&s) && s.scale == 1.0);
    assert_false(loss_scaler_back_off(&s));
}

/* What a run showed. */
typedef struct witness {
    ol_context *ctx;
    train_step steps[MAX_STEPS];
    int n_steps, n_epochs, interrupt_after_epochs;
    float first_mean; /* running mean of the first channel, after the run */
    bool told;        /* of a loss scale */
    bool shifted;     /* a bias that the next batch norm takes out again has moved */
} witness;

static void on_step(void *user, const train_step *step) {
    witness *w = user;
    assert_true(w->n_steps < MAX_STEPS);
    w->steps[w->n_steps++] = *step;
}

static void on_line(void *user, ol_log_level level, const char *line) {
    witness *w = user;
    (void)level;
    w->told = w->told || strstr(line, "loss scale") != NULL;
}

static void on_epoch(void *user, const train_epoch *epoch) {
    witness *w = user;
    (void)epoch;
    if (++w->n_epochs == w->interrupt_after_epochs) ol_context_interrupt(w->ctx);
}

/* The values of the model after the run are those of the average. */
static ol_status run(const train_case_options *o, witness *w, char message[2048], float *first_weight) {
    train_case c = train_case_open(o);
    train_outcome outcome;
    model *m = tiny_model(&c.arena);
    const float *shift = tensor_f32(tensor_list_find(&m->state, "model.7.cv1.bn.bias")), before = shift[0];
    train_case_model(&c, m);
    w->ctx = c.ctx;
    c.setup.user = w;
    c.setup.on_step = on_step;
    c.setup.on_epoch = on_epoch;
    const ol_status status = train_run(&c.setup, &outcome);
    snprintf(message, 2048, "%s", ol_context_message(c.ctx));
    *first_weight = tensor_f32(tensor_list_find(&c.model->state, "model.0.conv.weight"))[0];
    w->shifted = shift[0] < before || shift[0] > before;
    w->first_mean = tensor_f32(tensor_list_find(&c.model->state, "model.0.bn.running_mean"))[0];
    train_case_close(&c);
    return status;
}

#define SMALL "imgsz=64", "batch=2", "epochs=3", "workers=0", "warmup_epochs=1", "close_mosaic=1", "seed=3", "val=False"
static const char *const sgd[] = {SMALL, "optimizer=SGD", "nbs=4", NULL};

/* GPUs compute maps in the asked type, CPUs in f32 always. */
static bool has_half(void) {
    return strcmp(test_device_name(), "cpu") != 0;
}

/* Gradients that overflow at the usual scale, in f32 or in f16, do not cost the run its first step, and the search for
 * a scale that they bear leaves nothing behind: the batch statistics have seen the batch once. */
static void the_first_step_finds_its_scale(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *const large[] = {SMALL, "optimizer=SGD", "nbs=2", "epochs=1", has_half() ? "box=1e6" : "box=2e35",
                                 NULL};
    train_case_options o = {.data = tiny_set(&s, 2, 1), .settings = large, .log = on_line};
    char message[2048];
    float weight;
    witness w[2] = {{0}, {0}};
    for (int scaled = 0; scaled < 2; scaled++) {
        o.compute = scaled ? DTYPE_F16 : DTYPE_F32;
        o.log_user = &w[scaled];
        if (run(&o, &w[scaled], message, &weight) != OL_OK) fail_msg("%s", message);
        assert_int_equal(w[scaled].n_steps, 1);
        assert_false(w[scaled].steps[0].skipped);
    }
    const train_step *full = &w[0].steps[0], *scaled = &w[1].steps[0];
    assert_true(full->loss_scale == 1.0 && scaled->loss_scale < 65536.0);
    assert_true(w[1].told && !w[0].told);
    const double norm = fabs(scaled->grad_norm / full->grad_norm - 1.0);
    const double mean = fabs((double)w[1].first_mean / (double)w[0].first_mean - 1.0);
    if (norm > (has_half() ? 0.05 : 1e-5) || mean > (has_half() ? 0.01 : 1e-6))
        fail_msg("gradient norm off by %.1e, running mean by %.1e", norm, mean);
    scratch_destroy(&s);
}

/* What rounding leaves of a gradient that is zero is no reason to move, by the whole rate with Adam's rule. */
static void biases_that_change_nothing_rest(void **state) {
    (void)state;
    static const char *const settings[] = {SMALL, "optimizer=AdamW", "nbs=2", NULL};
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    scratch s = scratch_create(NULL, NULL);
    train_case_options o = {.data = tiny_set(&s, 4, 1), .settings = settings};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char message[2048];
        float weight;
        witness w = {0};
        o.compute = types[i];
        if (run(&o, &w, message, &weight) != OL_OK) fail_msg("%s", message);
        assert_int_equal(w.shifted, types[i] == DTYPE_F32);
    }
    scratch_destroy(&s);
}

/* On a device without half precision the scale is all that is left of it: a power of two that goes in and out. */
static void scaled_losses_train_as_unscaled_ones(void **state) {
    (void)state;
    if (has_half()) skip(); /* f16 is more than the scale there */
    scratch s = scratch_create(NULL, NULL);
    char message[2048];
    float weight[2];
    witness w[2] = {{0}, {0}};
    train_case_options o = {.data = tiny_set(&s, 5, 1), .settings = sgd};
    for (int scaled = 0; scaled < 2; scaled++) {
        o.compute = scaled ? DTYPE_F16 : DTYPE_F32;
        assert_int_equal(run(&o, &w[scaled], message, &weight[scaled]), OL_OK);
    }
    assert_true(w[0].n_steps > 3);
    assert_int_equal(w[0].n_steps, w[1].n_steps);
    for (int i = 0; i < w[0].n_steps; i++) {
        assert_true(w[0].steps[i].loss_scale == 1.0 && w[1].steps[i].loss_scale == 65536.0);
        assert_false(w[1].steps[i].skipped);
        for (int k = 0; k < 3; k++)
            assert_true(fabs(w[0].steps[i].items[k] - w[1].steps[i].items[k]) <= 1e-6 * w[0].steps[i].items[k]);
        assert_true(fabs(w[0].steps[i].loss - w[1].steps[i].loss) <= 1e-6 * w[0].steps[i].loss);
        assert_true(fabs(w[0].steps[i].grad_norm - w[1].steps[i].grad_norm) <= 1e-6 * w[0].steps[i].grad_norm);
    }
    assert_true(fabsf(weight[0] - weight[1]) <= 1e-7f);
    scratch_destroy(&s);
}

/* The loss scale after the steps that a witness saw, and how many steps went well since it last fell. */
static double scale_after(const witness *w, int64_t *n_good) {
    double scale = w->steps[0].loss_scale;
    *n_good = 0;
    assert_true(has_half() ? scale <= 65536.0 : scale == 65536.0);
    assert_false(w->steps[0].skipped);
    for (int i = 0; i < w->n_steps; i++) {
        assert_true(w->steps[i].loss_scale == scale);
        scale = w->steps[i].skipped ? scale / 2 : scale;
        *n_good = w->steps[i].skipped ? 0 : *n_good + 1;
    }
    return scale;
}

/* A run that was stopped after its first epoch, its checkpoint given another loss scale. */
static void resumable(scratch *s, train_case_options *o, checkpoint *c, double scale) {
    char message[2048];
    float weight;
    witness w = {.interrupt_after_epochs = 1};
    o->data = tiny_set(s, 6, 1);
    o->save_dir = scratch_path(s, "run");
    o->compute = DTYPE_F16;
    assert_int_equal(run(o, &w, message, &weight), OL_ERROR_INTERRUPTED);
    o->resume_path = scratch_path(s, "run/weights/last.pt");
    if (checkpoint_read(s->ctx, o->resume_path, c) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    int64_t n_good = 0, expected = 0, interval = 0;
    assert_true(value_as_double(value_get(c->scaler, "scale")) == scale_after(&w, &expected));
    assert_true(has_half() || expected == w.n_steps);
    assert_true(value_as_int(value_get(c->scaler, "_growth_tracker"), &n_good) && n_good == expected);
    assert_true(value_as_int(value_get(c->scaler, "growth_interval"), &interval) && interval == 2000);
    value *map = value_map(&c->arena);
    assert_int_equal(value_set(&c->arena, map, "scale", value_float(&c->arena, scale)), OL_OK);
    c->scaler = map;
    o->resume = c;
}

static void an_overflow_skips_the_step(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "optimizer=AdamW", "nbs=2", NULL};
    train_case_options o = {.settings = settings};
    checkpoint c;
    /* beyond what the device's gradients bear: f32 on CPUs, f16 elsewhere */
    const int power = has_half() ? 26 : 127;
    resumable(&s, &o, &c, ldexp(1.0, power));
    const int64_t updates = c.updates;
    char message[2048];
    float weight;
    witness w = {.interrupt_after_epochs = 1};
    const ol_status status = run(&o, &w, message, &weight);
    assert_int_equal(status, OL_ERROR_INTERRUPTED);
    int n_skipped = 0;
    for (int i = 0; i < w.n_steps; i++) {
        const train_step *step = &w.steps[i];
        assert_true(step->loss_scale == ldexp(1.0, power - n_skipped));
        assert_true(step->skipped == !isfinite(step->grad_norm));
        for (int k = 0; k < 3; k++) assert_true(isfinite(step->items[k])); /* items are free of the scale */
        n_skipped += step->skipped;
    }
    assert_true(n_skipped >= 1);
    checkpoint after;
    if (checkpoint_read(s.ctx, o.resume_path, &after) != OL_OK) fail_msg("%s", ol_context_message(s.ctx));
    assert_int_equal(after.updates, updates + w.n_steps - n_skipped);
    assert_true(value_as_double(value_get(after.scaler, "scale")) == ldexp(1.0, power - n_skipped));
    for (size_t i = 0; i < after.live.count; i++) {
        const tensor *t = &after.live.items[i].t;
        for (int64_t k = 0; t->type == DTYPE_F32 && k < shape_elements(&t->shape); k++)
            assert_true(isfinite(tensor_f32(t)[k]));
    }
    checkpoint_deinit(&after);
    checkpoint_deinit(&c);
    scratch_destroy(&s);
}

static void too_many_skipped_steps_end_the_run(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    static const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", "epochs=12", NULL};
    train_case_options o = {.settings = settings};
    checkpoint c;
    resumable(&s, &o, &c, 0x1p200); /* twenty halvings leave it beyond the range of f32 */
    char message[2048];
    float weight;
    witness w = {0};
    assert_int_equal(run(&o, &w, message, &weight), OL_ERROR_NUMERIC);
    assert_int_equal(w.n_steps, 19);
    for (int i = 0; i < w.n_steps; i++) assert_true(w.steps[i].skipped);
    if (strstr(message, "20 steps in a row were skipped") == NULL ||
        strstr(message, "gradient on the way back") == NULL || strstr(message, "amp=bf16") == NULL)
        fail_msg("%s", message);
    checkpoint_deinit(&c);
    scratch_destroy(&s);
}

/* Nothing is proposed that the run has already. */
static void without_a_scale_overflows_end_the_run(void **state) {
    (void)state;
    static const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", "box=3e38", "epochs=30", NULL};
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16};
    scratch s = scratch_create(NULL, NULL);
    train_case_options o = {.data = tiny_set(&s, 2, 1), .settings = settings};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char message[2048];
        float weight;
        witness w = {0};
        o.compute = types[i];
        assert_int_equal(run(&o, &w, message, &weight), OL_ERROR_NUMERIC);
        const bool skips = types[i] == DTYPE_BF16;
        assert_int_equal(w.n_steps, skips ? 19 : 0);
        for (int k = 0; k < w.n_steps; k++) assert_true(w.steps[k].skipped && w.steps[k].loss_scale == 1.0);
        assert_true((strstr(message, "20 steps in a row were skipped)") != NULL) == skips);
        if (strstr(message, "smaller lr0") == NULL || strstr(message, "bf16") != NULL ||
            (strstr(message, "amp=False") != NULL) != (types[i] == DTYPE_BF16))
            fail_msg("%s", message);
    }
    scratch_destroy(&s);
}

/* A scale that no run writes is not taken on. */
static void a_useless_scale_in_a_file_is_passed_over(void **state) {
    (void)state;
    static const double scales[] = {0.0, -1.0, 1e-300, NAN, INFINITY};
    static const char *const settings[] = {SMALL, "optimizer=SGD", "nbs=2", NULL};
    scratch s = scratch_create(NULL, NULL);
    train_case_options o = {.settings = settings};
    checkpoint c;
    resumable(&s, &o, &c, 1.0);
    o.save_dir = NULL;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        char message[2048];
        float weight;
        witness w = {.interrupt_after_epochs = 1};
        value *map = value_map(&c.arena);
        assert_int_equal(value_set(&c.arena, map, "scale", value_float(&c.arena, scales[i])), OL_OK);
        c.scaler = map;
        assert_int_equal(run(&o, &w, message, &weight), OL_ERROR_INTERRUPTED);
        assert_true(w.n_steps > 0 && !w.steps[0].skipped);
        assert_true(has_half() ? w.steps[0].loss_scale <= 65536.0 : w.steps[0].loss_scale == 65536.0);
    }
    checkpoint_deinit(&c);
    scratch_destroy(&s);
}

/* Gradients that wait for their step are taken on by a run without scaling: divided by the stored scale. */
static void waiting_gradients_keep_their_size_without_scaling(void **state) {
    (void)state;
    if (has_half()) skip(); /* f16 is more than the scale there */
    scratch s = scratch_create(NULL, NULL);
    char message[2048];
    float weight[2];
    witness w[2] = {{.interrupt_after_epochs = 1}, {.interrupt_after_epochs = 0}};
    train_case_options o = {.data = tiny_set(&s, 5, 1), .settings = sgd, .compute = DTYPE_F16};
    witness whole = {0};
    assert_int_equal(run(&o, &whole, message, &weight[0]), OL_OK);
    o.save_dir = scratch_path(&s, "run");
    assert_int_equal(run(&o, &w[0], message, &weight[1]), OL_ERROR_INTERRUPTED);
    checkpoint c;
    o.resume_path = scratch_path(&s, "run/weights/last.pt");
    if (checkpoint_read(s.ctx, o.resume_path, &c) != OL_OK) fail_msg("%s", ol_context_message(s.ctx));
    assert_non_null(tensor_list_find(&c.live, "grad/model.0.conv.weight")); /* they do wait */
    o.resume = &c;
    o.compute = DTYPE_F32;
    assert_int_equal(run(&o, &w[1], message, &weight[1]), OL_OK);
    assert_int_equal(w[0].n_steps + w[1].n_steps, whole.n_steps);
    for (int i = 0; i < w[1].n_steps; i++) {
        const train_step *a = &whole.steps[w[0].n_steps + i], *b = &w[1].steps[i];
        assert_true(b->loss_scale == 1.0);
        assert_true(fabs(a->grad_norm - b->grad_norm) <= 1e-5 * a->grad_norm);
    }
    assert_true(fabsf(weight[0] - weight[1]) <= 1e-6f);
    checkpoint_deinit(&c);
    scratch_destroy(&s);
}

#define LARGER                                                                                                         \
    "imgsz=128", "batch=8", "workers=0", "warmup_epochs=1", "seed=3", "val=False", "nbs=8", "patience=0", "mosaic=0"

/* Weights that find something: of a network that starts from nothing, items are near zero and what positives weigh
 * follows the sixth power of overlaps by chance. */
static void learn(const char *data, tensor_list *weights, ol_context *ctx) {
    static const char *const settings[] = {LARGER, "epochs=150", "optimizer=AdamW", "lr0=0.003", NULL};
    const train_case_options o = {.data = data, .settings = settings};
    train_case c = train_case_open(&o);
    train_outcome outcome;
    train_case_model(&c, tiny_model(&c.arena));
    if (train_run(&c.setup, &outcome) != OL_OK) fail_msg("%s", ol_context_message(c.ctx));
    tensor_list_init(weights, ctx);
    assert_int_equal(tensor_list_copy(weights, &c.model->state), OL_OK);
    train_case_close(&c);
}

/* The steps of a run from these weights, each off by up to `noise` of itself. They then stand nearly still, so that
 * steps are alike after the loss scale has found its place, too. */
static witness steps_from(const char *data, const tensor_list *weights, double noise, dtype compute) {
    static const char *const settings[] = {
        LARGER, "epochs=8", "close_mosaic=1", "optimizer=SGD", "lr0=1e-8", "warmup_bias_lr=0", NULL};
    const train_case_options o = {.data = data, .settings = settings, .compute = compute};
    train_case c = train_case_open(&o);
    train_outcome outcome;
    witness w = {0};
    model *m = tiny_model(&c.arena);
    rng r = rng_stream(1, RNG_WEIGHTS, 0, 0);
    for (size_t i = 0; i < m->state.count; i++) {
        const tensor *from = &weights->items[i].t;
        if (from->type != DTYPE_F32) continue;
        float *to = tensor_f32(&m->state.items[i].t);
        for (int64_t k = 0; k < shape_elements(&from->shape); k++)
            to[k] = (float)((double)tensor_f32(from)[k] * (1.0 + rng_range(&r, -noise, noise)));
    }
    train_case_model(&c, m);
    w.ctx = c.ctx;
    c.setup.user = &w;
    c.setup.on_step = on_step;
    if (train_run(&c.setup, &outcome) != OL_OK) fail_msg("%s", ol_context_message(c.ctx));
    train_case_close(&c);
    return w;
}

typedef struct closeness {
    double items, norm;
} closeness;

/* Means over the steps, none of which is skipped: where two anchors of an object are nearly as good, a
 * single step may differ by more. */
static closeness compare_steps(const witness *full, const witness *w, const char *what) {
    closeness sum = {0};
    assert_int_equal(w->n_steps, full->n_steps);
    for (int i = 0; i < w->n_steps; i++) {
        const train_step *a = &full->steps[i], *b = &w->steps[i];
        closeness at = {.norm = fabs(a->grad_norm - b->grad_norm) / a->grad_norm};
        for (int k = 0; k < 3; k++) at.items = fmax(at.items, fabs(a->items[k] - b->items[k]) / a->items[k]);
        printf("%s step %d: items within %.2g, gradient norm within %.2g, loss scale %g%s\n", what, i + 1, at.items,
               at.norm, b->loss_scale, b->skipped ? ", skipped" : "");
        assert_true(!b->skipped && isfinite(at.items) && isfinite(at.norm));
        sum = (closeness){sum.items + at.items, sum.norm + at.norm};
    }
    return (closeness){sum.items / w->n_steps, sum.norm / w->n_steps};
}

/* The steps of a run in half precision against those of the same run in f32; and the limits against what the network
 * itself does when its weights are off by a rounding of the type: they are to leave little more than that. */
static void half_precision_trains_as_f32(void **state) {
    (void)state;
    static const struct {
        dtype type;
        double rounding;
        closeness limit;
    } rows[] = {{DTYPE_F16, 0x1p-11, {0.01, 0.02}}, {DTYPE_BF16, 0x1p-8, {0.03, 0.06}}};
    scratch s = scratch_create(NULL, NULL);
    const char *data = tiny_set(&s, 8, 1);
    tensor_list weights;
    learn(data, &weights, s.ctx);
    const witness full = steps_from(data, &weights, 0.0, DTYPE_F32);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const char *name = dtype_name(rows[r].type);
        const witness off = steps_from(data, &weights, rows[r].rounding, DTYPE_F32);
        const closeness natural = compare_steps(&full, &off, "rounded");
        assert_true(natural.items < rows[r].limit.items && natural.norm < rows[r].limit.norm);
        const witness w = steps_from(data, &weights, 0.0, rows[r].type);
        assert_true(w.steps[0].loss_scale <= (rows[r].type == DTYPE_F16 ? 65536.0 : 1.0));
        const closeness found = compare_steps(&full, &w, name);
        if (!(found.items <= rows[r].limit.items && found.norm <= rows[r].limit.norm))
            fail_msg("%s differs: items %.2g, gradient norm %.2g", name, found.items, found.norm);
    }
    tensor_list_deinit(&weights);
    scratch_destroy(&s);
}

/* --- the comparison before training --- */

#define ANCHORS 50
#define ROWS    6

static void predictions_fill(float full[ROWS * ANCHORS], float half[ROWS * ANCHORS]) {
    for (int k = 0; k < ROWS; k++)
        for (int a = 0; a < ANCHORS; a++)
            full[k * ANCHORS + a] = k < 4 ? (float)(10 * a + k) : k == 4 ? (float)a / ANCHORS : 0.01f;
    memcpy(half, full, ROWS * ANCHORS * sizeof *half);
}

static void predictions_are_compared_where_they_matter(void **state) {
    (void)state;
    float full[ROWS * ANCHORS], half[ROWS * ANCHORS];
    half_report r;
    predictions_fill(full, half);
    half_compare(full, half, ROWS, ANCHORS, &r);
    assert_true(r.passed && r.n_rows == 30 && r.box_error == 0.0 && r.score_error == 0.0);
    half[0 * ANCHORS + 49] += 0.4f; /* the most confident box, within the limit */
    half[4 * ANCHORS + 49] -= 0.04f;
    half[1 * ANCHORS + 3] += 100.0f; /* one that nobody sees */
    half_compare(full, half, ROWS, ANCHORS, &r);
    assert_true(r.passed && r.box_error > 0.39 && r.score_error > 0.039);
    half[0 * ANCHORS + 49] += 0.2f;
    half_compare(full, half, ROWS, ANCHORS, &r);
    assert_true(!r.passed && !r.boxes_agree && r.scores_agree);
    assert_non_null(strstr(r.why, "pixels"));
    predictions_fill(full, half);
    half[4 * ANCHORS + 48] += 0.06f;
    half_compare(full, half, ROWS, ANCHORS, &r);
    assert_true(!r.passed && r.boxes_agree && !r.scores_agree);
    predictions_fill(full, half);
    half[1 * ANCHORS + 3] = INFINITY; /* not finite anywhere */
    half_compare(full, half, ROWS, ANCHORS, &r);
    assert_true(!r.passed && !r.finite);
    assert_non_null(strstr(r.why, "not finite"));
    predictions_fill(full, half);
    for (int a = 0; a < ANCHORS; a++) full[4 * ANCHORS + a] *= 0.2f; /* nothing is confident: the best ten */
    half_compare(full, full, ROWS, ANCHORS, &r);
    assert_true(r.passed && r.n_rows == 10);
}

static void half_precision_must_not_be_slower(void **state) {
    (void)state;
    half_report r = {.passed = true, .seconds_f32 = 0.010, .seconds_half = 0.011};
    half_judge_times(&r); /* noise */
    assert_true(r.passed && r.why[0] == '\0');
    r.seconds_half = 0.015;
    half_judge_times(&r);
    assert_false(r.passed);
    assert_non_null(strstr(r.why, "slower than fp32 on this device: 15.00 instead of 10.00 ms"));
    half_report other = {.passed = false, .seconds_f32 = 0.010, .seconds_half = 0.015, .why = "boxes differ"};
    half_judge_times(&other); /* the first reason stays */
    assert_string_equal(other.why, "boxes differ");
}

/* With the same type on both sides the predictions are the same to the bit. */
static void a_model_agrees_with_itself(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    device *dev = NULL;
    half_report r;
    assert_int_equal(device_open(ctx, test_device_name(), &dev), OL_OK);
    model *m = tiny_model(&a);
    assert_int_equal(half_check(ctx, dev, m, DTYPE_F32, 2, 64, 96, &r), OL_OK);
    assert_true(r.finite && r.boxes_agree && r.scores_agree && r.box_error == 0.0 && r.score_error == 0.0);
    assert_true(r.n_rows >= 10 && r.seconds_f32 > 0.0 && r.seconds_half > 0.0);
    model_destroy(m);
    device_close(dev);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_precision_must_not_be_slower),
        cmocka_unit_test(the_scale_follows_the_gradients),
        cmocka_unit_test(without_scaling_the_scale_stays),
        cmocka_unit_test(scaled_losses_train_as_unscaled_ones),
        cmocka_unit_test(the_first_step_finds_its_scale),
        cmocka_unit_test(biases_that_change_nothing_rest),
        cmocka_unit_test(an_overflow_skips_the_step),
        cmocka_unit_test(too_many_skipped_steps_end_the_run),
        cmocka_unit_test(without_a_scale_overflows_end_the_run),
        cmocka_unit_test(a_useless_scale_in_a_file_is_passed_over),
        cmocka_unit_test(waiting_gradients_keep_their_size_without_scaling),
        cmocka_unit_test(half_precision_trains_as_f32),
        cmocka_unit_test(predictions_are_compared_where_they_matter),
        cmocka_unit_test(a_model_agrees_with_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
