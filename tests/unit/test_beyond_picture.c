/* Boxes that lie beyond the border of their picture, in both modes and from both branches of the head. A head without
 * weights but with chosen biases finds four boxes at known places of a picture of 96x128: two reach over its right
 * border, two begin behind it. Prediction clips the former and drops the latter; validation clips all of them and keeps
 * what has no area left, because its files are compared row by row with the reference package's. */
#include "golden.h"
#include "scratch.h"

#include "base/file.h"
#include "predict/predictor.h"
#include "val/val.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEIGHT 96
#define WIDTH  128
#define NET    64

typedef struct bench {
    scratch s;
    settings set;
    device *dev;
    model *model;
    runner *r;
} bench;

static void fill(bench *b, const char *branch, int level, const float *bias, size_t n) {
    char name[64];
    snprintf(name, sizeof name, "model.23.%s.%d.2.weight", branch, level);
    tensor *weight = tensor_list_find(&b->model->state, name);
    assert_non_null(weight);
    memset(tensor_f32(weight), 0, (size_t)shape_elements(&weight->shape) * sizeof(float));
    snprintf(name, sizeof name, "model.23.%s.%d.2.bias", branch, level);
    memcpy(tensor_f32(tensor_list_find(&b->model->state, name)), bias, n * sizeof(float));
}

/* Only the coarsest level finds something: class 0, from one to three strides right of its anchors, two strides high.
 */
static void aim_to_the_right(bench *b) {
    static const float distances[4] = {-1, 1, 3, 1}, nothing[2] = {-20, -20}, found[2] = {3, -20};
    for (int level = 0; level < 3; level++) {
        fill(b, "cv2", level, distances, 4);
        fill(b, "one2one_cv2", level, distances, 4);
        fill(b, "cv3", level, level == 2 ? found : nothing, 2);
        fill(b, "one2one_cv3", level, level == 2 ? found : nothing, 2);
    }
}

static void bench_create(bench *b, model_branch branch) {
    b->s = scratch_create(NULL, NULL);
    ol_context *ctx = b->s.ctx;
    assert_int_equal(settings_init(&b->set, ctx), OL_OK);
    assert_int_equal(settings_set_text(&b->set, "imgsz", "64"), OL_OK);
    assert_int_equal(settings_set_text(&b->set, "conf", "0.25"), OL_OK);
    assert_int_equal(settings_set_text(&b->set, "rect", "False"), OL_OK);
    assert_int_equal(device_open(ctx, "cpu", &b->dev), OL_OK);
    model_spec spec = {.name = "yolo26n.yaml", .nc = 2};
    assert_int_equal(model_create(ctx, &spec, &b->model), OL_OK);
    model_initialize(b->model, 3);
    aim_to_the_right(b);
    runner_options options = {.decode = branch};
    assert_int_equal(runner_create(ctx, b->dev, b->model, &options, &b->r), OL_OK);
}

static void bench_destroy(bench *b) {
    runner_destroy(b->r);
    model_destroy(b->model);
    device_close(b->dev);
    settings_deinit(&b->set);
    scratch_destroy(&b->s);
}

static bool has_row(const predict_result *r, float x1, float y1, float x2, float y2) {
    for (size_t i = 0; i < r->n_rows; i++) {
        const detection *d = &r->rows[i];
        const float worst =
            fmaxf(fmaxf(fabsf(d->x1 - x1), fabsf(d->y1 - y1)), fmaxf(fabsf(d->x2 - x2), fabsf(d->y2 - y2)));
        if (worst < 1e-3f) return true;
    }
    return false;
}

static void prediction(model_branch branch) {
    bench b;
    bench_create(&b, branch);
    static const char *const names[2] = {"a", "b"};
    const predictor_options options = {.s = &b.set, .names = names, .nc = 2};
    predictor *p;
    assert_int_equal(predictor_create(b.s.ctx, b.r, &options, &p), OL_OK);
    image picture = {0};
    assert_int_equal(image_reserve(b.s.ctx, &picture, HEIGHT, WIDTH, 3), OL_OK);
    image_fill(&picture, 90);
    const image *pictures[1] = {&picture};
    predict_result r;
    assert_int_equal(predictor_run(p, pictures, 1, &r), OL_OK);
    assert_int_equal(r.n_rows, 2);
    assert_true(has_row(&r, 96, 0, 128, 80));
    assert_true(has_row(&r, 96, 16, 128, 96));
    image_deinit(b.s.ctx, &picture);
    predictor_destroy(p);
    bench_destroy(&b);
}

