/* Detections of the shared checkpoint on the eight pictures, both head branches, against tests/golden/predict. */
#include "golden.h"
#include "shared_model.h"

#include "base/file.h"
#include "predict/predict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOLERANCE_PX    0.05
#define TOLERANCE_SCORE 1e-4

typedef struct comparison {
    const value *golden;
    const char *key; /* "nms" or "e2e" */
    size_t n_pictures, n_rows;
    double worst_px, worst_score;
} comparison;

static ol_status compare(void *user, const predict_result *r) {
    comparison *c = user;
    const value *picture = value_get(c->golden, path_name(r->path));
    assert_non_null(picture);
    const value *rows = value_get(picture, c->key), *net = value_get(picture, "network_hw");
    assert_int_equal(r->net_height, net->as.list.items[0]->as.integer);
    assert_int_equal(r->net_width, net->as.list.items[1]->as.integer);
    if (r->n_rows != rows->as.list.count)
        fail_msg("%s %s: %zu rows, not %zu", path_name(r->path), c->key, r->n_rows, rows->as.list.count);
    for (size_t i = 0; i < r->n_rows; i++) {
        const value *row = rows->as.list.items[i];
        const detection *d = &r->rows[i];
        const double box[4] = {d->x1, d->y1, d->x2, d->y2};
        for (size_t k = 0; k < 4; k++)
            c->worst_px = fmax(c->worst_px, fabs(box[k] - value_as_double(row->as.list.items[k])));
        c->worst_score = fmax(c->worst_score, fabs(d->score - value_as_double(row->as.list.items[4])));
        assert_int_equal(d->class_id, (int)value_as_double(row->as.list.items[5]));
    }
    c->n_pictures++;
    c->n_rows += r->n_rows;
    return OL_OK;
}

static void compare_branch(model_branch branch, const char *key) {
    ol_context *ctx = test_context();
    shared_model m = shared_model_open(ctx, "weights/yolo26n-coco128.pt");
    arena a;
    arena_init(&a, ctx, 0);
    settings s;
    assert_int_equal(settings_init(&s, ctx), OL_OK);
    const char *out = path_join(&a, TESTS_BUILD_DIR "/test-predict", key);
    assert_int_equal(folder_create(ctx, out), OL_OK);
    runner_options options = {.decode = branch};
    runner *r;
    assert_int_equal(runner_create(ctx, m.dev, m.model, &options, &r), OL_OK);
    comparison c = {.golden = golden_json(&a, "predict/coco8.json"), .key = key};
    predict_options o = {.model = {.s = &s, .names = m.model->names, .nc = m.model->desc.nc},
                         .batch = 1,
                         .save_dir = out,
                         .save_pictures = true,
                         .quiet = true,
                         .on_result = compare,
                         .user = &c};
    static const char *const folders[] = {"data/coco8/images/train", "data/coco8/images/val"};
    for (int i = 0; i < 2; i++) {
        source_list sources;
        predict_summary sum;
        assert_int_equal(source_list_open(ctx, path_join(&a, shared_folder(), folders[i]), &sources), OL_OK);
        assert_int_equal(predict_run(ctx, r, &sources, &o, &sum), OL_OK);
        printf("%s %s: %.1f ms preprocess, %.1f ms inference, %.1f ms postprocess\n", folders[i], key, sum.speed_ms[0],
               sum.speed_ms[1], sum.speed_ms[2]);
        source_list_deinit(&sources);
    }
    printf("%s: %zu rows, worst %.2g px, %.2g in score\n", key, c.n_rows, c.worst_px, c.worst_score);
    assert_int_equal(c.n_pictures, 8);
    assert_true(file_exists(path_join(&a, out, "000000000009.jpg")));
    assert_true(c.n_rows > 20);
    assert_true(c.worst_px <= TOLERANCE_PX);
    assert_true(c.worst_score <= TOLERANCE_SCORE);
    runner_destroy(r);
    settings_deinit(&s);
    arena_deinit(&a);
    shared_model_close(&m);
    ol_context_destroy(ctx);
}

static void one_to_many_with_nms(void **state) {
    (void)state;
    compare_branch(MODEL_ONE2MANY, "nms");
}

static void one_to_one_with_top_k(void **state) {
    (void)state;
    compare_branch(MODEL_ONE2ONE, "e2e");
}

int main(void) {
    skip_without(shared_folder(), "shared weights and pictures");
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_to_many_with_nms), cmocka_unit_test(one_to_one_with_top_k)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
