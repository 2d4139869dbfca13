/* The steps of augmentation against the goldens (injected draws), and the fused gather against the steps. */
#include "augment_reference.h"
#include "golden.h"

#include "data/augment_parts.h"
#include "data/mosaic.h"
#include "data/resize.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ol_context *ctx;

static int setup(void **state) {
    (void)state;
    ctx = test_context();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ol_context_destroy(ctx);
    return 0;
}

static int64_t integer(const value *map, const char *key) {
    return value_get(map, key)->as.integer;
}

static double number(const value *list, size_t i) {
    return value_as_double(list->as.list.items[i]);
}

static image golden_image(const golden_pack *p, const char *name) {
    const tensor t = golden_tensor(p, name);
    return image_view(t.data, (int)t.shape.dim[0], (int)t.shape.dim[1], 3);
}

static const char *indexed(const char *stem, size_t k) {
    static char name[64];
    snprintf(name, sizeof name, "%s%zu", stem, k);
    return name;
}

/* Samples that differ, and by how much at most. */
static size_t difference(const uint8_t *a, const uint8_t *b, size_t n, int *worst) {
    size_t off = 0;
    *worst = 0;
    for (size_t i = 0; i < n; i++) {
        const int d = abs(a[i] - b[i]);
        off += d > 0;
        if (d > *worst) *worst = d;
    }
    return off;
}

static void hsv_tables_and_pictures(void **state) {
    (void)state;
    arena a;
    arena_init(&a, ctx, 0);
    golden_pack p = golden_open("augment/hsv");
    const value *cases = golden_json(&a, "augment/hsv.json");
    const image src = golden_image(&p, "src");
    const int n = src.width;
    uint8_t b[64], g[64], r[64], row[192];
    int32_t h[64], s[64], v[64], scratch[HSV_SCRATCH(64)];
    size_t off = 0;
    for (size_t k = 0; k < cases->as.list.count; k++) {
        const value *products = value_get(cases->as.list.items[k], "r");
        hsv_tables t;
        hsv_tables_init(&t, number(products, 0), number(products, 1), number(products, 2));
        assert_memory_equal(t.h, golden_tensor(&p, indexed("lut_h", k)).data, 180);
        assert_memory_equal(t.s, golden_tensor(&p, indexed("lut_s", k)).data, 256);
        assert_memory_equal(t.v, golden_tensor(&p, indexed("lut_v", k)).data, 256);
        const uint8_t *expected = golden_tensor(&p, indexed("out", k)).data;
        const uint8_t *hsv = golden_tensor(&p, "src_hsv").data;
        for (int y = 0; y < src.height; y++) {
            for (int x = 0; x < n; x++) {
                const uint8_t *from = src.pixels + (y * n + x) * 3;
                b[x] = from[0], g[x] = from[1], r[x] = from[2];
                h[x] = b[x], s[x] = g[x], v[x] = r[x];
            }
            hsv_from_bgr(h, s, v, n);
            for (int x = 0; x < n; x++) {
                const uint8_t *e = hsv + (y * n + x) * 3;
                assert_true(h[x] == e[0] && s[x] == e[1] && v[x] == e[2]);
            }
            hsv_jitter_row(&t, b, g, r, n, scratch);
            reference_interleave(b, g, r, n, row);
            int worst;
            off += difference(row, expected + y * n * 3, (size_t)n * 3, &worst);
            assert_true(worst <= 1);
        }
    }
    assert_true(off <= 25);
    golden_close(&p);
    arena_deinit(&a);
}

/* All 255 divisors, against the tables of the rule. */
static void hsv_quotients_are_those_of_the_tables(void **state) {
    (void)state;
    for (int v = 1; v < 256; v++) {
        for (int d = 0; d <= v; d++) {
            const int b = v - d, g = v - d / 2;
            int32_t to_h[8] = {b}, to_s[8] = {g}, to_v[8] = {v};
            hsv_from_bgr(to_h, to_s, to_v, 8);
            const long ts = lrint(255 * 4096.0 / v), th = d > 0 ? lrint(180 * 4096 / (6.0 * d)) : 0;
            assert_int_equal(to_s[0], (d * ts + 2048) >> 12);
            assert_int_equal(to_h[0], ((g - b) * th + 2048) >> 12);
        }
    }
}

