/* Rows of decoded batches on the device of the test (ONELOOK_TEST_DEVICE) against ops/select.h, bit for bit: sizes that
 * fill no block, equal scores, nothing found, more candidates than are looked at, every option; and recorded rows. */
#include "device_case.h"
#include "golden.h"

#include "base/rng.h"
#include "device/select.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static detection_list *lists_make(int n) {
    detection_list *lists = calloc((size_t)n, sizeof *lists);
    assert_non_null(lists);
    return lists;
}

static void lists_free(device_case *f, detection_list *lists, int n) {
    for (int i = 0; i < n; i++) mem_free(f->ctx, lists[i].items);
    free(lists);
}

/* The device's rows of `pred` (n, 4+nc, anchors) for (n) lists. */
static void select_on_device(device_case *f, const float *pred, int n, int nc, int anchors, bool corners,
                             const nms_options *o, detection_list *lists) {
    const size_t offset = 64, elements = (size_t)n * (size_t)(4 + nc) * (size_t)anchors;
    device_buffer *buffer;
    assert_int_equal(device_buffer_create(f->dev, (offset + elements) * sizeof *pred, &buffer), OL_OK);
    assert_int_equal(device_buffer_write(buffer, offset * sizeof *pred, pred, elements * sizeof *pred), OL_OK);
    const decoded_batch batch = {
        .at = flat_at(buffer, offset), .n = n, .nc = nc, .anchors = anchors, .corners = corners};
    if (device_select(f->dev, &batch, o, lists) != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
    device_buffer_destroy(buffer);
}

/* Bit for bit, but for the bits of what is not a number. */
static bool rows_equal(const detection *a, const detection *b) {
    const float x[5] = {a->x1, a->y1, a->x2, a->y2, a->score}, y[5] = {b->x1, b->y1, b->x2, b->y2, b->score};
    for (int i = 0; i < 5; i++)
        if (memcmp(&x[i], &y[i], sizeof x[i]) != 0 && !(isnan(x[i]) && isnan(y[i]))) return false;
    return a->class_id == b->class_id && a->anchor == b->anchor;
}

/* Returns the number of rows in all. */
static size_t compare(device_case *f, const char *what, const float *pred, int n, int nc, int anchors, bool corners,
                      const nms_options *o) {
    detection_list *got = lists_make(n), *again = lists_make(n), want = {0};
    const bool twice = strncmp(test_device_name(), "hip", 3) != 0; /* interpreted: one run is slow enough */
    size_t total = 0;
    select_on_device(f, pred, n, nc, anchors, corners, o, got);
    if (twice) select_on_device(f, pred, n, nc, anchors, corners, o, again);
    for (int i = 0; i < n; i++) {
        const float *picture = pred + (size_t)i * (size_t)(4 + nc) * (size_t)anchors;
        assert_int_equal(detections_select(f->ctx, picture, nc, anchors, corners, o, &want), OL_OK);
        if (got[i].count != want.count) fail_msg("%s: %zu rows instead of %zu", what, got[i].count, want.count);
        for (size_t k = 0; k < want.count; k++)
            if (!rows_equal(&got[i].items[k], &want.items[k]))
                fail_msg("%s: picture %d, row %zu differs: score %g, class %d, anchor %d instead of %g, %d, %d", what,
                         i, k, (double)got[i].items[k].score, got[i].items[k].class_id, got[i].items[k].anchor,
                         (double)want.items[k].score, want.items[k].class_id, want.items[k].anchor);
        if (twice) assert_int_equal(again[i].count, want.count);
        if (twice && want.count > 0) assert_memory_equal(again[i].items, got[i].items, want.count * sizeof *want.items);
        total += want.count;
    }
    lists_free(f, got, n);
    lists_free(f, again, n);
    mem_free(f->ctx, want.items);
    return total;
}

/* `steps` levels of score, so that few steps make many equal ones; boxes crowd together. */
static float *made(int n, int nc, int anchors, int steps, uint64_t seed) {
    rng r = rng_stream(seed, RNG_AUGMENT, 0, 0);
    const size_t row = (size_t)anchors;
    float *pred = malloc((size_t)n * (size_t)(4 + nc) * row * sizeof *pred);
    assert_non_null(pred);
    for (int i = 0; i < n; i++) {
        float *p = pred + (size_t)i * (size_t)(4 + nc) * row;
        for (size_t a = 0; a < row; a++) {
            for (int k = 0; k < 2; k++) p[(size_t)k * row + a] = (float)rng_range(&r, 0.0, 200.0);
            for (int k = 2; k < 4; k++) p[(size_t)k * row + a] = (float)rng_range(&r, 5.0, 90.0);
            for (int c = 0; c < nc; c++)
                p[(size_t)(4 + c) * row + a] = (float)rng_below(&r, (uint32_t)steps) / (float)steps;
        }
    }
    return pred;
}

static const int kept_classes[] = {0, 3, 99};

static const struct {
    const char *name;
    int n, nc, anchors, steps;
    bool corners;
    nms_options o;
} cases[] = {
    {"nms, one anchor", 1, 1, 1, 100, false, {.conf = 0.0F, .iou = 0.5F, .max_det = 300}},
    {"nms, best class", 2, 5, 133, 1000, false, {.conf = 0.3F, .iou = 0.5F, .max_det = 300}},
    {"nms, equal scores", 1, 3, 517, 7, false, {.conf = 0.2F, .iou = 0.4F, .max_det = 300}},
    {"nms, agnostic", 1, 4, 100, 50, false, {.conf = 0.1F, .iou = 0.6F, .max_det = 300, .agnostic = true}},
    {"nms, max_det", 1, 4, 300, 50, false, {.conf = 0.1F, .iou = 0.9F, .max_det = 11}},
    {"nms, nothing is suppressed", 1, 2, 300, 9, false, {.conf = 0.1F, .iou = 1.0F, .max_det = 1000}},
    {"nms, all labels", 2, 7, 31, 40, false, {.conf = 0.3F, .iou = 0.7F, .max_det = 300, .multi_label = true}},
    {"nms, one class and all labels",
     1,
     1,
     90,
     40,
     false,
     {.conf = 0.3F, .iou = 0.7F, .max_det = 300, .multi_label = true}},
    {"nms, classes",
     1,
     5,
     100,
     20,
     false,
     {.conf = 0.1F, .iou = 0.5F, .max_det = 300, .classes = kept_classes, .n_classes = 3}},
    {"nms, all labels of some classes",
     1,
     5,
     60,
     20,
     false,
     {.conf = 0.1F, .iou = 0.5F, .max_det = 300, .multi_label = true, .classes = kept_classes, .n_classes = 3}},
    {"nms, no class",
     1,
     5,
     60,
     20,
     false,
     {.conf = 0.1F, .iou = 0.5F, .max_det = 300, .classes = kept_classes + 2, .n_classes = 1}},
    {"nms, nothing above conf", 2, 5, 60, 20, false, {.conf = 0.99F, .iou = 0.5F, .max_det = 300}},
    {"nms, more than is looked at",
     1,
     4,
     30,
     5,
     false,
     {.conf = 0.1F, .iou = 0.6F, .max_det = 300, .multi_label = true, .max_candidates = 61}},
    {"nms, more anchors than are looked at",
     1,
     6,
     150,
     5,
     false,
     {.conf = 0.1F, .iou = 0.9F, .max_det = 500, .max_candidates = 61}},
    {"top-k", 2, 6, 400, 1000, true, {.conf = 0.9F, .max_det = 300}},
    {"top-k, all", 1, 4, 100, 1000, true, {.conf = 0.0F, .max_det = 300}},
    {"top-k, equal scores", 1, 6, 350, 4, true, {.conf = 0.1F, .max_det = 300}},
    {"top-k, agnostic", 1, 6, 350, 30, true, {.conf = 0.5F, .max_det = 300, .agnostic = true}},
    {"top-k, max_det", 1, 6, 100, 30, true, {.conf = 0.5F, .max_det = 17}},
    {"top-k, more rows", 1, 3, 350, 30, true, {.conf = 0.1F, .max_det = 444}},
    {"top-k, classes", 1, 6, 100, 30, true, {.conf = 0.5F, .max_det = 60, .classes = kept_classes, .n_classes = 3}},
    {"top-k, agnostic classes",
     1,
     6,
     100,
     30,
     true,
     {.conf = 0.5F, .max_det = 300, .agnostic = true, .classes = kept_classes, .n_classes = 3}},
    {"top-k, nothing above conf", 2, 6, 100, 30, true, {.conf = 0.99F, .max_det = 300}},
};

static void test_rows_equal_the_reference(void **state) {
    device_case *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *pred = made(cases[i].n, cases[i].nc, cases[i].anchors, cases[i].steps, i + 1);
        const size_t rows =
            compare(f, cases[i].name, pred, cases[i].n, cases[i].nc, cases[i].anchors, cases[i].corners, &cases[i].o);
        const bool none = strstr(cases[i].name, "nothing above") != NULL || strstr(cases[i].name, "no class") != NULL;
        if (none != (rows == 0)) fail_msg("%s: the case has %zu rows", cases[i].name, rows);
        free(pred);
    }
}

