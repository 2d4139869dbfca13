/* The prediction run on drawn pictures with fresh weights: batches, shapes, filters, unreadable files, console lines.
 */
#include "golden.h"
#include "log_lines.h"

#include "base/file.h"
#include "data/shapes.h"
#include "predict/predict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char folder[] = TESTS_BUILD_DIR "/test-predict-shapes";

typedef struct bench {
    log_lines log;
    ol_context *ctx;
    settings s;
    device *dev;
    model *model;
    runner *r;
    source_list sources;
} bench;

static bench *bench_create(const char *source) {
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    ol_context_options options = {.struct_bytes = sizeof options, .log = log_lines_keep, .log_user = &b->log};
    assert_int_equal(ol_context_create(&options, &b->ctx), OL_OK);
    assert_int_equal(settings_init(&b->s, b->ctx), OL_OK);
    assert_int_equal(settings_set_text(&b->s, "imgsz", "64"), OL_OK);
    assert_int_equal(settings_set_text(&b->s, "conf", "0.0001"), OL_OK);
    assert_int_equal(device_open(b->ctx, "cpu", &b->dev), OL_OK);
    model_spec spec = {.name = "yolo26n.yaml", .nc = 2};
    assert_int_equal(model_create(b->ctx, &spec, &b->model), OL_OK);
    model_initialize(b->model, 3);
    runner_options runner_options = {.decode = MODEL_ONE2MANY};
    assert_int_equal(runner_create(b->ctx, b->dev, b->model, &runner_options, &b->r), OL_OK);
    if (source_list_open(b->ctx, source, &b->sources)) fail_msg("%s", ol_context_message(b->ctx));
    return b;
}

static void bench_destroy(bench *b) {
    source_list_deinit(&b->sources);
    runner_destroy(b->r);
    model_destroy(b->model);
    device_close(b->dev);
    settings_deinit(&b->s);
    ol_context_destroy(b->ctx);
    free(b);
}

/* Pictures a (48x64), b (48x64), d (64x64); c is no picture. */
static int draw_pictures(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    static const char *const names[] = {"a.png", "b.png", "d.png"};
    image im = {0};
    shapes_object objects[SHAPES_MAX_OBJECTS];
    int n_objects;
    bool ok = folder_create(ctx, folder) == OL_OK;
    for (int i = 0; i < 3 && ok; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        ok = shapes_draw(ctx, 128, 9, 0, i, &im, objects, &n_objects) == OL_OK;
        image part = im;
        part.height = i < 2 ? 48 : 64;
        part.width = 64;
        ok = ok && im.width * im.height >= 64 * 64 && image_write(ctx, path, &part) == OL_OK;
    }
    char path[512];
    snprintf(path, sizeof path, "%s/c.jpg", folder);
    ok = ok && file_write_atomic(ctx, path, "not a picture", 13) == OL_OK;
    image_deinit(ctx, &im);
    ol_context_destroy(ctx);
    return !ok;
}

typedef struct seen {
    size_t n, rows;
    int net_h[4], net_w[4], heights[4];
    char names[64];
    int only_class; /* -1: any */
} seen;

static ol_status look(void *user, const predict_result *r) {
    seen *s = user;
    assert_true(s->n < 4);
    s->net_h[s->n] = r->net_height;
    s->net_w[s->n] = r->net_width;
    s->heights[s->n++] = r->height;
    s->rows += r->n_rows;
    strcat(s->names, path_name(r->path));
    for (size_t i = 0; i < r->n_rows; i++) {
        const detection *d = &r->rows[i];
        assert_true(d->x1 >= 0 && d->y1 >= 0 && d->x2 <= (float)r->width && d->y2 <= (float)r->height);
        assert_true(d->x2 > d->x1 && d->y2 > d->y1);
        assert_true(!i || d->score <= r->rows[i - 1].score);
        if (s->only_class >= 0) assert_int_equal(d->class_id, s->only_class);
    }
    return OL_OK;
}

static ol_status run(bench *b, int batch, seen *s, predict_summary *sum) {
    static const char *const names[] = {"round", "square"};
    predict_options o = {.model = {.s = &b->s, .names = names, .nc = 2}, .batch = batch, .on_result = look, .user = s};
    return predict_run(b->ctx, b->r, &b->sources, &o, sum);
}

