/* Flat operations of a device (device/flat.h: optimizers, averages, norms, MuSGD's matrices) against the plain C of
 * ops: ranges that start and end anywhere, every optimizer, matrices from a vector to more than one tile.
 * ONELOOK_TEST_DEVICE names the device. */
#include "device/device.h"
#include "golden.h"
#include "ops/newton_schulz.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 6000, BUFFERS = 4 };

/* Four ranges of floats on the device, and the same numbers here. */
typedef struct fixture {
    ol_context *ctx;
    device *dev;
    device_buffer *there[BUFFERS];
    float *here[BUFFERS];
} fixture;

static void check(const fixture *f, ol_status status) {
    if (status != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
}

static fixture fixture_make(void) {
    static const char *const names[BUFFERS] = {"p", "g", "a", "b"};
    fixture f = {.ctx = test_context()};
    check(&f, device_open(f.ctx, test_device_name(), &f.dev));
    for (int i = 0; i < BUFFERS; i++) {
        f.here[i] = malloc(ROOM * sizeof(float));
        golden_hash(names[i], f.here[i], ROOM, i < 2 ? -1.0 : 0.1, 1.0); /* states that hold squares are positive */
        check(&f, device_buffer_create(f.dev, ROOM * sizeof(float), &f.there[i]));
        check(&f, device_buffer_write(f.there[i], 0, f.here[i], ROOM * sizeof(float)));
    }
    return f;
}

static void fixture_end(fixture *f) {
    for (int i = 0; i < BUFFERS; i++) {
        device_buffer_destroy(f->there[i]);
        free(f->here[i]);
    }
    device_close(f->dev);
    ol_context_destroy(f->ctx);
}

/* All four ranges, whole: what lies before and behind the range must be untouched. */
static void compare(const fixture *f, const char *what, double absolute, double relative) {
    float *found = malloc(ROOM * sizeof *found);
    for (int i = 0; i < BUFFERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, range %d", what, i);
        check(f, device_buffer_read(f->there[i], 0, found, ROOM * sizeof(float)));
        assert_close(name, found, f->here[i], ROOM, absolute, relative);
    }
    free(found);
}

static flat range(const fixture *f, int i, size_t offset) {
    return flat_at(f->there[i], offset);
}

static void optimizers_step_alike(void **state) {
    (void)state;
    static const size_t counts[] = {1, 37, 1024, 4099};
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        fixture f = fixture_make();
        const int n_states = optimizer_info_of((optimizer_kind)kind)->n_states;
        double product = 1.0;
        for (int step = 1; step <= 4; step++) {
            const size_t n = counts[step - 1], at = (size_t)(13 * step); /* of any alignment */
            optim_step s = {.lr = 0.01, .weight_decay = 5e-4, .momentum = 0.9, .beta2 = 0.999, .step = step * 3};
            product *= optim_nadam_mu(s.momentum, s.step);
            s.mu_product = product;
            float *const states[OPTIMIZER_MAX_STATES] = {f.here[2] + at, f.here[3] + at};
            optim_update((optimizer_kind)kind, &s, f.here[0] + at, f.here[1] + at, states, n, 1);
            check(&f, flat_optim(f.dev, (optimizer_kind)kind, &s, range(&f, 0, at), range(&f, 1, at), range(&f, 2, at),
                                 n_states > 1 ? range(&f, 3, at) : (flat){0}, n));
        }
        compare(&f, optimizer_info_of((optimizer_kind)kind)->name, 1e-6, 1e-5);
        fixture_end(&f);
    }
}

