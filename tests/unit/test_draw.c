/* Drawing: every picture has its size, is not empty, and shows the data where it should. */
#include "golden.h"

#include "base/file.h"
#include "base/rng.h"
#include "draw/curves.h"
#include "draw/grid.h"
#include "draw/history.h"
#include "draw/labels_plot.h"
#include "draw/matrix.h"
#include "draw/palette.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *out_folder(ol_context *ctx) {
    static const char folder[] = TESTS_BUILD_DIR "/test-draw";
    assert_int_equal(folder_create(ctx, folder), OL_OK);
    return folder;
}

static void assert_picture(ol_context *ctx, const char *path, int width, int height) {
    image im = {0};
    assert_int_equal(image_read(ctx, path, 3, &im), OL_OK);
    assert_int_equal(im.width, width);
    assert_int_equal(im.height, height);
    int n_dark = 0;
    for (size_t i = 0; i < image_bytes(&im); i += 3) n_dark += im.pixels[i + 1] < 128;
    assert_true(n_dark > 100);
    image_deinit(ctx, &im);
}

static colour pixel(const image *im, int x, int y) {
    const uint8_t *p = im->pixels + 3 * ((size_t)y * (size_t)im->width + (size_t)x);
    return (colour){p[2], p[1], p[0]};
}

static bool same(colour a, colour b) {
    return a.r == b.r && a.g == b.g && a.b == b.b;
}

static void boxes_have_their_class_colour_and_plate(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    uint8_t *grey = mem_alloc(ctx, 300 * 400, 3);
    memset(grey, 90, 300 * 400 * 3);
    image im = image_view(grey, 300, 400, 3), drawn = {0};
    const detection rows[] = {{100.7f, 100.2f, 300.5f, 250.9f, 0.87f, 2, 0},
                              {350, 5, 320, 50, 0.5f, 7, 0}, /* corners the wrong way round, at the top edge */
                              {-1e9f, 200, 1e9f, 280, 0.4f, 0, 0},
                              {(float)NAN, 1, 2, 3, 0.3f, 0, 0}};
    const char *const names[] = {"person", "b", "c\xC3\xA4t \xFF"};
    box_style style = {.names = names, .nc = 3, .score_digits = 2, .line_width = 3};
    canvas *c;
    assert_int_equal(canvas_create_from_image(ctx, &im, &c), OL_OK);
    draw_boxes(c, rows, 4, &style);
    assert_int_equal(canvas_to_image(c, &drawn), OL_OK);
    assert_true(same(pixel(&drawn, 100, 180), class_colour(2)));
    assert_true(same(pixel(&drawn, 200, 250), class_colour(2)));
    assert_true(same(pixel(&drawn, 110, 80), class_colour(2)) || same(pixel(&drawn, 104, 78), class_colour(2)));
    assert_true(same(pixel(&drawn, 320, 40), class_colour(7)));
    assert_true(same(pixel(&drawn, 30, 200), class_colour(0)));
    assert_true(same(pixel(&drawn, 30, 60), (colour){90, 90, 90}));
    assert_int_equal(canvas_write_png(c, TESTS_BUILD_DIR "/test-draw/boxes.png"), OL_OK);
    canvas_destroy(c);

    style.hide_boxes = true;
    assert_int_equal(canvas_create_from_image(ctx, &im, &c), OL_OK);
    draw_boxes(c, rows, 4, &style);
    assert_int_equal(canvas_to_image(c, &drawn), OL_OK);
    assert_memory_equal(drawn.pixels, grey, 300 * 400 * 3);
    canvas_destroy(c);
    image_deinit(ctx, &drawn);
    mem_free(ctx, grey);
    ol_context_destroy(ctx);
}

static void line_width_follows_the_size(void **state) {
    (void)state;
    assert_int_equal(box_line_width(1080, 810, 0), 3);
    assert_int_equal(box_line_width(100, 100, 0), 2);
    assert_int_equal(box_line_width(4000, 3000, 0), 11);
    assert_int_equal(box_line_width(1080, 810, 7), 7);
}

