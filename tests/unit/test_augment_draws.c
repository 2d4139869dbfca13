/* How what augmentation draws is distributed, on made-up pictures: ranges, means and spreads over many samples, each
 * limit five standard errors wide. And the survival test of boxes at its limits. */
#include "golden.h"

#include "data/augment.h"
#include "data/objects.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { S = 64, N = 5, PIXELS = S * S, SAMPLES = 1000 };

static ol_context *ctx;

/* Picture i is one grey, 40 + 40 i, with one box in the middle of half its sides. */
typedef struct plain_set {
    image images[N];
    float row[5];
} plain_set;

static ol_status lend(void *user, ol_context *c, uint32_t index, image *storage, augment_picture *picture) {
    plain_set *set = user;
    (void)c;
    (void)storage;
    *picture = (augment_picture){&set->images[index], {.n = 1, .rows = set->row}};
    return OL_OK;
}

static int grey_of(int picture) {
    return 40 + 40 * picture;
}

static plain_set make(void) {
    plain_set set = {.row = {0, 0.5f, 0.5f, 0.5f, 0.5f}};
    for (int i = 0; i < N; i++) {
        assert_int_equal(image_reserve(ctx, &set.images[i], S, S, 3), OL_OK);
        memset(set.images[i].pixels, grey_of(i), image_bytes(&set.images[i]));
    }
    return set;
}

static void unmake(plain_set *set) {
    for (int i = 0; i < N; i++) image_deinit(ctx, &set->images[i]);
}

/* Nothing is drawn but what the test turns on. */
static augment_settings nothing(void) {
    augment_settings s = augment_defaults(S);
    augment_close_mosaic(&s);
    s.translate = s.fliplr = s.hsv_h = s.hsv_s = s.hsv_v = 0.0;
    s.scale_low = s.scale_high = 1.0;
    return s;
}

/* Mean and spread of a drawn number. */
typedef struct spread {
    double sum, squares, low, high;
    int n;
} spread;

static void spread_add(spread *d, double x) {
    d->low = d->n == 0 || x < d->low ? x : d->low;
    d->high = d->n == 0 || x > d->high ? x : d->high;
    d->sum += x;
    d->squares += x * x;
    d->n++;
}

static void assert_uniform(const char *what, const spread *d, double low, double high) {
    const double width = high - low, mean = d->sum / d->n, error = width / sqrt(12.0 * d->n);
    const double deviation = sqrt(d->squares / d->n - mean * mean);
    if (fabs(mean - (low + high) / 2) > 5 * error || fabs(deviation / (width / sqrt(12.0)) - 1) > 0.1 ||
        d->low < low - 0.02 * width || d->high > high + 0.02 * width)
        fail_msg("%s: mean %g, deviation %g, range %g to %g; uniform in %g to %g is expected", what, mean, deviation,
                 d->low, d->high, low, high);
}

typedef void (*look_fn)(void *user, const uint8_t *planes, const float *rows, int n);

static void draw_samples(const augment_settings *s, look_fn look, void *user) {
    plain_set set = make();
    const augment_source source = {lend, &set, N};
    augmenter *a;
    uint8_t *planes = malloc(3 * PIXELS);
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const float *rows;
        int n;
        assert_int_equal(augment_sample(a, s, &source, 11, i / N, i % N, planes, &rows, &n), OL_OK);
        look(user, planes, rows, n);
    }
    augmenter_destroy(a);
    free(planes);
    unmake(&set);
}

typedef struct mosaics {
    spread x, y;
    int partners[N];
} mosaics;

