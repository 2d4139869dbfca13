/* The public interface: options, models, pictures in memory, results, failing memory; several runs in one process. */
#include "base/file.h"
#include "golden.h"
#include "scratch.h"

#include "onelook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIDE 64

/* A picture of smooth colours that is the same everywhere. */
static void paint(uint8_t *pixels, int height, int width) {
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            uint8_t *p = pixels + ((size_t)y * (size_t)width + (size_t)x) * 3;
            p[0] = (uint8_t)(3 * x + y);
            p[1] = (uint8_t)(x * y / 7);
            p[2] = (uint8_t)(255 - 2 * y);
        }
    }
}

typedef struct collected {
    int n_results, stop_after;
    size_t n_boxes;
    ol_box first;
    char path[64];
    bool in_order, inside;
} collected;

static ol_status collect(void *user, const ol_result *r) {
    collected *c = user;
    c->in_order = (c->n_results == 0 || c->in_order) && r->index == (size_t)c->n_results;
    c->inside = c->n_results == 0 || c->inside;
    for (size_t i = 0; i < r->n_boxes; i++) {
        const ol_box *b = &r->boxes[i];
        c->inside = c->inside && b->x1 >= 0 && b->y1 >= 0 && b->x2 <= (float)r->width && b->y2 <= (float)r->height &&
                    b->class_id >= 0 && b->class_id < r->n_classes && b->confidence > 0 && b->confidence <= 1;
    }
    if (c->n_results++ == 0) {
        c->n_boxes = r->n_boxes;
        if (r->n_boxes > 0) c->first = r->boxes[0];
        snprintf(c->path, sizeof c->path, "%s", r->path);
    }
    return c->n_results == c->stop_after ? OL_ERROR_INTERRUPTED : OL_OK;
}

static ol_options *options_of(ol_context *ctx, const char *const (*pairs)[2], size_t n) {
    ol_options *o = NULL;
    assert_int_equal(ol_options_create(ctx, &o), OL_OK);
    for (size_t i = 0; i < n; i++) assert_int_equal(ol_options_set(o, pairs[i][0], pairs[i][1]), OL_OK);
    return o;
}

static const char *const small[][2] = {{"imgsz", "64"}, {"conf", "0.0001"}, {"verbose", "False"}};

static void arguments_are_listed_and_set(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    ol_options *o = options_of(ctx, small, 3);
    ol_argument a;
    size_t n = 0;
    while (ol_argument_at(n, &a)) {
        assert_non_null(ol_options_get(o, a.name));
        assert_true(strlen(a.about) > 0 && strlen(a.accepts) > 0 && strlen(a.group) > 0);
        n++;
    }
    assert_true(n > 100);
    assert_string_equal(ol_options_get(o, "imgsz"), "64");
    assert_string_equal(ol_options_get(o, "model"), "None");
    assert_string_equal(ol_options_get(o, "optimizer"), "auto");
    assert_null(ol_options_get(o, "nothing"));
    assert_true(ol_options_is_set(o, "imgsz") && !ol_options_is_set(o, "batch"));
    assert_int_equal(ol_options_set(o, "imgsz", "-3"), OL_ERROR_ARGUMENT);
    assert_string_equal(ol_options_get(o, "imgsz"), "64");
    assert_int_equal(ol_options_read(o, "/nonexistent.yaml"), OL_ERROR_NOT_FOUND);
    ol_options_destroy(o);
    ol_context_destroy(ctx);
}

