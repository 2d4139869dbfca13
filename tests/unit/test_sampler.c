/* Orders and shapes of batches: shuffles, rectangles, random sizes. */
#include "golden.h"

#include "data/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void shuffles_are_permutations_of_seed_and_epoch(void **state) {
    (void)state;
    enum { n = 1000 };
    int32_t a[n], b[n], seen[n] = {0};
    sampler_shuffle(7, 3, a, n);
    sampler_shuffle(7, 3, b, n);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < n; i++) seen[a[i]]++;
    for (int i = 0; i < n; i++) assert_int_equal(seen[i], 1);
    sampler_shuffle(7, 4, b, n);
    assert_memory_not_equal(a, b, sizeof a);
    sampler_shuffle(8, 3, b, n);
    assert_memory_not_equal(a, b, sizeof a);
    int fixed = 0;
    for (int i = 0; i < n; i++) fixed += a[i] == i;
    assert_true(fixed < 10); /* about one is expected */
}

static void every_order_is_equally_likely(void **state) {
    (void)state;
    int counts[6] = {0};
    for (uint32_t epoch = 0; epoch < 6000; epoch++) {
        int32_t o[3];
        sampler_shuffle(1, epoch, o, 3);
        counts[o[0] * 2 + (o[1] > o[2])]++;
    }
    for (int i = 0; i < 6; i++) assert_in_range(counts[i], 850, 1150); /* 5 standard deviations */
}

static int as_int(const value *v) {
    return (int)v->as.integer;
}

static void rect_shapes_equal_the_golden(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *cases = golden_json(&a, "augment/rect_batches.json");
    assert_true(cases->as.list.count >= 3);
    for (size_t c = 0; c < cases->as.list.count; c++) {
        const value *k = cases->as.list.items[c], *hw = value_get(k, "hw"), *shapes = value_get(k, "batch_shapes_hw");
        const int n = (int)hw->as.list.count, batch = as_int(value_get(k, "batch_size"));
        int32_t sizes[64], order[32], found[64];
        for (int i = 0; i < 2 * n; i++) sizes[i] = as_int(hw->as.list.items[i / 2]->as.list.items[i % 2]);
        assert_int_equal(sampler_rect(ctx, sizes, n, batch, as_int(value_get(k, "imgsz")),
                                      as_int(value_get(k, "stride")), value_as_double(value_get(k, "pad")), order,
                                      found),
                         OL_OK);
        for (size_t i = 0; i < 2 * shapes->as.list.count; i++)
            assert_int_equal(found[i], as_int(shapes->as.list.items[i / 2]->as.list.items[i % 2]));
        for (int i = 1; i < n; i++) { /* sorted, and stable among equals */
            const double before = (double)sizes[2 * order[i - 1]] / sizes[2 * order[i - 1] + 1];
            const double here = (double)sizes[2 * order[i]] / sizes[2 * order[i] + 1];
            assert_true(before < here || (before == here && order[i - 1] < order[i]));
        }
    }
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void rect_shapes_of_the_document(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    const int32_t sizes[] = {720, 1280, 1080, 810};
    int32_t order[2], shapes[4];
    assert_int_equal(sampler_rect(ctx, sizes, 2, 1, 320, 32, 0.5, order, shapes), OL_OK);
    const int32_t alone[] = {224, 352, 352, 256};
    assert_memory_equal(shapes, alone, sizeof alone);
    assert_int_equal(sampler_rect(ctx, sizes, 2, 2, 320, 32, 0.5, order, shapes), OL_OK);
    const int32_t together[] = {352, 352};
    assert_memory_equal(shapes, together, sizeof together);
    ol_context_destroy(ctx);
}

static void multi_scale_covers_its_range(void **state) {
    (void)state;
    int low = 100000, high = 0;
    for (uint32_t b = 0; b < 2000; b++) {
        const int s = sampler_multi_scale(0, 0, b, 640, 32, 0.5);
        assert_int_equal(s % 32, 0);
        low = s < low ? s : low;
        high = s > high ? s : high;
    }
    assert_int_equal(low, 320);
    assert_int_equal(high, 960); /* randrange(320, 992) // 32 * 32 */
    assert_int_equal(sampler_multi_scale(0, 0, 5, 640, 32, 0.5), sampler_multi_scale(0, 0, 5, 640, 32, 0.5));
    assert_int_equal(sampler_multi_scale(0, 0, 5, 32, 32, 0.99) % 32, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_are_permutations_of_seed_and_epoch),
        cmocka_unit_test(every_order_is_equally_likely),
        cmocka_unit_test(rect_shapes_equal_the_golden),
        cmocka_unit_test(rect_shapes_of_the_document),
        cmocka_unit_test(multi_scale_covers_its_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
