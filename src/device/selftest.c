#include "device/selftest.h"

#include "device/device.h"
#include "device/selftest_cases.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_TENSORS 64
/* A second run for the times only where the first was quick (interpreters are not). */
#define SLOW_SECONDS 0.5

typedef struct tally {
    int n_cases;
    double error, seconds;
    char message[256];
} tally;

typedef struct trial {
    ol_context *ctx;
    device *dev;
    const selftest_case *c;
    arena arena; /* host values */
    graph *g;
    plan *p;
    device_buffer *bound[MAX_TENSORS];
    void *given[MAX_TENSORS];     /* values of tensors that the host provides */
    void *reference[MAX_TENSORS]; /* values of all tensors */
    tensor_ref grad[MAX_TENSORS];
    size_t n_forward; /* tensors before the derivation */
    tally *tallies;   /* one a kind */
} trial;

static size_t bytes_of(const graph *g, tensor_ref t) {
    return (size_t)shape_elements(graph_shape(g, t)) * dtype_bytes(g->tensors[t].type);
}

static bool is_bound(const graph *g, size_t t) {
    const tensor_role role = g->tensors[t].role;
    return role == ROLE_PARAM || role == ROLE_BUFFER || role == ROLE_GRAD;
}

/* Uniform in 0 … 1, the same everywhere (splitmix64). */
static double random_at(uint64_t seed, uint64_t i) {
    uint64_t z = seed * 0x2545F4914F6CDD1Du + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 40) * 0x1p-24;
}

/* For half precision multiples of 1/128: exact in those types, so that only the arithmetic is judged. */
static float value_at(const selftest_input *in, bool exact, uint64_t seed, uint64_t i) {
    if (in->distinct) return (float)(int)(i * 97 % 251) - 125.0f;
    const double v = in->lo + random_at(seed, i) * (in->hi - in->lo);
    if (in->type != DTYPE_F32) return (float)floor(v);
    return exact ? (float)(floor(v * 128.0) / 128.0) : (float)v;
}

static ol_status tensor_give(trial *t, tensor_ref ref, const selftest_input *in) {
    const size_t count = (size_t)shape_elements(&in->shape);
    void *values = arena_alloc(&t->arena, count, sizeof(float));
    if (values == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const float v = value_at(in, t->g->compute != DTYPE_F32, (uint64_t)ref + 1, i);
        if (in->type == DTYPE_U8)
            ((uint8_t *)values)[i] = (uint8_t)v;
        else if (in->type == DTYPE_I32)
            ((int32_t *)values)[i] = (int32_t)v;
        else
            ((float *)values)[i] = v;
    }
    t->given[ref] = values;
    return OL_OK;
}

/* Positions of maxima and attention's probabilities are the device's own business. */
static int outputs_to_compare(const graph_op *op) {
    return op->kind == OP_MAX_POOL || op->kind == OP_ATTENTION ? 1 : op->n_out;
}

static ol_status graph_make(trial *t) {
    static const char *const names[] = {"in0", "in1", "in2", "in3", "in4"};
    static const char *const out_names[] = {"out0", "out1", "out2", "out3"};
    const selftest_case *c = t->c;
    tensor_ref in[5], out[OP_MAX_OUTPUTS];
    ol_status status = OL_OK;
    for (int i = 0; i < c->n_in && status == OL_OK; i++) {
        status = graph_tensor_add(t->g, names[i], c->in[i].role, c->in[i].type, c->in[i].shape, &in[i]);
        if (status == OL_OK) status = tensor_give(t, in[i], &c->in[i]);
    }
    if (status == OL_OK) status = graph_op_add(t->g, c->kind, &c->attr, in, c->n_in, out);
    if (status != OL_OK) return status;
    const graph_op op = t->g->ops[t->g->n_ops - 1];
    for (int i = 0; i < outputs_to_compare(&op); i++) graph_output_mark(t->g, op.out[i], out_names[i]);
    t->n_forward = t->g->n_tensors;
    return OL_OK;
}

