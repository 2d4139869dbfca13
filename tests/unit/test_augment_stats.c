/* The distribution of our random samples against the reference's (golden/augment_stats): boxes of 400
 * passes and pixels of 1,500 samples a case from real pictures; and what must hold for every sample. Needs the
 * shared pictures. */
#include "golden.h"

#include "base/file.h"
#include "base/rng.h"
#include "data/augment.h"
#include "data/recipe.h"
#include "data/resize.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SEED = 0,
    IMGSZ = 320,
    PIXELS = IMGSZ * IMGSZ,
    SAMPLES = 1500, /* with pixels */
    ROUNDS = 400    /* through the set, boxes alone */
};

typedef struct picture_set {
    arena a;
    image *images;
    label_rows *labels;
    uint32_t n;
} picture_set;

static ol_context *ctx;

static ol_status lend(void *user, ol_context *c, uint32_t index, image *storage, augment_picture *picture) {
    const picture_set *set = user;
    (void)c, (void)storage;
    *picture = (augment_picture){&set->images[index], set->labels[index]};
    return OL_OK;
}

/* Pictures of coco128; with `labels_folder` other than its own, only those that have a label file there. */
static picture_set load(const char *labels_folder, bool only_labelled) {
    picture_set set = {0};
    char **paths;
    size_t n;
    arena_init(&set.a, ctx, 0);
    const char *folder = arena_printf(&set.a, "%s/data/coco128/images/train2017", shared_folder());
    assert_int_equal(folder_list(&set.a, folder, false, &paths, &n), OL_OK);
    set.images = calloc(n, sizeof *set.images);
    set.labels = calloc(n, sizeof *set.labels);
    for (size_t i = 0; i < n; i++) {
        const char *label = arena_printf(&set.a, "%s/data/%s/labels/train2017/%s.txt", shared_folder(), labels_folder,
                                         path_stem(&set.a, paths[i]));
        image im = {0};
        char *text = NULL;
        size_t length = 0;
        label_verdict verdict;
        if (only_labelled && !file_exists(label)) continue;
        if (file_exists(label)) {
            assert_int_equal(file_read(ctx, label, 0, &text, &length), OL_OK);
            assert_int_equal(labels_parse(&set.a, text, length, &(label_rules){.nc = 80}, &set.labels[set.n], &verdict),
                             OL_OK);
            mem_free(ctx, text);
            if (verdict.rejected)
                continue; /* some outlines carry COCO's own class numbers: the reference left them out */
        }
        assert_int_equal(image_read(ctx, paths[i], 3, &im), OL_OK);
        assert_int_equal(resize_long_side(ctx, &im, IMGSZ, &set.images[set.n]), OL_OK);
        image_deinit(ctx, &im);
        set.n++;
    }
    return set;
}

static void unload(picture_set *set) {
    for (uint32_t i = 0; i < set->n; i++) image_deinit(ctx, &set->images[i]);
    free(set->images);
    free(set->labels);
    arena_deinit(&set->a);
}

static augment_settings settings_of(const value *arguments) {
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
        {"mosaic", offsetof(augment_settings, mosaic)},        {"mixup", offsetof(augment_settings, mixup)},
        {"cutmix", offsetof(augment_settings, cutmix)},        {"degrees", offsetof(augment_settings, degrees)},
        {"translate", offsetof(augment_settings, translate)},  {"shear", offsetof(augment_settings, shear)},
        {"hsv_h", offsetof(augment_settings, hsv_h)},          {"hsv_s", offsetof(augment_settings, hsv_s)},
        {"hsv_v", offsetof(augment_settings, hsv_v)},          {"flipud", offsetof(augment_settings, flipud)},
        {"fliplr", offsetof(augment_settings, fliplr)},        {"bgr", offsetof(augment_settings, bgr)},
        {"copy_paste", offsetof(augment_settings, copy_paste)}};
    augment_settings s = augment_defaults(IMGSZ);
    for (size_t i = 0; i < arguments->as.map.count; i++) {
        const char *key = arguments->as.map.keys[i]->as.string;
        const double x = value_as_double(arguments->as.map.items[i]);
        bool found = strcmp(key, "scale") == 0;
        if (found) s.scale_low = 1.0 - x, s.scale_high = 1.0 + x;
        for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) {
            if (strcmp(fields[k].name, key) != 0) continue;
            memcpy((char *)&s + fields[k].at, &x, sizeof x);
            found = true;
        }
        if (!found) fail_msg("unknown argument %s", key);
    }
    return s;
}

