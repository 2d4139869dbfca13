/* Whole samples from made-up pictures: what must hold whatever is drawn. */
#include "golden.h"
#include "made_pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { S = 96, N = MADE_PICTURES, PIXELS = S * S, OBJECTS = MADE_OBJECTS };

static ol_context *ctx;

static augment_settings everything(void) {
    augment_settings s = augment_defaults(S);
    s.mosaic = 0.7, s.mixup = s.cutmix = 0.4, s.copy_paste = 0.6;
    s.degrees = 15, s.shear = 5, s.flipud = 0.3, s.bgr = 0.3;
    return s;
}

/* The same key gives the same sample, whatever came before it and on another augmenter. */
static void samples_depend_on_their_key_only(void **state) {
    (void)state;
    for (int variant = 0; variant < 6; variant++) {
        const int channels = variant % 3 == 2 ? 1 : 3;
        made_pictures m;
        made_pictures_init(&m, ctx, S, channels, variant >= 3);
        const augment_source source = {made_pictures_lend, &m, N};
        augment_settings s = everything();
        s.copy_paste_mixup = variant == 4;
        s.perspective = variant == 1 ? 5e-4 : 0.0;
        if (variant == 3) s.degrees = s.shear = 0;
        augmenter *a, *b;
        uint8_t *one = malloc(3 * PIXELS), *two = malloc(3 * PIXELS);
        assert_int_equal(augmenter_create(ctx, &a), OL_OK);
        int n_seen = 0;
        for (uint32_t index = 0; index < 2 * N; index++) {
            const float *rows_a, *rows_b;
            int n_a, n_b;
            memset(one, 0, 3 * PIXELS);
            memset(two, 1, 3 * PIXELS);
            assert_int_equal(augmenter_create(ctx, &b), OL_OK);
            assert_int_equal(augment_sample(a, &s, &source, 5, 2, index % N, one, &rows_a, &n_a), OL_OK);
            assert_int_equal(augment_sample(b, &s, &source, 5, 2, index % N, two, &rows_b, &n_b), OL_OK);
            assert_memory_equal(one, two, (size_t)channels * PIXELS);
            assert_int_equal(n_a, n_b);
            if (n_a > 0) assert_memory_equal(rows_a, rows_b, (size_t)n_a * 5 * sizeof(float));
            for (int k = 0; k < n_a; k++, rows_a += 5) {
                assert_true(rows_a[0] >= 0 && rows_a[0] < OBJECTS);
                for (int q = 1; q <= 2; q++)
                    assert_true(rows_a[q] - rows_a[q + 2] / 2 > -1e-5f && rows_a[q] + rows_a[q + 2] / 2 < 1.00001f);
            }
            n_seen += n_a;
            augmenter_destroy(b);
        }
        assert_true(n_seen > 0);
        augmenter_destroy(a);
        free(one);
        free(two);
        made_pictures_deinit(&m, ctx);
    }
}

/* With nothing random the sample is the picture in the middle of the tile. */
static void without_draws_the_picture_is_centred(void **state) {
    (void)state;
    made_pictures m;
    made_pictures_init(&m, ctx, S, 3, false);
    const augment_source source = {made_pictures_lend, &m, N};
    augment_settings s = augment_defaults(S);
    augment_close_mosaic(&s);
    s.translate = s.fliplr = s.hsv_h = s.hsv_s = s.hsv_v = 0.0;
    s.scale_low = s.scale_high = 1.0;
    augmenter *a;
    uint8_t *planes = malloc(3 * PIXELS);
    const float *rows;
    int n;
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    const image *im = &m.images[0];
    if (im->height % 2 == 1) m.images[0].height--; /* half a pixel would mix rows */
    const int top = (S - im->height) / 2;
    assert_int_equal(augment_sample(a, &s, &source, 1, 0, 0, planes, &rows, &n), OL_OK);
    for (int y = 0; y < S; y++)
        for (int x = 0; x < S; x++)
            for (int k = 0; k < 3; k++) {
                const bool inside = y >= top && y < top + im->height;
                assert_int_equal(planes[k * PIXELS + y * S + x],
                                 inside ? im->pixels[((y - top) * S + x) * 3 + 2 - k] : 114);
            }
    assert_int_equal(n, OBJECTS);
    for (int k = 0; k < n; k++) {
        const float *e = m.rows[0] + 5 * k, h = (float)im->height / S;
        const float expected[5] = {e[0], e[1], 0.5f + (e[2] - 0.5f) * h, e[3], e[4] * h};
        assert_close("row", rows + 5 * k, expected, 5, 1e-5, 0);
    }
    /* the mirrored sample has the mirrored rows */
    uint8_t *mirrored = malloc(3 * PIXELS);
    float before[5 * OBJECTS];
    memcpy(before, rows, sizeof before);
    s.fliplr = 1.0;
    assert_int_equal(augment_sample(a, &s, &source, 1, 0, 0, mirrored, &rows, &n), OL_OK);
    for (int row = 0; row < 3 * S; row++)
        for (int x = 0; x < S; x++) assert_int_equal(mirrored[row * S + x], planes[row * S + S - 1 - x]);
    for (int k = 0; k < n; k++) assert_true(rows[5 * k + 1] + before[5 * k + 1] > 0.99999f);
    augmenter_destroy(a);
    free(planes);
    free(mirrored);
    made_pictures_deinit(&m, ctx);
}

static void a_failed_fetch_is_passed_on(void **state) {
    (void)state;
    made_pictures m;
    made_pictures_init(&m, ctx, S, 3, false);
    m.fail_at = 2;
    const augment_source source = {made_pictures_lend, &m, N};
    const augment_settings s = augment_defaults(S);
    augmenter *a;
    uint8_t *planes = malloc(3 * PIXELS);
    const float *rows;
    int n;
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    assert_int_equal(augment_sample(a, &s, &source, 1, 0, 2, planes, &rows, &n), OL_ERROR_FORMAT);
    assert_string_equal(ol_context_message(ctx), "picture 2 is gone");
    ctx_clear(ctx);
    m.fail_at = -1;
    assert_int_equal(augment_sample(a, &s, &source, 1, 0, 2, planes, &rows, &n), OL_OK);
    augmenter_destroy(a);
    free(planes);
    made_pictures_deinit(&m, ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(samples_depend_on_their_key_only),
                                       cmocka_unit_test(without_draws_the_picture_is_centred),
                                       cmocka_unit_test(a_failed_fetch_is_passed_on)};
    ctx = test_context();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ol_context_destroy(ctx);
    return failed;
}
