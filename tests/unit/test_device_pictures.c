/* Pictures made on the device of the test (ONELOOK_TEST_DEVICE) against the host's, byte for byte: training samples of
 * all settings that have recipes, letterboxed pictures, a loader's epochs. Skipped on devices that make no pictures. */
#include "device_case.h"
#include "golden.h"
#include "made_pictures.h"
#include "step_alone.h"
#include "tiny_set.h"

#include "base/rng.h"
#include "data/augment.h"
#include "data/letterbox.h"
#include "data/loader.h"
#include "device/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { S = 40, N = MADE_PICTURES, ROOM = 4 << 20 };

static void make(made_pictures *m, ol_context *ctx, int channels) {
    made_pictures_init(m, ctx, S, channels, true);
    memset(m->images[2].pixels, 77, image_bytes(&m->images[2])); /* grey: no hue */
}

static void device_bytes(device_case *f, const picture_batch *b, uint8_t *out) {
    const size_t offset = 256, bytes = (size_t)b->n * (size_t)b->channels * (size_t)b->h * (size_t)b->w;
    device_buffer *buffer;
    assert_int_equal(device_buffer_create(f->dev, offset + bytes, &buffer), OL_OK);
    if (device_make_pictures(f->dev, b, NULL, buffer, offset) != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
    assert_int_equal(device_buffer_read(buffer, offset, out, bytes), OL_OK);
    device_buffer_destroy(buffer);
}

static void compare(const char *what, const uint8_t *got, const uint8_t *want, int n, int channels, int h, int w) {
    for (int i = 0; i < n * channels * h * w; i++) {
        if (got[i] == want[i]) continue;
        fail_msg("%s: picture %d, plane %d, row %d, column %d is %d instead of %d", what, i / (channels * h * w),
                 i / (h * w) % channels, i / w % h, i % w, got[i], want[i]);
    }
}

static const struct {
    const char *name;
    int channels, h, w; /* 0: S */
    double mosaic, mixup, cutmix, copy_paste, degrees, shear, perspective, flips, bgr, colour;
} cases[] = {
    {"mosaic", 3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0.5, 0, 1},
    {"one picture", 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0.5, 1},
    {"turned", 3, 0, 0, 0.7, 0, 0, 0, 20, 5, 0, 0.5, 0, 1},
    {"tilted", 3, 0, 0, 0.7, 0, 0, 0, 10, 5, 1e-3, 0.5, 0, 0},
    {"mixed", 3, 0, 0, 0.5, 0.8, 0.8, 0, 5, 0, 0, 0.5, 0, 1},
    {"pasted", 3, 0, 0, 0.5, 0, 0, 1, 0, 0, 0, 0, 0, 1},
    {"grey", 1, 0, 0, 0.5, 0.5, 0, 0, 5, 0, 0, 0.5, 0, 1},
    {"rectangular", 3, 33, 70, 0, 0, 0, 0, 0, 0, 0, 0.5, 0, 1},
};

static augment_settings settings_of(size_t i) {
    augment_settings s = augment_defaults(S);
    if (cases[i].h > 0) s.out_height = cases[i].h, s.out_width = cases[i].w;
    s.mosaic = cases[i].mosaic, s.mixup = cases[i].mixup, s.cutmix = cases[i].cutmix;
    s.copy_paste = cases[i].copy_paste, s.degrees = cases[i].degrees, s.shear = cases[i].shear;
    s.perspective = cases[i].perspective, s.flipud = s.fliplr = cases[i].flips, s.bgr = cases[i].bgr;
    s.hsv_h *= 20 * cases[i].colour, s.hsv_s *= cases[i].colour, s.hsv_v *= cases[i].colour;
    return s;
}

static void test_samples_equal_the_host(void **state) {
    device_case *f = *state;
    if (!device_makes_pictures(f->dev)) skip();
    enum { BATCH = 4 };
    recipe_pixels pixels = {.bytes = malloc(ROOM), .capacity = ROOM};
    picture_recipe *recipes = calloc(BATCH, sizeof *recipes);
    assert_true(pixels.bytes != NULL && recipes != NULL);
    int n_layers = 0;
    made_pictures m;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make(&m, f->ctx, cases[i].channels);
        const augment_settings s = settings_of(i);
        const augment_source source = {made_pictures_lend, &m, N};
        const size_t bytes = (size_t)cases[i].channels * (size_t)s.out_height * (size_t)s.out_width;
        uint8_t *want = malloc(BATCH * bytes), *got = malloc(BATCH * bytes);
        augmenter *a;
        assert_int_equal(augmenter_create(f->ctx, &a), OL_OK);
        assert_true(augment_has_recipe(&s));
        atomic_store(&pixels.used, 0);
        for (int k = 0; k < BATCH; k++) {
            const float *rows;
            float kept[64];
            int n, n_kept;
            const uint32_t index = (uint32_t)k * 2 % N;
            assert_int_equal(augment_sample(a, &s, &source, 9, 1, index, want + (size_t)k * bytes, &rows, &n), OL_OK);
            n_kept = n < 12 ? n : 12;
            if (n_kept > 0) memcpy(kept, rows, (size_t)n_kept * 5 * sizeof *kept);
            recipe_writer writer = {.recipe = &recipes[k], .pixels = &pixels};
            assert_int_equal(augment_write_recipe(a, &s, &source, 9, 1, index, &writer, &rows, &n_kept), OL_OK);
            assert_false(writer.full);
            assert_int_equal(n_kept, n);
            if (n > 0) assert_memory_equal(kept, rows, (size_t)(n < 12 ? n : 12) * 5 * sizeof *kept);
            n_layers += recipes[k].n_layers;
        }
        /* one that the host made */
        recipes[1].n_layers = 0;
        const picture_batch batch = {.n = BATCH,
                                     .channels = cases[i].channels,
                                     .h = s.out_height,
                                     .w = s.out_width,
                                     .recipes = recipes,
                                     .pixels = pixels.bytes,
                                     .pixel_bytes = atomic_load(&pixels.used),
                                     .most_pixel_bytes = ROOM,
                                     .planes = want};
        device_bytes(f, &batch, got);
        compare(cases[i].name, got, want, BATCH, batch.channels, batch.h, batch.w);
        augmenter_destroy(a);
        free(want);
        free(got);
        made_pictures_deinit(&m, f->ctx);
    }
    assert_true(n_layers > (int)(sizeof cases / sizeof *cases) * BATCH); /* some were mixed */
    free(pixels.bytes);
    free(recipes);
}