static void ranges_are_blended_scaled_and_cleared(void **state) {
    (void)state;
    fixture f = fixture_make();
    check(&f, flat_ema(f.dev, 0.75, range(&f, 0, 5), range(&f, 1, 5), 3001));
    optim_ema_update(0.75, f.here[0] + 5, f.here[1] + 5, 3001, 1);
    check(&f, flat_scale(f.dev, range(&f, 2, 7), 1033, 0.125f));
    optim_scale(f.here[2] + 7, 0.125f, 1033, 1);
    check(&f, flat_clear(f.dev, range(&f, 3, 3), 771));
    memset(f.here[3] + 3, 0, 771 * sizeof(float));
    compare(&f, "ema, scale, clear", 1e-7, 1e-6);
    check(&f, flat_muon_momentum(f.dev, 0.9, range(&f, 0, 11), range(&f, 1, 17), range(&f, 2, 2), 2049));
    optim_muon_momentum(0.9, f.here[0] + 11, f.here[1] + 17, f.here[2] + 2, 2049, 1);
    compare(&f, "muon momentum", 1e-6, 1e-6);
    fixture_end(&f);
}

static void squares_are_summed(void **state) {
    (void)state;
    static const size_t counts[] = {1, 255, 4097, ROOM - 1};
    fixture f = fixture_make();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double sum = -1.0;
        check(&f, flat_sum_squares(f.dev, range(&f, 1, 1), counts[i], &sum));
        const double wanted = optim_sum_squares(f.here[1] + 1, counts[i], 1);
        if (!(fabs(sum - wanted) <= 1e-9 * wanted)) fail_msg("%zu: %.17g, not %.17g", counts[i], sum, wanted);
    }
    fixture_end(&f);
}

/* Devices may hold the matrices in half precision: the direction is judged, which one wrong tile would turn. */
static void matrices_are_orthogonalised(void **state) {
    (void)state;
    static const flat_matrix list[] = {{.offset = 3, .rows = 1, .cols = 9, .group = 0, .scale = 1.0f},
                                       {.offset = 40, .rows = 16, .cols = 27, .group = 2, .scale = 0.5f},
                                       {.offset = 600, .rows = 70, .cols = 33, .group = 1, .scale = 2.0f}};
    static const double rates[8] = {0.01, 0.02, 0.03};
    enum { N = sizeof list / sizeof *list };
    fixture f = fixture_make();
    flat_muon *m = NULL;
    check(&f, flat_muon_create(f.dev, list, N, &m));
    float *before = malloc(ROOM * sizeof *before), *found = malloc(ROOM * sizeof *found);
    memcpy(before, f.here[0], ROOM * sizeof *before);
    check(&f, flat_muon_apply(f.dev, m, range(&f, 1, 0), range(&f, 0, 0), rates));
    check(&f, device_buffer_read(f.there[0], 0, found, ROOM * sizeof(float)));
    size_t next = 0;
    for (int i = 0; i < N; i++) {
        const int rows = list[i].rows, cols = list[i].cols;
        const size_t n = (size_t)rows * (size_t)cols, at = list[i].offset;
        const ns_matrix matrix = {f.here[1] + at, f.here[1] + at, rows, cols};
        void *scratch = aligned_alloc(64, (newton_schulz_scratch_bytes(&matrix, 1, 1) + 63) / 64 * 64);
        newton_schulz(&matrix, 1, scratch, 1);
        free(scratch);
        optim_muon_apply(rates[list[i].group], list[i].scale, f.here[1] + at, f.here[0] + at, n);
        assert_memory_equal(found + next, before + next, (at - next) * sizeof(float));
        double error = 0.0, moved = 0.0;
        for (size_t k = at; k < at + n; k++) {
            error += pow((double)found[k] - (double)f.here[0][k], 2.0);
            moved += pow((double)f.here[0][k] - (double)before[k], 2.0);
        }
        if (!(moved > 0.0 && sqrt(error) <= 0.02 * sqrt(moved)))
            fail_msg("%d x %d: error %.3g of %.3g", rows, cols, sqrt(error), sqrt(moved));
        next = at + n;
    }
    assert_memory_equal(found + next, before + next, (ROOM - next) * sizeof(float));
    flat_muon_destroy(f.dev, m);
    free(found);
    free(before);
    fixture_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_step_alike),
        cmocka_unit_test(ranges_are_blended_scaled_and_cleared),
        cmocka_unit_test(squares_are_summed),
        cmocka_unit_test(matrices_are_orthogonalised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