/* What is kept of a sample: its number of boxes and sums over them (centre, sides, share of them with an area below
 * each recorded quantile). */
enum { CX, CY, W, H, AREAS, SUMS = AREAS + 5 };
typedef struct sample_sums {
    double n, sums[SUMS];
} sample_sums;

typedef struct estimate {
    double mean, error;
} estimate;

/* Mean over all boxes. The boxes of a sample move together, so samples are what is independent; and every picture comes
 * equally often, so only differences among the samples of one picture count. `column` < 0: boxes a sample. */
static estimate estimate_of(const sample_sums *samples, int n, int n_pictures, int column) {
    double boxes = 0.0, sum = 0.0, variance = 0.0;
    for (int i = 0; i < n; i++) {
        boxes += column < 0 ? 1.0 : samples[i].n;
        sum += column < 0 ? samples[i].n : samples[i].sums[column];
    }
    const double mean = sum / boxes;
    for (int picture = 0; picture < n_pictures; picture++) {
        double first = 0.0, squares = 0.0;
        int count = 0;
        for (int i = picture; i < n; i += n_pictures, count++) {
            const double off = column < 0 ? samples[i].n - mean : samples[i].sums[column] - mean * samples[i].n;
            first += off;
            squares += off * off;
        }
        variance += (squares - first * first / count) * count / (count - 1);
    }
    return (estimate){mean, sqrt(fmax(variance, 0.0)) / boxes};
}

typedef struct series {
    double sum, squares;
    int n;
} series;

static void add(series *s, double x) {
    s->sum += x;
    s->squares += x * x;
    s->n++;
}

static estimate of_series(const series *s) {
    const double m = s->sum / s->n;
    return (estimate){m, sqrt(fmax(s->squares / s->n - m * m, 0.0) / s->n)};
}

static int failures;

static bool lies_within(estimate ours, double theirs, double their_error) {
    return fabs(ours.mean - theirs) <= 4 * hypot(ours.error, their_error) + 1e-9;
}

static void compare(const char *which, const char *what, estimate ours, double theirs, double their_error) {
    const bool good = lies_within(ours, theirs, their_error);
    if (!good || getenv("ONELOOK_VERBOSE") != NULL)
        print_message("%s %s: ours %.6g, reference %.6g, %.2f combined errors (%.2g and %.2g)%s\n", which, what,
                      ours.mean, theirs, fabs(ours.mean - theirs) / (hypot(ours.error, their_error) + 1e-12),
                      ours.error, their_error, good ? "" : " <<<");
    failures += !good;
}

static double listed(const value *c, const char *key, size_t i) {
    return value_as_double(value_get(c, key)->as.list.items[i]);
}

static void compare_pair(const char *which, const value *c, const char *key, estimate ours) {
    compare(which, key, ours, listed(c, key, 0), listed(c, key, 1));
}

static void measure_boxes(const char *which, const value *c, const augment_settings *s, picture_set *set) {
    const augment_source source = {lend, set, set->n};
    const int n_samples = ROUNDS * (int)set->n;
    sample_sums *samples = calloc((size_t)n_samples, sizeof *samples);
    const value *quantiles = value_get(c, "area_quantiles");
    series empty = {0};
    recipe_pixels no_room = {0}; /* boxes do not depend on pixels: a recipe without room for them has the same rows */
    picture_recipe recipe = {0};
    augmenter *a;
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    assert_int_equal(quantiles->as.list.count, SUMS - AREAS);
    for (int i = 0; i < n_samples; i++) {
        const float *rows;
        int n;
        const uint32_t round = (uint32_t)i / set->n, index = (uint32_t)i % set->n;
        recipe_writer writer = {.recipe = &recipe, .pixels = &no_room};
        if (augment_write_recipe(a, s, &source, SEED, round, index, &writer, &rows, &n) != OL_OK)
            fail_msg("%s", ol_context_message(ctx));
        samples[i].n = n;
        add(&empty, n == 0);
        for (int k = 0; k < n; k++, rows += 5) {
            for (int q = 0; q < 4; q++) {
                samples[i].sums[CX + q] += (double)rows[1 + q];
                assert_true(rows[1 + q] >= 0.0f && rows[1 + q] <= 1.0f);
            }
            for (size_t q = 0; q < SUMS - AREAS; q++)
                samples[i].sums[AREAS + q] +=
                    (double)(rows[3] * rows[4]) <= value_as_double(quantiles->as.list.items[q]->as.list.items[1]);
        }
    }
    static const char *const names[] = {"centre_x", "centre_y", "width", "height"};
    compare_pair(which, c, "boxes_per_picture", estimate_of(samples, n_samples, (int)set->n, -1));
    for (int q = 0; q < 4; q++) {
        const estimate e = estimate_of(samples, n_samples, (int)set->n, CX + q);
        compare_pair(which, c, names[q], e);
        if (q > 1) continue; /* what this test is able to see: centres that are off by 1 % of the side */
        const double theirs = listed(c, names[q], 0), their_error = listed(c, names[q], 1);
        assert_false(lies_within((estimate){e.mean + 0.01, e.error}, theirs, their_error));
        assert_false(lies_within((estimate){e.mean - 0.01, e.error}, theirs, their_error));
    }
    for (size_t q = 0; q < SUMS - AREAS; q++) {
        const value *row = quantiles->as.list.items[q]; /* share, area below which that share of boxes lies, error */
        compare(which, "area below a quantile", estimate_of(samples, n_samples, (int)set->n, (int)(AREAS + q)),
                value_as_double(row->as.list.items[0]), value_as_double(row->as.list.items[2]));
    }
    compare_pair(which, c, "empty_share", of_series(&empty));
    augmenter_destroy(a);
    free(samples);
}

