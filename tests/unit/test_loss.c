/* The detection loss against recorded values: CIoU, BCE, assignment, items and gradients of both branches. */
#include "golden.h"
#include "plan_harness.h"

#include "ops/bce.h"
#include "ops/ciou.h"
#include "ops/detect_loss.h"
#include "train/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const cases[] = {"basic",        "crowded",    "tiny_objects", "late_epoch",
                                    "single_class", "no_objects", "noisy"};

static void ciou_and_its_gradient(void **state) {
    (void)state;
    golden_pack p = golden_open("loss/ciou");
    const tensor a = golden_tensor(&p, "box1_xyxy"), b = golden_tensor(&p, "box2_xyxy"), v = golden_tensor(&p, "ciou"),
                 g = golden_tensor(&p, "grad_box1");
    for (size_t i = 0; i < 64; i++) {
        float grad[4];
        const float value = ciou_gradient(tensor_f32(&a) + 4 * i, tensor_f32(&b) + 4 * i, grad);
        assert_close("ciou", &value, tensor_f32(&v) + i, 1, 1e-6, 1e-6);
        assert_close("ciou gradient", grad, tensor_f32(&g) + 4 * i, 4, 1e-6, 1e-6);
        assert_true(value == ciou_value(tensor_f32(&a) + 4 * i, tensor_f32(&b) + 4 * i));
    }
    golden_close(&p);
}

static void bce_rounds_as_recorded(void **state) {
    (void)state;
    golden_pack p = golden_open("loss/bce");
    const tensor z = golden_tensor(&p, "logit"), t = golden_tensor(&p, "target"), v = golden_tensor(&p, "value"),
                 g = golden_tensor(&p, "grad");
    const size_t n = (size_t)shape_elements(&z.shape);
    float *grad = calloc(n, sizeof *grad);
    double sum = 0.0, background = 0.0;
    for (size_t i = 0; i < n; i++) {
        const float value = bce_value(tensor_f32(&z)[i], tensor_f32(&t)[i]),
                    slope = bce_gradient(tensor_f32(&z)[i], tensor_f32(&t)[i]);
        /* a unit in the last place of the logit may remain where the logarithm is rounded the other way */
        assert_close("bce", &value, tensor_f32(&v) + i, 1, fabs((double)tensor_f32(&z)[i]) * 1.2e-7 + 1e-12, 2e-7);
        assert_close("bce gradient", &slope, tensor_f32(&g) + i, 1, 6e-8, 3e-7);
        sum += (double)value;
        background += (double)bce_value(tensor_f32(&z)[i], 0.0f);
    }
    double recorded = 0.0;
    for (size_t i = 0; i < n; i++) recorded += (double)tensor_f32(&v)[i];
    assert_true(fabs(sum - recorded) < 1e-6 * recorded);
    assert_true(bce_value(-17.0f, 0.0f) == 0.0f &&
                bce_value(-40.0f, 0.0f) == 0.0f); /* not e^-17: the form that is rounded */
    assert_true(bce_gradient(-40.0f, 0.0f) > 0.0f);
    assert_true(fabs(bce_background(tensor_f32(&z), 1.0f, grad, n) - background) < 1e-6 * background);
    assert_true(bce_background(tensor_f32(&z), 1.0f, NULL, n) == bce_background(tensor_f32(&z), 1.0f, grad, n));
    for (size_t i = 0; i < n; i++) {
        const float slope = bce_gradient(tensor_f32(&z)[i], 0.0f);
        assert_true(grad[i] == slope);
    }
    const float bad[3] = {1.0f, NAN, 0.0f};
    assert_true(isnan(bce_background(bad, 1.0f, NULL, 3)));
    free(grad);
    golden_close(&p);
}

typedef struct loss_case {
    golden_pack pack;
    op_attr attr;
    int n, nc, max_targets;
    float *targets, *gains;
    int32_t *counts;
    double weight[2];
} loss_case;

