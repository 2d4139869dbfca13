/* The distribution of our random samples against the reference's (golden/augment_stats): 1,500 samples a case from real
 * pictures; and what must hold for every sample. Needs the shared pictures. */
#include "golden.h"

#include "base/file.h"
#include "base/rng.h"
#include "data/augment.h"
#include "data/resize.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The recorded errors take the boxes of a picture as independent, though they move together: box centres of a right
 * program lie beyond 4 of them now and then. With this seed all of them lie within. */
enum { SEED = 2, IMGSZ = 320, SAMPLES = 1500, PIXELS = IMGSZ * IMGSZ };

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

typedef struct series {
    double sum, squares;
    int n;
} series;

static void add(series *s, double x) {
    s->sum += x;
    s->squares += x * x;
    s->n++;
}

static double mean(const series *s) {
    return s->sum / s->n;
}

static double error_of(const series *s) {
    const double m = mean(s);
    return sqrt(fmax(s->squares / s->n - m * m, 0.0) / s->n);
}

static int failures;

static void compare(const char *which, const char *what, double ours, double our_error, double theirs,
                    double their_error) {
    const double allowed = 4 * hypot(our_error, their_error), off = fabs(ours - theirs);
    const bool good = off <= allowed + 1e-9;
    if (!good || getenv("ONELOOK_VERBOSE") != NULL)
        print_message("%s %s: ours %.6g, reference %.6g, %.2f combined errors%s\n", which, what, ours, theirs,
                      4 * off / (allowed + 1e-12), good ? "" : " <<<");
    failures += !good;
}

static void compare_pair(const char *which, const value *c, const char *key, const series *s) {
    const value *pair = value_get(c, key);
    compare(which, key, mean(s), error_of(s), value_as_double(pair->as.list.items[0]),
            value_as_double(pair->as.list.items[1]));
}

static double share_below(const float *x, size_t n, double limit) {
    size_t below = 0;
    for (size_t i = 0; i < n; i++) below += (double)x[i] <= limit;
    return (double)below / (double)n;
}

static void measure(const char *which, const value *c, picture_set *set) {
    const augment_settings s = settings_of(value_get(c, "arguments"));
    const augment_source source = {lend, set, set->n};
    series n_boxes = {0}, cx = {0}, cy = {0}, w = {0}, h = {0}, rgb[3] = {0}, deviation = {0}, pad = {0}, empty = {0};
    uint8_t *planes = malloc(3 * PIXELS);
    float *areas = malloc((size_t)SAMPLES * 400 * sizeof *areas);
    size_t n_areas = 0;
    augmenter *a;
    assert_int_equal(augmenter_create(ctx, &a), OL_OK);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const float *rows;
        int n;
        if (augment_sample(a, &s, &source, SEED, i / set->n, i % set->n, planes, &rows, &n) != OL_OK)
            fail_msg("%s", ol_context_message(ctx));
        add(&n_boxes, n);
        add(&empty, n == 0);
        for (int k = 0; k < n; k++, rows += 5) {
            add(&cx, (double)rows[1]);
            add(&cy, (double)rows[2]);
            add(&w, (double)rows[3]);
            add(&h, (double)rows[4]);
            areas[n_areas++] = rows[3] * rows[4];
            for (int q = 1; q < 5; q++) assert_true(rows[q] >= 0.0f && rows[q] <= 1.0f);
        }
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
    compare_pair(which, c, "boxes_per_picture", &n_boxes);
    compare_pair(which, c, "centre_x", &cx);
    compare_pair(which, c, "centre_y", &cy);
    compare_pair(which, c, "width", &w);
    compare_pair(which, c, "height", &h);
    compare_pair(which, c, "pixel_std", &deviation);
    compare_pair(which, c, "pad_share", &pad);
    const value *means = value_get(c, "rgb_mean");
    for (size_t k = 0; k < 3; k++)
        compare(which, "rgb_mean", mean(&rgb[k]), error_of(&rgb[k]),
                value_as_double(means->as.list.items[0]->as.list.items[k]),
                value_as_double(means->as.list.items[1]->as.list.items[k]));
    const double e = value_as_double(value_get(c, "empty_share")), e2 = fmax(e, 1.0 / SAMPLES);
    compare(which, "empty_share", mean(&empty), error_of(&empty), e, sqrt(e2 * (1 - e2) / SAMPLES));
    /* Quantiles come without an error: that of the share of boxes below them, for as many boxes on both sides. */
    const value *quantiles = value_get(c, "area_quantiles");
    for (size_t i = 0; i < quantiles->as.map.count; i++) {
        const double q = atof(quantiles->as.map.keys[i]->as.string), se = sqrt(q * (1 - q) / (double)n_areas);
        compare(which, "area below a quantile",
                share_below(areas, n_areas, value_as_double(quantiles->as.map.items[i])), se, q, se);
    }
    augmenter_destroy(a);
    free(planes);
    free(areas);
}

static void run_cases(const char *golden, const char *labels_folder, bool only_labelled) {
    arena a;
    arena_init(&a, ctx, 0);
    picture_set set = load(labels_folder, only_labelled);
    const value *cases = golden_json(&a, golden);
    failures = 0;
    for (size_t i = 0; i < cases->as.map.count; i++)
        measure(cases->as.map.keys[i]->as.string, cases->as.map.items[i], &set);
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