static void pictures_in_memory_give_the_same_boxes_alone_and_in_a_batch(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    ol_model *m = NULL;
    assert_int_equal(ol_model_load(ctx, "yolo26n.yaml", &m), OL_OK);
    ol_options *o = options_of(ctx, small, 3);
    uint8_t pixels[SIDE * SIDE * 3];
    paint(pixels, SIDE, SIDE);
    const ol_picture pictures[] = {{"a.jpg", pixels, SIDE, SIDE}, {NULL, pixels, SIDE, SIDE}, {NULL, pixels, 40, SIDE}};
    collected one = {0}, three = {0}, stopped = {.stop_after = 2};
    assert_int_equal(ol_predict_pictures(m, o, pictures, 1, collect, &one), OL_OK);
    assert_true(one.n_results == 1 && one.n_boxes > 0 && one.inside);
    assert_string_equal(one.path, "a.jpg");
    assert_int_equal(ol_options_set(o, "batch", "2"), OL_OK);
    assert_int_equal(ol_predict_pictures(m, o, pictures, 3, collect, &three), OL_OK);
    assert_true(three.n_results == 3 && three.in_order && three.inside);
    assert_int_equal(three.n_boxes, one.n_boxes);
    assert_memory_equal(&three.first, &one.first, sizeof one.first);
    assert_int_equal(ol_predict_pictures(m, o, pictures, 3, collect, &stopped), OL_ERROR_INTERRUPTED);
    assert_int_equal(stopped.n_results, 2);
    assert_int_equal(ol_predict_pictures(m, o, pictures, 0, collect, &stopped), OL_OK);

    const ol_picture bad = {"bad", pixels, 0, SIDE};
    assert_int_equal(ol_predict_pictures(m, o, &bad, 1, collect, &stopped), OL_ERROR_ARGUMENT);
    assert_int_equal(ol_predict(m, o, collect, &stopped), OL_ERROR_ARGUMENT);
    assert_non_null(strstr(ol_context_message(ctx), "'source' is missing"));
    ol_options_destroy(o);
    ol_model_destroy(m);
    ol_context_destroy(ctx);
}

static void an_interrupt_ends_one_call_and_not_the_next(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    ol_model *m = NULL;
    assert_int_equal(ol_model_load(ctx, "yolo26n.yaml", &m), OL_OK);
    ol_options *o = options_of(ctx, small, 3);
    uint8_t pixels[SIDE * SIDE * 3];
    paint(pixels, SIDE, SIDE);
    const ol_picture picture = {"a.jpg", pixels, SIDE, SIDE};
    ol_context_interrupt(ctx);
    assert_int_equal(ol_predict_pictures(m, o, &picture, 1, NULL, NULL), OL_ERROR_INTERRUPTED);
    assert_int_equal(ol_predict_pictures(m, o, &picture, 1, NULL, NULL), OL_OK);
    ol_options_destroy(o);
    ol_model_destroy(m);
    ol_context_destroy(ctx);
}

static void structs_may_be_older_than_the_library(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    ol_model *m = NULL;
    assert_int_equal(ol_model_load(ctx, "yolo26n.yaml", &m), OL_OK);
    ol_model_info info = {.struct_bytes = sizeof info};
    assert_int_equal(ol_model_get_info(m, &info), OL_OK);
    assert_true(info.n_classes == 80 && info.stride == 32 && info.channels == 3 && info.n_parameters == 2572280);
    assert_string_equal(info.class_names[79], "79");
    ol_model_info older = {.struct_bytes = offsetof(ol_model_info, task), .n_classes = -7};
    assert_int_equal(ol_model_get_info(m, &older), OL_OK);
    assert_true(strcmp(older.path, "yolo26n.yaml") == 0 && older.task == NULL && older.n_classes == -7);
    ol_model_info unset = {0};
    assert_int_equal(ol_model_get_info(m, &unset), OL_ERROR_ARGUMENT);
    ol_model_destroy(m);
    ol_context_destroy(ctx);
}

/* Hands out memory until `left` requests have been served; counts what is alive. */
typedef struct rationed {
    long left, alive;
} rationed;

static void *rationed_realloc(void *user, void *block, size_t bytes) {
    rationed *r = user;
    if (bytes == 0) {
        if (block != NULL) __atomic_sub_fetch(&r->alive, 1, __ATOMIC_RELAXED);
        free(block);
        return NULL;
    }
    if (__atomic_sub_fetch(&r->left, 1, __ATOMIC_RELAXED) < 0) return NULL;
    void *grown = realloc(block, bytes);
    if (block == NULL && grown != NULL) __atomic_add_fetch(&r->alive, 1, __ATOMIC_RELAXED);
    return grown;
}