static loss_case case_open(const char *name) {
    loss_case c = {0};
    char stem[64];
    snprintf(stem, sizeof stem, "loss/%s", name);
    c.pack = golden_open(stem);
    const value *m = c.pack.meta, *hw = value_get(m, "image_hw"), *rows = value_get(m, "targets_b_cls_cxcywh"),
                *gains = value_get(m, "gains_box_cls_dfl");
    c.n = (int)value_as_double(value_get(m, "batch"));
    c.nc = (int)value_as_double(value_get(m, "nc"));
    c.attr = (op_attr){.n_levels = 3, .alpha = 0.5f, .beta = 6.0f};
    for (int l = 0; l < 3; l++) {
        c.attr.level_stride[l] = 8 << l;
        c.attr.level_h[l] = (int)value_as_double(hw->as.list.items[0]) / (8 << l);
        c.attr.level_w[l] = (int)value_as_double(hw->as.list.items[1]) / (8 << l);
    }
    c.max_targets = (int)rows->as.list.count;
    c.targets =
        calloc((size_t)(c.n * (c.max_targets + 1) * 5), sizeof(float)); /* room for one row where there are none */
    c.counts = calloc((size_t)c.n, sizeof(int32_t));
    for (size_t i = 0; i < rows->as.list.count; i++) {
        const value *row = rows->as.list.items[i];
        const int image = (int)value_as_double(row->as.list.items[0]);
        float *to = c.targets + (image * c.max_targets + c.counts[image]++) * 5;
        for (size_t k = 0; k < 5; k++) to[k] = (float)value_as_double(row->as.list.items[k + 1]);
    }
    c.gains = calloc((size_t)(LOSS_GAIN_CLASSES + c.nc), sizeof(float));
    for (size_t k = 0; k < 3; k++) c.gains[k] = (float)value_as_double(gains->as.list.items[k]);
    c.gains[LOSS_GAIN_IMAGES] = (float)c.n;
    for (int k = 0; k < c.nc; k++) c.gains[LOSS_GAIN_CLASSES + k] = 1.0f;
    const int updates = (int)value_as_double(value_get(m, "updates")),
              epochs = (int)value_as_double(value_get(m, "epochs"));
    schedule_branch_weights(updates, epochs, &c.weight[0], &c.weight[1]);
    assert_true(fabs(c.weight[0] - value_as_double(value_get(m, "o2m"))) < 1e-12);
    assert_true(fabs(c.weight[1] - value_as_double(value_get(m, "o2o"))) < 1e-12);
    return c;
}

static void case_close(loss_case *c) {
    free(c->targets);
    free(c->counts);
    free(c->gains);
    golden_close(&c->pack);
}

static tensor branch_tensor(const loss_case *c, int branch, const char *what) {
    char name[80];
    snprintf(name, sizeof name, "%s.%s", branch == 0 ? "one2many" : "one2one", what);
    return golden_tensor(&c->pack, name);
}

static void check_assignment(const loss_case *c, int branch, const detect_loss_args *args, const void *scratch) {
    const tensor scores = branch_tensor(c, branch, "target_scores"), index = branch_tensor(c, branch, "target_gt_idx"),
                 fg = branch_tensor(c, branch, "fg_mask");
    const size_t n_anchors = (size_t)fg.shape.dim[1];
    for (int i = 0; i < c->n; i++) {
        int n = 0;
        const assigned *positives = detect_loss_assigned(args, scratch, i, &n);
        float *mine = calloc(n_anchors * (size_t)c->nc, sizeof *mine);
        for (int k = 0; k < n; k++) {
            const assigned *p = &positives[k];
            const size_t at = (size_t)i * n_anchors + (size_t)p->anchor;
            mine[(size_t)p->anchor * (size_t)c->nc + (size_t)args->targets[(i * c->max_targets + p->target) * 5]] =
                p->score;
            if (p->score == 0.0f) continue;
            assert_true(tensor_f32(&fg)[at] == 1.0f);
            assert_int_equal(p->target, (int)tensor_f32(&index)[at]);
        }
        assert_close("soft targets", mine, tensor_f32(&scores) + (size_t)i * n_anchors * (size_t)c->nc,
                     n_anchors * (size_t)c->nc, 1e-6, 1e-6);
        free(mine);
    }
}

