/* Our side of `make bench`: makes a plan, says "ready", then does one measured step for each line on standard input and
 * prints its milliseconds. usage: bench_step predict|train SCALE BATCH SIZE [DEVICE] train: forward, loss, backward,
 * clipping, SGD step and moving average, as the trainer runs them. Weights are those of the file that
 * BENCH_WEIGHTS names, else fresh; pictures are noise. */
#include "base/rng.h"
#include "formats/checkpoint.h"
#include "model/runner.h"
#include "ops/detect_loss.h"
#include "train/optimizer.h"
#include "train/step_plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define N_TARGETS 8 /* a picture, as the other side has them */

static ol_context *ctx;

static void check(ol_status status) {
    if (status == OL_OK) return;
    fprintf(stderr, "%s\n", ol_context_message(ctx));
    exit(1);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

typedef struct bench {
    device *dev;
    model *m;
    int batch, size;
    uint8_t *images;
    runner *runner;
    param_store *store;
    step_plans *plans;
    optimizer *opt;
} bench;

static void predict_step(bench *b) {
    runner_result result;
    check(runner_run(b->runner, b->images, b->batch, b->size, b->size, NULL, &result));
}

static void targets_write(bench *b, const step_plan *s) {
    float *rows = calloc((size_t)b->batch * N_TARGETS * 5, sizeof *rows), gains[LOSS_GAIN_CLASSES + 80];
    int32_t *counts = malloc((size_t)b->batch * sizeof *counts);
    rng r = rng_stream(3, RNG_TEST, 0, 0);
    for (int i = 0; i < b->batch * N_TARGETS; i++) {
        rows[5 * i] = (float)rng_below(&r, 80);
        for (int k = 1; k < 5; k++) rows[5 * i + k] = (float)rng_range(&r, 0.2, 0.5);
    }
    for (int i = 0; i < b->batch; i++) counts[i] = N_TARGETS;
    for (size_t i = 0; i < sizeof gains / sizeof gains[0]; i++) gains[i] = 1.0f;
    gains[LOSS_GAIN_IMAGES] = (float)b->batch;
    check(plan_write(s->plan, s->refs.targets, rows, (size_t)b->batch * N_TARGETS * 5 * sizeof *rows));
    check(plan_write(s->plan, s->refs.target_count, counts, (size_t)b->batch * sizeof *counts));
    for (int i = 0; i < 2; i++) check(plan_write(s->plan, s->refs.gains[i], gains, sizeof gains));
    free(counts);
    free(rows);
}

static void train_step(bench *b) {
    step_plan *s;
    float items[3];
    double norm;
    check(step_plans_get(b->plans, b->batch, b->size, b->size, &s));
    check(plan_write(s->plan, s->refs.image, b->images, (size_t)b->batch * 3 * (size_t)b->size * (size_t)b->size));
    targets_write(b, s);
    check(plan_run(s->plan));
    check(plan_read(s->plan, s->refs.loss_items[1], items, sizeof items));
    check(optimizer_advance(b->opt, 1.0, &norm));
}

static void set_up(bench *b, bool train, const char *scale, const char *device_name) {
    char name[32];
    snprintf(name, sizeof name, "yolo26%.1s.yaml", scale);
    const model_spec spec = {.name = name};
    check(device_open(ctx, device_name, &b->dev));
    check(model_create(ctx, &spec, &b->m));
    model_initialize(b->m, 1);
    const char *weights = getenv("BENCH_WEIGHTS");
    if (weights != NULL) {
        checkpoint c = {0};
        check(checkpoint_read(ctx, weights, &c));
        check(model_load_state(b->m, &c.weights));
        checkpoint_deinit(&c);
    }
    const size_t bytes = (size_t)b->batch * 3 * (size_t)b->size * (size_t)b->size;
    b->images = malloc(bytes);
    rng r = rng_stream(1, RNG_TEST, 0, 0);
    for (size_t i = 0; i < bytes; i++) b->images[i] = (uint8_t)rng_u32(&r);
    if (!train) {
        const runner_options options = {.decode = MODEL_ONE2MANY};
        check(runner_create(ctx, b->dev, b->m, &options, &b->runner));
        return;
    }
    check(param_store_create(ctx, b->dev, b->m, OPTIMIZER_SGD, &b->store));
    check(optimizer_create(b->store, OPTIMIZER_SGD, 1e-3, 0.9, 0.0, &b->opt));
    const char *named = getenv("BENCH_COMPUTE");
    const dtype compute = named == NULL                ? DTYPE_F32
                          : strcmp(named, "bf16") == 0 ? DTYPE_BF16
                          : strcmp(named, "f16") == 0  ? DTYPE_F16
                                                       : DTYPE_F32;
    check(step_plans_create(ctx, b->dev, b->m, b->store, N_TARGETS, compute, &b->plans));
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: bench_step predict|train SCALE BATCH SIZE [DEVICE]\n");
        return 2;
    }
    const ol_context_options options = {.struct_bytes = sizeof options};
    if (ol_context_create(&options, &ctx) != OL_OK) return 1;
    const bool train = strcmp(argv[1], "train") == 0;
    bench b = {.batch = atoi(argv[3]), .size = atoi(argv[4])};
    set_up(&b, train, argv[2], argc > 5 ? argv[5] : "cpu");
    void (*const step)(bench *) = train ? train_step : predict_step;
    step(&b);
    printf("ready\n");
    fflush(stdout);
    for (int c = getchar(); c != EOF; c = getchar()) {
        if (c != '\n') continue;
        const double start = now_ms();
        step(&b);
        printf("%.3f\n", now_ms() - start);
        fflush(stdout);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld\n", usage.ru_maxrss / 1024);
    return 0;
}