/* Loads a model and predicts on one picture with the n-th allocation failing. */
static ol_status predict_with(rationed *r) {
    const ol_context_options options = {
        .struct_bytes = sizeof options, .realloc_block = rationed_realloc, .realloc_user = r, .n_threads = 1};
    ol_context *ctx = NULL;
    ol_model *m = NULL;
    ol_options *o = NULL;
    uint8_t pixels[SIDE * SIDE * 3];
    paint(pixels, SIDE, SIDE);
    const ol_picture picture = {"a.jpg", pixels, SIDE, SIDE};
    ol_status status = ol_context_create(&options, &ctx);
    if (status != OL_OK) return status;
    status = ol_options_create(ctx, &o);
    for (size_t i = 0; status == OL_OK && i < 3; i++) status = ol_options_set(o, small[i][0], small[i][1]);
    if (status == OL_OK) status = ol_model_load(ctx, "yolo26n.yaml", &m);
    if (status == OL_OK) status = ol_predict_pictures(m, o, &picture, 1, NULL, NULL);
    if (status != OL_OK) assert_true(strlen(ol_context_message(ctx)) > 0);
    ol_model_destroy(m);
    ol_options_destroy(o);
    ol_context_destroy(ctx);
    return status;
}

static void failing_memory_is_an_error_and_nothing_leaks(void **state) {
    (void)state;
    const long plenty = 100000000;
    rationed all = {.left = plenty};
    assert_int_equal(predict_with(&all), OL_OK);
    assert_int_equal(all.alive, 0);
    const long used = plenty - all.left;
    /* the first fifty requests one by one, then samples over the rest */
    for (long n = 0; n < used; n += n < 50 ? 1 : used / 60 + 1) {
        rationed r = {.left = n};
        const ol_status status = predict_with(&r);
        if (status != OL_ERROR_MEMORY)
            fail_msg("allocation %ld of %ld failed: status %s", n, used, ol_status_name(status));
        if (r.alive != 0) fail_msg("allocation %ld of %ld failed: %ld blocks leak", n, used, r.alive);
    }
}

static void devices_are_described(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    const int n = ol_device_count(ctx);
    ol_device_info info = {.struct_bytes = sizeof info, .title = "kept"};
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(ol_device_get_info(ctx, i, &info), OL_OK);
        assert_true(info.memory_bytes > 0 && info.free_bytes <= info.memory_bytes);
        assert_true(strcmp(info.vendor, "AMD") == 0 || strcmp(info.vendor, "NVIDIA") == 0);
        assert_true(strlen(info.name) > 4 && strlen(info.architecture) > 3 && strlen(info.driver) > 0);
        assert_int_equal(ol_is_available(ctx, info.name), info.is_usable);
    }
    if (n == 0) {
        assert_int_equal(ol_device_get_info(ctx, 0, &info), OL_ERROR_NOT_FOUND);
        assert_string_equal(info.title, "kept");
        assert_false(ol_is_available(ctx, ""));
        assert_true(strlen(ol_context_message(ctx)) > 0);
    }
    static const char *const processor[] = {"cpu", "CPU", " cpu ", "'cpu'"};
    for (size_t i = 0; i < sizeof processor / sizeof *processor; i++) assert_true(ol_is_available(ctx, processor[i]));
    assert_int_equal(ol_is_available(ctx, NULL), ol_is_available(ctx, ""));
    assert_false(ol_is_available(ctx, "99"));
    assert_false(ol_is_available(ctx, "nonsense"));
    ol_context_destroy(ctx);
}

typedef struct verdicts {
    int n_ops, n_steps;
    char last[128];
} verdicts;

static void count_rows(void *user, const char *label, const char *words) {
    verdicts *v = user;
    v->n_ops += strstr(label, " f32") != NULL;
    v->n_steps += strncmp(label, "training step", 13) == 0;
    snprintf(v->last, sizeof v->last, "%s %s", label, words);
}

