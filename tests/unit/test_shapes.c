/* The shapes data set: the same pixels everywhere, boxes that fit, an ordinary data set. */
#include "golden.h"
#include "scratch.h"

#include "data/dataset.h"
#include "data/file_stamp.h"
#include "data/shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void pixels_are_the_same_everywhere(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    image im = {0};
    shapes_object objects[SHAPES_MAX_OBJECTS];
    uint64_t hash = HASH_START;
    for (int i = 0; i < 8; i++) {
        int n = 0;
        assert_int_equal(shapes_draw(ctx, 160, 0, i % 2, i, &im, objects, &n), OL_OK);
        hash = hash_bytes(hash, im.pixels, image_bytes(&im));
        hash = hash_bytes(hash, objects, (size_t)n * sizeof *objects);
    }
    assert_int_equal(hash, UINT64_C(0x8a610113bd3ce429));
    image_deinit(ctx, &im);
    ol_context_destroy(ctx);
}

/* Boxes lie in the picture, in many sizes, and every class is common. */
static void boxes_hold_their_shapes(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    image im = {0};
    shapes_object objects[SHAPES_MAX_OBJECTS];
    int seen[SHAPES_N_CLASSES] = {0}, n_all = 0, smallest = 1 << 30, largest = 0;
    for (int i = 0; i < 64; i++) {
        int n = 0;
        assert_int_equal(shapes_draw(ctx, 320, 0, 0, i, &im, objects, &n), OL_OK);
        assert_in_range(n, 1, SHAPES_MAX_OBJECTS);
        for (int k = 0; k < n; k++) {
            const shapes_object *o = &objects[k];
            assert_true(o->x1 >= 0 && o->y1 >= 0 && o->x2 <= im.width * 256 && o->y2 <= im.height * 256);
            assert_true(o->x2 - o->x1 > 8 * 256 && o->y2 - o->y1 > 8 * 256);
            if (o->x2 - o->x1 < smallest) smallest = o->x2 - o->x1;
            if (o->x2 - o->x1 > largest) largest = o->x2 - o->x1;
            seen[o->cls]++;
            n_all++;
        }
    }
    assert_true(n_all > 200);
    assert_true(smallest < 20 * 256 && largest > 90 * 256);
    for (int c = 0; c < SHAPES_N_CLASSES; c++) assert_true(seen[c] > n_all / 8);
    image_deinit(ctx, &im);
    ol_context_destroy(ctx);
}

static void it_is_an_ordinary_data_set(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    data_config c;
    dataset *d = NULL;
    const char *folder = scratch_path(&s, "my shapes");
    assert_int_equal(shapes_write(s.ctx, folder, 5, 3, 96, 1), OL_OK);
    assert_int_equal(data_config_read(s.ctx, folder, NULL, DATA_SPLIT_TRAIN, &c), OL_OK);
    assert_int_equal(c.nc, SHAPES_N_CLASSES);
    assert_string_equal(c.names[3], "star");
    assert_int_equal(dataset_open(s.ctx, &c, &(dataset_options){.split = DATA_SPLIT_VAL, .cache_folder = ""}, &d),
                     OL_OK);
    assert_int_equal(d->n, 3);
    assert_int_equal(d->n_corrupt + d->n_missing + d->n_empty, 0);
    image im = {0};
    shapes_object objects[SHAPES_MAX_OBJECTS];
    int n = 0;
    assert_int_equal(shapes_draw(s.ctx, 96, 1, 1, 2, &im, objects, &n), OL_OK);
    assert_int_equal(d->items[2].labels.n, n);
    assert_int_equal(d->items[2].w, im.width);
    const float *row = d->items[2].labels.rows;
    const float cx = (float)(objects[0].x1 + objects[0].x2) / 512 / (float)im.width;
    assert_close("centre", row + 1, &cx, 1, 1e-6, 0);
    image_deinit(s.ctx, &im);
    dataset_destroy(d);
    data_config_deinit(&c);
    assert_int_equal(shapes_write(s.ctx, folder, 0, 3, 96, 1), OL_ERROR_ARGUMENT);
    assert_int_equal(shapes_write(s.ctx, folder, 1, 1, 32, 1), OL_ERROR_ARGUMENT);
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_the_same_everywhere),
        cmocka_unit_test(boxes_hold_their_shapes),
        cmocka_unit_test(it_is_an_ordinary_data_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