/* The bound of 30000 itself: too long for the interpreter, so only where asked for or on the CPU. */
static void test_full_size(void **state) {
    device_case *f = *state;
    if (strncmp(test_device_name(), "hip", 3) == 0) skip();
    float *pred = made(2, 80, 8400, 100000, 7);
    const nms_options val = {.conf = 0.001F, .iou = 0.7F, .max_det = 300, .multi_label = true};
    nms_options predict = {.conf = 0.25F, .iou = 0.7F, .max_det = 300};
    compare(f, "val", pred, 2, 80, 8400, false, &val);
    compare(f, "predict", pred, 2, 80, 8400, false, &predict);
    compare(f, "top-k", pred, 2, 80, 8400, true, &predict);
    predict.max_det = 5000;
    predict.iou = 0.95F;
    compare(f, "many rows", pred, 2, 80, 8400, false, &predict);
    compare(f, "many top-k rows", pred, 2, 80, 8400, true, &predict);
    free(pred);
}

static void test_numbers_that_are_none(void **state) {
    device_case *f = *state;
    float *pred = made(1, 3, 300, 50, 5);
    for (int i = 0; i < 300; i += 3) pred[(4 + i % 2) * 300 + i] = i % 4 == 0 ? NAN : -0.0F;
    for (int i = 0; i < 300; i += 7) pred[i] = NAN;
    for (int i = 1; i < 300; i += 7) pred[4 * 300 + i] = INFINITY;
    nms_options o = {.conf = 0.2F, .iou = 0.5F, .max_det = 300};
    compare(f, "nms", pred, 1, 3, 300, false, &o);
    o.multi_label = true;
    compare(f, "nms, all labels", pred, 1, 3, 300, false, &o);
    free(pred);
    const decoded_batch none = {.nc = 3};
    assert_int_equal(device_select(f->dev, &none, &o, NULL), OL_OK);
    o.iou = 1.5F;
    assert_int_equal(device_select(f->dev, &none, &o, NULL), OL_ERROR_ARGUMENT);
}