static affine_draws draws_of(const value *values) {
    return (affine_draws){number(values, 0), number(values, 1), number(values, 2), number(values, 3),
                          number(values, 4), number(values, 5), number(values, 6), number(values, 7)};
}

static void gather_picture(const float m[9], bool perspective, const image *src, image *out) {
    gather g = {0};
    uint8_t line[3 * 256];
    gather_reset(&g, 3, out->height, out->width);
    gather_add(&g,
               &(gather_tile){
                   .pixels = src->pixels, .row_bytes = (size_t)src->width * 3, .x2 = src->width, .y2 = src->height});
    assert_int_equal(gather_begin(ctx, &g, m, perspective), OL_OK);
    for (int y = 0; y < out->height; y++) {
        gather_row(&g, y, line, line + 256, line + 512);
        reference_interleave(line, line + 256, line + 512, out->width, out->pixels + y * out->width * 3);
    }
    gather_deinit(ctx, &g);
}

static void affine_pictures_and_boxes(void **state) {
    (void)state;
    arena a;
    arena_init(&a, ctx, 0);
    golden_pack p = golden_open("augment/affine");
    const value *cases = golden_json(&a, "augment/affine.json");
    const image src = golden_image(&p, "src");
    const float *boxes = golden_tensor(&p, "boxes").data;
    image plain = {0}, fused = {0};
    for (size_t k = 0; k < cases->as.list.count; k++) {
        const value *c = cases->as.list.items[k];
        const affine_draws d = draws_of(value_get(c, "values"));
        const int w = (int)number(value_get(c, "size_wh"), 0), h = (int)number(value_get(c, "size_wh"), 1);
        const bool perspective = d.perspective_x != 0.0 || d.perspective_y != 0.0;
        const image expected = golden_image(&p, indexed("img", k));
        float m[9];
        affine_matrix(&d, src.height, src.width, h, w, m);
        assert_close("M", m, golden_tensor(&p, indexed("M", k)).data, 9, 1e-5, 1e-6);
        assert_int_equal(image_reserve(ctx, &plain, h, w, 3), OL_OK);
        assert_int_equal(image_reserve(ctx, &fused, h, w, 3), OL_OK);
        reference_warp(&src, m, perspective, &plain);
        gather_picture(m, perspective, &src, &fused);
        int worst;
        const size_t n = image_bytes(&expected), off = difference(plain.pixels, expected.pixels, n, &worst);
        assert_true(worst <= 1 && off * 1000 <= n);
        const size_t off_fused = difference(fused.pixels, expected.pixels, n, &worst);
        assert_true(worst <= 1 && off_fused * 1000 <= n);
        size_t kept = 0;
        for (size_t i = 0; i < 7; i++) {
            const box b = {boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
            const float s = (float)d.scale;
            const box moved = affine_box(m, perspective, b), clipped = box_clip(moved, (float)w, (float)h);
            const box before = {b.x1 * s, b.y1 * s, b.x2 * s, b.y2 * s};
            assert_close("moved", &moved.x1, (const float *)golden_tensor(&p, indexed("moved", k)).data + 4 * i, 4,
                         1e-4, 1e-6);
            assert_close("clipped", &clipped.x1, (const float *)golden_tensor(&p, indexed("clipped", k)).data + 4 * i,
                         4, 1e-4, 1e-6);
            const bool keep = box_survives(before, clipped, 0.1f);
            assert_int_equal(keep, ((const uint8_t *)golden_tensor(&p, indexed("keep", k)).data)[i]);
            kept += keep;
        }
        /* the same through the set of objects */
        float rows[7 * 5];
        for (int i = 0; i < 7; i++) {
            const float *b = boxes + 4 * i, side = 128.0f;
            const float row[5] = {(float)i, (b[0] + b[2]) / 2 / side, (b[1] + b[3]) / 2 / side, (b[2] - b[0]) / side,
                                  (b[3] - b[1]) / side};
            memcpy(rows + 5 * i, row, sizeof row);
        }
        objects o = {0};
        const label_rows labels = {.n = 7, .rows = rows};
        objects_clear(&o);
        assert_int_equal(objects_add_labels(ctx, &o, &labels, 128, 128, 0, 0), OL_OK);
        objects_warp(&o, m, perspective, (float)d.scale, (float)h, (float)w);
        assert_int_equal(o.n, kept);
        assert_close("final", &o.boxes[0].x1, golden_tensor(&p, indexed("final", k)).data, 4 * kept, 1e-3, 1e-6);
        assert_close("cls", o.cls, golden_tensor(&p, indexed("cls", k)).data, kept, 0, 0);
        objects_deinit(ctx, &o);
    }
    image_deinit(ctx, &plain);
    image_deinit(ctx, &fused);
    golden_close(&p);
    arena_deinit(&a);
}

static void survival_test(void **state) {
    (void)state;
    golden_pack p = golden_open("augment/box_candidates");
    const float *before = golden_tensor(&p, "before").data, *after = golden_tensor(&p, "after").data;
    const uint8_t *loose = golden_tensor(&p, "keep_001").data, *strict = golden_tensor(&p, "keep_010").data;
    for (int i = 0; i < 64; i++) {
        box b, c;
        memcpy(&b, before + 4 * i, sizeof b);
        memcpy(&c, after + 4 * i, sizeof c);
        assert_int_equal(box_survives(b, c, 0.1f), strict[i]);
        assert_int_equal(box_survives(b, c, 0.01f), loose[i]);
    }
    golden_close(&p);
}

static void mosaic_layout(void **state) {
    (void)state;
    static const char *const keys[6] = {"x1a", "y1a", "x2a", "y2a", "x1b", "y1b"};
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "augment/mosaic4.json");
    for (size_t k = 0; k < cases->as.list.count; k++) {
        const value *c = cases->as.list.items[k], *tiles = value_get(c, "tiles");
        for (size_t i = 0; i < 4; i++) {
            const value *e = tiles->as.list.items[i], *hw = value_get(e, "hw");
            const mosaic_tile t = mosaic_place((int)i, (int)number(hw, 0), (int)number(hw, 1), (int)integer(c, "yc"),
                                               (int)integer(c, "xc"), (int)integer(c, "s"));
            const int got[6] = {t.x1, t.y1, t.x2, t.y2, t.from_x, t.from_y};
            for (int q = 0; q < 6; q++) assert_int_equal(got[q], integer(e, keys[q]));
            assert_int_equal(t.x1 - t.from_x, integer(e, "padw"));
            assert_int_equal(t.y1 - t.from_y, integer(e, "padh"));
        }
    }
    arena_deinit(&a);
}