static void measure_pixels(const char *which, const value *c, const augment_settings *s, picture_set *set) {
    const augment_source source = {lend, set, set->n};
    series rgb[3] = {0}, deviation = {0}, pad = {0};
    uint8_t *planes = malloc(3 * PIXELS);
    augmenter *a;
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const float *rows;
        int n;
        if (augment_sample(a, s, &source, SEED, i / set->n, i % set->n, planes, &rows, &n) != OL_OK)
            fail_msg("%s", ol_context_message(ctx));
        double sum = 0, squares = 0;
        size_t grey = 0;
        for (int k = 0; k < 3; k++) {
            uint64_t plane_sum = 0, plane_squares = 0;
            for (size_t p = 0; p < PIXELS; p++) {
                const unsigned x = planes[(size_t)k * PIXELS + p];
                plane_sum += x;
                plane_squares += x * x;
            }
            add(&rgb[k], (double)plane_sum / 255 / PIXELS);
            sum += (double)plane_sum / 255;
            squares += (double)plane_squares / (255 * 255);
        }
        for (size_t p = 0; p < PIXELS; p++)
            grey += planes[p] == 114 && planes[PIXELS + p] == 114 && planes[2 * PIXELS + p] == 114;
        add(&deviation, sqrt(squares / (3 * PIXELS) - pow(sum / (3 * PIXELS), 2)));
        add(&pad, (double)grey / PIXELS);
    }
    const struct {
        const char *name;
        const series *s;
    } rows[] = {
        {"red", &rgb[0]}, {"green", &rgb[1]}, {"blue", &rgb[2]}, {"pixel_std", &deviation}, {"pad_share", &pad}};
    /* Few samples hold most of the padding (colour jitter leaves its value in one of a hundred): their spread is that
     * of the longer run unless ours is larger. */
    const double more = sqrt(value_as_double(value_get(c, "samples")) / SAMPLES);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        estimate e = of_series(rows[i].s);
        e.error = fmax(e.error, more * listed(c, rows[i].name, 1));
        compare_pair(which, c, rows[i].name, e);
    }
    augmenter_destroy(a);
    free(planes);
}

static void run_cases(const char *golden, const char *labels_folder, bool only_labelled) {
    arena a;
    arena_init(&a, ctx, 0);
    picture_set set = load(labels_folder, only_labelled);
    const value *cases = golden_json(&a, golden);
    failures = 0;
    for (size_t i = 0; i < cases->as.map.count; i++) {
        const char *which = cases->as.map.keys[i]->as.string;
        const value *c = cases->as.map.items[i];
        const augment_settings settings = settings_of(value_get(c, "arguments"));
        measure_boxes(which, c, &settings, &set);
        measure_pixels(which, c, &settings, &set);
    }
    unload(&set);
    arena_deinit(&a);
    assert_int_equal(failures, 0);
}

static void boxes(void **state) {
    (void)state;
    run_cases("augment_stats/stats.json", "coco128", false);
}

static void outlines(void **state) {
    (void)state;
    run_cases("augment_stats/stats-polygons.json", "coco128-polygons", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(boxes), cmocka_unit_test(outlines)};
    const char *shared = shared_folder();
    skip_without(shared, "the folder of shared pictures (ONELOOK_SHARED)");
    ctx = test_context();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ol_context_destroy(ctx);
    return failed;
}
