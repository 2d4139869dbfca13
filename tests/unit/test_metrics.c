/* Matching, AP, curves and the confusion matrix against tests/golden/metrics. */
#include "golden.h"

#include "base/file.h"
#include "val/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_IMAGES 24
#define NC       5

typedef struct picture {
    float boxes[64 * 4];
    int32_t classes[64];
    size_t n_labels;
    detection rows[64];
    size_t n_rows;
} picture;

/* Reads the lines after the header into the pictures they belong to. */
static void read_csv(ol_context *ctx, const char *name, picture *pictures, bool labels) {
    char path[512];
    snprintf(path, sizeof path, TESTS_GOLDEN_DIR "/metrics/%s", name);
    char *bytes;
    size_t n_bytes;
    assert_int_equal(file_read(ctx, path, 0, &bytes, &n_bytes), OL_OK);
    char *line = strchr(bytes, '\n') + 1;
    while (*line) {
        double v[7];
        char *at = line;
        int n = labels ? 6 : 7;
        for (int i = 0; i < n; i++) {
            v[i] = strtod(at, &at);
            if (*at == ',') at++;
        }
        picture *p = &pictures[(int)v[0]];
        if (labels) {
            for (int i = 0; i < 4; i++) p->boxes[4 * p->n_labels + (size_t)i] = (float)v[2 + i];
            p->classes[p->n_labels++] = (int32_t)v[1];
        } else {
            p->rows[p->n_rows++] = (detection){.x1 = (float)v[3],
                                               .y1 = (float)v[4],
                                               .x2 = (float)v[5],
                                               .y2 = (float)v[6],
                                               .score = (float)v[2],
                                               .class_id = (int32_t)v[1]};
        }
        line = strchr(at, '\n') + 1;
    }
    mem_free(ctx, bytes);
}

static picture *read_pictures(ol_context *ctx) {
    picture *pictures = mem_alloc0(ctx, N_IMAGES, sizeof *pictures);
    assert_non_null(pictures);
    read_csv(ctx, "labels.csv", pictures, true);
    read_csv(ctx, "detections.csv", pictures, false);
    return pictures;
}

static void assert_doubles(const char *what, const double *a, const tensor *expected, double tolerance) {
    const double *b = expected->data;
    for (int64_t i = 0; i < shape_elements(&expected->shape); i++) {
        if (!(fabs(a[i] - b[i]) <= tolerance)) fail_msg("%s[%d] is %.17g, not %.17g", what, (int)i, a[i], b[i]);
    }
}

static void flags_of_every_picture_are_exact(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    picture *pictures = read_pictures(ctx);
    golden_pack g = golden_open("metrics/tp");
    for (int i = 0; i < N_IMAGES; i++) {
        char name[16];
        snprintf(name, sizeof name, "tp_%02d", i);
        tensor expected = golden_tensor(&g, name);
        picture *p = &pictures[i];
        assert_int_equal(expected.shape.dim[0], p->n_rows);
        uint8_t hits[64 * VAL_N_IOU];
        assert_int_equal(match_detections(ctx, p->boxes, p->classes, p->n_labels, p->rows, p->n_rows, hits), OL_OK);
        if (p->n_rows) assert_memory_equal(hits, expected.data, p->n_rows * VAL_N_IOU);
    }
    tensor iouv = golden_tensor(&g, "iouv");
    assert_memory_equal(iouv.data, val_iou_thresholds, sizeof val_iou_thresholds);
    golden_close(&g);
    mem_free(ctx, pictures);
    ol_context_destroy(ctx);
}