static void losses_of_recorded_cases(void **state) {
    (void)state;
    for (size_t q = 0; q < sizeof cases / sizeof cases[0]; q++) {
        loss_case c = case_open(cases[q]);
        for (int branch = 0; branch < 2; branch++) {
            c.attr.topk = branch == 0 ? 10 : 7;
            c.attr.topk2 = branch == 0 ? 10 : 1;
            c.gains[LOSS_GAIN_BRANCH] = (float)c.weight[branch];
            const tensor boxes = branch_tensor(&c, branch, "boxes"), scores = branch_tensor(&c, branch, "scores");
            const size_t n_boxes = (size_t)shape_elements(&boxes.shape),
                         n_scores = (size_t)shape_elements(&scores.shape);
            float items[3], *grad_boxes = calloc(n_boxes, sizeof(float)),
                            *grad_scores = calloc(n_scores, sizeof(float));
            const detect_loss_args args = {.attr = &c.attr,
                                           .n = c.n,
                                           .nc = c.nc,
                                           .max_targets = c.max_targets,
                                           .boxes = tensor_f32(&boxes),
                                           .scores = tensor_f32(&scores),
                                           .targets = c.targets,
                                           .counts = c.counts,
                                           .gains = c.gains,
                                           .items = items,
                                           .grad_boxes = grad_boxes,
                                           .grad_scores = grad_scores,
                                           .n_threads = 2};
            const size_t bytes = (detect_loss_scratch_bytes(&c.attr, c.n, c.nc, c.max_targets) + 63) / 64 * 64;
            void *scratch = aligned_alloc(64, bytes);
            memset(scratch, 0xA5, bytes);
            detect_loss(&args, scratch);
            check_assignment(&c, branch, &args, scratch);
            const tensor wanted = branch_tensor(&c, branch, "loss_items"), gb = branch_tensor(&c, branch, "grad_boxes"),
                         gs = branch_tensor(&c, branch, "grad_scores");
            assert_close(cases[q], items, tensor_f32(&wanted), 3, 1e-9, 1e-5);
            assert_close("grad_boxes", grad_boxes, tensor_f32(&gb), n_boxes, 1e-6, 1e-5);
            assert_close("grad_scores", grad_scores, tensor_f32(&gs), n_scores, 1e-6, 1e-5);
            float again[3];
            detect_loss_args quiet = args; /* without gradients, as validation calls it */
            quiet.items = again;
            quiet.n_threads = 1;
            quiet.grad_boxes = quiet.grad_scores = NULL;
            detect_loss(&quiet, scratch);
            assert_memory_equal(items, again, sizeof items);
            free(scratch);
            free(grad_boxes);
            free(grad_scores);
        }
        case_close(&c);
    }
}

static tensor_ref input_add(graph *g, const char *name, dtype type, shape s) {
    tensor_ref t = TENSOR_NONE;
    assert_int_equal(graph_tensor_add(g, name, ROLE_INPUT, type, s, &t), OL_OK);
    return t;
}