/* In a process of its own, whose environment may be changed. */
static void draw_text_without_fonts(void) {
    setenv("ONELOOK_FONT", "none", 1);
    ol_context *ctx = test_context();
    canvas *c;
    image drawn = {0};
    if (canvas_create(ctx, 200, 60, &c)) _exit(2);
    text_style style = {.size_px = 30};
    canvas_text(c, 10, 40, "bus 0.87", &style);
    if (canvas_text_width(c, "bus 0.87", 30) < 20) _exit(3);
    if (canvas_to_image(c, &drawn)) _exit(4);
    int n_dark = 0;
    for (size_t i = 0; i < image_bytes(&drawn); i += 3) n_dark += drawn.pixels[i] < 128;
    _exit(n_dark > 50 ? 0 : 5);
}

static void text_without_fonts_is_still_drawn(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) draw_text_without_fonts();
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void curves_and_matrices(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    out_folder(ctx);
    enum { N = 1000, CURVES = 6 };
    double *x = mem_alloc(ctx, N, sizeof *x), *y = mem_alloc(ctx, N * CURVES, sizeof *y),
           *mean = mem_alloc0(ctx, N, sizeof *y);
    const char *names[CURVES] = {"person 0.812", "bicycle 0.5", "car 0.61", "motorcycle", "aeroplane", "bus"};
    for (int i = 0; i < N; i++) {
        x[i] = i / 999.0;
        for (int k = 0; k < CURVES; k++) {
            y[k * N + i] = 1 - pow(x[i], 2.0 + k);
            mean[i] += y[k * N + i] / CURVES;
        }
    }
    curve_plot plot = {"Precision-Recall Curve",   "Recall", "Precision", CURVES, N, x, y, mean, names,
                       "all classes 0.654 mAP@0.5"};
    const char *path = TESTS_BUILD_DIR "/test-draw/curve.png";
    assert_int_equal(draw_curves(ctx, path, &plot), OL_OK);
    assert_picture(ctx, path, 2250, 1500);

    int64_t cells[7 * 7];
    for (int i = 0; i < 49; i++) cells[i] = i / 7 == i % 7 ? 40 + i : i % 5 == 0 ? i % 9 : 0;
    path = TESTS_BUILD_DIR "/test-draw/confusion.png";
    assert_int_equal(draw_confusion(ctx, path, cells, 6, names, false), OL_OK);
    assert_picture(ctx, path, 3000, 2250);
    path = TESTS_BUILD_DIR "/test-draw/confusion_normalized.png";
    assert_int_equal(draw_confusion(ctx, path, cells, 6, names, true), OL_OK);

    enum { MANY = 120 };
    int64_t *large = mem_alloc0(ctx, (MANY + 1) * (MANY + 1), sizeof *large);
    const char *digits[MANY];
    for (int i = 0; i < MANY; i++) {
        digits[i] = "class";
        large[i * (MANY + 1) + i] = i;
    }
    path = TESTS_BUILD_DIR "/test-draw/confusion_large.png";
    assert_int_equal(draw_confusion(ctx, path, large, MANY, digits, false), OL_OK);
    mem_free(ctx, large);
    mem_free(ctx, x);
    mem_free(ctx, y);
    mem_free(ctx, mean);
    ol_context_destroy(ctx);
}

static void history_from_a_results_file(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    out_folder(ctx);
    text t;
    text_init(&t, ctx);
    text_printf(&t,
                "epoch,time,train/box_loss,train/cls_loss,train/l1_loss,metrics/precision(B),metrics/recall(B),"
                "metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,val/cls_loss,val/l1_loss,lr/pg0,lr/pg1,lr/pg2\n");
    rng r = rng_stream(1, RNG_TEST, 0, 0);
    for (int e = 1; e <= 40; e++) {
        double d = exp(-e / 12.0);
        text_printf(&t, "%d,%d", e, 7 * e);
        for (int k = 0; k < 3; k++) text_printf(&t, ",%.5f", 1 + 2 * d + 0.2 * rng_uniform(&r));
        for (int k = 0; k < 4; k++) text_printf(&t, ",%.5f", 0.8 * (1 - d) + 0.05 * rng_uniform(&r));
        for (int k = 0; k < 3; k++) text_printf(&t, e == 7 ? ",nan" : ",%.5f", 1.2 + 2 * d + 0.3 * rng_uniform(&r));
        text_printf(&t, ",0.01,0.01,0.01\n");
    }
    const char *csv = TESTS_BUILD_DIR "/test-draw/results.csv", *path = TESTS_BUILD_DIR "/test-draw/results.png";
    assert_int_equal(file_write_atomic(ctx, csv, t.bytes, t.length), OL_OK);
    assert_int_equal(draw_history_csv(ctx, csv, path), OL_OK);
    assert_picture(ctx, path, 2377, 1183);
    assert_int_equal(file_write_atomic(ctx, csv, "epoch,time\n", 11), OL_OK);
    assert_int_equal(draw_history_csv(ctx, csv, path), OL_ERROR_FORMAT);
    text_deinit(&t);
    ol_context_destroy(ctx);
}