static void mosaic_pictures_and_boxes(void **state) {
    (void)state;
    const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    arena a;
    arena_init(&a, ctx, 0);
    golden_pack p = golden_open("augment/mosaic4_image");
    const value *cases = golden_json(&a, "augment/mosaic4.json");
    image tiles[4], canvas = {0};
    for (size_t i = 0; i < 4; i++) tiles[i] = golden_image(&p, indexed("tile", i));
    assert_int_equal(image_reserve(ctx, &canvas, 128, 128, 3), OL_OK);
    for (size_t k = 0; k < cases->as.list.count; k++) {
        const int yc = (int)integer(cases->as.list.items[k], "yc"), xc = (int)integer(cases->as.list.items[k], "xc");
        objects o = {0}, scratch = {0};
        gather g = {0};
        gather_reset(&g, 3, 128, 128);
        objects_clear(&o);
        for (int i = 0; i < 4; i++) {
            const mosaic_tile t = mosaic_place(i, tiles[i].height, tiles[i].width, yc, xc, 64);
            const float *xywh = golden_tensor(&p, indexed("tile_boxes_xywhn", (size_t)i)).data;
            const tensor cls = golden_tensor(&p, indexed("tile_cls", (size_t)i));
            float rows[5 * 8];
            const int n = (int)cls.shape.dim[0];
            for (int q = 0; q < n; q++) {
                rows[5 * q] = tensor_f32(&cls)[q];
                memcpy(rows + 5 * q + 1, xywh + 4 * q, 16);
            }
            const label_rows labels = {.n = n, .rows = rows};
            assert_int_equal(
                objects_add_labels(ctx, &o, &labels, tiles[i].height, tiles[i].width, t.x1 - t.from_x, t.y1 - t.from_y),
                OL_OK);
            gather_add(&g, &(gather_tile){.pixels = tiles[i].pixels + (t.from_y * tiles[i].width + t.from_x) * 3,
                                          .row_bytes = (size_t)tiles[i].width * 3,
                                          .x1 = t.x1,
                                          .y1 = t.y1,
                                          .x2 = t.x2,
                                          .y2 = t.y2});
        }
        assert_int_equal(objects_clip(ctx, &o, 128, 128, &scratch), OL_OK);
        const tensor boxes = golden_tensor(&p, indexed("boxes", k));
        assert_int_equal(o.n, boxes.shape.dim[0]);
        assert_close("boxes", &o.boxes[0].x1, boxes.data, 4 * (size_t)o.n, 1e-4, 0);
        assert_close("cls", o.cls, golden_tensor(&p, indexed("cls", k)).data, (size_t)o.n, 0, 0);
        if (golden_has(&p, indexed("img", k))) {
            const image expected = golden_image(&p, indexed("img", k));
            reference_mosaic(tiles, 64, yc, xc, &canvas);
            assert_memory_equal(canvas.pixels, expected.pixels, image_bytes(&canvas));
            assert_int_equal(gather_begin(ctx, &g, identity, false), OL_OK);
            uint8_t line[3 * 128], bgr[3 * 128];
            for (int y = 0; y < 128; y++) {
                gather_row(&g, y, line, line + 128, line + 256);
                reference_interleave(line, line + 128, line + 256, 128, bgr);
                assert_memory_equal(bgr, expected.pixels + y * 384, 384);
            }
        }
        gather_deinit(ctx, &g);
        objects_deinit(ctx, &o);
        objects_deinit(ctx, &scratch);
    }
    image_deinit(ctx, &canvas);
    golden_close(&p);
    arena_deinit(&a);
}

