/* Every module of the network through the builder, against the reference: evaluation and training outputs, gradients,
 * running statistics. */
#include "golden.h"
#include "model/module_forward.h"
#include "model/postprocess.h"
#include "plan_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ABSOLUTE 1e-5
#define RELATIVE 1e-4
#define RMS      5e-6       /* of the error, in units of the tensor's, of 1 for smaller ones */
#define PREFIX   "model.0." /* of the single layer's state; the goldens have none */

static const struct {
    const char *name;
    module_type type;
    const char *args; /* as the layer table prints them */
} cases[] = {
    {"conv_k3s2", MODULE_CONV, "[3, 8, 3, 2]"},
    {"conv_k3s2_odd", MODULE_CONV, "[4, 6, 3, 2]"},
    {"conv_k1_noact", MODULE_CONV, "[6, 10, 1, 1, None, 1, 1, False]"},
    {"dwconv_k3", MODULE_DWCONV, "[8, 8, 3]"},
    {"bottleneck_add", MODULE_BOTTLENECK, "[8, 8, True, 1]"},
    {"bottleneck_noadd", MODULE_BOTTLENECK, "[8, 12, True, 1]"},
    {"c3k_n2", MODULE_C3K, "[16, 16, 2]"},
    {"c3k2_bottleneck", MODULE_C3K2, "[16, 32, 1, False, 0.25]"},
    {"c3k2_bottleneck_n2", MODULE_C3K2, "[16, 16, 2, False, 0.5]"},
    {"c3k2_c3k", MODULE_C3K2, "[16, 32, 1, True]"},
    {"c3k2_attn", MODULE_C3K2, "[24, 32, 1, True, 0.5, True]"},
    {"sppf", MODULE_SPPF, "[16, 16, 5, 3, True]"},
    {"attention_1head", MODULE_ATTENTION, "[16, 1]"},
    {"attention_2head", MODULE_ATTENTION, "[32, 2]"},
    {"psablock", MODULE_PSA_BLOCK, "[32, 2]"},
    {"c2psa", MODULE_C2PSA, "[32, 32, 2]"},
    {"upsample2", MODULE_UPSAMPLE, "[None, 2, 'nearest']"},
    {"concat", MODULE_CONCAT, "[1]"},
    {"detect", MODULE_DETECT, "[4]"},
};

typedef struct fixture {
    ol_context *ctx;
    arena arena;
    golden_pack params, io, grads;
    layer_desc layers[4];
    model_desc desc;
    module *layer; /* the module under test */
    tensor_list state;
    int n_inputs;
    tensor inputs[3];
} fixture;

static golden_pack open_part(const char *name, const char *part) {
    char stem[80];
    snprintf(stem, sizeof stem, "modules/%s.%s", name, part);
    return golden_open(stem);
}

