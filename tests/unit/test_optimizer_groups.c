/* What the optimizer does with the groups of a model's parameters, and the moving average beside them. */
#include "golden.h"
#include "step_alone.h"
#include "tiny_model.h"

#include "train/optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LR       0.1
#define MOMENTUM 0.9
#define DECAY    0.5

typedef struct fixture {
    ol_context *ctx;
    arena arena;
    device *dev;
    model *m;
    param_store *store;
    optimizer *opt;
    tensor_list values, average;
} fixture;

static fixture open(optimizer_kind kind) {
    fixture f = {.ctx = test_context()};
    arena_init(&f.arena, f.ctx, 0);
    f.m = tiny_model(&f.arena);
    assert_int_equal(device_open(f.ctx, "cpu", &f.dev), OL_OK);
    assert_int_equal(param_store_create(f.ctx, f.dev, f.m, kind, &f.store), OL_OK);
    assert_int_equal(optimizer_create(f.store, kind, LR, MOMENTUM, DECAY, DTYPE_F32, &f.opt), OL_OK);
    tensor_list_init(&f.values, f.ctx);
    tensor_list_init(&f.average, f.ctx);
    assert_int_equal(tensor_list_copy(&f.values, &f.m->state), OL_OK);
    assert_int_equal(tensor_list_copy(&f.average, &f.m->state), OL_OK);
    return f;
}

static void close(fixture *f) {
    tensor_list_deinit(&f->values);
    tensor_list_deinit(&f->average);
    optimizer_destroy(f->opt);
    param_store_destroy(f->store);
    device_close(f->dev);
    model_destroy(f->m);
    arena_deinit(&f->arena);
    ol_context_destroy(f->ctx);
}

static void step(fixture *f) {
    step_outcome outcome = {.norm = -1.0};
    assert_int_equal(optimizer_order(f->opt, 1, true), OL_OK);
    assert_int_equal(step_alone_run(f->opt->step), OL_OK);
    assert_int_equal(optimizer_outcome(f->opt, &outcome), OL_OK);
    assert_true(outcome.norm >= 0.0 && outcome.norm <= 0.0 && !outcome.skipped && !outcome.stopped);
    assert_int_equal(param_store_read(f->store, PARAM_VALUES, &f->values), OL_OK);
    assert_int_equal(param_store_read(f->store, PARAM_EMA, &f->average), OL_OK);
}

/* Every parameter, from its start x: `kept` x where its group decays, x elsewhere; the same for the average. */
static void assert_factors(const fixture *f, double kept, double kept_average) {
    int n_decaying = 0;
    for (int i = 0; i < f->store->n_params; i++) {
        const param_entry *e = &f->store->params[i];
        const char *group = f->store->groups[e->group].name;
        const bool decays = strcmp(group, "weight") == 0;
        assert_true(decays || strcmp(group, "bn") == 0 || strcmp(group, "bias") == 0);
        /* convolutions' weights decay; biases and the weights of batch norms, both of rank 1, do not */
        assert_int_equal(decays, e->shape.rank > 1);
        n_decaying += decays;
        const float *start = tensor_f32(&f->m->state.items[e->state_index].t);
        const float *value = tensor_f32(&f->values.items[e->state_index].t);
        const float *average = tensor_f32(&f->average.items[e->state_index].t);
        for (size_t k = 0; k < e->count; k++) {
            const double x = (double)start[k];
            assert_true(fabs((double)value[k] - (decays ? kept : 1.0) * x) <= 1e-6 * fabs(x));
            assert_true(fabs((double)average[k] - (decays ? kept_average : 1.0) * x) <= 1e-6 * fabs(x));
        }
    }
    assert_true(n_decaying > 10);
}

static double average_decay(int update) {
    return 0.9999 * (1.0 - exp(-update / 2000.0));
}

/* SGD with Nesterov momentum and zero gradients: d = decay x, a = mu a + d, x -= lr (d + mu a). */
static void only_weights_decay_and_the_average_follows_each_step(void **state) {
    (void)state;
    fixture f = open(OPTIMIZER_SGD);
    double x = 1.0, a = 0.0, average = 1.0;
    for (int t = 1; t <= 3; t++) {
        const double d = DECAY * x;
        a = MOMENTUM * a + d;
        x -= LR * (d + MOMENTUM * a);
        average = average_decay(t) * average + (1.0 - average_decay(t)) * x;
        step(&f);
        assert_factors(&f, x, average);
    }
    close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_weights_decay_and_the_average_follows_each_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
