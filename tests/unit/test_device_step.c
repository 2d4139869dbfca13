/* The optimizer step of a device (device/step.h) against the plain C of ops: every optimizer over groups that start and
 * end anywhere, steps that are skipped, wait or stop, the loss scale, and MuSGD's matrices from a vector to more than
 * one tile. ONELOOK_TEST_DEVICE names the device. */
#include "device/device.h"
#include "golden.h"
#include "ops/newton_schulz.h"
#include "step_alone.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES, EMA, GRADS, STATE_A, STATE_B, BUFFERS };
enum { N_VALUES = 6000, N_TRAINED = 5000 };
#define CLIP 10.0

/* Groups with gaps, an empty one, one of several blocks: what lies between them is only averaged. */
static const step_group groups[] = {{5, 1034, false}, {1100, 1100, false}, {2047, 4100, false}};
enum { N_GROUPS = sizeof groups / sizeof *groups };

/* Buffers on the device, and the same numbers here. */
typedef struct fixture {
    ol_context *ctx;
    device *dev;
    device_buffer *there[BUFFERS];
    float *here[BUFFERS];
    step_layout layout;
    step_orders orders;
    step_numbers numbers;
    device_step *step;
} fixture;

static size_t length(int buffer) {
    return buffer <= EMA ? N_VALUES : N_TRAINED;
}