static void fixture_init(fixture *f, size_t index) {
    *f = (fixture){.ctx = test_context()};
    arena_init(&f->arena, f->ctx, 0);
    f->params = open_part(cases[index].name, "params");
    f->io = open_part(cases[index].name, "io");
    f->grads = open_part(cases[index].name, "grads");
    layer_desc *l = &f->layers[0];
    l->kind = module_kind_of(cases[index].type);
    l->repeats = l->n_from = 1;
    assert_int_equal(literal_parse(&f->arena, cases[index].args, &l->args), OL_OK);
    f->desc = (model_desc){.source = cases[index].name, .nc = 4, .end2end = true, .layers = f->layers, .n_layers = 1};
    if (cases[index].type == MODULE_DETECT) { /* three plain layers in front give the head its widths and strides */
        const int widths[3] = {16, 8, 12};
        f->layers[3] = f->layers[0];
        f->layers[3].n_from = 3;
        for (int i = 0; i < 3; i++) {
            f->layers[i] = (layer_desc){.kind = module_kind_of(MODULE_UPSAMPLE), .repeats = 1, .c_out = widths[i]};
            f->layers[i].stride = 8 << i;
            f->layers[i].args = f->layers[3].args;
            f->layers[3].resolved[i] = i;
        }
        f->desc.n_layers = 4;
    }
    module *root;
    if (module_tree_build(&f->arena, &f->desc, &root) != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
    f->layer = root->children[f->desc.n_layers - 1];
    tensor_list_init(&f->state, f->ctx);
    assert_int_equal(module_state(root, &f->state), OL_OK);
    for (size_t i = 0; i < f->state.count; i++) {
        named_tensor *t = &f->state.items[i];
        if (t->t.type != DTYPE_F32) continue;
        const tensor from = golden_tensor(&f->params, t->name + strlen(PREFIX));
        assert_true(shape_equal(&from.shape, &t->t.shape));
        memcpy(t->t.data, from.data, (size_t)shape_elements(&from.shape) * sizeof(float));
    }
    f->n_inputs = golden_has(&f->io, "x") ? 1 : golden_has(&f->io, "x2") ? 3 : 2;
    for (int i = 0; i < f->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        f->inputs[i] = golden_tensor(&f->io, golden_has(&f->io, "x") ? "x" : name);
    }
}

static void fixture_deinit(fixture *f) {
    tensor_list_deinit(&f->state);
    golden_close(&f->params);
    golden_close(&f->io);
    golden_close(&f->grads);
    arena_deinit(&f->arena);
    ol_context_destroy(f->ctx);
}

typedef struct outputs {
    int n;
    tensor_ref x[3], y[4], seed[4];
    const char *names[4]; /* suffix after "eval.y" */
} outputs;

static void build(fixture *f, graph *g, model_mode mode, outputs *o) {
    static const char *const head_names[4] = {".one2many.boxes", ".one2many.scores", ".one2one.boxes",
                                              ".one2one.scores"};
    builder b = {.g = g, .mode = mode};
    *o = (outputs){.n = 1, .names = {""}};
    for (int i = 0; i < f->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        assert_int_equal(graph_tensor_add(g, name, ROLE_INPUT, DTYPE_F32, f->inputs[i].shape, &o->x[i]), OL_OK);
    }
    if (f->layer->kind->type == MODULE_DETECT) {
        o->n = 4;
        memcpy(o->names, head_names, sizeof head_names);
        for (int k = 0; k < 2; k++) detect_forward(&b, f->layer, k, o->x, &o->y[2 * k], &o->y[2 * k + 1]);
    } else {
        o->y[0] = f->layer->kind->forward(&b, f->layer, o->x, f->n_inputs);
    }
    if (b.status != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
    for (int i = 0; i < o->n; i++) {
        char name[40];
        snprintf(name, sizeof name, "y%s", o->names[i]);
        graph_output_mark(g, o->y[i], name);
    }
}

/* The error's root mean square, and each element: the same limits on every device. An element near zero of a gradient
 * is a difference of sums whose terms are as large as its neighbours: of the tolerance 0.78 is used, on CPUs and GPUs.
 */
static void compare(plan_harness *h, tensor_ref t, const golden_pack *pack, const char *name) {
    const tensor want = golden_tensor(pack, name);
    if (!shape_equal(&want.shape, graph_shape(h->g, t))) fail_msg("%s: wrong shape", name);
    float *got = plan_harness_read(h, t);
    const float *b = tensor_f32(&want);
    const size_t n = (size_t)shape_elements(&want.shape);
    double error = 0.0, square = 0.0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)b[i]) * ((double)got[i] - (double)b[i]);
        square += (double)b[i] * (double)b[i];
    }
    const double unit = fmax(1.0, sqrt(square / (double)n));
    if (!(sqrt(error / (double)n) <= RMS * unit))
        fail_msg("%s: the error's root mean square is %.2e of the tensor's", name, sqrt(error / (double)n) / unit);
    double worst = 0.0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)b[i]) / (ABSOLUTE + RELATIVE * fabs((double)b[i])));
    if (getenv("ONELOOK_VERBOSE") != NULL)
        printf("%-40s rms %.2e, of the error %.1e of it; worst element %.2f limits\n", name, sqrt(square / (double)n),
               sqrt(error / (double)n) / unit, worst);
    assert_close(name, got, b, n, ABSOLUTE, RELATIVE);
    free(got);
}

static void write_inputs(fixture *f, plan_harness *h, const outputs *o) {
    for (int i = 0; i < f->n_inputs; i++) plan_harness_write(h, o->x[i], f->inputs[i].data);
}

/* Decoded outputs of the head: one-to-many as centre and size, one-to-one as corners through the top-k selection. */
static void check_decoded(fixture *f, plan_harness *h, const tensor_ref decoded[2]) {
    compare(h, decoded[0], &f->io, "eval.decoded_one2many_xywh");
    float *corners = plan_harness_read(h, decoded[1]);
    const tensor want = golden_tensor(&f->io, "eval.end2end_topk");
    detection_list list = {0};
    for (int image = 0; image < 2; image++) {
        assert_int_equal(topk_select(f->ctx, corners + image * 8 * 64, 4, 64, 300, false, &list), OL_OK);
        assert_int_equal(list.count, 64);
        for (int i = 0; i < 64; i++) {
            const detection *d = &list.items[i];
            const float row[6] = {d->x1, d->y1, d->x2, d->y2, d->score, (float)d->class_id};
            assert_close("end2end_topk", row, tensor_f32(&want) + ((size_t)image * 64 + (size_t)i) * 6, 6, 1e-3,
                         RELATIVE);
        }
    }
    mem_free(f->ctx, list.items);
    free(corners);
}

