/* The pictures of coco128 through data set and loader: counts, shapes of rectangular batches, outlines. */
#include "golden.h"
#include "scratch.h"

#include "base/file.h"
#include "data/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *data_folder(scratch *s) {
    return arena_printf(&s->arena, "%s/data", shared_folder());
}

static dataset *open_known(scratch *s, const char *name) {
    data_config c;
    dataset *d = NULL;
    const dataset_options options = {.split = DATA_SPLIT_VAL, .cache_folder = ""};
    if (data_config_read(s->ctx, name, data_folder(s), DATA_SPLIT_VAL, &c) != OL_OK ||
        dataset_open(s->ctx, &c, &options, &d) != OL_OK)
        fail_msg("%s", ol_context_message(s->ctx));
    data_config_deinit(&c);
    return d;
}

static int index_of(const dataset *d, const char *part) {
    for (int i = 0; i < d->n; i++)
        if (strstr(d->items[i].path, part) != NULL) return i;
    fail_msg("no picture %s", part);
    return -1;
}

static void counts_are_those_of_the_set(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_known(&s, "coco128.yaml");
    assert_int_equal(d->n, 128);
    assert_int_equal(d->n_labels, 929);
    assert_int_equal(d->n_missing + d->n_empty, 2);
    assert_int_equal(d->n_corrupt, 0);
    assert_int_equal(d->nc, 80);
    dataset_destroy(d);
    d = open_known(&s, "coco8");
    assert_int_equal(d->n, 4);
    dataset_destroy(d);
    scratch_destroy(&s);
}

/* Of two pictures of one size at a batch border, the stable order gives the first the smaller shape (data
 * document, 2.15). */
static void rect_batches_break_ties_stably(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_known(&s, "coco128.yaml");
    const loader_options o = {.batch = 8, .imgsz = 640, .stride = 32, .rect = true, .augment = augment_defaults(640)};
    loader *l = NULL;
    assert_int_equal(loader_create(s.ctx, d, &o, &l), OL_OK);
    assert_int_equal(loader_start(l, 0), OL_OK);
    const int a = index_of(d, "0486."), b = index_of(d, "0650.");
    int h[2] = {0, 0}, n = 0;
    for (const batch *x; loader_next(l, &x) == OL_OK && x != NULL;) {
        assert_true(x->h <= 672 && x->w <= 672 && (x->h == 672 || x->w == 672));
        for (int i = 0; i < x->n; i++, n++) {
            if (x->info[i].index == a) h[0] = x->h;
            if (x->info[i].index == b) h[1] = x->h;
        }
    }
    assert_int_equal(n, 128);
    assert_int_equal(h[0], 448);
    assert_int_equal(h[1], 512);
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void outlines_are_read(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *data = data_folder(&s);
    char **labels = NULL;
    size_t n = 0;
    assert_int_equal(
        folder_list(&s.arena, arena_printf(&s.arena, "%s/coco128-polygons/labels", data), true, &labels, &n), OL_OK);
    assert_int_equal(n, 100);
    folder_create(s.ctx, scratch_path(&s, "images/train"));
    folder_create(s.ctx, scratch_path(&s, "labels/train"));
    for (size_t i = 0; i < n; i++) {
        const char *stem = path_stem(&s.arena, labels[i]);
        const char *picture = arena_printf(&s.arena, "%s/coco128/images/train2017/%s.jpg", data, stem);
        assert_int_equal(symlink(picture, scratch_path(&s, arena_printf(&s.arena, "images/train/%s.jpg", stem))), 0);
        assert_int_equal(symlink(labels[i], scratch_path(&s, arena_printf(&s.arena, "labels/train/%s.txt", stem))), 0);
    }
    const char *yaml = scratch_text(&s, "data.yaml", "train: images/train\nval: images/train\nnc: 91\n");
    dataset *d = open_known(&s, yaml);
    assert_int_equal(d->n, 100);
    assert_int_equal(d->n_corrupt, 0);
    assert_true(d->polygons);
    for (int i = 0; i < d->n; i++) /* each box is the hull of its outline */
        for (int k = 0; k < d->items[i].labels.n; k++) {
            const label_rows *rows = &d->items[i].labels;
            float low = 2, high = -1;
            for (int p = rows->first_point[k]; p < rows->first_point[k + 1]; p++) {
                low = rows->points[2 * p] < low ? rows->points[2 * p] : low;
                high = rows->points[2 * p] > high ? rows->points[2 * p] : high;
            }
            assert_true(rows->rows[5 * k + 3] == high - low);
        }
    dataset_destroy(d);
    scratch_destroy(&s);
}

int main(void) {
    skip_without(shared_folder(), "the coco128 pictures");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_set),
        cmocka_unit_test(rect_batches_break_ties_stably),
        cmocka_unit_test(outlines_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
