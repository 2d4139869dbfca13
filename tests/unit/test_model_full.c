/* Complete networks of all five scales with regenerated weights, against the reference: raw maps, decoded outputs,
 * layer statistics, training outputs, losses, gradients. */
#include "golden.h"
#include "model/build.h"
#include "model/postprocess.h"
#include "plan_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* The ranges of the README of golden/fullmodel. */
static void range_of(const named_tensor *t, double *lo, double *hi) {
    const bool head_bias = strncmp(t->name, "model.23.", 9) == 0 && ends_with(t->name, ".2.bias");
    if (ends_with(t->name, "running_var")) {
        *lo = 0.5, *hi = 1.5;
    } else if (ends_with(t->name, "running_mean")) {
        *lo = -0.3, *hi = 0.3;
    } else if (t->t.shape.rank == 4) {
        *hi = sqrt(3.0 / (double)(t->t.shape.dim[1] * t->t.shape.dim[2] * t->t.shape.dim[3]));
        *lo = -*hi;
    } else if (head_bias && strstr(t->name, "cv2.") != NULL) {
        *lo = 1.0, *hi = 3.0;
    } else if (head_bias && strstr(t->name, "cv3.") != NULL) {
        *lo = -3.0, *hi = -1.0;
    } else if (ends_with(t->name, "bias")) {
        *lo = -0.3, *hi = 0.3;
    } else {
        *lo = 0.5, *hi = 1.5;
    }
}

