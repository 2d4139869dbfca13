/* Validation of the shared checkpoint on coco128 against the figures of the reference (tests/golden/predict/README.md).
 */
#include "golden.h"
#include "shared_model.h"

#include "base/file.h"
#include "val/val.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct run {
    const char *name;
    int batch;
    bool rect;
    model_branch branch;
    double expected[4], tolerance; /* P, R, mAP50, mAP50-95 */
} run;

static const run runs[] = {
    {"batch 8, square", 8, false, MODEL_ONE2MANY, {0.825586, 0.757695, 0.816197, 0.581383}, 0.001},
    {"batch 1", 1, true, MODEL_ONE2MANY, {0.837653, 0.734688, 0.813570, 0.550582}, 0.001},
    {"batch 8, square, nms=False", 8, false, MODEL_ONE2ONE, {0.695904, 0.748605, 0.796902, 0.484785}, 0.001},
    /* the order of equal aspect ratios is open: 0.003 around the reference's */
    {"batch 8", 8, true, MODEL_ONE2MANY, {0.843044, 0.734170, 0.814522, 0.554170}, 0.003}};

static const char *write_data_file(ol_context *ctx, arena *a) {
    text t;
    text_init(&t, ctx);
    text_printf(&t, "path: %s/data/coco128\ntrain: images/train2017\nval: images/train2017\nnames:\n", shared_folder());
    for (int k = 0; k < 80; k++) text_printf(&t, "  %d: '%d'\n", k, k);
    const char *path = path_join(a, TESTS_BUILD_DIR, "coco128-test.yaml");
    assert_int_equal(file_write_atomic(ctx, path, t.bytes, t.length), OL_OK);
    text_deinit(&t);
    return path;
}

static void check_run(const run *want, const char *save_dir) {
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    shared_model m = shared_model_open(ctx, "weights/yolo26n-coco128.pt");
    settings s;
    assert_int_equal(settings_init(&s, ctx), OL_OK);
    assert_int_equal(settings_set_text(&s, "rect", want->rect ? "True" : "False"), OL_OK);
    data_config config;
    const char *file = write_data_file(ctx, &a);
    if (data_config_read(ctx, file, NULL, DATA_SPLIT_VAL, &config)) fail_msg("%s", ol_context_message(ctx));
    dataset_options dataset_options = {.split = DATA_SPLIT_VAL, .cache_folder = ""};
    dataset *d;
    if (dataset_open(ctx, &config, &dataset_options, &d)) fail_msg("%s", ol_context_message(ctx));
    loader_options loader_options = loader_options_val(&s, want->batch, 640, 32);
    loader *l;
    assert_int_equal(loader_create(ctx, d, &loader_options, &l), OL_OK);
    runner_options runner_options = {.decode = want->branch};
    runner *r;
    assert_int_equal(runner_create(ctx, m.dev, m.model, &runner_options, &r), OL_OK);
    val_options options = {.s = &s,
                           .names = m.model->names,
                           .nc = m.model->desc.nc,
                           .save_dir = save_dir,
                           .plots = save_dir != NULL,
                           .quiet = true};
    val_report report;
    if (val_run(ctx, r, l, d, &options, &report)) fail_msg("%s", ol_context_message(ctx));
    const double found[4] = {report.box.mp, report.box.mr, report.box.map50, report.box.map};
    printf("%s: P %.6f R %.6f mAP50 %.6f mAP50-95 %.6f; a picture: %.1f ms waiting, %.1f inference, %.1f postprocess\n",
           want->name, found[0], found[1], found[2], found[3], report.speed_ms[0], report.speed_ms[1],
           report.speed_ms[3]);
    assert_int_equal(report.n_images, 128);
    assert_int_equal(report.n_instances, 929);
    for (int i = 0; i < 4; i++) {
        if (fabs(found[i] - want->expected[i]) > want->tolerance)
            fail_msg("%s: value %d is %.6f, not %.6f", want->name, i, found[i], want->expected[i]);
    }
    val_report_deinit(&report);
    runner_destroy(r);
    loader_destroy(l);
    dataset_destroy(d);
    data_config_deinit(&config);
    settings_deinit(&s);
    shared_model_close(&m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void square_batches(void **state) {
    (void)state;
    static const char folder[] = TESTS_BUILD_DIR "/test-val";
    ol_context *ctx = test_context();
    assert_int_equal(folder_create(ctx, folder), OL_OK);
    ol_context_destroy(ctx);
    check_run(&runs[0], folder);
    assert_true(file_exists(TESTS_BUILD_DIR "/test-val/BoxPR_curve.png"));
    assert_true(file_exists(TESTS_BUILD_DIR "/test-val/confusion_matrix_normalized.png"));
    assert_true(file_exists(TESTS_BUILD_DIR "/test-val/val_batch2_pred.jpg"));
}

static void single_pictures(void **state) {
    (void)state;
    check_run(&runs[1], NULL);
}

static void one_to_one_head(void **state) {
    (void)state;
    check_run(&runs[2], NULL);
}

static void rectangular_batches(void **state) {
    (void)state;
    check_run(&runs[3], NULL);
}

int main(void) {
    skip_without(shared_folder(), "shared weights and pictures");
    const struct CMUnitTest tests[] = {cmocka_unit_test(square_batches), cmocka_unit_test(single_pictures),
                                       cmocka_unit_test(one_to_one_head), cmocka_unit_test(rectangular_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