/* The sample is the middle of the canvas: each quarter tells its picture, and where the colours meet is the centre. */
static void look_at_mosaic(void *user, const uint8_t *planes, const float *rows, int n) {
    mosaics *m = user;
    (void)rows;
    (void)n;
    const int corners[4] = {planes[0], planes[S - 1], planes[PIXELS - S], planes[PIXELS - 1]};
    int x = 0, y = 0;
    while (x < S && planes[x] == corners[0]) x++;
    while (y < S && planes[y * S] == corners[0]) y++;
    if (corners[1] != corners[0]) spread_add(&m->x, x);
    if (corners[2] != corners[0]) spread_add(&m->y, y);
    for (int k = 1; k < 4; k++)
        for (int i = 0; i < N; i++) m->partners[i] += corners[k] == grey_of(i);
}

static void mosaics_have_their_centres_and_partners_everywhere(void **state) {
    (void)state;
    augment_settings s = nothing();
    mosaics m = {0};
    s.mosaic = 1.0;
    draw_samples(&s, look_at_mosaic, &m);
    assert_true(m.x.n > SAMPLES / 2 && m.y.n > SAMPLES / 2);
    assert_uniform("centre x", &m.x, 0, S);
    assert_uniform("centre y", &m.y, 0, S);
    const double expected = 3.0 * SAMPLES / N, error = sqrt(3.0 * SAMPLES * (1.0 / N) * (1 - 1.0 / N));
    for (int i = 0; i < N; i++)
        if (fabs(m.partners[i] - expected) > 5 * error)
            fail_msg("picture %d is a partner %d times of %g", i, m.partners[i], expected);
}

static void look_at_place(void *user, const uint8_t *planes, const float *rows, int n) {
    spread *d = user;
    (void)planes;
    assert_int_equal(n, 1);
    spread_add(&d[0], (double)rows[1] - 0.5);
    spread_add(&d[1], (double)rows[2] - 0.5);
    spread_add(&d[2], (double)rows[3] / 0.5);
}

static void places_and_sizes_are_uniform(void **state) {
    (void)state;
    const augment_settings defaults = augment_defaults(S);
    augment_settings s = nothing();
    spread moved[3] = {{0}}, scaled[3] = {{0}};
    s.translate = defaults.translate;
    draw_samples(&s, look_at_place, moved);
    assert_uniform("translation x", &moved[0], -0.1, 0.1);
    assert_uniform("translation y", &moved[1], -0.1, 0.1);
    s = nothing();
    s.scale_low = defaults.scale_low;
    s.scale_high = defaults.scale_high;
    draw_samples(&s, look_at_place, scaled);
    assert_uniform("scale", &scaled[2], 0.5, 1.5);
}

static void the_defaults_are_those_of_the_field(void **state) {
    (void)state;
    const augment_settings s = augment_defaults(S);
    const double got[] = {s.mosaic,    s.mixup,      s.cutmix, s.copy_paste,  s.degrees, s.translate,
                          s.scale_low, s.scale_high, s.shear,  s.perspective, s.hsv_h,   s.hsv_s,
                          s.hsv_v,     s.flipud,     s.fliplr, s.bgr};
    const double wanted[] = {1, 0, 0, 0, 0, 0.1, 0.5, 1.5, 0, 0, 0.015, 0.7, 0.4, 0, 0.5, 0};
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++) assert_true(fabs(got[i] - wanted[i]) < 1e-12);
}

/* One picture of one colour with one small box, right of and below the middle. */
static void draw_from_one(const augment_settings *s, const uint8_t bgr[3], look_fn look, void *user) {
    plain_set set = make();
    for (size_t i = 0; i < image_bytes(&set.images[0]); i++) set.images[0].pixels[i] = bgr[i % 3];
    set.row[1] = set.row[2] = 0.7f;
    set.row[3] = set.row[4] = 0.1f;
    const augment_source source = {lend, &set, 1};
    augmenter *a;
    uint8_t *planes = malloc(3 * PIXELS);
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const float *rows;
        int n;
        assert_int_equal(augment_sample(a, s, &source, 11, i, 0, planes, &rows, &n), OL_OK);
        look(user, planes, rows, n);
    }
    augmenter_destroy(a);
    free(planes);
    unmake(&set);
}