static void check(const fixture *f, ol_status status) {
    if (status != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
}

static void upload(const fixture *f, int i) {
    check(f, device_buffer_write(f->there[i], 0, f->here[i], length(i) * sizeof(float)));
}

static void gradients_draw(const fixture *f, const char *name, float size) {
    golden_hash(name, f->here[GRADS], N_TRAINED, -1.0, 1.0);
    for (int i = 0; i < N_TRAINED; i++) f->here[GRADS][i] *= size;
    upload(f, GRADS);
}

static fixture open(optimizer_kind kind, dtype maps) {
    static const char *const names[BUFFERS] = {"p", "e", "g", "a", "b"};
    fixture f = {.ctx = test_context()};
    check(&f, device_open(f.ctx, test_device_name(), &f.dev));
    for (int i = 0; i < BUFFERS; i++) {
        f.here[i] = malloc(length(i) * sizeof(float));
        golden_hash(names[i], f.here[i], length(i), i < STATE_A ? -1.0 : 0.1, 1.0); /* some hold squares */
        check(&f, device_buffer_create(f.dev, length(i) * sizeof(float), &f.there[i]));
        upload(&f, i);
    }
    f.layout = (step_layout){.kind = kind,
                             .clip_norm = CLIP,
                             .values = f.there[VALUES],
                             .ema = f.there[EMA],
                             .grads = f.there[GRADS],
                             .states = {f.there[STATE_A]},
                             .n_trained = N_TRAINED,
                             .n_values = N_VALUES,
                             .n_groups = N_GROUPS};
    if (optimizer_info_of(kind)->n_states > 1) f.layout.states[1] = f.there[STATE_B];
    memcpy(f.layout.groups, groups, sizeof groups);
    f.orders = (step_orders){.beta2 = 0.999, .images = 3, .take = true};
    for (int g = 0; g < N_GROUPS; g++) {
        f.orders.lr[g] = 0.01 * (g + 1);
        f.orders.momentum[g] = 0.9;
        f.orders.weight_decay[g] = g == 0 ? 5e-4 : 0.0;
    }
    f.numbers.mu_product = 1.0;
    loss_scaler_init(&f.numbers.scaler, maps);
    return f;
}

static void start(fixture *f) {
    check(f, device_step_create(f->dev, &f->layout, &f->step));
    check(f, device_step_load(f->step, &f->numbers));
}

static void end(fixture *f) {
    device_step_destroy(f->step);
    for (int i = 0; i < BUFFERS; i++) {
        device_buffer_destroy(f->there[i]);
        free(f->here[i]);
    }
    device_close(f->dev);
    ol_context_destroy(f->ctx);
}

/* All buffers, whole: what lies outside of the groups must be untouched. Without a tolerance: the same bits. */
static void compare(const fixture *f, const char *what, double absolute, double relative) {
    static const char *const names[BUFFERS] = {"values", "averages", "gradients", "first state", "second state"};
    float *found = malloc(N_VALUES * sizeof *found);
    for (int i = 0; i < BUFFERS; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s, %s", what, names[i]);
        check(f, device_buffer_read(f->there[i], 0, found, length(i) * sizeof(float)));
        if (absolute > 0.0)
            assert_close(name, found, f->here[i], length(i), absolute, relative);
        else if (memcmp(found, f->here[i], length(i) * sizeof(float)) != 0)
            fail_msg("%s: not the same bits", name);
    }
    free(found);
}

static step_outcome run(fixture *f) {
    step_outcome o;
    check(f, device_step_order(f->step, &f->orders));
    check(f, step_alone_run(f->step));
    check(f, device_step_outcome(f->step, &o));
    return o;
}

static void groups_clear(const fixture *f) {
    for (int g = 0; g < N_GROUPS; g++)
        memset(f->here[GRADS] + groups[g].begin, 0, (groups[g].end - groups[g].begin) * sizeof(float));
}

/* What a step that is taken does to the numbers here. */
static void expect(fixture *f, double norm) {
    float *g = f->here[GRADS];
    optim_scale(g, (float)((double)optim_clip_coefficient(norm, CLIP) / f->numbers.scaler.scale), N_TRAINED, 1);
    loss_scaler_grow(&f->numbers.scaler);
    f->numbers.step++;
    if (f->layout.kind == OPTIMIZER_NADAM)
        f->numbers.mu_product *= optim_nadam_mu(f->orders.momentum[0], f->numbers.step);
    for (int i = 0; i < N_GROUPS; i++) {
        const optim_step s = {.lr = f->orders.lr[i],
                              .weight_decay = f->orders.weight_decay[i],
                              .momentum = f->orders.momentum[i],
                              .beta2 = f->orders.beta2,
                              .step = f->numbers.step,
                              .mu_product = f->numbers.mu_product};
        const size_t at = groups[i].begin;
        float *const states[OPTIMIZER_MAX_STATES] = {f->here[STATE_A] + at, f->here[STATE_B] + at};
        optim_update(f->layout.kind, &s, f->here[VALUES] + at, g + at, states, groups[i].end - at, 1);
    }
    f->numbers.ema_updates++;
    optim_ema_update(optim_ema_decay(f->numbers.ema_updates), f->here[VALUES], f->here[EMA], N_VALUES, 1);
    groups_clear(f);
}

static void assert_numbers(const step_numbers *found, const step_numbers *wanted) {
    assert_true(found->scaler.on == wanted->scaler.on && found->scaler.skips == wanted->scaler.skips &&
                found->scaler.scale == wanted->scaler.scale);
    assert_int_equal(found->scaler.n_good, wanted->scaler.n_good);
    assert_int_equal(found->scaler.n_skipped, wanted->scaler.n_skipped);
    assert_int_equal(found->step, wanted->step);
    assert_int_equal(found->ema_updates, wanted->ema_updates);
    assert_true(fabs(found->mu_product - wanted->mu_product) <= 1e-12);
}

/* Gradients lie in groups alone; the rest of their buffer is zero in training. */
static void gradients_trim(const fixture *f) {
    size_t at = 0;
    for (int g = 0; g < N_GROUPS; g++) {
        memset(f->here[GRADS] + at, 0, (groups[g].begin - at) * sizeof(float));
        at = groups[g].end;
    }
    memset(f->here[GRADS] + at, 0, (N_TRAINED - at) * sizeof(float));
    upload(f, GRADS);
}

static void optimizers_step_alike(void **state) {
    (void)state;
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        if (kind == OPTIMIZER_MUSGD) continue; /* below */
        fixture f = open((optimizer_kind)kind, DTYPE_F16);
        f.numbers.step = 3;
        f.numbers.ema_updates = 400;
        start(&f);
        for (int step = 0; step < 6; step++) {
            /* clipped and not; small and large */
            gradients_draw(&f, step % 2 ? "g1" : "g0", (step % 2 ? 1.0f : 1e-3f) * 65536.0f);
            gradients_trim(&f);
            const double wanted = sqrt(optim_sum_squares(f.here[GRADS], N_TRAINED, 1)) / f.numbers.scaler.scale;
            const step_outcome o = run(&f);
            if (!(fabs(o.norm - wanted) <= 1e-9 * wanted)) fail_msg("norm %.17g, not %.17g", o.norm, wanted);
            assert_true((wanted > CLIP) == (step % 2 == 1));
            assert_true(o.scale == 65536.0 && !o.skipped && !o.stopped);
            expect(&f, wanted);
            assert_numbers(&o.numbers, &f.numbers);
        }
        compare(&f, optimizer_info_of((optimizer_kind)kind)->name, 1e-6, 1e-5);
        end(&f);
    }
}

