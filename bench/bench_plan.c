/* Times the plans of a model on the CPU device: usage: bench_plan SCALE predict|train BATCH SIZE RUNS [profile]
 * Weights are fresh, pictures noise; prints the median of the runs in ms and the plan's memory. */
#include "graph/plan.h"
#include "model/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static void print_line(void *user, ol_log_level level, const char *line) {
    (void)user, (void)level;
    fprintf(stderr, "%s\n", line);
}

static ol_context *ctx;

static void check(ol_status status) {
    if (status == OL_OK) return;
    fprintf(stderr, "%s\n", ol_context_message(ctx));
    exit(1);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(getenv("BENCH_THREADS") != NULL ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct bench {
    model *m;
    tensor_list folded;
    graph *g;
    model_graph_refs refs;
    device *dev;
    device_buffer *bound;
    plan *p;
    bool train;
    int batch, size;
} bench;

static void inputs_fill(bench *b) {
    for (size_t t = 0; t < b->g->n_tensors; t++) {
        const graph_tensor *gt = &b->g->tensors[t];
        if (gt->role != ROLE_INPUT) continue;
        const size_t n = (size_t)shape_elements(&gt->shape), bytes = n * dtype_bytes(gt->type);
        unsigned char *host = calloc(bytes, 1);
        if (gt->type == DTYPE_U8) {
            for (size_t i = 0; i < n; i++) host[i] = (unsigned char)((i * 2654435761u) >> 13);
        } else if ((tensor_ref)t == b->refs.targets) {
            for (size_t i = 0; i < n; i++)
                ((float *)host)[i] = i % 5 == 0 ? (float)(i / 5 % 80) : 0.2f + 0.1f * (float)((i * 7) % 5);
        } else if ((tensor_ref)t == b->refs.target_count) {
            for (size_t i = 0; i < n; i++) ((int32_t *)host)[i] = 8;
        } else {
            for (size_t i = 0; i < n; i++) ((float *)host)[i] = 1.0f;
        }
        check(plan_write(b->p, (tensor_ref)t, host, bytes));
        free(host);
    }
}

static void bind_all(bench *b) {
    size_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0;
        for (size_t t = 0; t < b->g->n_tensors; t++) {
            const graph_tensor *gt = &b->g->tensors[t];
            if (gt->role != ROLE_PARAM && gt->role != ROLE_BUFFER && gt->role != ROLE_GRAD) continue;
            const size_t bytes = (size_t)shape_elements(&gt->shape) * sizeof(float);
            if (pass == 1) {
                const tensor *from = tensor_list_find(b->train ? &b->m->state : &b->folded, gt->name);
                if (gt->role != ROLE_GRAD) check(device_buffer_write(b->bound, at, from->data, bytes));
                check(plan_bind(b->p, (tensor_ref)t, b->bound, at));
            }
            at += (bytes + 63) / 64 * 64;
        }
        total = at;
        if (pass == 0) check(device_buffer_create(b->dev, total, &b->bound));
    }
}

static void set_up(bench *b, char scale) {
    const model_spec spec = {.name = (char[]){'y', 'o', 'l', 'o', '2', '6', scale, '.', 'y', 'a', 'm', 'l', 0}};
    check(model_create(ctx, &spec, &b->m));
    model_initialize(b->m, 1);
    tensor_list_init(&b->folded, ctx);
    check(model_fold(b->m, &b->m->state, &b->folded));
    check(graph_create(ctx, &b->g));
    const model_graph_options options = {.mode = b->train ? MODEL_TRAIN : MODEL_EVAL,
                                         .batch = b->batch,
                                         .height = b->size,
                                         .width = b->size,
                                         .image_u8 = true,
                                         .branches = b->train ? MODEL_BOTH : MODEL_ONE2MANY,
                                         .decode = !b->train,
                                         .loss = b->train,
                                         .max_targets = 8};
    check(model_build(b->m, b->g, &options, &b->refs));
    if (b->train) {
        tensor_ref from[4], seed[4], *grads = malloc(b->g->n_tensors * sizeof *grads);
        for (int i = 0; i < 2; i++) {
            from[2 * i] = b->refs.boxes[i];
            from[2 * i + 1] = b->refs.scores[i];
            seed[2 * i] = b->refs.boxes_grad[i];
            seed[2 * i + 1] = b->refs.scores_grad[i];
        }
        check(graph_backward(b->g, from, seed, 4, NULL, grads));
        free(grads);
    }
    const char *device_name = getenv("BENCH_DEVICE"), *compute = getenv("BENCH_COMPUTE");
    if (compute != NULL && strcmp(compute, "f32") != 0)
        b->g->compute = strcmp(compute, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F16;
    check(device_open(ctx, device_name != NULL ? device_name : "cpu", &b->dev));
    const double start = now_ms();
    check(plan_create(ctx, b->dev, b->g, &b->p));
    printf("plan made in %.0f ms: %zu ops, %.1f MiB\n", now_ms() - start, b->g->n_ops,
           (double)plan_memory_bytes(b->p) / 1048576.0);
    bind_all(b);
    inputs_fill(b);
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    const ol_context_options options = {.struct_bytes = sizeof options,
                                        .log = print_line,
                                        .n_threads =
                                            getenv("BENCH_THREADS") != NULL ? atoi(getenv("BENCH_THREADS")) : 0};
    if (ol_context_create(&options, &ctx) != OL_OK) return 1;
    bench b = {.train = strcmp(argv[2], "train") == 0, .batch = atoi(argv[3]), .size = atoi(argv[4])};
    set_up(&b, argv[1][0]);
    const int runs = atoi(argv[5]);
    double *ms = calloc((size_t)runs, sizeof *ms);
    for (int i = -1; i < runs; i++) {
        if (i == runs - 1 && argc > 6) plan_profile_enable(b.p, true);
        const double start = now_ms();
        check(plan_run(b.p));
        if (i >= 0) ms[i] = now_ms() - start;
    }
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf(
        "%s batch %d size %d: median %.1f ms, least %.1f ms, %.1f ms a picture; peak memory of the process %ld MiB\n",
        argv[2], b.batch, b.size, ms[runs / 2], ms[0], ms[runs / 2] / b.batch, usage.ru_maxrss / 1024);
    if (argc > 6) {
        text report;
        text_init(&report, ctx);
        check(plan_profile_report(b.p, &report));
        fputs(text_c(&report), stdout);
        text_deinit(&report);
    }
    free(ms);
    plan_destroy(b.p);
    device_buffer_destroy(b.bound);
    device_close(b.dev);
    graph_destroy(b.g);
    tensor_list_deinit(&b.folded);
    model_destroy(b.m);
    ol_context_destroy(ctx);
    return 0;
}
