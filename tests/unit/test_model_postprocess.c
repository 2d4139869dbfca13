/* Suppression, top-k selection, box mapping, against the reference's rows: bit for bit where the README says so. */
#include "golden.h"
#include "model/postprocess.h"
#include "ops/top_k.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double number(const value *map, const char *key) {
    return value_as_double(value_get(map, key));
}
static bool flag(const value *map, const char *key) {
    return value_get(map, key)->as.boolean;
}

static void assert_rows(const char *what, const detection_list *out, const tensor *rows) {
    if (out->count != (size_t)rows->shape.dim[0]) {
        fail_msg("%s: %zu rows instead of %lld", what, out->count, (long long)rows->shape.dim[0]);
    }
    for (size_t i = 0; i < out->count; i++) {
        const detection *d = &out->items[i];
        const float row[6] = {d->x1, d->y1, d->x2, d->y2, d->score, (float)d->class_id};
        if (memcmp(row, tensor_f32(rows) + 6 * i, sizeof row) != 0) fail_msg("%s: row %zu differs", what, i);
    }
}

static void test_nms_goldens(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "nms/nms.json");
    golden_pack pack = golden_open("nms/nms");
    const tensor pred = golden_tensor(&pack, "pred");
    detection_list out = {0};
    assert_int_equal(cases->as.list.count, 6);
    for (size_t k = 0; k < cases->as.list.count; k++) {
        const value *c = cases->as.list.items[k], *classes = value_get(c, "classes");
        int ids[8], n_ids = 0;
        if (classes->kind == VALUE_LIST) {
            for (size_t i = 0; i < classes->as.list.count; i++) {
                ids[n_ids++] = (int)classes->as.list.items[i]->as.integer;
            }
        }
        const nms_options options = {.conf = (float)number(c, "conf"),
                                     .iou = (float)number(c, "iou"),
                                     .max_det = (int)number(c, "max_det"),
                                     .multi_label = flag(c, "multi_label"),
                                     .agnostic = flag(c, "agnostic"),
                                     .classes = n_ids > 0 ? ids : NULL,
                                     .n_classes = n_ids};
        for (int b = 0; b < 2; b++) {
            char name[32];
            assert_int_equal(nms_run(ctx, tensor_f32(&pred) + (size_t)b * 10 * 240, 6, 240, &options, &out), OL_OK);
            snprintf(name, sizeof name, "out%zu_%d", k, b);
            const tensor rows = golden_tensor(&pack, name);
            assert_rows(name, &out, &rows);
            snprintf(name, sizeof name, "idx%zu_%d", k, b);
            const tensor indices = golden_tensor(&pack, name);
            for (size_t i = 0; i < out.count; i++) {
                assert_int_equal(out.items[i].anchor, ((const int32_t *)indices.data)[i]);
            }
        }
    }
    mem_free(ctx, out.items);
    golden_close(&pack);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void test_nms_edges(void **state) {
    (void)state;
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
    detection_list out = {0};
    /* two anchors, one class: NaN scores and boxes do no harm; an empty result is fine */
    const float pred[10] = {10, 10, 10, 10, 4, 4, 4, 4, NAN, 0.9F};
    nms_options o = {.conf = 0.5F, .iou = 0.7F, .max_det = 300, .multi_label = true};
    assert_int_equal(nms_run(ctx, pred, 1, 2, &o, &out), OL_OK);
    assert_int_equal(out.count, 1);
    assert_int_equal(out.items[0].anchor, 1);
    o.conf = 0.9F; /* strictly greater */
    assert_int_equal(nms_run(ctx, pred, 1, 2, &o, &out), OL_OK);
    assert_int_equal(out.count, 0);
    assert_int_equal(nms_run(ctx, pred, 1, 0, &o, &out), OL_OK);
    assert_int_equal(out.count, 0);
    o.iou = 1.5F;
    assert_int_equal(nms_run(ctx, pred, 1, 2, &o, &out), OL_ERROR_ARGUMENT);
    /* more candidates than the limit of 30000: the best of them survive */
    enum { n = 400, nc = 100 };
    float *many = malloc((4 + nc) * n * sizeof *many);
    assert_non_null(many);
    for (int i = 0; i < n; i++) {
        many[i] = (float)(i % 20) * 100.0F;
        many[n + i] = (float)(i / 20) * 100.0F;
        many[2 * n + i] = many[3 * n + i] = 10.0F;
        for (int c = 0; c < nc; c++) many[(4 + c) * n + i] = 0.1F + 0.00002F * (float)(i * nc + c);
    }
    o = (nms_options){.conf = 0.001F, .iou = 0.7F, .max_det = 300, .multi_label = true};
    assert_int_equal(nms_run(ctx, many, nc, n, &o, &out), OL_OK);
    assert_int_equal(out.count, 300);
    assert_int_equal(out.items[0].anchor, n - 1);
    assert_int_equal(out.items[0].class_id, nc - 1);
    assert_int_equal(out.items[299].anchor, n - 3);
    o.max_det = 50000;
    assert_int_equal(nms_run(ctx, many, nc, n, &o, &out), OL_OK);
    assert_int_equal(out.count, 30000);
    free(many);
    mem_free(ctx, out.items);
    ol_context_destroy(ctx);
}

