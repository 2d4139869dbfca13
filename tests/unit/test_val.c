/* The validation run on a small drawn data set: counts, files, warnings, losses, odd settings. The model has fresh
 * weights, so what is found is not looked at; the metrics have tests of their own. */
#include "golden.h"
#include "log_lines.h"

#include "base/file.h"
#include "data/shapes.h"
#include "val/files.h"
#include "val/val.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_VAL 6
#define SIZE  64

static const char folder[] = TESTS_BUILD_DIR "/test-val-shapes";

/* What was logged, for tests that look for a line. */
typedef struct bench {
    log_lines log;
    ol_context *ctx;
    settings s;
    device *dev;
    model *model;
    arena arena;
    bool interrupt; /* just before the run */
} bench;

static bench *bench_create(void) {
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    ol_context_options options = {.struct_bytes = sizeof options, .log = log_lines_keep, .log_user = &b->log};
    assert_int_equal(ol_context_create(&options, &b->ctx), OL_OK);
    arena_init(&b->arena, b->ctx, 0);
    assert_int_equal(settings_init(&b->s, b->ctx), OL_OK);
    assert_int_equal(device_open(b->ctx, "cpu", &b->dev), OL_OK);
    model_spec spec = {.name = "yolo26n.yaml", .nc = SHAPES_N_CLASSES};
    assert_int_equal(model_create(b->ctx, &spec, &b->model), OL_OK);
    model_initialize(b->model, 3);
    return b;
}

static void bench_destroy(bench *b) {
    model_destroy(b->model);
    device_close(b->dev);
    settings_deinit(&b->s);
    arena_deinit(&b->arena);
    ol_context_destroy(b->ctx);
    free(b);
}

static void set(bench *b, const char *name, const char *typed) {
    if (settings_set_text(&b->s, name, typed)) fail_msg("%s", ol_context_message(b->ctx));
}

/* Runs over the data set in `where`; `o` lacks only what comes from the bench. */
static ol_status validate(bench *b, const char *where, val_options o, model_branch branch, val_report *report) {
    data_config config;
    const char *file = path_join(&b->arena, where, "data.yaml");
    if (data_config_read(b->ctx, file, NULL, DATA_SPLIT_VAL, &config)) fail_msg("%s", ol_context_message(b->ctx));
    dataset_options dataset_options = {.split = DATA_SPLIT_VAL, .single_cls = b->s.single_cls, .cache_folder = ""};
    dataset *d;
    if (dataset_open(b->ctx, &config, &dataset_options, &d)) fail_msg("%s", ol_context_message(b->ctx));
    loader_options loader_options = loader_options_val(&b->s, 4, SIZE, 32);
    loader *l;
    assert_int_equal(loader_create(b->ctx, d, &loader_options, &l), OL_OK);
    runner_options runner_options = {.decode = branch, .loss = o.loss_gains != NULL};
    runner *r;
    assert_int_equal(runner_create(b->ctx, b->dev, b->model, &runner_options, &r), OL_OK);
    o.s = &b->s;
    o.names = (const char *const *)config.names;
    o.nc = b->model->desc.nc;
    if (b->interrupt) ol_context_interrupt(b->ctx);
    ol_status status = val_run(b->ctx, r, l, d, &o, report);
    runner_destroy(r);
    loader_destroy(l);
    dataset_destroy(d);
    data_config_deinit(&config);
    return status;
}

static int draw_set(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    ol_status status = shapes_write(ctx, folder, 2, N_VAL, SIZE, 1);
    ol_context_destroy(ctx);
    return status != OL_OK;
}

static bool same_box(const value *a, const value *b) {
    const value *x = value_get(a, "bbox"), *y = value_get(b, "bbox");
    for (size_t i = 0; i < 4; i++) {
        const double d = value_as_double(x->as.list.items[i]) - value_as_double(y->as.list.items[i]);
        if (d < 0.0 || d > 0.0) return false;
    }
    return true;
}

