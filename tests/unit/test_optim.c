/* Optimizers, clipping and Newton-Schulz against recorded steps. */
#include "golden.h"

#include "ops/newton_schulz.h"
#include "ops/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 5 };
static const char *const names[] = {"conv3", "conv1", "dw", "lin", "bias", "bnw"};
enum { N_NAMES = 6, N_MATRICES = 4 };

static tensor numbered(const golden_pack *p, const char *kind, int step, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "%s%d.%s", kind, step, name);
    return golden_tensor(p, key);
}

static double step_value(const golden_pack *p, const char *list, int step) {
    return value_as_double(value_get(p->meta, list)->as.list.items[step - 1]);
}

static void check_recorded(const char *what, const golden_pack *p, const char *kind, int step, const char *name,
                           const float *mine, double tolerance) {
    char key[64];
    snprintf(key, sizeof key, "%s%d.%s", kind, step, name);
    if (!golden_has(p, key)) return;
    const tensor wanted = golden_tensor(p, key);
    assert_close(what, mine, tensor_f32(&wanted), (size_t)shape_elements(&wanted.shape), tolerance, 1e-6);
}

static void elementwise_rules_follow_the_record(void **state) {
    (void)state;
    static const struct {
        const char *file;
        optimizer_kind kind;
        double decay;
    } rules[] = {{"sgd", OPTIMIZER_SGD, 5e-4},        {"adam", OPTIMIZER_ADAM, 5e-4},
                 {"adamw", OPTIMIZER_ADAMW, 5e-4},    {"adamax", OPTIMIZER_ADAMAX, 5e-4},
                 {"nadam", OPTIMIZER_NADAM, 5e-4},    {"radam", OPTIMIZER_RADAM, 5e-4},
                 {"rmsprop", OPTIMIZER_RMSPROP, 5e-4}};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        char stem[64];
        snprintf(stem, sizeof stem, "optim/%s", rules[r].file);
        golden_pack pack = golden_open(stem);
        const optimizer_info *info = optimizer_info_of(rules[r].kind);
        for (int i = 0; i < N_NAMES; i++) {
            const tensor start = numbered(&pack, "p", 0, names[i]);
            const size_t n = (size_t)shape_elements(&start.shape);
            float *p = malloc(n * sizeof *p),
                  *states[OPTIMIZER_MAX_STATES] = {calloc(n, sizeof(float)), calloc(n, sizeof(float))};
            memcpy(p, start.data, n * sizeof *p);
            double product = 1.0;
            for (int t = 1; t <= STEPS; t++) {
                product *= optim_nadam_mu(0.9, t);
                const optim_step s = {.lr = step_value(&pack, "lr_per_step", t),
                                      .weight_decay = i < N_MATRICES ? rules[r].decay : 0.0,
                                      .momentum = info->has_momentum ? step_value(&pack, "momentum_per_step", t) : 0.9,
                                      .beta2 = 0.999,
                                      .step = t,
                                      .mu_product = product};
                const tensor g = numbered(&pack, "g", t, names[i]);
                optim_update(rules[r].kind, &s, p, tensor_f32(&g), states, n, 2);
                check_recorded(rules[r].file, &pack, "p", t, names[i], p, 1e-6);
                check_recorded(rules[r].file, &pack, "buf", t, names[i], states[info->n_states - 1],
                               rules[r].kind == OPTIMIZER_RMSPROP ? 1.5e-5 : 1e-6); /* its buffers reach 15 */
            }
            free(p);
            free(states[0]);
            free(states[1]);
        }
        golden_close(&pack);
    }
}

/* The largest step that Newton-Schulz in bf16 may differ by (README of the recorded data). */
static double muon_tolerance(double lr) {
    return 0.06 * 0.2 * lr + 1e-6;
}

static void musgd_follows_the_record(void **state) {
    (void)state;
    golden_pack pack = golden_open("optim/musgd");
    static const double lr_factor[N_NAMES] = {1, 3, 1, 3, 3, 1};
    for (int i = 0; i < N_NAMES; i++) {
        const tensor start = numbered(&pack, "p", 0, names[i]);
        const size_t n = (size_t)shape_elements(&start.shape);
        float *p = malloc(n * sizeof *p), *u = malloc(n * sizeof *u),
              *states[OPTIMIZER_MAX_STATES] = {calloc(n, sizeof(float)), calloc(n, sizeof(float))};
        memcpy(p, start.data, n * sizeof *p);
        double drift = 0.0; /* earlier differences stay in the parameters */
        for (int t = 1; t <= STEPS; t++) {
            const optim_step s = {.lr = step_value(&pack, "lr_per_step", t) * lr_factor[i],
                                  .weight_decay = i < N_MATRICES ? 5e-4 : 0.0,
                                  .momentum = step_value(&pack, "momentum_per_step", t),
                                  .step = t};
            const tensor g = numbered(&pack, "g", t, names[i]);
            if (i < N_MATRICES) {
                const int rows = (int)start.shape.dim[0], cols = (int)n / rows;
                const ns_matrix m = {u, u, rows, cols};
                const double h = (double)start.shape.dim[start.shape.rank - 2],
                             w = (double)start.shape.dim[start.shape.rank - 1];
                void *scratch = malloc(newton_schulz_scratch_bytes(&m, 1, 1));
                optim_muon_momentum(s.momentum, tensor_f32(&g), states[0], u, n, 1);
                newton_schulz(&m, 1, scratch, 1);
                optim_muon_apply(s.lr, sqrt(fmax(1.0, h / w)), u, p, n);
                free(scratch);
                drift += muon_tolerance(s.lr);
                check_recorded("muon buffer", &pack, "muon", t, names[i], states[0], 1e-6);
            }
            optim_update(OPTIMIZER_MUSGD, &s, p, tensor_f32(&g), states, n, 1);
            check_recorded("musgd", &pack, "p", t, names[i], p, 1e-6 + drift);
            check_recorded("sgd buffer", &pack, "buf", t, names[i], states[1], 1e-6 + 5e-4 * drift);
        }
        free(p);
        free(u);
        free(states[0]);
        free(states[1]);
    }
    golden_close(&pack);
}