static void test_evaluation(void **state) {
    fixture f;
    outputs o;
    graph *g;
    plan_harness h;
    tensor_list folded;
    fixture_init(&f, *(size_t *)*state);
    tensor_list_init(&folded, f.ctx);
    assert_int_equal(graph_create(f.ctx, &g), OL_OK);
    build(&f, g, MODEL_EVAL, &o);
    tensor_ref decoded[2] = {TENSOR_NONE, TENSOR_NONE};
    for (int k = 0; k < 2 && o.n == 4; k++) {
        const op_attr attr = {
            .n_levels = 3, .level_h = {8, 4, 2}, .level_w = {6, 3, 2}, .level_stride = {8, 16, 32}, .corners = k == 1};
        assert_int_equal(graph_op_add(g, OP_DETECT_DECODE, &attr, &o.y[2 * k], 2, &decoded[k]), OL_OK);
        graph_output_mark(g, decoded[k], k == 0 ? "decoded0" : "decoded1");
    }
    assert_int_equal(module_fold(f.layer, &f.state, &folded), OL_OK);
    plan_harness_init(&h, f.ctx, g, &folded);
    write_inputs(&f, &h, &o);
    plan_harness_run(&h);
    for (int i = 0; i < o.n; i++) {
        char name[48];
        snprintf(name, sizeof name, "eval.y%s", o.names[i]);
        compare(&h, o.y[i], &f.io, name);
    }
    if (o.n == 4) check_decoded(&f, &h, decoded);
    plan_harness_deinit(&h);
    graph_destroy(g);
    tensor_list_deinit(&folded);
    fixture_deinit(&f);
}

static void add_seeds(fixture *f, graph *g, outputs *o) {
    for (int i = 0; i < o->n; i++) {
        char name[40];
        snprintf(name, sizeof name, "seed%d", i);
        assert_int_equal(graph_tensor_add(g, name, ROLE_INPUT, DTYPE_F32, *graph_shape(g, o->y[i]), &o->seed[i]),
                         OL_OK);
    }
    (void)f;
}

static void check_training(fixture *f, plan_harness *h, const outputs *o, const tensor_ref *gradient,
                           size_t n_forward) {
    char name[80];
    for (int i = 0; i < o->n; i++) {
        snprintf(name, sizeof name, "train.y%s", o->names[i]);
        compare(h, o->y[i], &f->io, name);
    }
    for (size_t t = 0; t < n_forward; t++) {
        const graph_tensor *tensor = &h->g->tensors[t];
        if (tensor->role == ROLE_PARAM) {
            if (gradient[t] == TENSOR_NONE) fail_msg("no gradient for '%s'", tensor->name);
            compare(h, gradient[t], &f->grads, tensor->name + strlen(PREFIX));
        } else if (tensor->role == ROLE_BUFFER) {
            snprintf(name, sizeof name, "running.%s", tensor->name + strlen(PREFIX));
            compare(h, (tensor_ref)t, &f->io, name);
        }
    }
    for (int i = 0; i < f->n_inputs; i++) {
        snprintf(name, sizeof name, f->n_inputs == 1 ? "train.gx" : "train.gx%d", i);
        compare(h, gradient[o->x[i]], &f->io, name);
    }
}

static void test_training(void **state) {
    fixture f;
    outputs o;
    graph *g;
    plan_harness h;
    fixture_init(&f, *(size_t *)*state);
    assert_int_equal(graph_create(f.ctx, &g), OL_OK);
    build(&f, g, MODEL_TRAIN, &o);
    add_seeds(&f, g, &o);
    const size_t n = g->n_tensors;
    bool *wanted = calloc(n, sizeof *wanted);
    tensor_ref *gradient = calloc(n, sizeof *gradient);
    assert_true(wanted != NULL && gradient != NULL);
    for (size_t t = 0; t < n; t++) wanted[t] = g->tensors[t].role == ROLE_PARAM;
    for (int i = 0; i < f.n_inputs; i++) wanted[o.x[i]] = true;
    if (graph_backward(g, o.y, o.seed, o.n, wanted, gradient) != OL_OK) fail_msg("%s", ol_context_message(f.ctx));
    plan_harness_init(&h, f.ctx, g, &f.state);
    write_inputs(&f, &h, &o);
    for (int i = 0; i < o.n; i++) {
        char name[48];
        snprintf(name, sizeof name, "gy%s", o.names[i]);
        plan_harness_write(&h, o.seed[i], golden_tensor(&f.io, name).data);
    }
    plan_harness_run(&h);
    check_training(&f, &h, &o, gradient, n);
    plan_harness_deinit(&h);
    graph_destroy(g);
    free(wanted);
    free(gradient);
    fixture_deinit(&f);
}

int main(void) {
    enum { n_cases = sizeof cases / sizeof *cases };
    static size_t index[n_cases];
    static char names[2 * n_cases][48];
    struct CMUnitTest tests[2 * n_cases];
    for (size_t i = 0; i < n_cases; i++) {
        index[i] = i;
        snprintf(names[2 * i], sizeof names[0], "evaluation %s", cases[i].name);
        snprintf(names[2 * i + 1], sizeof names[0], "training %s", cases[i].name);
        tests[2 * i] = (struct CMUnitTest){names[2 * i], test_evaluation, NULL, NULL, &index[i]};
        tests[2 * i + 1] = (struct CMUnitTest){names[2 * i + 1], test_training, NULL, NULL, &index[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