/* Validation counts a box once for every class above the threshold, where prediction takes its best class alone. */
static bool has_box_of_two_classes(const value *records) {
    for (size_t i = 0; i < records->as.list.count; i++) {
        for (size_t k = i + 1; k < records->as.list.count; k++) {
            const value *a = records->as.list.items[i], *b = records->as.list.items[k];
            const double class_a = value_as_double(value_get(a, "category_id")),
                         class_b = value_as_double(value_get(b, "category_id"));
            if (class_a < class_b && same_box(a, b)) return true;
        }
    }
    return false;
}

static void table_files_and_counts(void **state) {
    (void)state;
    bench *b = bench_create();
    const char *out = path_join(&b->arena, folder, "run");
    assert_int_equal(folder_create(b->ctx, out), OL_OK);
    static const char *const on[] = {"save_json", "save_txt", "save_conf"};
    for (int i = 0; i < 3; i++) set(b, on[i], "True");
    val_report r;
    assert_int_equal(validate(b, folder, (val_options){.save_dir = out, .plots = true}, MODEL_ONE2MANY, &r), OL_OK);
    assert_int_equal(r.n_images, N_VAL);
    assert_true(r.n_instances >= N_VAL);
    int64_t instances = 0, matrix_labels = 0, image_labels = 0;
    for (int k = 0; k < r.nc; k++) instances += r.instances_per_class[k];
    for (int i = 0; i <= r.nc; i++) {
        for (int k = 0; k < r.nc; k++) matrix_labels += r.confusion[i * (r.nc + 1) + k];
    }
    for (int i = 0; i < N_VAL; i++) image_labels += r.images[i].tp + r.images[i].fn;
    assert_int_equal(instances, r.n_instances);
    assert_int_equal(matrix_labels, r.n_instances);
    assert_int_equal(image_labels, r.n_instances);
    assert_true(r.box.map >= 0 && r.box.map <= 1);

    assert_non_null(
        strstr(b->log.text, "                 Class     Images  Instances      Box(P          R      mAP50"));
    assert_non_null(strstr(b->log.text, "\n                   all          6"));
    assert_non_null(strstr(b->log.text, "\n                circle "));
    assert_non_null(strstr(b->log.text, "ms preprocess, "));
    assert_non_null(strstr(b->log.text, "Results saved to "));
    static const char *const files[] = {"BoxPR_curve.png",      "BoxF1_curve.png",
                                        "BoxP_curve.png",       "BoxR_curve.png",
                                        "confusion_matrix.png", "confusion_matrix_normalized.png",
                                        "val_batch0_pred.jpg",  "val_batch1_labels.jpg"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!file_exists(path_join(&b->arena, out, files[i]))) fail_msg("%s was not written", files[i]);
    }

    char *bytes;
    size_t n_bytes;
    const value *records;
    assert_int_equal(file_read(b->ctx, path_join(&b->arena, out, "predictions.json"), 0, &bytes, &n_bytes), OL_OK);
    assert_int_equal(json_parse(&b->arena, "predictions.json", bytes, n_bytes, &records), OL_OK);
    assert_true(records->as.list.count > 0);
    const value *first = records->as.list.items[0];
    assert_int_equal(value_get(first, "bbox")->as.list.count, 4);
    assert_true(value_as_double(value_get(first, "score")) > 0);
    assert_true(has_box_of_two_classes(records));
    mem_free(b->ctx, bytes);
    char **texts;
    size_t n_texts;
    assert_int_equal(folder_list(&b->arena, path_join(&b->arena, out, "labels"), false, &texts, &n_texts), OL_OK);
    assert_int_equal(n_texts, N_VAL);
    assert_int_equal(file_read(b->ctx, texts[0], 0, &bytes, &n_bytes), OL_OK);
    double v[6];
    assert_int_equal(sscanf(bytes, "%lf %lf %lf %lf %lf %lf", v, v + 1, v + 2, v + 3, v + 4, v + 5), 6);
    for (int i = 1; i < 6; i++) assert_true(v[i] >= 0 && v[i] <= 1);
    mem_free(b->ctx, bytes);

    val_report_deinit(&r);
    bench_destroy(b);
}