typedef struct colours {
    spread hue, saturation, value;
} colours;

/* Of a greenish colour: green is the largest part, blue the smallest. */
static void look_at_colour(void *user, const uint8_t *planes, const float *rows, int n) {
    colours *c = user;
    (void)rows;
    (void)n;
    const double r = planes[0], g = planes[PIXELS], b = planes[2 * PIXELS];
    const double most = fmax(r, fmax(g, b)), least = fmin(r, fmin(g, b));
    spread_add(&c->value, most);
    if (most > 0) spread_add(&c->saturation, (most - least) / most);
    if (most > least) spread_add(&c->hue, 60 + 30 * (b - r) / (most - least)); /* 0 to 180, green is 60 */
}

static void colours_are_jittered_to_both_sides(void **state) {
    (void)state;
    static const uint8_t green[3] = {60, 120, 60}; /* hue 60 of 180, saturation a half */
    augment_settings s = nothing();
    colours seen[3];
    memset(seen, 0, sizeof seen);
    s.hsv_h = 0.1;
    draw_from_one(&s, green, look_at_colour, &seen[0]);
    assert_uniform("hue", &seen[0].hue, 60 - 18, 60 + 18);
    s = nothing();
    s.hsv_s = 0.7;
    draw_from_one(&s, green, look_at_colour, &seen[1]);
    assert_uniform("saturation", &seen[1].saturation, 0.5 * 0.3, 0.5 * 1.7);
    s = nothing();
    s.hsv_v = 0.4;
    draw_from_one(&s, green, look_at_colour, &seen[2]);
    assert_uniform("value", &seen[2].value, 120 * 0.6, 120 * 1.4);
}

/* The box's centre lies (0.2, 0.2) from the middle; y goes down. */
static void look_at_turn(void *user, const uint8_t *planes, const float *rows, int n) {
    (void)planes;
    assert_int_equal(n, 1);
    const double x = (double)rows[1] - 0.5, y = (double)rows[2] - 0.5;
    spread *d = user;
    spread_add(&d[0], 45 - atan2(y, x) * 57.29577951308232);      /* a rotation, counter-clockwise */
    spread_add(&d[1], atan((x - 0.2) / 0.2) * 57.29577951308232); /* a shear along x */
    spread_add(&d[2], atan((y - 0.2) / 0.2) * 57.29577951308232); /* a shear along y */
}

static void turns_and_shears_go_to_both_sides(void **state) {
    (void)state;
    static const uint8_t grey[3] = {99, 99, 99};
    augment_settings s = nothing();
    spread turned[3] = {{0}}, sheared[3] = {{0}};
    s.degrees = 30;
    draw_from_one(&s, grey, look_at_turn, turned);
    assert_uniform("angle", &turned[0], -30, 30);
    s = nothing();
    s.shear = 20;
    draw_from_one(&s, grey, look_at_turn, sheared);
    assert_uniform("shear x", &sheared[1], -20, 20);
    assert_uniform("shear y", &sheared[2], -20, 20);
}

typedef struct turnings {
    int columns, rows, bgr;
} turnings;

static void look_at_flips(void *user, const uint8_t *planes, const float *rows, int n) {
    turnings *t = user;
    assert_int_equal(n, 1);
    t->columns += rows[1] < 0.5f;
    t->rows += rows[2] < 0.5f;
    t->bgr += planes[0] < planes[2 * PIXELS]; /* the picture is red */
}

static void assert_share(const char *what, int count, double share) {
    if (fabs(count - share * SAMPLES) > 5 * sqrt(SAMPLES * share * (1 - share)))
        fail_msg("%s: %d of %d, not a share of %g", what, count, SAMPLES, share);
}