/* A step over one gradient, which stops the run when that is not a number. */
static device_step *step_over(device_case *f, device_buffer *buffers[STEP_ALONE_BUFFERS], float gradient) {
    device_step *step = NULL;
    step_outcome outcome;
    for (int i = 0; i < STEP_ALONE_BUFFERS; i++)
        assert_int_equal(device_buffer_create(f->dev, sizeof(float), &buffers[i]), OL_OK);
    assert_int_equal(device_buffer_write(buffers[0], 0, &gradient, sizeof gradient), OL_OK);
    assert_int_equal(step_alone_take(f->dev, buffers, 1, &step, &outcome), OL_OK);
    assert_true(outcome.stopped == isnan(gradient));
    return step;
}

/* The pictures that stopped a run stay for its diagnosis; those of a run that goes on are replaced. */
static void test_a_stopped_run_keeps_its_pictures(void **state) {
    device_case *f = *state;
    if (!device_makes_pictures(f->dev)) skip();
    enum { H = 3, W = 5 };
    const uint8_t before[H * W] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, pixels[H * W] = {0};
    uint8_t after[H * W];
    picture_recipe *recipe = calloc(1, sizeof *recipe);
    recipe->n_layers = 1;
    recipe->layers[0] = (picture_layer){.inverse = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .separable = 1};
    const picture_batch batch = {.n = 1,
                                 .channels = 1,
                                 .h = H,
                                 .w = W,
                                 .recipes = recipe,
                                 .pixels = pixels,
                                 .pixel_bytes = sizeof pixels,
                                 .most_pixel_bytes = sizeof pixels};
    assert_true(picture_batch_is_whole(&batch));
    for (int stopped = 0; stopped < 2; stopped++) {
        device_buffer *buffers[4], *out;
        device_step *step = step_over(f, buffers, stopped ? NAN : 1.0f);
        assert_int_equal(device_buffer_create(f->dev, sizeof before, &out), OL_OK);
        assert_int_equal(device_buffer_write(out, 0, before, sizeof before), OL_OK);
        if (device_make_pictures(f->dev, &batch, step, out, 0) != OL_OK) fail_msg("%s", ol_context_message(f->ctx));
        assert_int_equal(device_buffer_read(out, 0, after, sizeof after), OL_OK);
        for (int i = 0; i < H * W; i++) assert_int_equal(after[i], stopped ? before[i] : PICTURE_PAD);
        device_step_destroy(step);
        device_buffer_destroy(out);
        for (int i = 0; i < 4; i++) device_buffer_destroy(buffers[i]);
    }
    recipe->n_layers = 0;
    assert_false(picture_batch_is_whole(&batch));
    free(recipe);
}

static void test_no_room(void **state) {
    device_case *f = *state;
    made_pictures m;
    make(&m, f->ctx, 3);
    augment_settings s = augment_defaults(S);
    const augment_source source = {made_pictures_lend, &m, N};
    picture_recipe *recipe = calloc(1, sizeof *recipe);
    recipe_pixels pixels = {.bytes = malloc(100), .capacity = 100};
    recipe_writer writer = {.recipe = recipe, .pixels = &pixels};
    augmenter *a;
    const float *rows;
    int n;
    assert_int_equal(augmenter_create(f->ctx, &a), OL_OK);
    assert_int_equal(augment_write_recipe(a, &s, &source, 1, 0, 0, &writer, &rows, &n), OL_OK);
    assert_true(writer.full);
    s.copy_paste = 0.5;
    assert_true(augment_has_recipe(&s));
    s.copy_paste_mixup = true; /* pastes after the warp */
    assert_false(augment_has_recipe(&s));
    augmenter_destroy(a);
    free(pixels.bytes);
    free(recipe);
    made_pictures_deinit(&m, f->ctx);
}