static void inside_training_there_are_losses_and_one_row(void **state) {
    (void)state;
    bench *b = bench_create();
    float gains[5 + SHAPES_N_CLASSES] = {7.5f, 0.5f, 1.5f, 1, 1, 1, 1, 1, 1};
    val_report r;
    val_options o = {.in_training = true, .loss_gains = gains};
    assert_int_equal(validate(b, folder, o, MODEL_ONE2MANY, &r), OL_OK);
    assert_true(r.has_loss);
    for (int k = 0; k < 3; k++) assert_true(isfinite(r.loss[k]) && r.loss[k] > 0);
    assert_null(r.confusion);
    assert_non_null(strstr(b->log.text, "\n                   all          6"));
    assert_null(strstr(b->log.text, "\n                circle "));
    assert_null(strstr(b->log.text, "Speed"));
    val_report_deinit(&r);
    bench_destroy(b);
}

static void one_class_and_both_heads(void **state) {
    (void)state;
    bench *b = bench_create();
    set(b, "single_cls", "True");
    val_report r;
    assert_int_equal(validate(b, folder, (val_options){0}, MODEL_ONE2ONE, &r), OL_OK);
    assert_int_equal(r.nc, 1);
    assert_int_equal(r.box.n, 1);
    assert_string_equal(r.names[0], "item");
    assert_int_equal(r.instances_per_class[0], r.n_instances);
    assert_null(r.save_dir);
    val_report_deinit(&r);
    bench_destroy(b);
}

/* A data set of one picture with the given labels. */
static const char *make_set(bench *b, const char *name, const char *labels) {
    const char *where = path_join(&b->arena, folder, name);
    char *images = path_join(&b->arena, where, "images/val"), *texts = path_join(&b->arena, where, "labels/val");
    assert_int_equal(folder_create(b->ctx, images), OL_OK);
    assert_int_equal(folder_create(b->ctx, texts), OL_OK);
    image im = {0};
    shapes_object objects[SHAPES_MAX_OBJECTS];
    int n_objects;
    assert_int_equal(shapes_draw(b->ctx, SIZE, 5, 1, 0, &im, objects, &n_objects), OL_OK);
    assert_int_equal(image_write(b->ctx, path_join(&b->arena, images, "a.png"), &im), OL_OK);
    image_deinit(b->ctx, &im);
    assert_int_equal(file_write_atomic(b->ctx, path_join(&b->arena, texts, "a.txt"), labels, strlen(labels)), OL_OK);
    const char *yaml = "path: .\ntrain: images/val\nval: images/val\nnames: [circle, square, triangle, star]\n";
    assert_int_equal(file_write_atomic(b->ctx, path_join(&b->arena, where, "data.yaml"), yaml, strlen(yaml)), OL_OK);
    return where;
}

static void without_labels_the_means_are_none(void **state) {
    (void)state;
    bench *b = bench_create();
    val_report r;
    assert_int_equal(validate(b, make_set(b, "unlabelled", ""), (val_options){0}, MODEL_ONE2MANY, &r), OL_OK);
    assert_int_equal(r.n_images, 1);
    assert_int_equal(r.n_instances, 0);
    assert_true(val_fitness(&r) == 0);
    assert_non_null(strstr(b->log.text, "no labels found in detect set, cannot compute metrics without labels"));
    assert_non_null(strstr(b->log.text, "all          1          0       none       none       none       none"));
    assert_null(strstr(b->log.text, "nan"));
    val_report_deinit(&r);
    bench_destroy(b);
}

