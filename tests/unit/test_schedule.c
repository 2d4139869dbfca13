/* Schedules, warm-up, branch weights, EMA and the automatic optimizer against recorded tables. */
#include "golden.h"

#include "ops/optim.h"
#include "train/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double number(const value *map, const char *key) {
    return value_as_double(value_get(map, key));
}

static void assert_near(double a, double b) {
    assert_true(fabs(a - b) <= 1e-9 * fabs(b) + 1e-15);
}

static void learning_rate_factors(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "schedules/lr_lambda.json");
    assert_true(cases->as.list.count > 0);
    for (size_t i = 0; i < cases->as.list.count; i++) {
        const value *c = cases->as.list.items[i], *factors = value_get(c, "factor");
        const bool cosine = strcmp(value_get(c, "kind")->as.string, "cosine") == 0;
        for (size_t e = 0; e < factors->as.list.count; e++)
            assert_near(schedule_factor(cosine, number(c, "lrf"), (int)e, (int)number(c, "epochs")),
                        value_as_double(factors->as.list.items[e]));
    }
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void warm_up_tables(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "schedules/warmup.json");
    assert_true(cases->as.list.count > 0);
    for (size_t i = 0; i < cases->as.list.count; i++) {
        const value *c = cases->as.list.items[i], *rows = value_get(c, "rows");
        schedule s = {.batches = (int)number(c, "nb"),
                      .epochs = (int)number(c, "epochs"),
                      .batch = (int)number(c, "batch"),
                      .nbs = (int)number(c, "nbs"),
                      .lrf = number(c, "lrf"),
                      .warmup_epochs = 3.0,
                      .warmup_bias_lr = number(c, "warmup_bias_lr"),
                      .warmup_momentum = number(c, "warmup_momentum"),
                      .momentum = number(c, "momentum")};
        schedule_derive(&s);
        assert_int_equal(s.warmup, (int64_t)number(c, "nw"));
        assert_int_equal(s.accumulate, (int)number(c, "accumulate"));
        assert_near(schedule_weight_decay(&s, 0.0005), number(c, "weight_decay"));
        int64_t last_step = -1;
        double momentum = s.momentum;
        for (size_t r = 0; r < rows->as.list.count; r++) {
            const value *row = rows->as.list.items[r];
            const int64_t ni = (int64_t)number(row, "ni");
            const int epoch = (int)number(row, "epoch"), accumulate = schedule_accumulate(&s, ni);
            momentum = schedule_momentum(&s, ni, momentum);
            const bool step = ni - last_step >= accumulate;
            if (step) last_step = ni;
            assert_int_equal(accumulate, (int)number(row, "accumulate"));
            assert_near(schedule_lr(&s, ni, epoch, number(c, "lr0"), false), number(row, "lr"));
            assert_near(schedule_lr(&s, ni, epoch, number(c, "lr0"), true), number(row, "lr_bias"));
            assert_near(momentum, number(row, "momentum"));
            assert_int_equal(step, value_get(row, "step")->as.boolean);
        }
    }
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void weights_of_the_head_branches(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "schedules/e2e_weights.json");
    for (size_t i = 0; i < cases->as.list.count; i++) {
        const value *c = cases->as.list.items[i], *rows = value_get(c, "weights_after_u_updates");
        for (size_t u = 0; u < rows->as.list.count; u++) {
            double many, one;
            schedule_branch_weights((int)u, (int)number(c, "epochs"), &many, &one);
            assert_near(many, value_as_double(rows->as.list.items[u]->as.list.items[0]));
            assert_near(one, value_as_double(rows->as.list.items[u]->as.list.items[1]));
        }
    }
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void moving_average(void **state) {
    (void)state;
    golden_pack p = golden_open("schedules/ema");
    static const char *const keys[] = {"conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        char name[64];
        snprintf(name, sizeof name, "init.%s", keys[k]);
        const tensor start = golden_tensor(&p, name);
        const size_t n = (size_t)shape_elements(&start.shape);
        float *ema = malloc(n * sizeof *ema);
        memcpy(ema, start.data, n * sizeof *ema);
        for (int t = 1; t <= 6; t++) {
            assert_near(optim_ema_decay(t), value_as_double(value_get(p.meta, "decay_used")->as.list.items[t - 1]));
            snprintf(name, sizeof name, "model%d.%s", t, keys[k]);
            const tensor x = golden_tensor(&p, name);
            snprintf(name, sizeof name, "ema%d.%s", t, keys[k]);
            const tensor wanted = golden_tensor(&p, name);
            optim_ema_update(optim_ema_decay(t), tensor_f32(&x), ema, n, 2);
            assert_close(name, ema, tensor_f32(&wanted), n, 1e-6, 1e-6);
        }
        free(ema);
    }
    assert_near(optim_ema_decay(100000), 0.9999);
    golden_close(&p);
}

static void automatic_optimizer(void **state) {
    (void)state;
    const schedule_auto small = schedule_auto_choice(8, 4, 64, 2, 3),
                        large = schedule_auto_choice(118287, 16, 64, 100, 80);
    assert_false(small.musgd);
    assert_near(small.lr0, 0.001429); /* seen */
    assert_true(large.musgd);
    assert_near(large.lr0, 0.01);
    assert_false(schedule_auto_choice(64 * 100, 64, 64, 100, 80).musgd); /* 10000 iterations are not more than 10000 */
    assert_true(schedule_auto_choice(64 * 100 + 1, 64, 64, 100, 80).musgd);
    assert_false(schedule_auto_choice(64 * 100, 4, 64, 100, 80).musgd); /* small batches count by their sums to nbs */
    assert_false(schedule_auto_choice(128 * 100, 128, 64, 100, 80).musgd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(learning_rate_factors), cmocka_unit_test(warm_up_tables),
                                       cmocka_unit_test(weights_of_the_head_branches), cmocka_unit_test(moving_average),
                                       cmocka_unit_test(automatic_optimizer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
