/* Resizing bit for bit, letterbox geometry and pixels, the batch resize. */
#include "golden.h"

#include "base/file.h"
#include "data/letterbox.h"
#include "data/resize.h"

#include <glob.h>
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

static int64_t item(const value *map, const char *key, size_t i) {
    return value_get(map, key)->as.list.items[i]->as.integer;
}

static void resize_is_bit_exact(void **state) {
    (void)state;
    golden_pack p = golden_open("preprocess/resize_bilinear_u8");
    const tensor s = golden_tensor(&p, "src");
    const image src = image_view(s.data, (int)s.shape.dim[0], (int)s.shape.dim[1], 3);
    image out = {0}, grey = {0}, one = {0};
    assert_int_equal(image_reserve(ctx, &grey, src.height, src.width, 1), OL_OK);
    for (size_t i = 0; i < image_bytes(&grey); i++) grey.pixels[i] = src.pixels[3 * i + 1];
    for (size_t i = 1; i < p.index->as.list.count; i++) {
        const char *name = value_get(p.index->as.list.items[i], "name")->as.string;
        const tensor e = golden_tensor(&p, name);
        assert_int_equal(resize_bilinear(ctx, &src, (int)e.shape.dim[0], (int)e.shape.dim[1], &out), OL_OK);
        assert_memory_equal(out.pixels, e.data, image_bytes(&out));
        assert_int_equal(resize_bilinear(ctx, &grey, out.height, out.width, &one), OL_OK);
        for (size_t k = 0; k < image_bytes(&one); k++) assert_int_equal(one.pixels[k], out.pixels[3 * k + 1]);
    }
    const uint8_t dot[3] = {1, 2, 3};
    const image tiny = image_view(dot, 1, 1, 3);
    assert_int_equal(resize_bilinear(ctx, &tiny, 5, 7, &out), OL_OK);
    for (int i = 0; i < 35; i++) assert_memory_equal(out.pixels + 3 * i, dot, 3);
    image_deinit(ctx, &out);
    image_deinit(ctx, &grey);
    image_deinit(ctx, &one);
    golden_close(&p);
}

static void long_side_sizes(void **state) {
    (void)state;
    arena a;
    arena_init(&a, ctx, 0);
    const value *rows = golden_json(&a, "augment/load_resize.json");
    for (size_t i = 0; i < rows->as.list.count; i++) {
        const value *row = rows->as.list.items[i];
        int h, w;
        resize_long_side_size((int)integer(row, "h0"), (int)integer(row, "w0"), (int)integer(row, "s"), &h, &w);
        assert_int_equal(w, item(row, "wh", 0));
        assert_int_equal(h, item(row, "wh", 1));
    }
    arena_deinit(&a);
}

static void letterbox_arithmetic(void **state) {
    (void)state;
    arena a;
    arena_init(&a, ctx, 0);
    const value *rows = golden_json(&a, "preprocess/letterbox_arith.json");
    for (size_t i = 0; i < rows->as.list.count; i++) {
        const value *row = rows->as.list.items[i];
        const int target = (int)integer(row, "target");
        const letterbox_options o = {.height = target,
                                     .width = target,
                                     .minimal = value_get(row, "auto")->as.boolean,
                                     .no_scale_up = !value_get(row, "scaleup")->as.boolean};
        const letterbox_geometry g = letterbox_plan((int)item(row, "src_hw", 0), (int)item(row, "src_hw", 1), &o);
        assert_true(g.ratio_h == value_as_double(value_get(row, "r")));
        const int got[8] = {g.inner_width, g.inner_height, g.top, g.bottom, g.left, g.right, g.out_height, g.out_width};
        static const char *const keys[8] = {"unpad_wh", "unpad_wh", "tblr", "tblr", "tblr", "tblr", "out_hw", "out_hw"};
        static const size_t at[8] = {0, 1, 0, 1, 2, 3, 0, 1};
        for (int k = 0; k < 8; k++) assert_int_equal(got[k], item(row, keys[k], at[k]));
    }
    arena_deinit(&a);
}

/* The two sample pictures come with the reference package and are not ours to carry: they are taken from
 * ONELOOK_SAMPLE_PICTURES, or from where the package of ONELOOK_REFERENCE_PYTHON keeps them. */