static void more_labels_than_max_det(void **state) {
    (void)state;
    text t;
    bench *b = bench_create();
    text_init(&t, b->ctx);
    for (int i = 0; i < 310; i++)
        text_printf(&t, "%d %.4f %.4f 0.02 0.02\n", i % 4, 0.05 + 0.9 * (i % 20) / 20, 0.05 + 0.9 * (i / 20) / 16);
    const char *where = make_set(b, "crowded", text_c(&t));
    val_report r;
    assert_int_equal(validate(b, where, (val_options){0}, MODEL_ONE2MANY, &r), OL_OK);
    assert_int_equal(r.n_instances, 310);
    assert_non_null(strstr(b->log.text, "310 labels, more than max_det=300: max_det is raised"));
    val_report_deinit(&r);

    set(b, "max_det", "2");
    b->log.length = 0;
    assert_int_equal(validate(b, where, (val_options){0}, MODEL_ONE2MANY, &r), OL_OK);
    assert_non_null(strstr(b->log.text, "more than max_det=2: recall is limited"));
    assert_true(r.images[0].tp + r.images[0].fp <= 2);
    val_report_deinit(&r);
    text_deinit(&t);
    bench_destroy(b);
}

static void an_interrupt_ends_the_run(void **state) {
    (void)state;
    bench *b = bench_create();
    val_report r = {0};
    b->interrupt = true;
    assert_int_equal(validate(b, folder, (val_options){0}, MODEL_ONE2MANY, &r), OL_ERROR_INTERRUPTED);
    assert_null(r.images);
    bench_destroy(b);
}

static void names_of_files_and_categories(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    assert_int_equal(coco_category(0), 1);
    assert_int_equal(coco_category(11), 13);
    assert_int_equal(coco_category(79), 90);
    assert_int_equal(coco_category(80), 81);
    assert_true(coco_list("/d/coco/val2017.txt") && !coco_list("/d/val2017.txt") && !coco_list("/d/coco/images"));
    const char *x = "/d/images/train/a.jpg";
    size_t root = common_folder(x, strlen(x), "/d/images/val/a.jpg");
    assert_string_equal(label_file_stem(&a, x, root), "train_a");
    assert_string_equal(label_file_stem(&a, x, common_folder(x, strlen(x), x)), "a");
    text t;
    text_init(&t, ctx);
    const detection rows[] = {{44.345f, 19.403f, 470.845f, 395.249f, 0.1091f, 74, 0}, {1, 2, 3, 4, 1, 2, 0}};
    assert_int_equal(predictions_append(&t, "/x/000000000034.jpg", rows, 2, false), OL_OK);
    assert_string_equal(text_c(&t),
                        "{\"image_id\": 34, \"file_name\": \"000000000034.jpg\", \"category_id\": 75, \"bbox\": "
                        "[44.345, 19.403, 426.5, 375.846], \"score\": 0.1091}, {\"image_id\": 34, \"file_name\": "
                        "\"000000000034.jpg\", \"category_id\": 3, \"bbox\": [1.0, 2.0, 2.0, 2.0], \"score\": 1.0}");
    text_clear(&t);
    assert_int_equal(predictions_append(&t, "b\"us.png", rows + 1, 1, true), OL_OK);
    assert_non_null(
        strstr(text_c(&t), "\"image_id\": \"b\\\"us\", \"file_name\": \"b\\\"us.png\", \"category_id\": 3,"));
    text_deinit(&t);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_of_files_and_categories),
                                       cmocka_unit_test(table_files_and_counts),
                                       cmocka_unit_test(inside_training_there_are_losses_and_one_row),
                                       cmocka_unit_test(one_class_and_both_heads),
                                       cmocka_unit_test(without_labels_the_means_are_none),
                                       cmocka_unit_test(more_labels_than_max_det),
                                       cmocka_unit_test(an_interrupt_ends_the_run)};
    return cmocka_run_group_tests(tests, draw_set, NULL);
}