static model *hashed_model(ol_context *ctx, char scale) {
    char name[32], tag[200];
    model *m;
    snprintf(name, sizeof name, "yolo26%c.yaml", scale);
    if (model_create(ctx, &(model_spec){.name = name}, &m) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    for (size_t i = 0; i < m->state.count; i++) {
        named_tensor *t = &m->state.items[i];
        double lo, hi;
        if (t->t.type != DTYPE_F32) continue;
        range_of(t, &lo, &hi);
        snprintf(tag, sizeof tag, "full/%c/%s", scale, t->name);
        golden_hash(tag, tensor_f32(&t->t), (size_t)shape_elements(&t->t.shape), lo, hi);
    }
    return m;
}

static float *hashed_images(const char *tag, int n, int h, int w) {
    const size_t count = (size_t)n * 3 * (size_t)h * (size_t)w;
    float *images = malloc(count * sizeof *images);
    assert_non_null(images);
    golden_hash(tag, images, count, 0, 1);
    return images;
}

/* A model made into a graph on the CPU device. */
typedef struct fixture {
    ol_context *ctx;
    model *m;
    graph *g;
    model_graph_refs refs;
    tensor_list folded;
    plan_harness h;
} fixture;

static void check(const fixture *f, ol_status status) {
    if (status != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
}

static void fixture_model(fixture *f, char scale) {
    *f = (fixture){.ctx = test_context()};
    f->m = hashed_model(f->ctx, scale);
    tensor_list_init(&f->folded, f->ctx);
    check(f, graph_create(f->ctx, &f->g));
}

static void fixture_deinit_model(fixture *f) {
    graph_destroy(f->g);
    tensor_list_deinit(&f->folded);
    model_destroy(f->m);
    ol_context_destroy(f->ctx);
}

static void fixture_deinit(fixture *f) {
    plan_harness_deinit(&f->h);
    fixture_deinit_model(f);
}

static void evaluate(fixture *f, char scale, int batch) {
    fixture_model(f, scale);
    const model_graph_options options = {.mode = MODEL_EVAL,
                                         .batch = batch,
                                         .height = 64,
                                         .width = 96,
                                         .branches = MODEL_BOTH,
                                         .decode = true,
                                         .layer_outputs = true};
    check(f, model_build(f->m, f->g, &options, &f->refs));
    assert_int_equal(f->refs.anchors, 126);
    check(f, model_fold(f->m, &f->m->state, &f->folded));
    plan_harness_init(&f->h, f->ctx, f->g, &f->folded);
    float *images = hashed_images("full/img", batch, 64, 96);
    plan_harness_write(&f->h, f->refs.image, images);
    plan_harness_run(&f->h);
    free(images);
}

/* The first elements of a batch against a golden array that holds only the first image. */
static void compare(fixture *f, tensor_ref t, const golden_pack *pack, const char *name, double tolerance) {
    const tensor want = golden_tensor(pack, name);
    float *got = plan_harness_read(&f->h, t);
    assert_close(name, got, tensor_f32(&want), (size_t)shape_elements(&want.shape), tolerance, tolerance);
    free(got);
}

static void check_layers(fixture *f, const char *file) {
    arena a;
    arena_init(&a, f->ctx, 0);
    const value *layers = golden_json(&a, file);
    assert_int_equal(layers->as.list.count, 23);
    for (size_t i = 0; i < layers->as.list.count; i++) {
        char name[40];
        const value *want = layers->as.list.items[i], *dims = value_get(want, "shape"),
                    *first4 = value_get(want, "first4");
        snprintf(name, sizeof name, "layer.%zu", i);
        const tensor_ref t = graph_find(f->g, name);
        assert_true(t != TENSOR_NONE);
        const shape *s = graph_shape(f->g, t);
        for (int k = 0; k < 4; k++) assert_int_equal(s->dim[k], dims->as.list.items[k]->as.integer);
        float *got = plan_harness_read(&f->h, t), first[4];
        double sum = 0, squares = 0;
        const size_t n = (size_t)shape_elements(s);
        for (size_t k = 0; k < n; k++) {
            sum += (double)got[k];
            squares += (double)got[k] * (double)got[k];
        }
        for (int k = 0; k < 4; k++) first[k] = (float)value_as_double(first4->as.list.items[k]);
        const float stats[2] = {(float)(sum / (double)n), (float)sqrt(squares / (double)n)};
        const float wanted[2] = {(float)value_as_double(value_get(want, "mean")),
                                 (float)value_as_double(value_get(want, "rms"))};
        assert_close(name, stats, wanted, 2, 1e-5, 1e-5);
        assert_close(name, got, first, 4, 1e-4, 1e-4);
        free(got);
    }
    arena_deinit(&a);
}

/* Rows may change places where scores are closer than rounding. */
static void check_topk(fixture *f, const golden_pack *pack) {
    const tensor want = golden_tensor(pack, "end2end_topk");
    float *corners = plan_harness_read(&f->h, f->refs.decoded[1]);
    detection_list list = {0};
    check(f, topk_select(f->ctx, corners, 80, 126, 300, false, &list));
    assert_int_equal(list.count, 126);
    const float last_score = tensor_f32(&want)[6 * 125 + 4];
    for (size_t i = 0; i < list.count; i++) {
        const float *row = tensor_f32(&want) + 6 * i;
        bool found = false;
        for (size_t k = 0; k < list.count && !found; k++) {
            const detection *d = &list.items[k];
            found = fabsf(d->score - row[4]) < 1e-4F && d->class_id == (int)row[5] && fabsf(d->x1 - row[0]) < 2e-3F &&
                    fabsf(d->y1 - row[1]) < 2e-3F && fabsf(d->x2 - row[2]) < 2e-3F && fabsf(d->y2 - row[3]) < 2e-3F;
        }
        if (!found && row[4] > last_score + 1e-6F) fail_msg("row %zu is missing", i);
        assert_true(fabsf(list.items[i].score - row[4]) < 1e-4F);
    }
    mem_free(f->ctx, list.items);
    free(corners);
}

static void test_evaluation_n(void **state) {
    (void)state;
    fixture f;
    golden_pack pack = golden_open("fullmodel/full_n_eval");
    evaluate(&f, 'n', 2);
    compare(&f, f.refs.boxes[0], &pack, "one2many.boxes", 1e-4);
    compare(&f, f.refs.scores[0], &pack, "one2many.scores", 1e-4);
    compare(&f, f.refs.boxes[1], &pack, "one2one.boxes", 1e-4);
    compare(&f, f.refs.scores[1], &pack, "one2one.scores", 1e-4);
    compare(&f, f.refs.decoded[0], &pack, "decoded_one2many_xywh", 1e-3);
    check_topk(&f, &pack);
    check_layers(&f, "fullmodel/full_n_layers.json");
    golden_close(&pack);
    fixture_deinit(&f);
}

static void test_evaluation_of_scale(void **state) {
    const char scale = *(const char *)*state;
    char name[64];
    fixture f;
    snprintf(name, sizeof name, "fullmodel/full_%c_eval", scale);
    golden_pack pack = golden_open(name);
    evaluate(&f, scale, 1);
    compare(&f, f.refs.boxes[0], &pack, "one2many.boxes", 1e-4);
    compare(&f, f.refs.boxes[1], &pack, "one2one.boxes", 1e-4);
    check_topk(&f, &pack);
    snprintf(name, sizeof name, "fullmodel/full_%c_layers.json", scale);
    check_layers(&f, name);
    golden_close(&pack);
    fixture_deinit(&f);
}

/* Rows image, class, cx, cy, w, h to the graph's targets. */
static void write_targets(fixture *f, const value *rows, int max_targets) {
    float *targets = calloc(2 * 5 * (size_t)max_targets, sizeof *targets);
    int32_t count[2] = {0, 0};
    assert_non_null(targets);
    for (size_t i = 0; i < rows->as.list.count; i++) {
        const value *row = rows->as.list.items[i];
        const int image = (int)value_as_double(row->as.list.items[0]);
        float *to = targets + 5 * ((size_t)image * (size_t)max_targets + (size_t)count[image]++);
        for (int k = 0; k < 5; k++) to[k] = (float)value_as_double(row->as.list.items[k + 1]);
    }
    plan_harness_write(&f->h, f->refs.targets, targets);
    plan_harness_write(&f->h, f->refs.target_count, count);
    free(targets);
    for (int k = 0; k < 2; k++) {
        float gains[85] = {7.5F, 0.5F, 1.5F, k == 0 ? 0.8F : 0.2F, 2.0F};
        for (int c = 5; c < 85; c++) gains[c] = 1.0F;
        plan_harness_write(&f->h, f->refs.gains[k], gains);
    }
}

static void train_graph(fixture *f, int h, int w) {
    fixture_model(f, 'n');
    const model_graph_options options = {.mode = MODEL_TRAIN,
                                         .batch = 2,
                                         .height = h,
                                         .width = w,
                                         .branches = MODEL_BOTH,
                                         .loss = true,
                                         .max_targets = 6};
    check(f, model_build(f->m, f->g, &options, &f->refs));
}

static tensor_ref *train(fixture *f, const char *tag, int h, int w, const value *targets) {
    train_graph(f, h, w);
    const model_graph_refs *r = &f->refs;
    tensor_ref *gradient = calloc(f->g->n_tensors, sizeof *gradient);
    const tensor_ref from[4] = {r->boxes[0], r->scores[0], r->boxes[1], r->scores[1]};
    const tensor_ref seed[4] = {r->boxes_grad[0], r->scores_grad[0], r->boxes_grad[1], r->scores_grad[1]};
    check(f, graph_backward(f->g, from, seed, 4, NULL, gradient));
    plan_harness_init(&f->h, f->ctx, f->g, &f->m->state);
    float *images = hashed_images(tag, 2, h, w);
    plan_harness_write(&f->h, r->image, images);
    free(images);
    write_targets(f, targets, 6);
    plan_harness_run(&f->h);
    return gradient;
}

/* Weighted sum of both branches' items times the batch size, and the reported items of the one-to-one branch. */
static void check_losses(fixture *f, const float *vector, const float *items) {
    float *many = plan_harness_read(&f->h, f->refs.loss_items[0]),
          *one = plan_harness_read(&f->h, f->refs.loss_items[1]);
    float sum[3];
    for (int i = 0; i < 3; i++) sum[i] = 2.0F * (0.8F * many[i] + 0.2F * one[i]);
    assert_close("loss_vector", sum, vector, 3, 1e-7, 1e-4);
    assert_close("loss_items", one, items, 3, 1e-7, 1e-4);
    free(many);
    free(one);
}

static void check_gradients(fixture *f, const value *want, const tensor_ref *gradient) {
    int n_zero = 0, n_bad = 0;
    for (size_t i = 0; i < want->as.map.count; i++) {
        const char *name = want->as.map.keys[i]->as.string;
        const double norm = value_as_double(want->as.map.items[i]->as.list.items[0]);
        const double dot = value_as_double(want->as.map.items[i]->as.list.items[1]);
        const tensor_ref t = graph_find(f->g, name);
        char tag[200];
        if (t == TENSOR_NONE || gradient[t] == TENSOR_NONE) fail_msg("no gradient for '%s'", name);
        const size_t n = (size_t)shape_elements(graph_shape(f->g, t));
        float *got = plan_harness_read(&f->h, gradient[t]), *direction = malloc(n * sizeof *direction);
        assert_non_null(direction);
        snprintf(tag, sizeof tag, "dot/%s", name);
        golden_hash(tag, direction, n, -1, 1);
        double squares = 0, product = 0;
        for (size_t k = 0; k < n; k++) {
            squares += (double)got[k] * (double)got[k];
            product += (double)got[k] * (double)direction[k];
        }
        if (norm > 1e-6) {
            if (fabs(sqrt(squares) - norm) > 1e-3 * norm || fabs(product - dot) > 1e-3 * norm) {
                n_bad++;
                print_message("%s: norm %.8g, expected %.8g; dot %.8g, expected %.8g\n", name, sqrt(squares), norm,
                              product, dot);
            }
        } else {
            n_zero++;
            assert_true(sqrt(squares) < 1e-4);
        }
        free(got);
        free(direction);
    }
    assert_int_equal(want->as.map.count, 366);
    print_message("%d gradients are zero by construction\n", n_zero);
    assert_int_equal(n_bad, 0);
}

static void test_training_n(void **state) {
    (void)state;
    fixture f;
    arena a;
    golden_pack pack = golden_open("fullmodel/full_n_train");
    tensor_ref *gradient = train(&f, "full/img", 64, 96, value_get(pack.meta, "targets"));
    arena_init(&a, f.ctx, 0);
    compare(&f, f.refs.boxes[0], &pack, "one2many.boxes", 1e-3);
    compare(&f, f.refs.boxes[1], &pack, "one2one.boxes", 1e-3);
    compare(&f, f.refs.scores[0], &pack, "one2many.scores_image0", 1e-3);
    compare(&f, f.refs.scores[1], &pack, "one2one.scores_image0", 1e-3);
    static const char *const statistics[] = {"model.0.bn.running_mean", "model.0.bn.running_var",
                                             "model.22.cv2.bn.running_mean", "model.22.cv2.bn.running_var"};
    for (int i = 0; i < 4; i++) compare(&f, graph_find(f.g, statistics[i]), &pack, statistics[i], 1e-5);
    const tensor vector = golden_tensor(&pack, "loss_vector"), items = golden_tensor(&pack, "loss_items");
    check_losses(&f, tensor_f32(&vector), tensor_f32(&items));
    check_gradients(&f, golden_json(&a, "fullmodel/full_n_grads.json"), gradient);
    free(gradient);
    arena_deinit(&a);
    golden_close(&pack);
    fixture_deinit(&f);
}

/* The biases that batch norm takes out again are those whose gradients the reference found to be rounding. */
static void test_biases_that_change_nothing(void **state) {
    (void)state;
    fixture f;
    arena a;
    int n_found = 0;
    train_graph(&f, 160, 192);
    arena_init(&a, f.ctx, 0);
    const value *norms = value_get(golden_json(&a, "fullmodel/full_n_large_grads.json"), "gradients");
    for (size_t i = 0; i < norms->as.map.count; i++) {
        const char *name = norms->as.map.keys[i]->as.string;
        const bool nothing = value_as_double(norms->as.map.items[i]->as.list.items[0]) < 1e-6;
        const bool found = graph_ignores_shift(f.g, graph_find(f.g, name));
        if (found != nothing) fail_msg("%s: %s", name, found ? "has a gradient" : "has none");
        n_found += found;
    }
    assert_int_equal(n_found, 7);
    arena_deinit(&a);
    fixture_deinit_model(&f);
}

static void test_training_n_large(void **state) {
    (void)state;
    fixture f;
    arena a;
    ol_context *ctx = test_context();
    arena_init(&a, ctx, 0);
    const value *want = golden_json(&a, "fullmodel/full_n_large_grads.json"), *items = value_get(want, "loss_items");
    tensor_ref *gradient = train(&f, "full/img_large", 160, 192, value_get(want, "targets"));
    float vector[3], item[3];
    for (int i = 0; i < 3; i++) {
        vector[i] = (float)value_as_double(value_get(want, "loss_vector")->as.list.items[i]);
        item[i] = (float)value_as_double(items->as.map.items[i]);
    }
    check_losses(&f, vector, item);
    check_gradients(&f, value_get(want, "gradients"), gradient);
    free(gradient);
    fixture_deinit(&f);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    static char scales[] = "smlx";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluation_n),
        {"evaluation of s", test_evaluation_of_scale, NULL, NULL, &scales[0]},
        {"evaluation of m", test_evaluation_of_scale, NULL, NULL, &scales[1]},
        {"evaluation of l", test_evaluation_of_scale, NULL, NULL, &scales[2]},
        {"evaluation of x", test_evaluation_of_scale, NULL, NULL, &scales[3]},
        cmocka_unit_test(test_training_n),
        cmocka_unit_test(test_biases_that_change_nothing),
        cmocka_unit_test(test_training_n_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
