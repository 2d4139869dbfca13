/* Every allocation of the model room fails once: the call reports it, leaks nothing and leaves its outputs alone. */
#include "golden.h"
#include "model/postprocess.h"
#include "model/runner.h"
#include "model/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct allocator {
    long countdown; /* the allocation that fails; below 0: none */
    long live;      /* blocks not freed yet */
} allocator;

static void *counted(void *user, void *block, size_t bytes) {
    allocator *a = user;
    if (bytes == 0) {
        a->live -= block != NULL;
        free(block);
        return NULL;
    }
    if (a->countdown >= 0 && a->countdown-- == 0) return NULL;
    void *fresh = realloc(block, bytes);
    if (fresh != NULL && block == NULL) a->live++;
    return fresh;
}

static const char small_yaml[] = "nc: 3\nend2end: True\nreg_max: 1\nbackbone:\n  - [-1, 1, Conv, [8, 3, 2]]\n"
                                 "  - [-1, 1, C3k2, [16, True]]\n  - [-1, 1, Conv, [128, 3, 2]]\n"
                                 "  - [-1, 1, C2PSA, [128]]\nhead:\n  - [[1, 3], 1, Detect, [nc]]\n";

/* Everything the room does, on a small model. */
static ol_status work(ol_context *ctx) {
    static const char *const names[3] = {"a", "b", "c"}, *const others[3] = {"c", "b", "x"};
    static const uint8_t images[3 * 32 * 32];
    arena a;
    const value *root = NULL;
    model *first = NULL, *second = NULL, *third = NULL;
    device *dev = NULL;
    runner *r = NULL;
    runner_result result;
    detection_list list = {0};
    arena_init(&a, ctx, 0);
    ol_status status = yaml_parse(&a, "small.yaml", small_yaml, strlen(small_yaml), &root);
    const model_spec spec = {.name = "small.yaml", .yaml = root};
    if (status == OL_OK) status = model_create(ctx, &spec, &first);
    if (status == OL_OK) status = model_set_names(first, names, 3);
    if (status == OL_OK) {
        model_initialize(first, 1);
        const model_source source = {
            .name = "small.pt", .yaml = root, .state = &first->state, .names = names, .n_names = 3};
        status = model_create_transferred(ctx, &spec, others, &source, true, 1, &second, NULL);
        if (status == OL_OK) status = model_create_from_source(ctx, &source, &third);
    }
    if (status == OL_OK) status = model_freeze(second, value_int(&a, 1));
    if (status == OL_OK) status = model_log_layers(third);
    if (status == OL_OK) status = model_log_summary(third, false, MODEL_BOTH);
    if (status == OL_OK) status = device_open(ctx, "cpu", &dev);
    if (status == OL_OK) status = runner_create(ctx, dev, third, &(runner_options){.decoded = true}, &r);
    if (status == OL_OK) status = runner_run(r, images, 1, 32, 32, NULL, &result);
    if (status == OL_OK) {
        const nms_options o = {.conf = 0.0F, .iou = 0.5F, .max_det = 30, .multi_label = true};
        status = nms_run(ctx, result.decoded, 3, result.anchors, &o, &list);
        if (status == OL_OK) status = runner_select(r, &o, &list);
    }
    if (status == OL_OK) status = topk_select(ctx, result.decoded, 3, result.anchors, 40, false, &list);
    mem_free(ctx, list.items);
    runner_destroy(r);
    if (dev != NULL) device_close(dev);
    model_destroy(first);
    model_destroy(second);
    model_destroy(third);
    arena_deinit(&a);
    return status;
}

static void test_every_allocation_fails_once(void **state) {
    (void)state;
    long failures = 0;
    for (long n = -1;; n++) {
        allocator a = {.countdown = -1};
        const ol_context_options options = {
            .struct_bytes = sizeof options, .realloc_block = counted, .realloc_user = &a, .n_threads = 1};
        ol_context *ctx = NULL;
        assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
        const long live_before = a.live;
        a.countdown = n;
        const ol_status status = work(ctx);
        const bool fired = n >= 0 && a.countdown < 0;
        if (status == OL_OK && fired && n > 0) {
            /* allowed: a failure that only leaves out an optimisation or a log line */
        } else if (fired) {
            failures++;
            if (status != OL_ERROR_MEMORY) fail_msg("allocation %ld: status %d", n, (int)status);
            assert_true(ol_context_message(ctx)[0] != '\0');
        } else {
            assert_int_equal(status, OL_OK);
        }
        if (a.live != live_before) fail_msg("allocation %ld: %ld blocks leaked", n, a.live - live_before);
        ol_context_destroy(ctx);
        assert_int_equal(a.live, 0);
        if (n >= 0 && !fired) break;
    }
    print_message("%ld allocations failed in turn\n", failures);
    assert_true(failures > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