/* The record's tolerance, made for bf16, hides the weight of this step. */
static void the_muon_step_has_its_weight(void **state) {
    (void)state;
    const float direction[3] = {1.0f, -2.0f, 0.5f}, wanted[3] = {0.8f, 1.4f, 0.9f};
    float p[3] = {1.0f, 1.0f, 1.0f};
    optim_muon_apply(0.5, 2.0, direction, p, 3);
    assert_close("step", p, wanted, 3, 1e-6, 1e-6);
}

static void newton_schulz_rounds_like_bf16(void **state) {
    (void)state;
    golden_pack p = golden_open("optim/newton_schulz");
    static const char *const matrices[] = {"wide", "tall", "square", "row", "big"};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.G", matrices[i]);
        const tensor g = golden_tensor(&p, key);
        snprintf(key, sizeof key, "%s.bf16_result", matrices[i]);
        const tensor bf16 = golden_tensor(&p, key);
        snprintf(key, sizeof key, "%s.float64_result", matrices[i]);
        const tensor exact = golden_tensor(&p, key);
        const size_t n = (size_t)shape_elements(&g.shape);
        float *o = malloc(n * sizeof *o);
        const ns_matrix m = {tensor_f32(&g), o, (int)g.shape.dim[0], (int)g.shape.dim[1]};
        void *scratch = malloc(newton_schulz_scratch_bytes(&m, 1, 1));
        newton_schulz(&m, 1, scratch, 1);
        double worst = 0.0;
        for (size_t k = 0; k < n; k++) worst = fmax(worst, fabs((double)o[k] - (double)tensor_f32(&bf16)[k]));
        printf("%s: %g from the recorded bf16 result\n", matrices[i], worst);
        assert_close(matrices[i], o, tensor_f32(&bf16), n, 0.004,
                     0.0); /* sums of another order may round the other way */
        assert_close(matrices[i], o, tensor_f32(&exact), n, 0.03, 0.0);
        free(scratch);
        free(o);
    }
    golden_close(&p);
}

/* The same bits whatever the number of threads, also when matrices share the threads' scratch. */
static void newton_schulz_does_not_depend_on_threads(void **state) {
    (void)state;
    enum { N = 5 };
    static const int rows[N] = {16, 80, 3, 64, 33}, cols[N] = {144, 9, 27, 64, 17};
    float *u[N], *one[N], *two[N];
    ns_matrix a[N], b[N];
    for (int i = 0; i < N; i++) {
        const size_t n = (size_t)(rows[i] * cols[i]);
        u[i] = malloc(n * sizeof(float));
        one[i] = malloc(n * sizeof(float));
        two[i] = malloc(n * sizeof(float));
        char tag[32];
        snprintf(tag, sizeof tag, "ns/%d", i);
        golden_hash(tag, u[i], n, -1.0, 1.0);
        a[i] = (ns_matrix){u[i], one[i], rows[i], cols[i]};
        b[i] = (ns_matrix){u[i], two[i], rows[i], cols[i]};
    }
    void *scratch = malloc(newton_schulz_scratch_bytes(a, N, 2));
    newton_schulz(a, N, scratch, 1);
    newton_schulz(b, N, scratch, 2);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(one[i], two[i], (size_t)(rows[i] * cols[i]) * sizeof(float));
        free(u[i]);
        free(one[i]);
        free(two[i]);
    }
    free(scratch);
}

static void clipping_limits_the_norm(void **state) {
    (void)state;
    golden_pack p = golden_open("optim/clip");
    static const char *const sides[] = {"below", "above"};
    for (int i = 0; i < 2; i++) {
        char key[64];
        double square = 0.0;
        tensor before[2];
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "%s.before%d", sides[i], k);
            before[k] = golden_tensor(&p, key);
            square += optim_sum_squares(tensor_f32(&before[k]), (size_t)shape_elements(&before[k].shape), 2);
        }
        snprintf(key, sizeof key, "%s.norm", sides[i]);
        const tensor norm = golden_tensor(&p, key);
        const float mine = (float)sqrt(square), coefficient = optim_clip_coefficient(sqrt(square), 10.0);
        assert_close("norm", &mine, tensor_f32(&norm), 1, 0, 1e-6);
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "%s.after%d", sides[i], k);
            const tensor after = golden_tensor(&p, key);
            const size_t n = (size_t)shape_elements(&after.shape);
            float *x = malloc(n * sizeof *x);
            memcpy(x, before[k].data, n * sizeof *x);
            optim_scale(x, coefficient, n, 1);
            assert_close(key, x, tensor_f32(&after), n, 1e-6, 1e-6);
            free(x);
        }
    }
    golden_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise_rules_follow_the_record),
                                       cmocka_unit_test(musgd_follows_the_record),
                                       cmocka_unit_test(the_muon_step_has_its_weight),
                                       cmocka_unit_test(newton_schulz_rounds_like_bf16),
                                       cmocka_unit_test(newton_schulz_does_not_depend_on_threads),
                                       cmocka_unit_test(clipping_limits_the_norm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