/* A batch without a step leaves everything, a norm that is not finite clears the gradients alone. */
static void steps_are_left_out(void **state) {
    (void)state;
    fixture f = open(OPTIMIZER_ADAMW, DTYPE_F16);
    start(&f);
    gradients_draw(&f, "g", 100.0f);
    gradients_trim(&f);
    f.orders.take = false;
    step_outcome o = run(&f);
    assert_true(!o.skipped && !o.stopped && o.norm >= 0.0 && o.norm <= 0.0);
    assert_numbers(&o.numbers, &f.numbers);
    compare(&f, "waiting", 0.0, 0.0);
    static const float bad[] = {INFINITY, NAN, -INFINITY};
    f.orders.take = true;
    for (int i = 0; i < 3; i++) {
        gradients_draw(&f, "g", 1.0f);
        gradients_trim(&f);
        f.here[GRADS][i == 1 ? 4099 : 5] = bad[i];
        upload(&f, GRADS);
        o = run(&f);
        assert_true(o.skipped && !o.stopped && !isfinite(o.norm) && o.scale == f.numbers.scaler.scale);
        assert_true(loss_scaler_back_off(&f.numbers.scaler));
        assert_numbers(&o.numbers, &f.numbers);
        groups_clear(&f);
        compare(&f, "skipped", 0.0, 0.0);
    }
    /* f32 squares that leave its range do not leave that of the sum */
    gradients_draw(&f, "g", 1e30f);
    gradients_trim(&f);
    o = run(&f);
    assert_true(!o.skipped && isfinite(o.norm) && o.norm > 1e24);
    end(&f);
}

static void the_scale_grows_and_falls_and_the_run_stops(void **state) {
    (void)state;
    fixture f = open(OPTIMIZER_SGD, DTYPE_F16);
    f.numbers.scaler.n_good = LOSS_SCALE_INTERVAL - 2;
    start(&f);
    double scale = LOSS_SCALE_START;
    for (int i = 0; i < 2; i++) {
        const step_outcome o = run(&f);
        scale *= i == 1 ? 2.0 : 1.0;
        assert_true(o.numbers.scaler.scale == scale && !o.skipped);
    }
    gradients_draw(&f, "g", 1.0f);
    for (int i = 0; i < LOSS_SCALE_MAX_SKIPS; i++) {
        gradients_trim(&f);
        f.here[GRADS][2050] = NAN;
        upload(&f, GRADS);
        const step_outcome o = run(&f);
        const bool last = i == LOSS_SCALE_MAX_SKIPS - 1;
        scale *= last ? 1.0 : 0.5;
        assert_true(o.skipped && o.stopped == last && o.numbers.scaler.scale == scale);
        assert_int_equal(o.numbers.scaler.n_skipped, i + 1);
        if (!last) groups_clear(&f);
    }
    /* what follows a stop moves nothing, whatever the gradients are */
    check(&f, device_buffer_read(f.there[VALUES], 0, f.here[VALUES], N_VALUES * sizeof(float)));
    check(&f, device_buffer_read(f.there[EMA], 0, f.here[EMA], N_VALUES * sizeof(float)));
    check(&f, device_buffer_read(f.there[STATE_A], 0, f.here[STATE_A], N_TRAINED * sizeof(float)));
    gradients_draw(&f, "g", 1.0f);
    assert_true(run(&f).stopped);
    compare(&f, "stopped", 0.0, 0.0);
    check(&f, device_step_load(f.step, &f.numbers));
    assert_false(run(&f).stopped);
    end(&f);
}