static void the_selftest_passes_and_reports(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    scratch s = scratch_create(NULL, NULL);
    const char *path = scratch_path(&s, "report.txt");
    ol_selftest_options o = {.struct_bytes = sizeof o, .device = "cpu", .report = path};
    verdicts v = {.n_ops = 0};
    if (ol_selftest(ctx, &o, count_rows, &v) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    assert_true(v.n_ops > 20);
    assert_int_equal(v.n_steps, 3);
    assert_non_null(strstr(v.last, "Verdict  PASSED"));
    char *written = NULL;
    size_t n = 0;
    assert_int_equal(file_read(ctx, path, 0, &written, &n), OL_OK);
    assert_non_null(strstr(written, "conv2d_grad_w f32"));
    assert_non_null(strstr(written, "Instruction sets"));
    mem_free(ctx, written);
    o.device = "cuda:77";
    assert_int_equal(ol_selftest(ctx, &o, count_rows, &v), OL_ERROR_DEVICE);
    scratch_destroy(&s);
    ol_context_destroy(ctx);
}

/* Nothing is measured before the report can be written and the model read. */
static void a_selftest_fails_early(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    scratch s = scratch_create(NULL, NULL);
    verdicts v = {.n_ops = 0};
    ol_selftest_options o = {
        .struct_bytes = sizeof o, .device = "cpu", .report = scratch_path(&s, "absent/report.txt")};
    assert_int_not_equal(ol_selftest(ctx, &o, count_rows, &v), OL_OK);
    assert_non_null(strstr(ol_context_message(ctx), "absent/report.txt"));
    o.report = scratch_path(&s, "report.txt");
    o.model = "absent.yaml";
    assert_int_equal(ol_selftest(ctx, &o, count_rows, &v), OL_ERROR_NOT_FOUND);
    assert_false(file_exists(o.report));
    assert_int_equal(v.n_ops, 0);
    scratch_destroy(&s);
    ol_context_destroy(ctx);
}

typedef struct interrupter {
    ol_context *ctx;
    const char *at;
    int n_after;
} interrupter;

static void interrupt_at(void *user, const char *label, const char *words) {
    interrupter *i = user;
    (void)words;
    if (i->n_after > 0 || strncmp(label, i->at, strlen(i->at)) == 0) i->n_after++;
    if (i->n_after == 1) ol_context_interrupt(i->ctx);
}

/* In every part of it. The report says that it is none. */
static void a_selftest_can_be_interrupted(void **state) {
    (void)state;
    static const char *const rows[] = {"Device", "conv2d f32", "detections", "training step 1"};
    ol_context *ctx = test_context();
    scratch s = scratch_create(NULL, NULL);
    ol_selftest_options o = {.struct_bytes = sizeof o, .device = "cpu", .report = scratch_path(&s, "report.txt")};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        interrupter at = {.ctx = ctx, .at = rows[i]};
        char *written = NULL;
        size_t n = 0;
        assert_int_equal(ol_selftest(ctx, &o, interrupt_at, &at), OL_ERROR_INTERRUPTED);
        assert_true(at.n_after > 0);
        if (i == 0) continue; /* before there is a report */
        assert_int_equal(file_read(ctx, o.report, 0, &written, &n), OL_OK);
        assert_non_null(strstr(written, "UNFINISHED"));
        assert_null(strstr(written, "PASSED"));
        mem_free(ctx, written);
    }
    scratch_destroy(&s);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(arguments_are_listed_and_set),
                                       cmocka_unit_test(devices_are_described),
                                       cmocka_unit_test(the_selftest_passes_and_reports),
                                       cmocka_unit_test(a_selftest_fails_early),
                                       cmocka_unit_test(a_selftest_can_be_interrupted),
                                       cmocka_unit_test(pictures_in_memory_give_the_same_boxes_alone_and_in_a_batch),
                                       cmocka_unit_test(an_interrupt_ends_one_call_and_not_the_next),
                                       cmocka_unit_test(structs_may_be_older_than_the_library),
                                       cmocka_unit_test(failing_memory_is_an_error_and_nothing_leaks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