static void labels_and_batches(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    out_folder(ctx);
    enum { N = 7, M = 4, H = 160, W = 224, LABELS = 700 };
    const char *names[] = {"circle", "square", "triangle"};
    rng r = rng_stream(2, RNG_TEST, 0, 0);
    float *rows = mem_alloc(ctx, LABELS * 5, sizeof *rows);
    for (int i = 0; i < LABELS; i++) {
        rows[5 * i] = (float)rng_below(&r, 3);
        for (int k = 1; k < 3; k++) rows[5 * i + k] = (float)(0.5 + 0.15 * rng_normal(&r));
        for (int k = 3; k < 5; k++) rows[5 * i + k] = (float)rng_range(&r, 0.05, 0.5);
    }
    const char *path = TESTS_BUILD_DIR "/test-draw/labels.jpg";
    assert_int_equal(draw_labels_plot(ctx, path, rows, LABELS, 3, names), OL_OK);
    assert_picture(ctx, path, 1600, 1600);

    uint8_t *pixels = mem_alloc(ctx, N * 3 * H, W);
    float targets[N * M * 5] = {0};
    int32_t counts[N];
    batch_image info[N];
    detection items[N];
    detection_list lists[N];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3 * H * W; k++) pixels[i * 3 * H * W + k] = (uint8_t)(k / (H * W) == i % 3 ? 200 : k % W);
        counts[i] = i % M;
        memcpy(targets + i * M * 5, rows + i * M * 5, sizeof(float) * 5 * (size_t)counts[i]);
        info[i] = (batch_image){.path = "/some/where/picture.jpg"};
        items[i] = (detection){20, 30, 120, 110, 0.1f + 0.12f * (float)i, i % 3, 0};
        lists[i] = (detection_list){&items[i], 1, 1};
    }
    batch b = {.n = N,
               .channels = 3,
               .h = H,
               .w = W,
               .images = pixels,
               .max_targets = M,
               .targets = targets,
               .n_targets = counts,
               .info = info};
    path = TESTS_BUILD_DIR "/test-draw/grid_labels.jpg";
    assert_int_equal(draw_grid(ctx, path, &b, NULL, names, 3), OL_OK);
    assert_picture(ctx, path, 3 * W, 3 * H);
    path = TESTS_BUILD_DIR "/test-draw/grid_pred.jpg";
    assert_int_equal(draw_grid(ctx, path, &b, lists, names, 3), OL_OK);
    mem_free(ctx, rows);
    mem_free(ctx, pixels);
    ol_context_destroy(ctx);
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    canvas *c = NULL;
    assert_int_equal(canvas_create(ctx, 40000, 10, &c), OL_ERROR_UNSUPPORTED);
    assert_int_equal(canvas_create(ctx, 0, 10, &c), OL_ERROR_UNSUPPORTED);
    assert_null(c);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_without_fonts_is_still_drawn),
                                       cmocka_unit_test(curves_and_matrices),
                                       cmocka_unit_test(boxes_have_their_class_colour_and_plate),
                                       cmocka_unit_test(line_width_follows_the_size),
                                       cmocka_unit_test(history_from_a_results_file),
                                       cmocka_unit_test(labels_and_batches),
                                       cmocka_unit_test(impossible_sizes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