static ol_status graph_derive(trial *t) {
    const selftest_input seed = {
        .shape = *graph_shape(t->g, t->g->ops[0].out[0]), .role = ROLE_INPUT, .lo = -1, .hi = 1};
    const tensor_ref y = t->g->ops[0].out[0];
    tensor_ref gy;
    bool wanted[MAX_TENSORS] = {false};
    for (size_t i = 0; i < t->n_forward; i++)
        wanted[i] = (t->g->tensors[i].role == ROLE_INPUT || t->g->tensors[i].role == ROLE_PARAM) &&
                    t->g->tensors[i].type == DTYPE_F32;
    ol_status status = graph_tensor_add(t->g, "gy", ROLE_INPUT, DTYPE_F32, seed.shape, &gy);
    if (status == OL_OK) status = tensor_give(t, gy, &seed);
    if (status == OL_OK) status = graph_backward(t->g, &y, &gy, 1, wanted, t->grad);
    return status;
}

static void *value_of(const trial *t, tensor_ref ref) {
    return ref == TENSOR_NONE ? NULL : t->reference[ref];
}

/* All ops of the graph by their plain references, on copies of the given values. */
static ol_status reference_run(trial *t) {
    const graph *g = t->g;
    for (size_t i = 0; i < g->n_tensors; i++) {
        t->reference[i] = arena_alloc(&t->arena, bytes_of(g, (tensor_ref)i) + 4, 1);
        if (t->reference[i] == NULL) return OL_ERROR_MEMORY;
        if (t->given[i] != NULL) memcpy(t->reference[i], t->given[i], bytes_of(g, (tensor_ref)i));
    }
    for (size_t k = 0; k < g->n_ops; k++) {
        const graph_op *op = &g->ops[k];
        op_args args = {.attr = &op->attr, .n_in = op->n_in, .n_out = op->n_out, .n_threads = 1};
        for (int i = 0; i < op->n_in; i++)
            if (op->in[i] != TENSOR_NONE)
                args.in[i] =
                    tensor_view(g->tensors[op->in[i]].type, *graph_shape(g, op->in[i]), value_of(t, op->in[i]));
        for (int i = 0; i < op->n_out; i++) {
            args.out[i] =
                tensor_view(g->tensors[op->out[i]].type, *graph_shape(g, op->out[i]), value_of(t, op->out[i]));
            args.out_adds[i] = g->tensors[op->out[i]].role == ROLE_GRAD;
        }
        args.scratch = mem_alloc_aligned(t->ctx, op_scratch_bytes(op->kind, &args) + 64, 1);
        if (args.scratch == NULL) return OL_ERROR_MEMORY;
        op_reference_of(op->kind)->run(&args);
        mem_free_aligned(t->ctx, args.scratch);
    }
    return OL_OK;
}

static ol_status plan_make(trial *t) {
    ol_status status = plan_create(t->ctx, t->dev, t->g, &t->p);
    for (size_t i = 0; i < t->g->n_tensors && status == OL_OK; i++) {
        const tensor_ref ref = (tensor_ref)i;
        if (is_bound(t->g, i)) {
            status = device_buffer_create(t->dev, bytes_of(t->g, ref), &t->bound[i]);
            if (status == OL_OK && t->given[i] != NULL)
                status = device_buffer_write(t->bound[i], 0, t->given[i], bytes_of(t->g, ref));
            if (status == OL_OK) status = plan_bind(t->p, ref, t->bound[i], 0);
        } else if (t->given[i] != NULL) {
            status = plan_write(t->p, ref, t->given[i], bytes_of(t->g, ref));
        }
    }
    return status;
}

/* |found - expected| / |expected|, Euclidean. */
static double distance(const float *found, const float *expected, size_t n) {
    double difference = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)found[i] - (double)expected[i];
        difference += d * d;
        size += (double)expected[i] * (double)expected[i];
    }
    if (isnan(difference)) return (double)INFINITY;
    return size > 0.0 ? sqrt(difference / size) : sqrt(difference);
}

/* The op that made a tensor; buffers that an op updates count as its own. */
static op_kind maker_of(const graph *g, tensor_ref t) {
    for (size_t k = g->n_ops; k-- > 0;)
        for (int i = 0; i < g->ops[k].n_out; i++)
            if (g->ops[k].out[i] == t) return g->ops[k].kind;
    return g->ops[0].kind;
}