/* (rows, columns) to (columns, rows) */
static float *transposed(const tensor *t) {
    const size_t rows = (size_t)t->shape.dim[0], columns = (size_t)t->shape.dim[1];
    float *out = malloc(rows * columns * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < columns; k++) out[k * rows + i] = tensor_f32(t)[i * columns + k];
    }
    return out;
}

static void test_topk_goldens(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    golden_pack pack = golden_open("nms/topk");
    const tensor rows = golden_tensor(&pack, "rows");
    float *pred = transposed(&rows);
    static const struct {
        const char *name;
        int k;
        bool agnostic;
    } cases[3] = {{"top300_agnostic0", 300, false}, {"top300_agnostic1", 300, true}, {"top20", 20, false}};
    detection_list out = {0};
    for (int i = 0; i < 3; i++) {
        const tensor want = golden_tensor(&pack, cases[i].name);
        assert_int_equal(topk_select(ctx, pred, 6, 700, cases[i].k, cases[i].agnostic, &out), OL_OK);
        assert_rows(cases[i].name, &out, &want);
    }
    assert_int_equal(topk_select(ctx, pred, 6, 700, 5000, false, &out), OL_OK); /* fewer anchors than k */
    assert_int_equal(out.count, 700);
    const int classes[2] = {1, 4};
    assert_int_equal(topk_select(ctx, pred, 6, 700, 300, false, &out), OL_OK);
    detections_filter(&out, 0.5F, classes, 2, 7);
    assert_int_equal(out.count, 7);
    for (size_t i = 0; i < out.count; i++) {
        assert_true(out.items[i].score > 0.5F && (out.items[i].class_id == 1 || out.items[i].class_id == 4));
    }
    free(pred);
    mem_free(ctx, out.items);
    golden_close(&pack);
    ol_context_destroy(ctx);
}

static void test_top_k_order(void **state) {
    (void)state;
    const float x[7] = {1, NAN, 3, 3, -INFINITY, 2, 3};
    int32_t order[7];
    top_k(x, 7, 7, order);
    const int32_t want[5] = {2, 3, 6, 5, 0};
    assert_memory_equal(order, want, sizeof want);
    top_k(x, 7, 1, order);
    assert_int_equal(order[0], 2);
    for (uint32_t n = 1; n < 200; n += 7) { /* every k against a plain selection */
        float y[200];
        for (uint32_t i = 0; i < n; i++) y[i] = (float)((i * 7919u) % 23u);
        for (uint32_t k = 1; k <= n; k++) {
            int32_t got[200];
            top_k(y, (int32_t)n, (int32_t)k, got);
            for (uint32_t i = 0; i + 1 < k; i++) {
                assert_true(y[got[i]] > y[got[i + 1]] || (y[got[i]] == y[got[i + 1]] && got[i] < got[i + 1]));
            }
        }
    }
}