static void predicted_boxes_are_clipped_and_empty_ones_dropped(void **state) {
    (void)state;
    prediction(MODEL_ONE2MANY);
    prediction(MODEL_ONE2ONE);
}

/* A data set of one grey picture, validated into the scratch folder. */
static void validate(bench *b, val_report *report) {
    ol_context *ctx = b->s.ctx;
    image picture = {0};
    assert_int_equal(image_reserve(ctx, &picture, HEIGHT, WIDTH, 3), OL_OK);
    image_fill(&picture, 90);
    scratch_text(&b->s, "labels/val/a.txt", "0 0.875 0.5 0.25 0.5\n");
    scratch_text(&b->s, "images/val/.keep", "");
    assert_int_equal(image_write(ctx, scratch_path(&b->s, "images/val/a.png"), &picture), OL_OK);
    image_deinit(ctx, &picture);
    const char *yaml = scratch_text(&b->s, "data.yaml", "path: .\ntrain: images/val\nval: images/val\nnames: [a, b]\n");
    data_config config;
    if (data_config_read(ctx, yaml, NULL, DATA_SPLIT_VAL, &config)) fail_msg("%s", ol_context_message(ctx));
    dataset_options of_set = {.split = DATA_SPLIT_VAL, .cache_folder = ""};
    dataset *d;
    assert_int_equal(dataset_open(ctx, &config, &of_set, &d), OL_OK);
    loader_options of_loader = loader_options_val(&b->set, 1, NET, 32);
    of_loader.rect = false;
    loader *l;
    const char *out = scratch_path(&b->s, "out");
    assert_int_equal(folder_create(ctx, out), OL_OK);
    assert_int_equal(loader_create(ctx, d, &of_loader, &l), OL_OK);
    const val_options o = {.s = &b->set, .names = (const char *const *)config.names, .nc = 2, .save_dir = out};
    if (val_run(ctx, b->r, l, d, &o, report)) fail_msg("%s", ol_context_message(ctx));
    loader_destroy(l);
    dataset_destroy(d);
    data_config_deinit(&config);
}

static void check_records(bench *b) {
    char *bytes;
    size_t n_bytes, n_empty = 0;
    const value *records;
    assert_int_equal(file_read(b->s.ctx, scratch_path(&b->s, "out/predictions.json"), 0, &bytes, &n_bytes), OL_OK);
    assert_int_equal(json_parse(&b->s.arena, "predictions.json", bytes, n_bytes, &records), OL_OK);
    assert_int_equal(records->as.list.count, 4);
    for (size_t i = 0; i < 4; i++) {
        const value *box = value_get(records->as.list.items[i], "bbox");
        double v[4];
        for (size_t k = 0; k < 4; k++) v[k] = value_as_double(box->as.list.items[k]);
        assert_true(v[0] >= 0 && v[1] >= 0 && v[0] + v[2] <= WIDTH && v[1] + v[3] <= HEIGHT);
        assert_true(v[2] >= 0 && v[3] > 0);
        n_empty += v[2] <= 0;
    }
    assert_int_equal(n_empty, 2);
    mem_free(b->s.ctx, bytes);
}

static void check_label_file(bench *b) {
    char *bytes;
    size_t n_bytes;
    int rows = 0;
    assert_int_equal(file_read(b->s.ctx, scratch_path(&b->s, "out/labels/a.txt"), 0, &bytes, &n_bytes), OL_OK);
    for (const char *line = bytes; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL, rows++) {
        double id, x, y, w, h;
        assert_int_equal(sscanf(line, "%lf %lf %lf %lf %lf", &id, &x, &y, &w, &h), 5);
        assert_true(x - w / 2 >= -1e-6 && x + w / 2 <= 1 + 1e-6 && y - h / 2 >= -1e-6 && y + h / 2 <= 1 + 1e-6);
    }
    assert_int_equal(rows, 4);
    mem_free(b->s.ctx, bytes);
}

static void validation_clips_and_keeps_every_row(void **state) {
    (void)state;
    static const model_branch branches[2] = {MODEL_ONE2MANY, MODEL_ONE2ONE};
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_create(&b, branches[i]);
        assert_int_equal(settings_set_text(&b.set, "save_json", "True"), OL_OK);
        assert_int_equal(settings_set_text(&b.set, "save_txt", "True"), OL_OK);
        val_report report;
        validate(&b, &report);
        assert_int_equal(report.images[0].tp + report.images[0].fp, 4);
        check_records(&b);
        check_label_file(&b);
        val_report_deinit(&report);
        bench_destroy(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(predicted_boxes_are_clipped_and_empty_ones_dropped),
                                       cmocka_unit_test(validation_clips_and_keeps_every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