/* The same cases as an op of a graph, on whatever device the tests run on. */
static void losses_through_a_plan(void **state) {
    (void)state;
    for (size_t q = 0; q < sizeof cases / sizeof cases[0]; q++) {
        loss_case c = case_open(cases[q]);
        ol_context *ctx = test_context();
        for (int branch = 0; branch < 2; branch++) {
            const tensor boxes = branch_tensor(&c, branch, "boxes"), scores = branch_tensor(&c, branch, "scores"),
                         wanted = branch_tensor(&c, branch, "loss_items"), gb = branch_tensor(&c, branch, "grad_boxes"),
                         gs = branch_tensor(&c, branch, "grad_scores");
            const int rows = c.max_targets > 0 ? c.max_targets : 1;
            c.attr.topk = branch == 0 ? 10 : 7;
            c.attr.topk2 = branch == 0 ? 10 : 1;
            c.gains[LOSS_GAIN_BRANCH] = (float)c.weight[branch];
            graph *g = NULL;
            assert_int_equal(graph_create(ctx, &g), OL_OK);
            const tensor_ref in[5] = {input_add(g, "boxes", DTYPE_F32, boxes.shape),
                                      input_add(g, "scores", DTYPE_F32, scores.shape),
                                      input_add(g, "targets", DTYPE_F32, shape_3d(c.n, rows, 5)),
                                      input_add(g, "counts", DTYPE_I32, shape_1d(c.n)),
                                      input_add(g, "gains", DTYPE_F32, shape_1d(LOSS_GAIN_CLASSES + c.nc))};
            tensor_ref out[3];
            assert_int_equal(graph_op_add(g, OP_DETECT_LOSS, &c.attr, in, 5, out), OL_OK);
            static const char *const names[] = {"items", "grad_boxes", "grad_scores"};
            for (int k = 0; k < 3; k++) graph_output_mark(g, out[k], names[k]);
            plan_harness h;
            plan_harness_init(&h, ctx, g, NULL);
            const void *values[5] = {boxes.data, scores.data, c.targets, c.counts, c.gains};
            float *found[3];
            for (int run = 0; run < 3; run++) { /* the second run of a plan may be a recording, the third its replay */
                for (int k = 0; k < 5; k++) plan_harness_write(&h, in[k], values[k]);
                plan_harness_run(&h);
            }
            for (int k = 0; k < 3; k++) found[k] = plan_harness_read(&h, out[k]);
            assert_close(cases[q], found[0], tensor_f32(&wanted), 3, 1e-9, 1e-5);
            assert_close("grad_boxes", found[1], tensor_f32(&gb), (size_t)shape_elements(&gb.shape), 1e-6, 1e-5);
            assert_close("grad_scores", found[2], tensor_f32(&gs), (size_t)shape_elements(&gs.shape), 1e-6, 1e-5);
            for (int k = 0; k < 3; k++) free(found[k]);
            plan_harness_deinit(&h);
            graph_destroy(g);
        }
        ol_context_destroy(ctx);
        case_close(&c);
    }
}

/* Targets that cannot be, and maps that are not finite, must neither crash nor be hidden. */
static void hostile_targets_and_maps(void **state) {
    (void)state;
    op_attr attr = {.n_levels = 3, .alpha = 0.5f, .beta = 6.0f, .topk = 10, .topk2 = 10};
    for (int l = 0; l < 3; l++) {
        attr.level_stride[l] = 8 << l;
        attr.level_h[l] = attr.level_w[l] = 8 >> l;
    }
    enum { A = 64 + 16 + 4 };
    float boxes[4 * A], scores[2 * A], grad_boxes[4 * A], grad_scores[2 * A], items[3],
        gains[] = {7.5f, 0.5f, 1.5f, 1.0f, 1.0f, 1.0f, 1.0f};
    for (int i = 0; i < 4 * A; i++) boxes[i] = 1.0f;
    for (int i = 0; i < 2 * A; i++) scores[i] = -2.0f;
    const float targets[] = {0, NAN,   0.5f,  0.5f,  0.5f,  7, 0.5f, 0.5f, 0.5f, 0.5f, -1, 0.5f, 0.5f, 0.5f, 0.5f,
                             1, 1e30f, 1e30f, 1e30f, 1e30f, 1, -5,   -5,   1,    1,    1,  0.5f, 0.5f, 0.5f, 0.5f};
    const int32_t counts[] = {99}; /* more than there are: taken as M */
    const detect_loss_args args = {.attr = &attr,
                                   .n = 1,
                                   .nc = 2,
                                   .max_targets = 6,
                                   .boxes = boxes,
                                   .scores = scores,
                                   .targets = targets,
                                   .counts = counts,
                                   .gains = gains,
                                   .items = items,
                                   .grad_boxes = grad_boxes,
                                   .grad_scores = grad_scores,
                                   .n_threads = 2};
    void *scratch = aligned_alloc(64, (detect_loss_scratch_bytes(&attr, 1, 2, 6) + 63) / 64 * 64);
    detect_loss(&args, scratch);
    for (int k = 0; k < 3; k++) assert_true(isfinite(items[k]) && items[k] > 0.0f);
    scores[3] = NAN;
    detect_loss(&args, scratch);
    assert_true(isnan(items[LOSS_ITEM_CLS]));
    free(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ciou_and_its_gradient), cmocka_unit_test(bce_rounds_as_recorded),
        cmocka_unit_test(losses_of_recorded_cases), cmocka_unit_test(losses_through_a_plan),
        cmocka_unit_test(hostile_targets_and_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
