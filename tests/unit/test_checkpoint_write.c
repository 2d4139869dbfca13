/* Writing checkpoints and weights, and reading them back: needs nothing but this repository. */
#include "golden.h"
#include "tiny_model.h"

#include "base/file.h"
#include "formats/checkpoint.h"
#include "formats/safetensors.h"
#include "formats/zip_reader.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FIXTURE TESTS_SOURCE_DIR "/tests/fixtures/tiny.pt"

static const char *scratch(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%ld-%s", TESTS_BUILD_DIR, (long)getpid(), name);
    return path;
}

static void assert_lists_equal(const tensor_list *a, const tensor_list *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->items[i].name, b->items[i].name);
        assert_int_equal(a->items[i].t.type, b->items[i].t.type);
        assert_true(shape_equal(&a->items[i].t.shape, &b->items[i].t.shape));
        const size_t n = (size_t)shape_elements(&a->items[i].t.shape) * dtype_bytes(a->items[i].t.type);
        if (memcmp(a->items[i].t.data, b->items[i].t.data, n) != 0) fail_msg("'%s' differs", a->items[i].name);
    }
}

static void read_or_fail(ol_context *ctx, const char *path, checkpoint *c) {
    if (checkpoint_read(ctx, path, c) != OL_OK) fail_msg("%s", ol_context_message(ctx));
}

/* A training state like SGD's after a step: two groups over the first three parameters. */
static void fill_training(checkpoint *c, const model *m) {
    arena *a = &c->arena;
    static int64_t first[2] = {0, 1}, second[1] = {2};
    checkpoint_optimizer *o = &c->optimizer;
    value *options = value_map(a), *args = value_map(a), *stopper = value_map(a), *extra = value_map(a),
          *results = value_map(a), *list = value_list(a);
    assert_int_equal(value_set(a, options, "lr", value_float(a, 0.0123)), OL_OK);
    assert_int_equal(value_set(a, options, "param_group", value_string(a, "weight")), OL_OK);
    assert_int_equal(value_set(a, args, "epochs", value_int(a, 9)), OL_OK);
    assert_int_equal(value_set(a, args, "model", &value_null), OL_OK);
    assert_int_equal(value_set(a, stopper, "best_fitness", value_float(a, 0.25)), OL_OK);
    assert_int_equal(value_set(a, extra, "seed", value_int(a, 1234567890123)), OL_OK);
    assert_int_equal(value_append(a, list, value_float(a, 0.1)), OL_OK);
    assert_int_equal(value_append(a, list, value_float(a, -1e-30)), OL_OK);
    assert_int_equal(value_set(a, results, "time", list), OL_OK);
    o->groups = arena_alloc(a, 2, sizeof *o->groups);
    o->n_groups = 2;
    o->groups[0] = (checkpoint_group){options, first, 2};
    o->groups[1] = (checkpoint_group){options, second, 1};
    for (int i = 0; i < 3; i++) {
        char name[32];
        tensor *t;
        snprintf(name, sizeof name, "%d/momentum_buffer", i);
        assert_int_equal(tensor_list_add(&o->state, name, DTYPE_F32, m->state.items[i].t.shape, &t), OL_OK);
        golden_hash(name, tensor_f32(t), (size_t)shape_elements(&t->shape), -1, 1);
        snprintf(name, sizeof name, "%d/step", i);
        assert_int_equal(tensor_list_add(&o->state, name, DTYPE_F32, (shape){0}, &t), OL_OK);
        *tensor_f32(t) = 41;
    }
    c->has_optimizer = true;
    c->epoch = 3;
    c->updates = 17;
    c->best_fitness = 0.25;
    c->train_args = args;
    c->train_results = results;
    c->stopper = stopper;
    c->extra = extra;
    assert_int_equal(tensor_list_copy(&c->live, &m->state), OL_OK);
    tensor_f32(&c->live.items[0].t)[0] = 0.1f; /* not a half */
}