/* Mosaic and warp in one gather equal canvas and warp one after the other, for every kind of matrix. */
static void fused_gather_equals_the_steps(void **state) {
    (void)state;
    enum { S = 64, OUT = 61 };
    golden_pack p = golden_open("augment/mosaic4_image");
    rng r = rng_stream(1, RNG_TEST, 0, 0);
    image tiles[4], canvas = {0}, warped = {0};
    for (size_t i = 0; i < 4; i++) tiles[i] = golden_image(&p, indexed("tile", i));
    assert_int_equal(image_reserve(ctx, &canvas, 2 * S, 2 * S, 3), OL_OK);
    assert_int_equal(image_reserve(ctx, &warped, OUT, OUT, 3), OL_OK);
    size_t off = 0;
    for (int round = 0; round < 60; round++) {
        const int yc = 32 + (int)rng_below(&r, 64), xc = 32 + (int)rng_below(&r, 64), kind = round % 3;
        const bool perspective = kind == 2;
        affine_draws d = {
            .scale = rng_range(&r, 0.05, 1.9), .translate_x = rng_range(&r, 0, 1), .translate_y = rng_range(&r, 0, 1)};
        if (kind > 0) d.angle = rng_range(&r, -180, 180), d.shear_x = rng_range(&r, -20, 20);
        if (perspective) d.perspective_x = rng_range(&r, -2e-3, 2e-3), d.perspective_y = rng_range(&r, -2e-3, 2e-3);
        float m[9];
        affine_matrix(&d, 2 * S, 2 * S, OUT, OUT, m);
        reference_mosaic(tiles, S, yc, xc, &canvas);
        reference_warp(&canvas, m, perspective, &warped);
        gather g = {0};
        gather_reset(&g, 3, OUT, OUT);
        for (int i = 0; i < 4; i++) {
            const mosaic_tile t = mosaic_place(i, tiles[i].height, tiles[i].width, yc, xc, S);
            gather_add(&g, &(gather_tile){.pixels = tiles[i].pixels + (t.from_y * tiles[i].width + t.from_x) * 3,
                                          .row_bytes = (size_t)tiles[i].width * 3,
                                          .x1 = t.x1,
                                          .y1 = t.y1,
                                          .x2 = t.x2,
                                          .y2 = t.y2});
        }
        assert_int_equal(gather_begin(ctx, &g, m, perspective), OL_OK);
        uint8_t line[3 * OUT], bgr[3 * OUT];
        for (int y = 0; y < OUT; y++) {
            int worst;
            gather_row(&g, y, line, line + OUT, line + 2 * OUT);
            reference_interleave(line, line + OUT, line + 2 * OUT, OUT, bgr);
            off += difference(bgr, warped.pixels + y * OUT * 3, 3 * OUT, &worst);
            if (worst > 1) fail_msg("round %d row %d: off by %d", round, y, worst);
        }
        gather_deinit(ctx, &g);
    }
    assert_true(off * 1000 <= (size_t)60 * OUT * OUT * 3);
    image_deinit(ctx, &canvas);
    image_deinit(ctx, &warped);
    golden_close(&p);
}