static void flips_and_channel_order_have_their_own_chances(void **state) {
    (void)state;
    static const uint8_t red[3] = {10, 20, 200};
    augment_settings s = nothing();
    turnings t = {0};
    s.fliplr = 0.3, s.flipud = 0.55, s.bgr = 0.8;
    draw_from_one(&s, red, look_at_flips, &t);
    assert_share("fliplr", t.columns, 0.3);
    assert_share("flipud", t.rows, 0.55);
    assert_share("bgr", t.bgr, 0.8);
}

/* Black mixed with 250: the value tells the share. */
static void mixup_draws_beta_32_32(void **state) {
    (void)state;
    augment_settings s = nothing();
    spread share = {0};
    s.mixup = 1.0;
    plain_set set = make();
    memset(set.images[0].pixels, 0, image_bytes(&set.images[0]));
    memset(set.images[1].pixels, 250, image_bytes(&set.images[1]));
    const augment_source source = {lend, &set, 2};
    augmenter *a;
    uint8_t *planes = malloc(3 * PIXELS);
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    for (uint32_t i = 0; i < 2 * SAMPLES; i++) {
        const float *rows;
        int n;
        assert_int_equal(augment_sample(a, &s, &source, 11, i, 0, planes, &rows, &n), OL_OK);
        if (planes[PIXELS / 2 + S / 2] > 0) spread_add(&share, planes[PIXELS / 2 + S / 2]); /* not with itself */
    }
    augmenter_destroy(a);
    free(planes);
    unmake(&set);
    const double count = share.n, mean = share.sum / count / 250;
    const double variance = share.squares / count / 62500 - mean * mean, wanted = 1.0 / (4 * 65);
    assert_true(count > 0.8 * SAMPLES && count < 1.2 * SAMPLES);
    assert_true(fabs(mean - 0.5) < 5 * sqrt(wanted / count) + 0.5 / 250);
    if (fabs(variance / wanted - 1) > 5 * sqrt(2 / count)) fail_msg("variance %g, not %g", variance, wanted);
}

/* A box of 10 x 10 at the left border, moved until `share` of it is left; outlined ones may lose more. */
static bool survives(float share, bool outlined) {
    objects o = {0};
    objects_clear(&o);
    float row[5] = {0, 0.5f, 0.5f, 0.5f, 0.5f}, points[8] = {0.25f, 0.25f, 0.75f, 0.25f, 0.75f, 0.75f, 0.25f, 0.75f};
    const int32_t first[2] = {0, 4};
    const label_rows labels = {
        .n = 1, .rows = row, .points = outlined ? points : NULL, .first_point = outlined ? first : NULL};
    const float size = 1000.0f; /* the box spans 250 to 750 */
    assert_int_equal(objects_add_labels(ctx, &o, &labels, 1000, 1000, 0, 0), OL_OK);
    const float move[9] = {1, 0, -750.0f + 500.0f * share, 0, 1, 0, 0, 0, 1};
    objects_warp(&o, move, false, 1.0f, size, size);
    const bool kept = o.n == 1;
    objects_deinit(ctx, &o);
    return kept;
}

static void boxes_survive_by_the_share_that_is_left(void **state) {
    (void)state;
    assert_true(survives(0.101f, false));
    assert_false(survives(0.099f, false));
    assert_true(survives(0.0102f, true)); /* 5 pixels of 500; more than the 2 that a side needs */
    assert_false(survives(0.0098f, true));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mosaics_have_their_centres_and_partners_everywhere),
                                       cmocka_unit_test(places_and_sizes_are_uniform),
                                       cmocka_unit_test(the_defaults_are_those_of_the_field),
                                       cmocka_unit_test(colours_are_jittered_to_both_sides),
                                       cmocka_unit_test(turns_and_shears_go_to_both_sides),
                                       cmocka_unit_test(flips_and_channel_order_have_their_own_chances),
                                       cmocka_unit_test(mixup_draws_beta_32_32),
                                       cmocka_unit_test(boxes_survive_by_the_share_that_is_left)};
    ctx = test_context();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ol_context_destroy(ctx);
    return failed;
}