static void test_letterboxed_pictures_equal_the_host(void **state) {
    device_case *f = *state;
    if (!device_makes_pictures(f->dev)) skip();
    static const struct {
        int src_h, src_w, h, w, channels;
    } shapes[] = {{50, 31, 64, 64, 3}, {7, 90, 32, 64, 3}, {64, 64, 64, 64, 3}, {1, 1, 32, 32, 3}, {33, 40, 64, 32, 1}};
    image scratch = {0};
    rng r = rng_stream(4, RNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int h = shapes[i].h, w = shapes[i].w, c = shapes[i].channels;
        image src = {0};
        assert_int_equal(image_reserve(f->ctx, &src, shapes[i].src_h, shapes[i].src_w, c), OL_OK);
        for (size_t k = 0; k < image_bytes(&src); k++) src.pixels[k] = (uint8_t)rng_u32(&r);
        const letterbox_options options = {.height = h, .width = w};
        const letterbox_geometry g = letterbox_plan(src.height, src.width, &options);
        uint8_t want[3 * 64 * 64], got[3 * 64 * 64];
        assert_int_equal(letterbox_planes(f->ctx, &src, &g, &scratch, want), OL_OK);
        const letterbox_recipe recipe = letterbox_recipe_of(&g, src.height, src.width, 0);
        const picture_batch batch = {.kind = PICTURES_LETTERBOXED,
                                     .n = 1,
                                     .channels = c,
                                     .h = h,
                                     .w = w,
                                     .recipes = &recipe,
                                     .pixels = src.pixels,
                                     .pixel_bytes = image_bytes(&src),
                                     .most_pixel_bytes = image_bytes(&src)};
        device_bytes(f, &batch, got);
        compare("letterbox", got, want, 1, c, h, w);
        image_deinit(f->ctx, &src);
    }
    image_deinit(f->ctx, &scratch);
}

typedef struct set {
    scratch s;
    data_config c;
    dataset *d;
} set;

static set set_open(void) {
    set t = {.s = scratch_create(NULL, NULL)};
    const dataset_options how = {.split = DATA_SPLIT_TRAIN, .cache_folder = "", .n_threads = 1};
    const char *yaml = tiny_set(&t.s, 5, 1);
    if (data_config_read(t.s.ctx, yaml, NULL, DATA_SPLIT_TRAIN, &t.c) != OL_OK ||
        dataset_open(t.s.ctx, &t.c, &how, &t.d) != OL_OK)
        fail_msg("%s", ol_context_message(t.s.ctx));
    return t;
}

static void set_close(set *t) {
    dataset_destroy(t->d);
    data_config_deinit(&t->c);
    scratch_destroy(&t->s);
}

/* An epoch of `n` batches on the host, then from recipes. Returns how many samples the host made all the same. */
static int compare_epoch(device_case *f, const set *t, const loader_options *o, int n) {
    enum { SIDE = 32, MOST = 5 };
    static uint8_t want[3][MOST * 3 * SIDE * SIDE], got[MOST * 3 * SIDE * SIDE];
    int by_host = 0;
    loader *l;
    assert_int_equal(loader_create(t->s.ctx, t->d, o, &l), OL_OK);
    for (int on = 0; on < 2; on++) {
        const batch *b;
        loader_give_recipes(l, on == 1);
        assert_int_equal(loader_start(l, 0), OL_OK);
        for (int i = 0; i < n; i++) {
            assert_int_equal(loader_next(l, &b), OL_OK);
            assert_int_equal(b->recipes != NULL, on);
            if (on == 0) memcpy(want[i], b->images, (size_t)b->n * 3 * SIDE * SIDE);
            if (on == 0) continue;
            for (int k = 0; k < b->n; k++) by_host += ((const picture_recipe *)b->recipes->recipes)[k].n_layers == 0;
            device_bytes(f, b->recipes, got);
            compare("loader", got, want[i], b->n, 3, SIDE, SIDE);
        }
        assert_int_equal(loader_next(l, &b), OL_OK);
        assert_null(b);
    }
    loader_destroy(l);
    return by_host;
}

static void test_loader_gives_the_same_batches(void **state) {
    device_case *f = *state;
    if (!device_makes_pictures(f->dev)) skip();
    set t = set_open();
    loader_options o = {.training = true, .batch = 2, .imgsz = 32, .workers = 2, .seed = 3, .maker = f->dev};
    o.augment = augment_defaults(32);
    assert_int_equal(compare_epoch(f, &t, &o, 3), 0);
    /* room for the pixels of some samples alone */
    o.batch = 5;
    o.recipe_room = 2.0;
    const int by_host = compare_epoch(f, &t, &o, 1);
    assert_true(by_host > 0 && by_host < 5);
    set_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_equal_the_host, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_a_stopped_run_keeps_its_pictures, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_no_room, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_letterboxed_pictures_equal_the_host, device_case_open, device_case_close),
        cmocka_unit_test_setup_teardown(test_loader_gives_the_same_batches, device_case_open, device_case_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