static nms_options recorded_options(const value *c, int ids[8]) {
    const value *classes = value_get(c, "classes");
    nms_options o = {.conf = (float)value_as_double(value_get(c, "conf")),
                     .iou = (float)value_as_double(value_get(c, "iou")),
                     .max_det = (int)value_as_double(value_get(c, "max_det")),
                     .multi_label = value_get(c, "multi_label")->as.boolean,
                     .agnostic = value_get(c, "agnostic")->as.boolean};
    for (size_t i = 0; classes->kind == VALUE_LIST && i < classes->as.list.count; i++)
        ids[o.n_classes++] = (int)classes->as.list.items[i]->as.integer;
    o.classes = o.n_classes > 0 ? ids : NULL;
    return o;
}

static void check_recorded(const golden_pack *pack, const char *name, const detection_list *rows) {
    const tensor want = golden_tensor(pack, name);
    assert_int_equal(rows->count, want.shape.dim[0]);
    for (size_t i = 0; i < rows->count; i++) {
        const detection *d = &rows->items[i];
        const float row[6] = {d->x1, d->y1, d->x2, d->y2, d->score, (float)d->class_id};
        if (memcmp(row, tensor_f32(&want) + 6 * i, sizeof row) != 0) fail_msg("%s: row %zu differs", name, i);
    }
}

static void test_recorded_rows(void **state) {
    device_case *f = *state;
    arena a;
    arena_init(&a, f->ctx, 0);
    const value *list = golden_json(&a, "nms/nms.json");
    golden_pack pack = golden_open("nms/nms");
    const tensor pred = golden_tensor(&pack, "pred"); /* (2, 10, 240) */
    for (size_t k = 0; k < list->as.list.count; k++) {
        int ids[8];
        const nms_options o = recorded_options(list->as.list.items[k], ids);
        detection_list *rows = lists_make(2);
        select_on_device(f, tensor_f32(&pred), 2, 6, 240, false, &o, rows);
        for (int b = 0; b < 2; b++) {
            char name[32];
            snprintf(name, sizeof name, "out%zu_%d", k, b);
            check_recorded(&pack, name, &rows[b]);
        }
        lists_free(f, rows, 2);
    }
    golden_close(&pack);
    arena_deinit(&a);
}

static void test_recorded_top_k(void **state) {
    device_case *f = *state;
    golden_pack pack = golden_open("nms/topk");
    const tensor rows = golden_tensor(&pack, "rows"); /* (700, 10) */
    float *pred = malloc(7000 * sizeof *pred);
    assert_non_null(pred);
    for (int i = 0; i < 7000; i++) pred[i % 10 * 700 + i / 10] = tensor_f32(&rows)[i];
    for (int agnostic = 0; agnostic < 2; agnostic++) {
        const nms_options o = {.conf = 0.0F, .max_det = 300, .agnostic = agnostic == 1};
        detection_list *got = lists_make(1);
        select_on_device(f, pred, 1, 6, 700, true, &o, got);
        check_recorded(&pack, agnostic ? "top300_agnostic1" : "top300_agnostic0", got);
        lists_free(f, got, 1);
    }
    free(pred);
    golden_close(&pack);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_equal_the_reference, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_full_size, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_numbers_that_are_none, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_recorded_rows, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_recorded_top_k, device_case_open, device_case_close),
    };
    test_choose();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