static void test_iou_goldens(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    golden_pack pack = golden_open("nms/iou");
    const tensor a = golden_tensor(&pack, "a"), b = golden_tensor(&pack, "b"), want = golden_tensor(&pack, "iou");
    float iou[25 * 35];
    box_iou_matrix(tensor_f32(&a), 25, tensor_f32(&b), 35, iou);
    assert_memory_equal(iou, want.data, sizeof iou);
    const tensor boxes = golden_tensor(&pack, "boxes"), scores = golden_tensor(&pack, "scores");
    static const struct {
        const char *name;
        float iou;
    } cases[2] = {{"keep_050", 0.5F}, {"keep_020", 0.2F}};
    for (int i = 0; i < 2; i++) {
        int keep[60], n_keep = 0;
        const tensor kept = golden_tensor(&pack, cases[i].name);
        assert_int_equal(nms_boxes(ctx, tensor_f32(&boxes), tensor_f32(&scores), 60, cases[i].iou, keep, &n_keep),
                         OL_OK);
        assert_int_equal(n_keep, kept.shape.dim[0]);
        assert_memory_equal(keep, kept.data, (size_t)n_keep * sizeof *keep);
    }
    golden_close(&pack);
    ol_context_destroy(ctx);
}

static void test_scale_boxes_goldens(void **state) {
    (void)state;
    golden_pack pack = golden_open("preprocess/scale_boxes");
    for (int k = 0; k < 5; k++) {
        char name[4][16];
        snprintf(name[0], 16, "in%d", k);
        snprintf(name[1], 16, "net_hw%d", k);
        snprintf(name[2], 16, "src_hw%d", k);
        snprintf(name[3], 16, "out%d", k);
        const tensor in = golden_tensor(&pack, name[0]), net = golden_tensor(&pack, name[1]);
        const tensor src = golden_tensor(&pack, name[2]), want = golden_tensor(&pack, name[3]);
        const int32_t *n = net.data, *s = src.data;
        detection rows[40];
        float got[160];
        for (int i = 0; i < 40; i++) {
            const float *p = tensor_f32(&in) + 4 * i;
            rows[i] = (detection){p[0], p[1], p[2], p[3], 0, 0, 0};
        }
        scale_boxes(rows, 40, n[0], n[1], s[0], s[1]);
        for (int i = 0; i < 40; i++) {
            got[4 * i] = rows[i].x1;
            got[4 * i + 1] = rows[i].y1;
            got[4 * i + 2] = rows[i].x2;
            got[4 * i + 3] = rows[i].y2;
        }
        assert_close(name[3], got, tensor_f32(&want), 160, 1e-3, 0);
    }
    golden_close(&pack);
}

/* Half a pixel of padding belongs to the right and lower side: the recorded sizes have none. */
static void half_a_pixel_of_padding_is_rounded_down(void **state) {
    (void)state;
    detection rows[2] = {{79, 10, 179, 110, 0, 0, 0}, {10, 79, 110, 179, 0, 0, 0}};
    scale_boxes(rows, 1, 640, 640, 640, 481);
    scale_boxes(rows + 1, 1, 640, 640, 481, 640);
    const float got[8] = {rows[0].x1, rows[0].y1, rows[0].x2, rows[0].y2,
                          rows[1].x1, rows[1].y1, rows[1].x2, rows[1].y2};
    const float want[8] = {0, 10, 100, 110, 10, 0, 110, 100};
    assert_close("boxes", got, want, 8, 1e-4, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nms_goldens),
        cmocka_unit_test(test_nms_edges),
        cmocka_unit_test(test_topk_goldens),
        cmocka_unit_test(test_top_k_order),
        cmocka_unit_test(test_iou_goldens),
        cmocka_unit_test(test_scale_boxes_goldens),
        cmocka_unit_test(half_a_pixel_of_padding_is_rounded_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