static void average_precision_and_curves_agree(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    picture *pictures = read_pictures(ctx);
    match_stats s;
    assert_int_equal(match_stats_init(&s, ctx, NC), OL_OK);
    for (int i = 0; i < N_IMAGES; i++) {
        picture *p = &pictures[i];
        assert_int_equal(match_stats_add(&s, p->boxes, p->classes, p->n_labels, p->rows, p->n_rows, NULL), OL_OK);
    }
    metrics m;
    assert_int_equal(metrics_compute(&a, &s, &m), OL_OK);
    golden_pack g = golden_open("metrics/ap");
    tensor classes = golden_tensor(&g, "classes");
    assert_int_equal(m.n, 4);
    assert_memory_equal(m.classes, classes.data, 4 * sizeof(int32_t));
    const struct {
        const char *name;
        const double *values;
        double tolerance;
    } rows[] = {{"ap", m.ap, 1e-9},
                {"p", m.p, 1e-9},
                {"r", m.r, 1e-9},
                {"f1", m.f1, 1e-9},
                {"tp", m.tp, 0},
                {"fp", m.fp, 0},
                {"p_curve", m.p_curve, 1e-9},
                {"r_curve", m.r_curve, 1e-9},
                {"f1_curve", m.f1_curve, 1e-9},
                {"px", m.x, 1e-15},
                {"f1_smooth", m.f1_mean_smooth, 1e-9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tensor t = golden_tensor(&g, rows[i].name);
        assert_doubles(rows[i].name, rows[i].values, &t, rows[i].tolerance);
    }
    tensor pr = golden_tensor(&g, "prec_values");
    assert_doubles("prec_values", m.pr_curve, &pr, 1e-9);
    const value *summary = golden_json(&a, "metrics/ap.json");
    assert_int_equal(m.best, value_get(summary, "best_index")->as.integer);
    assert_true(fabs(m.mp - value_as_double(value_get(summary, "mp"))) < 1e-9);
    assert_true(fabs(m.mr - value_as_double(value_get(summary, "mr"))) < 1e-9);
    assert_true(fabs(m.map50 - value_as_double(value_get(summary, "map50"))) < 1e-9);
    assert_true(fabs(m.map75 - value_as_double(value_get(summary, "map75"))) < 1e-9);
    assert_true(fabs(m.map - value_as_double(value_get(summary, "map"))) < 1e-9);
    golden_close(&g);
    match_stats_deinit(&s);
    mem_free(ctx, pictures);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void single_sequences_agree(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "metrics/single_ap.json");
    assert_true(cases->as.list.count >= 5);
    for (size_t i = 0; i < cases->as.list.count; i++) {
        const value *c = cases->as.list.items[i], *recall = value_get(c, "recall"),
                    *precision = value_get(c, "precision");
        double r[16], p[16], scratch[2 * 19];
        size_t n = recall->as.list.count;
        assert_true(n <= 16);
        for (size_t k = 0; k < n; k++) {
            r[k] = value_as_double(recall->as.list.items[k]);
            p[k] = value_as_double(precision->as.list.items[k]);
        }
        double ap = average_precision(r, p, n, scratch);
        assert_true(fabs(ap - value_as_double(value_get(c, "ap"))) < 1e-9);
    }
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void confusion_matrices_are_exact(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    picture *pictures = read_pictures(ctx);
    const value *file = golden_json(&a, "metrics/confusion.json");
    assert_int_equal(file->as.map.count, 2);
    for (size_t k = 0; k < file->as.map.count; k++) {
        const value *c = file->as.map.items[k], *matrix = value_get(c, "matrix");
        float conf = (float)value_as_double(value_get(c, "conf"));
        confusion m;
        assert_int_equal(confusion_init(&m, ctx, NC), OL_OK);
        for (int i = 0; i < N_IMAGES; i++) {
            picture *p = &pictures[i];
            assert_int_equal(confusion_add(&m, p->boxes, p->classes, p->n_labels, p->rows, p->n_rows, conf), OL_OK);
        }
        for (size_t i = 0; i <= NC; i++) {
            for (size_t j = 0; j <= NC; j++)
                assert_int_equal(m.cells[i * (NC + 1) + j],
                                 (int64_t)value_as_double(matrix->as.list.items[i]->as.list.items[j]));
        }
        confusion_deinit(&m);
    }
    mem_free(ctx, pictures);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

/* Both labels overlap the first detection by more than a half: it must take the second, so that the other detection
 * finds the first one free. */
static void a_detection_takes_the_label_of_largest_iou(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    const float labels[8] = {0, 0, 100, 100, 0, 20, 100, 120};
    const int32_t classes[2] = {0, 0};
    const detection rows[2] = {{0, 20, 100, 120, 0.9f, 0, 0}, {0, 0, 100, 90, 0.8f, 0, 1}};
    uint8_t hits[2 * VAL_N_IOU];
    assert_int_equal(match_detections(ctx, labels, classes, 2, rows, 2, hits), OL_OK);
    for (int t = 0; t < VAL_N_IOU; t++) assert_int_equal(hits[t], 1);                 /* IoU 1 */
    for (int t = 0; t < VAL_N_IOU; t++) assert_int_equal(hits[VAL_N_IOU + t], t < 9); /* IoU 0.9 */
    ol_context_destroy(ctx);
}

/* The recorded matrices hold no pair near the threshold: a box of 100 x 100 and one that shares this many of its rows.
 */
static void a_pair_counts_from_0_45_on(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    const float label[4] = {0, 0, 100, 100};
    const int32_t class_id = 0;
    for (int matched = 0; matched < 2; matched++) {
        const detection d = {0, 0, 100, matched ? 46 : 44, 0.9f, 0, 0}; /* IoU 0.46, 0.44 */
        confusion m;
        assert_int_equal(confusion_init(&m, ctx, 1), OL_OK);
        assert_int_equal(confusion_add(&m, label, &class_id, 1, &d, 1, 0.25f), OL_OK);
        assert_int_equal(m.cells[0], matched);     /* predicted 0, true 0 */
        assert_int_equal(m.cells[1], 1 - matched); /* predicted 0, background */
        assert_int_equal(m.cells[2], 1 - matched); /* background, true 0 */
        confusion_deinit(&m);
    }
    ol_context_destroy(ctx);
}

static void empty_sets_give_no_number(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    match_stats s;
    assert_int_equal(match_stats_init(&s, ctx, 3), OL_OK);
    metrics m;
    assert_int_equal(metrics_compute(&a, &s, &m), OL_OK);
    assert_int_equal(m.n, 0);
    assert_true(isnan(m.map) && isnan(m.mp));

    const float box[4] = {10, 10, 20, 20};
    const int32_t class = 1;
    assert_int_equal(match_stats_add(&s, box, &class, 1, NULL, 0, NULL), OL_OK);
    assert_int_equal(metrics_compute(&a, &s, &m), OL_OK);
    assert_int_equal(m.n, 1);
    assert_true(m.map == 0 && m.mp == 0 && m.mr == 0);

    const detection row = {10, 10, 20, 20, 0.9f, 1, 0};
    uint8_t hits[VAL_N_IOU];
    assert_int_equal(match_stats_add(&s, box, &class, 1, &row, 1, hits), OL_OK);
    assert_int_equal(hits[9], 1);
    assert_int_equal(metrics_compute(&a, &s, &m), OL_OK);
    assert_true(m.map50 > 0.45 && m.map50 < 0.55);
    match_stats_deinit(&s);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(flags_of_every_picture_are_exact),
                                       cmocka_unit_test(average_precision_and_curves_agree),
                                       cmocka_unit_test(single_sequences_agree),
                                       cmocka_unit_test(confusion_matrices_are_exact),
                                       cmocka_unit_test(a_pair_counts_from_0_45_on),
                                       cmocka_unit_test(a_detection_takes_the_label_of_largest_iou),
                                       cmocka_unit_test(empty_sets_give_no_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