static void resumable_file_comes_back_whole(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a);
    checkpoint c, back;
    checkpoint_init(&c, ctx);
    assert_int_equal(tensor_list_copy(&c.weights, &m->state), OL_OK);
    fill_training(&c, m);
    const char *path = scratch("resumable.pt");
    if (checkpoint_write(ctx, path, &c, m, true) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    read_or_fail(ctx, path, &back);
    assert_lists_equal(&back.weights, &c.weights); /* the tiny model's weights are halves */
    assert_lists_equal(&back.live, &c.live);
    assert_lists_equal(&back.optimizer.state, &c.optimizer.state);
    assert_int_equal(back.optimizer.n_groups, 2);
    assert_int_equal(back.optimizer.groups[0].n_params, 2);
    assert_int_equal(back.optimizer.groups[1].params[0], 2);
    assert_true(value_get(back.optimizer.groups[0].options, "lr")->as.real == 0.0123);
    assert_null(value_get(back.optimizer.groups[0].options, "params"));
    assert_int_equal(back.epoch, 3);
    assert_int_equal(back.updates, 17);
    assert_true(back.best_fitness == 0.25);
    assert_int_equal(value_get(back.train_args, "epochs")->as.integer, 9);
    assert_true(value_get(back.extra, "seed")->as.integer == 1234567890123);
    assert_true(value_get(back.train_results, "time")->as.list.items[1]->as.real == -1e-30);
    assert_int_equal(back.scaler->as.map.count, 0);
    assert_int_equal(back.nc, 3);
    assert_string_equal(back.names->as.map.items[2]->as.string, "tri'angle");
    assert_string_equal(back.task, "detect");
    assert_string_equal(back.head, "Detect");
    assert_int_equal(back.n_strides, 3);
    assert_true(back.strides[0] == 8 && back.has_one2many && back.has_one2one && !back.fused);
    checkpoint_deinit(&back);
    unlink(path);
    checkpoint_deinit(&c);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void stripped_file_drops_training_and_clamps_halves(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a);
    checkpoint c, back;
    checkpoint_init(&c, ctx);
    assert_int_equal(tensor_list_copy(&c.weights, &m->state), OL_OK);
    fill_training(&c, m);
    c.epoch = -1;
    tensor_f32(&c.weights.items[0].t)[0] = 1e6f;
    tensor_f32(&c.weights.items[0].t)[1] = -1e6f;
    const char *path = scratch("stripped.pt");
    assert_int_equal(checkpoint_write(ctx, path, &c, m, true), OL_OK);
    read_or_fail(ctx, path, &back);
    assert_true(tensor_f32(&back.weights.items[0].t)[0] == 65504.0f &&
                tensor_f32(&back.weights.items[0].t)[1] == -65504.0f);
    assert_int_equal(back.epoch, -1);
    assert_false(back.has_optimizer);
    assert_int_equal(back.live.count, 0);
    assert_true(isnan(back.best_fitness));
    assert_int_equal(back.updates, -1);
    checkpoint_deinit(&back);
    assert_int_equal(checkpoint_write(ctx, path, &c, m, false), OL_OK); /* full precision */
    read_or_fail(ctx, path, &back);
    assert_true(tensor_f32(&back.weights.items[0].t)[0] == 1e6f);
    checkpoint_deinit(&back);
    unlink(path);
    checkpoint_deinit(&c);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void equal_content_gives_equal_aligned_bytes(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a);
    checkpoint c;
    char *bytes[2];
    size_t n[2];
    checkpoint_init(&c, ctx);
    c.date = "2000-01-01T00:00:00+00:00";
    assert_int_equal(tensor_list_copy(&c.weights, &m->state), OL_OK);
    const char *path = scratch("same.pt");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(checkpoint_write(ctx, path, &c, m, true), OL_OK);
        assert_int_equal(file_read(ctx, path, 0, &bytes[i], &n[i]), OL_OK);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    size_t n_entries = 0;
    for (size_t at = 0; at + 30 < n[0] && memcmp(bytes[0] + at, "PK\3\4", 4) == 0; n_entries++) {
        const unsigned char *p = (const unsigned char *)bytes[0] + at;
        const size_t size = p[22] | (size_t)p[23] << 8 | (size_t)p[24] << 16, name = p[26] | (size_t)p[27] << 8,
                     extra = p[28] | (size_t)p[29] << 8;
        assert_int_equal((at + 30 + name + extra) % 64, 0);
        at += 30 + name + extra + size;
    }
    assert_true(n_entries > m->state.count);
    for (int i = 0; i < 2; i++) mem_free(ctx, bytes[i]);
    unlink(path);
    checkpoint_deinit(&c);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void failed_writes_leave_the_old_file(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a);
    checkpoint c, back;
    checkpoint_init(&c, ctx);
    assert_int_equal(tensor_list_copy(&c.weights, &m->state), OL_OK);
    assert_int_equal(checkpoint_write(ctx, "/nonexistent/folder/x.pt", &c, m, true), OL_ERROR_IO);
    assert_non_null(strstr(ol_context_message(ctx), "/nonexistent/folder/x.pt"));
    ctx_clear(ctx);
    const char *path = scratch("kept.pt");
    assert_int_equal(checkpoint_write(ctx, path, &c, m, true), OL_OK);
    checkpoint empty;
    checkpoint_init(&empty, ctx);
    assert_int_equal(checkpoint_write(ctx, path, &empty, m, true), OL_ERROR_ARGUMENT); /* no weights */
    ctx_clear(ctx);
    read_or_fail(ctx, path, &back);
    checkpoint_deinit(&back);
    unlink(path);
    checkpoint_deinit(&c);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void committed_fixture_still_reads(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a), *again = NULL;
    checkpoint c;
    model_source source;
    if (getenv("ONELOOK_WRITE_FIXTURES") != NULL) {
        checkpoint_init(&c, ctx);
        c.date = "2000-01-01T00:00:00+00:00";
        assert_int_equal(tensor_list_copy(&c.weights, &m->state), OL_OK);
        assert_int_equal(checkpoint_write(ctx, FIXTURE, &c, m, true), OL_OK);
        assert_int_equal(safetensors_write(ctx, TESTS_SOURCE_DIR "/tests/fixtures/tiny.safetensors", &c, m, true),
                         OL_OK);
        checkpoint_deinit(&c);
    }
    read_or_fail(ctx, FIXTURE, &c);
    assert_lists_equal(&c.weights, &m->state);
    assert_int_equal(checkpoint_model_source(&a, &c, FIXTURE, &source), OL_OK);
    if (model_create_from_source(ctx, &source, &again) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    assert_lists_equal(&again->state, &m->state);
    assert_string_equal(again->names[2], "tri'angle");
    model_destroy(again);
    model_destroy(m);
    checkpoint_deinit(&c);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void safetensors_come_back(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a), *again = NULL;
    checkpoint c, back;
    model_source source;
    checkpoint_init(&c, ctx);
    assert_int_equal(tensor_list_copy(&c.weights, &m->state), OL_OK);
    for (int half = 0; half < 2; half++) {
        const char *path = scratch("weights.safetensors");
        if (safetensors_write(ctx, path, &c, m, half != 0) != OL_OK) fail_msg("%s", ol_context_message(ctx));
        read_or_fail(ctx, path, &back);
        assert_lists_equal(&back.weights, &m->state);
        assert_string_equal(back.names->as.map.items[2]->as.string, "tri'angle");
        assert_int_equal(back.nc, 3);
        assert_string_equal(back.task, "detect");
        assert_true(back.n_strides == 3 && back.strides[2] == 32 && back.has_one2one && !back.fused);
        assert_int_equal(checkpoint_model_source(&a, &back, path, &source), OL_OK);
        if (model_create_from_source(ctx, &source, &again) != OL_OK) fail_msg("%s", ol_context_message(ctx));
        assert_lists_equal(&again->state, &m->state);
        model_destroy(again);
        checkpoint_deinit(&back);
        unlink(path);
    }
    checkpoint_deinit(&c);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumable_file_comes_back_whole),
        cmocka_unit_test(stripped_file_drops_training_and_clamps_halves),
        cmocka_unit_test(equal_content_gives_equal_aligned_bytes),
        cmocka_unit_test(failed_writes_leave_the_old_file),
        cmocka_unit_test(committed_fixture_still_reads),
        cmocka_unit_test(safetensors_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
