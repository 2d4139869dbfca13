/* Every allocation of reading a set and loading an epoch is made to fail once: an error with a message, nothing lost,
 * nothing half-done handed out. */
#include "golden.h"
#include "tiny_set.h"

#include "data/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct heap {
    long n_until_failure; /* allocations that still succeed; negative: all do */
    long n_blocks;        /* live */
} heap;

static void *counted_realloc(void *user, void *block, size_t bytes) {
    heap *h = user;
    if (bytes == 0) {
        if (block != NULL) __atomic_fetch_sub(&h->n_blocks, 1, __ATOMIC_RELAXED);
        free(block);
        return NULL;
    }
    if (__atomic_fetch_sub(&h->n_until_failure, 1, __ATOMIC_RELAXED) == 0) return NULL;
    if (block == NULL) __atomic_fetch_add(&h->n_blocks, 1, __ATOMIC_RELAXED);
    return realloc(block, bytes);
}

static ol_status one_epoch(ol_context *ctx, const dataset *d, const loader_options *o) {
    loader *l = NULL;
    const batch *b = NULL;
    ol_status status = loader_create(ctx, d, o, &l);
    if (status == OL_OK) status = loader_start(l, 0);
    int n = 0;
    while (status == OL_OK && (status = loader_next(l, &b)) == OL_OK && b != NULL) n += b->n;
    if (status == OL_OK) assert_int_equal(n, d->n);
    loader_destroy(l);
    return status;
}

static ol_status read_and_load(ol_context *ctx, const char *yaml, const char *cache, int workers) {
    data_config c;
    dataset *d = NULL;
    ol_status status = data_config_read(ctx, yaml, NULL, DATA_SPLIT_TRAIN, &c);
    if (status != OL_OK) return status;
    const dataset_options options = {.training = true, .n_threads = workers, .cache_folder = cache};
    status = dataset_open(ctx, &c, &options, &d);
    for (int training = 0; status == OL_OK && training <= 1; training++) {
        const loader_options o = {.training = training != 0,
                                  .batch = 2,
                                  .imgsz = 64,
                                  .stride = 32,
                                  .rect = training == 0,
                                  .workers = workers,
                                  .cache = training ? LOADER_CACHE_DISK : LOADER_CACHE_AUTO,
                                  .cache_folder = cache,
                                  .augment = augment_defaults(64),
                                  .multi_scale = training ? 0.5 : 0};
        status = one_epoch(ctx, d, &o);
    }
    dataset_destroy(d);
    data_config_deinit(&c);
    return status;
}

/* False once the run no longer reaches the failing allocation. */
static bool fails_cleanly(const char *yaml, const char *cache, int workers, long at) {
    heap h = {.n_until_failure = -1};
    const ol_context_options options = {
        .struct_bytes = sizeof options, .realloc_block = counted_realloc, .realloc_user = &h, .n_threads = 1};
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
    h.n_until_failure = at;
    const ol_status status = read_and_load(ctx, yaml, cache, workers);
    const bool reached = h.n_until_failure < 0;
    h.n_until_failure = -1;
    if (reached && (status != OL_ERROR_MEMORY || ol_context_message(ctx)[0] == '\0'))
        fail_msg("allocation %ld: %s: \"%s\"", at, ol_status_name(status), ol_context_message(ctx));
    if (!reached) assert_int_equal(status, OL_OK);
    ol_context_destroy(ctx);
    if (h.n_blocks != 0) fail_msg("allocation %ld: %ld blocks were lost", at, h.n_blocks);
    return reached;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *yaml = tiny_set(&s, 4, 2), *cache = scratch_path(&s, "cache");
    scratch_text(&s, "labels/train/001.txt", "0 .1 .1 .5 .1 .5 .5\n1 .2 .2 .6 .2 .6 .6 .2 .6\n");
    scratch_text(&s, "images/train/bad.png", "no picture");
    for (int workers = 0; workers <= 2; workers += 2) {
        long at = 0;
        while (fails_cleanly(yaml, cache, workers, at)) at++;
        assert_true(at > 100);
    }
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