static void without_scaling_overflows_stop(void **state) {
    (void)state;
    static const struct {
        dtype maps;
        int n_skipped;
    } rows[] = {{DTYPE_F32, 0}, {DTYPE_BF16, LOSS_SCALE_MAX_SKIPS - 1}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        fixture f = open(OPTIMIZER_SGD, rows[k].maps);
        start(&f);
        for (int i = 0; i <= rows[k].n_skipped; i++) {
            gradients_draw(&f, "g", 1.0f);
            gradients_trim(&f);
            f.here[GRADS][6] = INFINITY;
            upload(&f, GRADS);
            const step_outcome o = run(&f);
            assert_true(o.skipped && o.scale == 1.0 && o.numbers.scaler.scale == 1.0 && o.numbers.step == 0);
            assert_true(o.stopped == (i == rows[k].n_skipped));
            if (!o.stopped) groups_clear(&f);
        }
        compare(&f, "stopped", 0.0, 0.0);
        end(&f);
    }
}

/* The scale goes into the losses before a batch; what they report comes back with the outcome. */
static void losses_take_the_scale_and_stop_a_run(void **state) {
    (void)state;
    fixture f = open(OPTIMIZER_SGD, DTYPE_F16);
    start(&f);
    enum { GAINS = 8, AT = 16 };
    const float gains[GAINS] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
    float found[GAINS], items[2 * LOSS_ITEM_COUNT] = {1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f};
    device_buffer *there = NULL;
    check(&f, device_buffer_create(f.dev, (AT + 6) * sizeof(float), &there));
    check(&f, device_buffer_write(there, 0, gains, sizeof gains));
    float *base = f.dev->api->buffer_address(there);
    for (int branches = 2; branches >= 1; branches--)
        for (int bad = 0; bad < 2; bad++) {
            items[1] = bad ? NAN : 2.5f;
            check(&f, device_buffer_write(there, AT * sizeof(float), items, sizeof items));
            const step_places at = {{base, NULL}, {base + AT, branches > 1 ? base + AT + 3 : NULL}};
            step_outcome o;
            f.orders.take = false;
            check(&f, device_step_load(f.step, &f.numbers));
            check(&f, device_step_order(f.step, &f.orders));
            check(&f, f.dev->api->step_begin(f.step, &at));
            check(&f, f.dev->api->step_end(f.step, &at));
            check(&f, device_step_collect(f.step));
            check(&f, device_step_outcome(f.step, &o));
            assert_int_equal(o.stopped, bad);
            assert_true(o.items[0][0] == 1.5f && (bad ? isnan(o.items[0][1]) : o.items[0][1] == 2.5f));
            for (int k = 0; k < LOSS_ITEM_COUNT; k++)
                assert_true(o.items[1][k] == (branches > 1 ? items[LOSS_ITEM_COUNT + k] : 0.0f));
            check(&f, device_buffer_read(there, 0, found, sizeof found));
            for (int k = 0; k < GAINS; k++)
                assert_true(found[k] == (k == LOSS_GAIN_IMAGES ? 3.0f * 65536.0f : gains[k]));
        }
    compare(&f, "losses alone", 0.0, 0.0);
    device_buffer_destroy(there);
    end(&f);
}

static void outcomes_wait_in_order(void **state) {
    (void)state;
    fixture f = open(OPTIMIZER_SGD, DTYPE_F16);
    start(&f);
    step_outcome o;
    assert_int_equal(device_step_outcome(f.step, &o), OL_ERROR_INTERNAL);
    for (int i = 0; i < STEP_AHEAD; i++) {
        check(&f, device_step_order(f.step, &f.orders));
        check(&f, step_alone_run(f.step));
    }
    assert_int_equal(device_step_order(f.step, &f.orders), OL_ERROR_INTERNAL);
    for (int i = 0; i < STEP_AHEAD; i++) {
        check(&f, device_step_outcome(f.step, &o));
        assert_int_equal(o.numbers.step, i + 1);
    }
    end(&f);
}

/* Devices may hold the matrices in half precision: the direction is judged, which one wrong tile would turn. The
 * gradients are small, so that the rule of SGD, which moves the matrices too, has little part in it. */
