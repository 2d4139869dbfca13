/* Readers and writers of weights when the n-th allocation fails: an error with a message, nothing leaked, no file left
 * behind. */
#include "golden.h"
#include "tiny_model.h"

#include "base/file.h"
#include "formats/checkpoint.h"
#include "formats/onnx_export.h"
#include "formats/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct allocator {
    long n_left; /* allocations until all fail; negative: never */
    long n_live;
} allocator;

static void *failing_realloc(void *user, void *block, size_t bytes) {
    allocator *a = user;
    if (bytes == 0) {
        if (block != NULL) a->n_live--;
        free(block);
        return NULL;
    }
    if (a->n_left == 0) return NULL;
    if (a->n_left > 0) a->n_left--;
    void *grown = realloc(block, bytes);
    if (grown != NULL && block == NULL) a->n_live++;
    return grown;
}

typedef struct bench {
    allocator allocator;
    ol_context *ctx;
    arena arena;
    model *m;
    checkpoint c; /* the model's weights and some training state */
    char path[1024], *bytes, *safetensors;
    size_t n_bytes, n_safetensors;
} bench;

static ol_status read_checkpoint(bench *b) {
    checkpoint c;
    const ol_status status = checkpoint_read_memory(b->ctx, "x", b->bytes, b->n_bytes, &c);
    if (status == OL_OK) checkpoint_deinit(&c);
    return status;
}

static ol_status read_safetensors(bench *b) {
    checkpoint c;
    const ol_status status = safetensors_read_memory(b->ctx, "x", b->safetensors, b->n_safetensors, &c);
    if (status == OL_OK) checkpoint_deinit(&c);
    return status;
}

static ol_status write_checkpoint(bench *b) {
    return checkpoint_write(b->ctx, b->path, &b->c, b->m, true);
}

static ol_status write_safetensors(bench *b) {
    return safetensors_write(b->ctx, b->path, &b->c, b->m, true);
}

static ol_status write_onnx(bench *b) {
    const onnx_export_options o = {
        .height = 64, .width = 64, .nms = SETTING_TRUE, .dynamic = true, .half = true, .conf = NAN, .iou = NAN};
    return onnx_export(b->ctx, b->path, b->m, &o);
}

static void bench_init(bench *b) {
    *b = (bench){.allocator = {.n_left = -1}};
    const ol_context_options options = {
        .struct_bytes = sizeof options, .realloc_block = failing_realloc, .realloc_user = &b->allocator};
    assert_int_equal(ol_context_create(&options, &b->ctx), OL_OK);
    arena_init(&b->arena, b->ctx, 0);
    b->m = tiny_model(&b->arena);
    checkpoint_init(&b->c, b->ctx);
    assert_int_equal(tensor_list_copy(&b->c.weights, &b->m->state), OL_OK);
    assert_int_equal(tensor_list_copy(&b->c.live, &b->m->state), OL_OK);
    b->c.epoch = 1;
    b->c.train_args = value_map(&b->arena);
    snprintf(b->path, sizeof b->path, "%s/%ld-memory", TESTS_BUILD_DIR, (long)getpid());
    assert_int_equal(write_checkpoint(b), OL_OK);
    assert_int_equal(file_read(b->ctx, b->path, 0, &b->bytes, &b->n_bytes), OL_OK);
    assert_int_equal(write_safetensors(b), OL_OK);
    assert_int_equal(file_read(b->ctx, b->path, 0, &b->safetensors, &b->n_safetensors), OL_OK);
    unlink(b->path);
}

static void bench_deinit(bench *b) {
    mem_free(b->ctx, b->bytes);
    mem_free(b->ctx, b->safetensors);
    checkpoint_deinit(&b->c);
    model_destroy(b->m);
    arena_deinit(&b->arena);
    assert_int_equal(b->allocator.n_live, 1); /* the context */
    ol_context_destroy(b->ctx);
}

/* Every early allocation, then ever fewer of the later ones. */
static void fail_one_after_another(bench *b, const char *what, ol_status (*run)(bench *), bool writes) {
    const long live = b->allocator.n_live;
    long n_failed = 0;
    for (long n = 0;; n += 1 + n / 40) {
        ctx_clear(b->ctx);
        b->allocator.n_left = n;
        const ol_status status = run(b);
        b->allocator.n_left = -1;
        if (b->allocator.n_live != live) fail_msg("%s leaks when allocation %ld fails", what, n);
        if (status == OL_OK) break;
        n_failed++;
        if (strlen(ol_context_message(b->ctx)) == 0) fail_msg("%s has no message when allocation %ld fails", what, n);
        if (writes && file_exists(b->path)) fail_msg("%s leaves a file when allocation %ld fails", what, n);
    }
    assert_true(n_failed > 10);
    unlink(b->path);
    ctx_clear(b->ctx);
}

static void failed_allocations_are_survived(void **state) {
    (void)state;
    bench b;
    bench_init(&b);
    fail_one_after_another(&b, "reading a checkpoint", read_checkpoint, false);
    fail_one_after_another(&b, "reading safetensors", read_safetensors, false);
    fail_one_after_another(&b, "writing a checkpoint", write_checkpoint, true);
    fail_one_after_another(&b, "writing safetensors", write_safetensors, true);
    fail_one_after_another(&b, "exporting ONNX", write_onnx, true);
    bench_deinit(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(failed_allocations_are_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