static void blend_and_formats(void **state) {
    (void)state;
    golden_pack p = golden_open("augment/mixup_cutmix");
    const image b = golden_image(&p, "b"), src = golden_image(&p, "a");
    for (size_t k = 0; k < 3; k++) {
        uint8_t a[32 * 32 * 3];
        memcpy(a, src.pixels, sizeof a);
        augment_blend(a, b.pixels, sizeof a, *(const double *)golden_tensor(&p, indexed("r", k)).data);
        assert_memory_equal(a, golden_tensor(&p, indexed("mix", k)).data, sizeof a);
    }
    golden_close(&p);
    p = golden_open("augment/flip_format");
    const image f = golden_image(&p, "src");
    uint8_t planes[3 * 40 * 64];
    planes_from_image(&f, false, planes);
    assert_memory_equal(planes, golden_tensor(&p, "format_img_chw_rgb").data, sizeof planes);
    const float *xywh = golden_tensor(&p, "boxes_xywhn").data;
    float row[5] = {3, xywh[0], xywh[1], xywh[2], xywh[3]}, got[5];
    const label_rows labels = {.n = 1, .rows = row};
    objects o = {0};
    objects_clear(&o);
    assert_int_equal(objects_add_labels(ctx, &o, &labels, f.height, f.width, 0, 0), OL_OK);
    objects_write_rows(&o, (float)f.height, (float)f.width, true, false, got);
    assert_close("horizontal", got + 1, golden_tensor(&p, "boxes_horizontal").data, 4, 1e-6, 0);
    objects_write_rows(&o, (float)f.height, (float)f.width, false, true, got);
    assert_close("vertical", got + 1, golden_tensor(&p, "boxes_vertical").data, 4, 1e-6, 0);
    objects_write_rows(&o, (float)f.height, (float)f.width, false, false, got);
    assert_close("format", got + 1, golden_tensor(&p, "format_bboxes").data, 4, 1e-6, 0);
    assert_true(got[0] == 3.0f);
    objects_deinit(ctx, &o);
    golden_close(&p);
}

static void outline_boxes(void **state) {
    (void)state;
    static const struct {
        float points[8];
        size_t n;
        box expected;
    } cases[] = {{{2, 3, 8, 3, 8, 7, 2, 7}, 4, {2, 3, 8, 7}},               /* inside */
                 {{-5, 2, 5, 2, 5, 6, -5, 6}, 4, {0, 2, 5, 6}},             /* cut by the left border */
                 {{-9, -9, -1, -9, -1, -1, -9, -1}, 4, {0, 0, 0, 0}},       /* outside */
                 {{-50, -50, 50, -50, 50, 50, -50, 50}, 4, {0, 0, 10, 10}}, /* around: only corners lie inside it */
                 {{-4, 5, 5, -4, -4, -4}, 3, {0, 0, 1, 1}},                 /* a corner is cut off */
                 {{5, -5, 15, 5, 5, 15, -5, 5}, 4, {0, 0, 10, 10}},         /* a diamond through the corners' middle */
                 {{11, 12, 20, 12, 20, 30}, 3, {0, 0, 0, 0}},               /* beyond the far corner */
                 {{-3, 14, 14, -3, 20, 20}, 3, {1, 1, 10, 10}}}; /* an edge across, a vertex outside everywhere */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const box b = outline_box(cases[i].points, cases[i].n, 10, 10);
        assert_close(indexed("outline ", i), &b.x1, &cases[i].expected.x1, 4, 1e-5, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hsv_tables_and_pictures),
                                       cmocka_unit_test(hsv_quotients_are_those_of_the_tables),
                                       cmocka_unit_test(affine_pictures_and_boxes),
                                       cmocka_unit_test(survival_test),
                                       cmocka_unit_test(mosaic_layout),
                                       cmocka_unit_test(mosaic_pictures_and_boxes),
                                       cmocka_unit_test(fused_gather_equals_the_steps),
                                       cmocka_unit_test(blend_and_formats),
                                       cmocka_unit_test(outline_boxes)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
