/* Texts and files made from results. */
#include "golden.h"

#include "base/file.h"
#include "predict/save.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {"person", "bus", "../ev/il", "a,\"b\""};
static const detection rows[] = {{135.58398f, 156.20087f, 481.0f, 632.27655f, 0.90242f, 0, 0},
                                 {0, 32.82837f, 457.21606f, 507.58551f, 0.86647f, 1, 0},
                                 {10, 10, 60, 70, 0.5f, 0, 0}};

static predict_result make_result(const image *picture, size_t n_rows) {
    return (predict_result){.path = "/data/pictures/street.png",
                            .index = 0,
                            .total = 4,
                            .picture = picture,
                            .height = picture->height,
                            .width = picture->width,
                            .net_height = 640,
                            .net_width = 512,
                            .rows = rows,
                            .n_rows = n_rows,
                            .names = names,
                            .nc = 4,
                            .speed_ms = {1, 83.64, 0.5}};
}

static void texts(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    uint8_t none[3] = {0};
    image picture = image_view(none, 640, 481, 3);
    text t;
    text_init(&t, ctx);
    predict_result r = make_result(&picture, 3);
    result_print_line(&t, &r);
    assert_string_equal(text_c(&t), "image 1/4 /data/pictures/street.png: 640x512 2 persons, 1 bus, 83.6ms");
    text_clear(&t);
    r.n_rows = 0;
    result_print_line(&t, &r);
    assert_string_equal(text_c(&t), "image 1/4 /data/pictures/street.png: 640x512 (no detections), 83.6ms");
    text_deinit(&t);
    ol_context_destroy(ctx);
}

static void crops_are_larger_and_inside(void **state) {
    (void)state;
    int b[4];
    const detection d = {100, 50, 200, 150, 1, 0, 0};
    assert_true(crop_rectangle(&d, 480, 640, &b[0], &b[1], &b[2], &b[3]));
    assert_true(b[0] == 94 && b[1] == 44 && b[2] == 206 && b[3] == 156);
    const detection edge = {-5, -5, 3, 2, 1, 0, 0};
    assert_true(crop_rectangle(&edge, 480, 640, &b[0], &b[1], &b[2], &b[3]));
    assert_true(b[0] == 0 && b[1] == 0 && b[2] == 8 && b[3] == 7);
    const detection outside = {700, 50, 720, 60, 1, 0, 0}, inverted = {200, 50, 100, 150, 1, 0, 0};
    assert_false(crop_rectangle(&outside, 480, 640, &b[0], &b[1], &b[2], &b[3]));
    assert_false(crop_rectangle(&inverted, 480, 640, &b[0], &b[1], &b[2], &b[3]));
}

static char folder[] = "/tmp/onelook-save-XXXXXX";

static void assert_size(ol_context *ctx, const char *name, int height, int width) {
    char path[256];
    image im = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(image_read(ctx, path, 3, &im), OL_OK);
    assert_int_equal(im.height, height);
    assert_int_equal(im.width, width);
    image_deinit(ctx, &im);
}

static bool there(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_exists(path);
}

/* The first entry of the luminance table is 16 at quality 50 and 2 at 95 (ITU T.81, table K.1, scaled by libjpeg). */
static void assert_quality_95(ol_context *ctx, const char *name) {
    char path[512], *bytes = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_read(ctx, path, 0, &bytes, &n), OL_OK);
    size_t at = 0;
    while (at + 6 < n && !((unsigned char)bytes[at] == 0xFF && (unsigned char)bytes[at + 1] == 0xDB)) at++;
    assert_int_equal(bytes[at + 5], 2); /* after the marker, two bytes of length and one of table number */
    mem_free(ctx, bytes);
}

static void files(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    ol_context *ctx = test_context();
    settings s;
    assert_int_equal(settings_init(&s, ctx), OL_OK);
    assert_int_equal(settings_set_text(&s, "save_txt", "True"), OL_OK);
    assert_int_equal(settings_set_text(&s, "save_conf", "True"), OL_OK);
    assert_int_equal(settings_set_text(&s, "save_crop", "True"), OL_OK);
    image picture = {0};
    assert_int_equal(image_reserve(ctx, &picture, 640, 481, 3), OL_OK);
    image_fill(&picture, 120);
    result_saver v;
    assert_int_equal(result_saver_init(&v, ctx, &s, folder, true), OL_OK);
    predict_result r = make_result(&picture, 3);
    assert_int_equal(result_save(&v, &r), OL_OK);
    assert_int_equal(result_save(&v, &r), OL_OK);
    assert_size(ctx, "street.jpg", 640, 481);
    assert_size(ctx, "street-2.jpg", 640, 481);
    assert_size(ctx, "crops/bus/street.jpg", 494, 466);
    assert_quality_95(ctx, "street.jpg");
    assert_quality_95(ctx, "crops/bus/street.jpg");
    assert_true(there("crops/person/street.jpg") && there("crops/person/street-2.jpg") && there("labels/street-2.txt"));
    assert_int_equal(v.n_labels, 2);

    char path[256], *bytes;
    size_t n_bytes;
    snprintf(path, sizeof path, "%s/labels/street.txt", folder);
    assert_int_equal(file_read(ctx, path, 0, &bytes, &n_bytes), OL_OK);
    assert_memory_equal(bytes, "0 0.64094 0.615998 0.718121 0.743868 0.90242\n", 45);
    mem_free(ctx, bytes);

    r.path = "/other/one.jpg"; /* nothing found: no text file, an old one goes */
    snprintf(path, sizeof path, "%s/labels/one.txt", folder);
    assert_int_equal(file_write_atomic(ctx, path, "old", 3), OL_OK);
    r.n_rows = 0;
    assert_int_equal(result_save(&v, &r), OL_OK);
    assert_true(there("one.jpg") && !there("labels/one.txt"));

    detection evil = rows[2]; /* a class name from a model file must not lead out of the run folder */
    evil.class_id = 2;
    r.path = "/other/two.jpg";
    r.rows = &evil;
    r.n_rows = 1;
    assert_int_equal(result_save(&v, &r), OL_OK);
    assert_true(there("crops/.._ev_il/two.jpg"));

    image strip = {0}; /* wider than can be drawn on: the run goes on */
    assert_int_equal(image_reserve(ctx, &strip, 2, 40000, 3), OL_OK);
    image_fill(&strip, 0);
    r = make_result(&strip, 0);
    r.path = "/other/strip.png";
    assert_int_equal(result_save(&v, &r), OL_OK);
    assert_false(there("strip.jpg"));
    image_deinit(ctx, &strip);
    result_saver_deinit(&v);
    image_deinit(ctx, &picture);
    settings_deinit(&s);
    ol_context_destroy(ctx);
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(crops_are_larger_and_inside),
                                       cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