static void unreadable_pictures_are_skipped(void **state) {
    (void)state;
    bench *b = bench_create(folder);
    seen s = {.only_class = -1};
    predict_summary sum;
    assert_int_equal(run(b, 1, &s, &sum), OL_OK);
    assert_string_equal(s.names, "a.pngb.pngd.png");
    assert_int_equal(sum.n_pictures, 3);
    assert_int_equal(sum.n_unreadable, 1);
    assert_int_equal(s.net_h[0], 64); /* 48 is padded to the next multiple of the stride */
    assert_int_equal(s.heights[0], 48);
    assert_true(s.rows > 0);
    assert_non_null(strstr(b->log.text, "Image Read Error "));
    assert_non_null(strstr(b->log.text, "image 1/4 "));
    assert_non_null(strstr(b->log.text, "image 4/4 "));
    assert_non_null(strstr(b->log.text, "at shape (1, 3, 64, 64)"));
    bench_destroy(b);
}

static void batches_go_on_beyond_the_unreadable(void **state) {
    (void)state;
    bench *b = bench_create(folder);
    seen s = {.only_class = -1};
    predict_summary sum;
    assert_int_equal(run(b, 3, &s, &sum), OL_OK);
    assert_string_equal(s.names, "a.pngb.pngd.png");
    assert_int_equal(sum.batch, 3);
    bench_destroy(b);
}

static void equal_pictures_get_little_padding(void **state) {
    (void)state;
    bench *b = bench_create(TESTS_BUILD_DIR "/test-predict-shapes/[ab]*");
    assert_int_equal(settings_set_text(&b->s, "imgsz", "100"), OL_OK);
    seen s = {.only_class = -1};
    assert_int_equal(run(b, 2, &s, NULL), OL_OK);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.net_h[0], 96); /* 128 wide, 96 high */
    assert_int_equal(s.net_w[0], 128);
    assert_non_null(strstr(b->log.text, "imgsz=[100, 100] must be multiple of max stride 32, updating to [128, 128]"));
    assert_int_equal(settings_set_text(&b->s, "rect", "False"), OL_OK);
    s = (seen){.only_class = -1};
    assert_int_equal(run(b, 2, &s, NULL), OL_OK);
    assert_int_equal(s.net_h[0], 128);
    bench_destroy(b);
}

static void filters(void **state) {
    (void)state;
    bench *b = bench_create(TESTS_BUILD_DIR "/test-predict-shapes/a.png");
    assert_int_equal(settings_set_text(&b->s, "classes", "1"), OL_OK);
    seen s = {.only_class = 1};
    assert_int_equal(run(b, 1, &s, NULL), OL_OK);
    assert_int_equal(settings_set_text(&b->s, "classes", "None"), OL_OK);
    assert_int_equal(settings_set_text(&b->s, "max_det", "1"), OL_OK);
    s = (seen){.only_class = -1};
    assert_int_equal(run(b, 1, &s, NULL), OL_OK);
    assert_int_equal(s.rows, 1);
    assert_int_equal(settings_set_text(&b->s, "conf", "1.0"), OL_OK);
    b->log.length = 0;
    s = (seen){.only_class = -1};
    assert_int_equal(run(b, 1, &s, NULL), OL_OK);
    assert_int_equal(s.rows, 0);
    assert_non_null(strstr(b->log.text, "(no detections), "));
    bench_destroy(b);
}

static void nothing_readable_fails(void **state) {
    (void)state;
    bench *b = bench_create(TESTS_BUILD_DIR "/test-predict-shapes/c.jpg");
    seen s = {.only_class = -1};
    assert_int_equal(run(b, 1, &s, NULL), OL_ERROR_FORMAT);
    assert_non_null(strstr(ol_context_message(b->ctx), "none of 1 pictures could be read"));
    assert_non_null(strstr(ol_context_message(b->ctx), "c.jpg"));
    bench_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(unreadable_pictures_are_skipped),
                                       cmocka_unit_test(batches_go_on_beyond_the_unreadable),
                                       cmocka_unit_test(equal_pictures_get_little_padding), cmocka_unit_test(filters),
                                       cmocka_unit_test(nothing_readable_fails)};
    return cmocka_run_group_tests(tests, draw_pictures, NULL);
}