static ol_status outputs_compare(trial *t) {
    for (size_t i = 0; i < t->g->n_tensors; i++) {
        const tensor_role role = t->g->tensors[i].role;
        const tensor_ref ref = (tensor_ref)i;
        if (role != ROLE_OUTPUT && role != ROLE_GRAD && role != ROLE_BUFFER) continue;
        void *found = arena_alloc(&t->arena, bytes_of(t->g, ref), 1);
        if (found == NULL) return OL_ERROR_MEMORY;
        const ol_status status = t->bound[i] != NULL ? device_buffer_read(t->bound[i], 0, found, bytes_of(t->g, ref))
                                                     : plan_read(t->p, ref, found, bytes_of(t->g, ref));
        if (status != OL_OK) return status;
        tally *into = &t->tallies[maker_of(t->g, ref)];
        const double error = distance(found, t->reference[i], (size_t)shape_elements(graph_shape(t->g, ref)));
        if (error > into->error) into->error = error;
    }
    return OL_OK;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ol_status trial_run(trial *t) {
    ol_status status = graph_make(t);
    if (status == OL_OK && t->c->backward) status = graph_derive(t);
    if (status == OL_OK) status = reference_run(t);
    if (status == OL_OK) status = plan_make(t);
    if (status != OL_OK) return status;
    plan_profile_enable(t->p, true);
    const double start = seconds_now();
    status = plan_run(t->p);
    if (status == OL_OK) status = outputs_compare(t);
    if (status == OL_OK && seconds_now() - start < SLOW_SECONDS) status = plan_run(t->p);
    for (size_t k = 0; k < t->g->n_ops && status == OL_OK; k++) {
        tally *into = &t->tallies[t->g->ops[k].kind];
        into->n_cases++;
        if (plan_op_seconds(t->p, k) > into->seconds) into->seconds = plan_op_seconds(t->p, k);
    }
    return status;
}

static ol_status case_run(ol_context *ctx, device *dev, dtype compute, const selftest_case *c, tally *tallies) {
    trial t = {.ctx = ctx, .dev = dev, .c = c, .tallies = tallies};
    arena_init(&t.arena, ctx, 0);
    ol_status status = graph_create(ctx, &t.g);
    if (status == OL_OK) {
        t.g->compute = compute;
        t.g->scope = op_info_of(c->kind)->name;
        status = trial_run(&t);
    }
    plan_destroy(t.p);
    for (size_t i = 0; i < MAX_TENSORS; i++) device_buffer_destroy(t.bound[i]);
    graph_destroy(t.g);
    arena_deinit(&t.arena);
    return status;
}

static double limit_of(dtype compute) {
    return compute == DTYPE_F16 ? 2e-3 : compute == DTYPE_BF16 ? 1e-2 : 1e-5;
}

ol_status device_selftest(ol_context *ctx, device *dev, dtype compute, const selftest_listener *to, int *n_wrong) {
    tally *tallies = mem_alloc0(ctx, OP_KIND_COUNT, sizeof *tallies);
    if (tallies == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    bool lost = false; /* after a device error nothing on it works any more */
    for (size_t i = 0; i < selftest_n_cases && status == OL_OK && !lost; i++) {
        const selftest_case *c = &selftest_cases[i];
        if (to->begin != NULL) to->begin(to->user, c->kind, compute);
        status = ctx_interrupted(ctx) ? OL_ERROR_INTERRUPTED : case_run(ctx, dev, compute, c, tallies);
        if (status == OL_OK || status == OL_ERROR_INTERRUPTED) continue;
        ctx_message(ctx, tallies[c->kind].message, sizeof tallies[c->kind].message);
        ctx_clear(ctx);
        lost = status == OL_ERROR_DEVICE;
        status = OL_OK;
    }
    *n_wrong = 0;
    for (int kind = 0; kind < OP_KIND_COUNT && status == OL_OK; kind++) {
        const tally *s = &tallies[kind];
        selftest_line l = {.kind = (op_kind)kind,
                           .compute = compute,
                           .n_cases = s->n_cases,
                           .error = s->error,
                           .limit = limit_of(compute),
                           .milliseconds = s->seconds * 1e3,
                           .message = s->message};
        l.ok = s->n_cases > 0 && s->error <= l.limit && s->message[0] == '\0';
        *n_wrong += l.ok ? 0 : 1;
        to->line(to->user, &l);
    }
    mem_free(ctx, tallies);
    return status;
}