static void matrices_are_orthogonalised(void **state) {
    (void)state;
    static const step_matrix list[] = {{.offset = 5, .rows = 1, .cols = 9, .group = 0, .scale = 1.0f},
                                       {.offset = 16, .rows = 16, .cols = 27, .group = 0, .scale = 0.5f},
                                       {.offset = 1100, .rows = 70, .cols = 33, .group = 2, .scale = 2.0f}};
    enum { N = sizeof list / sizeof *list };
    fixture f = open(OPTIMIZER_MUSGD, DTYPE_F32);
    const step_group muon[N_GROUPS] = {{5, 448, true}, {500, 1000, false}, {1100, 3410, true}};
    memcpy(f.layout.groups, muon, sizeof muon);
    f.layout.matrices = list;
    f.layout.n_matrices = N;
    f.orders.weight_decay[0] = 0.0;
    for (int i = 0; i < N_TRAINED; i++) {
        f.here[STATE_A][i] *= 1e-4f;
        f.here[STATE_B][i] *= 1e-4f;
    }
    upload(&f, STATE_A);
    upload(&f, STATE_B);
    gradients_draw(&f, "g", 1e-4f);
    start(&f);
    float *before = malloc(N_VALUES * sizeof *before), *found = malloc(N_VALUES * sizeof *found);
    float *u = malloc(N_TRAINED * sizeof *u);
    memcpy(before, f.here[VALUES], N_VALUES * sizeof *before);
    const step_outcome o = run(&f);
    assert_true(!o.skipped && !o.stopped && o.numbers.step == 1);
    check(&f, device_buffer_read(f.there[VALUES], 0, found, N_VALUES * sizeof(float)));
    for (int g = 0; g < N_GROUPS; g++) {
        const size_t at = muon[g].begin, n = muon[g].end - at;
        if (muon[g].muon) optim_muon_momentum(0.9, f.here[GRADS] + at, f.here[STATE_A] + at, u + at, n, 1);
    }
    for (int i = 0; i < N; i++) {
        const ns_matrix matrix = {u + list[i].offset, u + list[i].offset, list[i].rows, list[i].cols};
        void *scratch = aligned_alloc(64, (newton_schulz_scratch_bytes(&matrix, 1, 1) + 63) / 64 * 64);
        newton_schulz(&matrix, 1, scratch, 1);
        free(scratch);
        optim_muon_apply(f.orders.lr[list[i].group], (double)list[i].scale, u + list[i].offset,
                         f.here[VALUES] + list[i].offset, (size_t)list[i].rows * (size_t)list[i].cols);
    }
    for (int g = 0; g < N_GROUPS; g++) {
        const optim_step s = {.lr = f.orders.lr[g], .momentum = 0.9, .beta2 = 0.999, .step = 1};
        const size_t at = muon[g].begin;
        float *const states[OPTIMIZER_MAX_STATES] = {f.here[STATE_A] + at, f.here[STATE_B] + at};
        optim_update(OPTIMIZER_MUSGD, &s, f.here[VALUES] + at, f.here[GRADS] + at, states, muon[g].end - at, 1);
    }
    for (int i = 0; i < N; i++) {
        double error = 0.0, moved = 0.0;
        for (size_t k = list[i].offset; k < list[i].offset + (size_t)list[i].rows * (size_t)list[i].cols; k++) {
            error += pow((double)found[k] - (double)f.here[VALUES][k], 2.0);
            moved += pow((double)f.here[VALUES][k] - (double)before[k], 2.0);
        }
        if (!(moved > 0.0 && sqrt(error) <= 0.02 * sqrt(moved)))
            fail_msg("%d x %d: error %.3g of %.3g", list[i].rows, list[i].cols, sqrt(error), sqrt(moved));
    }
    assert_close("between matrices", found + 450, f.here[VALUES] + 450, 600, 1e-7, 1e-6);
    check(&f, device_buffer_read(f.there[STATE_A], 0, found, N_TRAINED * sizeof(float)));
    assert_close("momentum of matrices", found, f.here[STATE_A], N_TRAINED, 1e-10, 1e-5);
    check(&f, device_buffer_read(f.there[STATE_B], 0, found, N_TRAINED * sizeof(float)));
    assert_close("momentum of SGD", found, f.here[STATE_B], N_TRAINED, 1e-10, 1e-5);
    free(u);
    free(found);
    free(before);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_step_alike),
        cmocka_unit_test(steps_are_left_out),
        cmocka_unit_test(the_scale_grows_and_falls_and_the_run_stops),
        cmocka_unit_test(without_scaling_overflows_stop),
        cmocka_unit_test(losses_take_the_scale_and_stop_a_run),
        cmocka_unit_test(outcomes_wait_in_order),
        cmocka_unit_test(matrices_are_orthogonalised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