static bool sample_picture(const char *name, image *im) {
    const char *folder = getenv("ONELOOK_SAMPLE_PICTURES"), *python = getenv("ONELOOK_REFERENCE_PYTHON");
    char path[1024] = "";
    if (folder != NULL)
        snprintf(path, sizeof path, "%s/%s.jpg", folder, name);
    else if (python != NULL)
        snprintf(path, sizeof path, "%.*s../lib/python3*/site-packages/ultralytics/assets/%s.jpg",
                 (int)(path_name(python) - python), python, name);
    glob_t found;
    if (glob(path, 0, NULL, &found) != 0) return false;
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    if (image_read(ctx, path, 3, im) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    return true;
}

static bool flag(const value *args, const char *key, bool otherwise) {
    const value *v = args != NULL ? value_get(args, key) : NULL;
    return v != NULL ? v->as.boolean : otherwise;
}

static void letterbox_pixels_of_the_sample_pictures(void **state) {
    (void)state;
    arena a;
    image im = {0}, scratch = {0}, out = {0};
    arena_init(&a, ctx, 0);
    golden_pack sub = golden_open("preprocess/letterbox_sub");
    const value *rows = golden_json(&a, "preprocess/letterbox.json");
    for (size_t i = 0; i < rows->as.list.count; i++) {
        const value *row = rows->as.list.items[i], *args = value_get(row, "args");
        const char *name = value_get(row, "picture")->as.string, *variant = value_get(row, "variant")->as.string;
        const image *shown = &im;
        if (!sample_picture(name, &im)) {
            print_message("skipped: neither ONELOOK_SAMPLE_PICTURES nor ONELOOK_REFERENCE_PYTHON leads to bus.jpg and "
                          "zidane.jpg\n");
            break;
        }
        if (args != NULL) {
            const letterbox_options o = {.height = (int)item(args, "new_shape", 0),
                                         .width = (int)item(args, "new_shape", 1),
                                         .minimal = flag(args, "auto", false),
                                         .stretch = flag(args, "scale_fill", false),
                                         .no_scale_up = !flag(args, "scaleup", true),
                                         .top_left = !flag(args, "center", true)};
            const letterbox_geometry g = letterbox_plan(im.height, im.width, &o);
            assert_int_equal(letterbox_apply(ctx, &im, &g, &scratch, &out), OL_OK);
            assert_int_equal(g.top, integer(row, "top"));
            assert_int_equal(g.right, integer(row, "right"));
            shown = &out;
        }
        assert_int_equal(shown->height, item(row, "shape", 0));
        assert_int_equal(shown->width, item(row, "shape", 1));
        int64_t sum = 0;
        for (size_t k = 0; k < image_bytes(shown); k++) sum += shown->pixels[k];
        if (sum != integer(row, "sum")) fail_msg("%s %s: sum %lld", name, variant, (long long)sum);
        char patch[64];
        snprintf(patch, sizeof patch, "patch_%s_%s", name, variant);
        if (!golden_has(&sub, patch)) continue;
        const uint8_t *e = golden_tensor(&sub, patch).data;
        for (int y = 0; y < 48; y++)
            assert_memory_equal(
                e + y * 144, shown->pixels + ((shown->height / 2 - 24 + y) * shown->width + shown->width / 2 - 24) * 3,
                144);
    }
    golden_close(&sub);
    image_deinit(ctx, &im);
    image_deinit(ctx, &scratch);
    image_deinit(ctx, &out);
    arena_deinit(&a);
}

static void planes_are_the_letterbox_in_rgb(void **state) {
    (void)state;
    image im = {0}, scratch = {0}, out = {0};
    uint8_t planes[3 * 64 * 64], whole[3 * 64 * 64];
    assert_int_equal(image_reserve(ctx, &im, 23, 51, 3), OL_OK);
    for (size_t i = 0; i < image_bytes(&im); i++) im.pixels[i] = (uint8_t)(i * 7);
    const letterbox_options o = {.height = 64, .width = 64};
    const letterbox_geometry g = letterbox_plan(23, 51, &o);
    assert_int_equal(letterbox_apply(ctx, &im, &g, &scratch, &out), OL_OK);
    assert_int_equal(letterbox_planes(ctx, &im, &g, &scratch, planes), OL_OK);
    planes_from_image(&out, false, whole);
    assert_memory_equal(planes, whole, sizeof planes);
    assert_int_equal(planes[0], 114);
    for (int i = 0; i < 64 * 64; i++) assert_int_equal(planes[i], out.pixels[3 * i + 2]);
    image_deinit(ctx, &im);
    image_deinit(ctx, &scratch);
    image_deinit(ctx, &out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(resize_is_bit_exact), cmocka_unit_test(long_side_sizes),
                                       cmocka_unit_test(letterbox_arithmetic),
                                       cmocka_unit_test(letterbox_pixels_of_the_sample_pictures),
                                       cmocka_unit_test(planes_are_the_letterbox_in_rgb)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
