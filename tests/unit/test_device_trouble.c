/* Devices with memory of their own that runs out, and devices that go away during a run: batch=-1, messages, files. */
#include "golden.h"
#include "scratch.h"
#include "tiny_model.h"
#include "tiny_set.h"
#include "train_case.h"

#include "api/batch_choice.h"
#include "base/file.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The CPU with a given amount of memory, as a GPU reports it; and one that fails after so many launches. */
static device_api pretended;
static const device_api *honest;
static uint64_t free_now, total_now;
static long launches_left;

static bool memory_told = true;
static bool memory_pretended(device *dev, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)dev;
    if (!memory_told) return false;
    *free_bytes = free_now;
    *total_bytes = total_now;
    return true;
}

static void properties_pretended(const device *dev, device_properties *out) {
    honest->properties(dev, out);
    out->host_memory = false;
    out->memory_bytes = total_now;
}

static ol_status launch_until(device *dev, kernel *k, const kernel_memory *memory) {
    if (launches_left-- > 0) return honest->launch(dev, k, memory);
    return ctx_fail(dev->ctx, OL_ERROR_DEVICE, "hip:0: error 719 while waiting for the device");
}

static device *device_pretended(ol_context *ctx) {
    device *dev = NULL;
    assert_int_equal(device_open(ctx, "cpu", &dev), OL_OK);
    honest = dev->api;
    pretended = *honest;
    pretended.memory = memory_pretended;
    dev->api = &pretended;
    return dev;
}

static train_fit fit_make(ol_context *ctx, arena *a, device *dev) {
    return (train_fit){.ctx = ctx, .dev = dev, .model = tiny_model(a), .size = 64, .n_images = 4096, .max_targets = 8};
}

static settings *settings_make(ol_context *ctx, settings *s, const char *batch) {
    assert_int_equal(settings_init(s, ctx), OL_OK);
    assert_int_equal(settings_set_text(s, "batch", batch), OL_OK);
    return s;
}

static void the_batch_fits_and_is_nearly_the_largest(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    device *dev = device_pretended(ctx);
    train_fit fit = fit_make(ctx, &a, dev);
    uint64_t at_20 = 0, used = 0, more = 0;
    int batch = 0;
    assert_int_equal(train_fit_bytes(&fit, 20, &at_20), OL_OK);
    assert_int_equal(train_fit_batch(&fit, at_20, &batch), OL_OK);
    assert_true(batch >= 20);
    assert_int_equal(train_fit_bytes(&fit, batch, &used), OL_OK);
    assert_int_equal(train_fit_bytes(&fit, batch + 1 + batch / 16, &more), OL_OK);
    assert_true(used <= at_20 && more > at_20);
    assert_int_equal(train_fit_batch(&fit, 1000, &batch), OL_OK);
    assert_int_equal(batch, 0);
    fit.n_images = 5; /* a batch is never larger than the set */
    assert_int_equal(train_fit_batch(&fit, at_20, &batch), OL_OK);
    assert_int_equal(batch, 5);
    model_destroy((model *)(uintptr_t)fit.model);
    dev->api = honest;
    device_close(dev);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

/* The measure is what a plan then takes. */
static void measured_is_what_is_taken(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    graph *g = NULL;
    plan *p = NULL;
    device *dev = NULL;
    tensor_ref x, y;
    size_t measured = 0;
    assert_int_equal(device_open(ctx, test_device_name(), &dev), OL_OK);
    assert_int_equal(graph_create(ctx, &g), OL_OK);
    assert_int_equal(graph_tensor_add(g, "x", ROLE_INPUT, DTYPE_F32, shape_4d(2, 16, 20, 20), &x), OL_OK);
    assert_int_equal(graph_op_add(g, OP_UPSAMPLE2, NULL, &x, 1, &y), OL_OK);
    graph_output_mark(g, y, "y");
    assert_int_equal(plan_measure(ctx, dev, g, &measured), OL_OK);
    assert_int_equal(plan_create(ctx, dev, g, &p), OL_OK);
    assert_int_equal(measured, plan_memory_bytes(p));
    assert_true(measured > 5 * 2 * 16 * 20 * 20);
    plan_destroy(p);
    graph_destroy(g);
    device_close(dev);
    ol_context_destroy(ctx);
}

/* A batch fits these bytes, and a somewhat larger one does not. */
static void nearly_fills(const train_fit *fit, int batch, double bytes) {
    uint64_t used = 0, more = 0;
    assert_int_equal(train_fit_bytes(fit, batch, &used), OL_OK);
    assert_int_equal(train_fit_bytes(fit, batch + 1 + batch / 16, &more), OL_OK);
    if ((double)used > bytes || (double)more <= bytes)
        fail_msg("batch %d takes %.3f of what may be used, the next %.3f", batch, (double)used / bytes,
                 (double)more / bytes);
}

static void open_batches_are_chosen(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    device *dev = device_pretended(ctx);
    const train_fit fit = fit_make(ctx, &a, dev);
    settings s;
    uint64_t one = 0;
    int all = 0, part = 0, batch = 0;
    assert_int_equal(train_fit_bytes(&fit, 16, &one), OL_OK);
    total_now = one * 2;
    free_now = total_now;
    assert_int_equal(batch_choose(&fit, settings_make(ctx, &s, "-1"), &all), OL_OK);
    settings_deinit(&s);
    nearly_fills(&fit, all, 0.6 * (double)total_now);
    free_now = one; /* half is in use by others */
    assert_int_equal(batch_choose(&fit, settings_make(ctx, &s, "0.9"), &part), OL_OK);
    settings_deinit(&s);
    nearly_fills(&fit, part, 0.95 * (double)free_now);
    for (int told = 1; told >= 0; told--) { /* the driver does not tell what is free, or nothing at all */
        free_now = 0;
        memory_told = told == 1;
        pretended.properties = properties_pretended;
        assert_int_equal(batch_choose(&fit, settings_make(ctx, &s, "-1"), &batch), OL_OK);
        assert_int_equal(batch, all);
        settings_deinit(&s);
        ctx_fail(ctx, OL_ERROR_MEMORY, "hip:0: out of memory");
        assert_int_equal(batch_explain(&fit, 640), OL_ERROR_MEMORY);
        const char *explained = ol_context_message(ctx);
        if (strstr(explained, "an unknown number of bytes are free; the largest batch that fits") == NULL)
            fail_msg("%s", explained);
    }
    memory_told = true;
    pretended.properties = honest->properties;
    ctx_clear(ctx);
    assert_int_equal(batch_choose(&fit, settings_make(ctx, &s, "7"), &batch), OL_OK);
    assert_int_equal(batch, 7);
    settings_deinit(&s);
    free_now = 1000;
    assert_int_equal(batch_choose(&fit, settings_make(ctx, &s, "-1"), &batch), OL_ERROR_MEMORY);
    settings_deinit(&s);
    assert_non_null(strstr(ol_context_message(ctx), "and one picture at imgsz=64 needs"));
    ctx_clear(ctx);
    /* what the message of a run that ran out says */
    free_now = total_now = one;
    ctx_fail(ctx, OL_ERROR_MEMORY, "hip:0: out of memory");
    assert_int_equal(batch_explain(&fit, 64), OL_ERROR_MEMORY);
    const char *message = ol_context_message(ctx);
    if (strstr(message, "hip:0: out of memory. Training at imgsz=64 needs") == NULL ||
        strstr(message, "the largest batch that fits is batch=1") == NULL)
        fail_msg("%s", message);
    /* what others use is not counted in */
    ctx_clear(ctx);
    free_now = one / 2;
    total_now = 2 * one;
    ctx_fail(ctx, OL_ERROR_MEMORY, "hip:0: out of memory");
    assert_int_equal(batch_explain(&fit, 64), OL_ERROR_MEMORY);
    const char *named = strstr(ol_context_message(ctx), "is batch=");
    assert_non_null(named);
    nearly_fills(&fit, atoi(named + 9), 0.95 * (double)free_now);
    model_destroy((model *)(uintptr_t)fit.model);
    dev->api = honest;
    device_close(dev);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static const char *const short_run[] = {"epochs=4",    "batch=4",   "imgsz=64", "workers=1", "optimizer=SGD",
                                        "plots=False", "val=False", "mosaic=0", NULL};

static void count_epochs(void *user, const train_epoch *epoch) {
    *(int *)user = epoch->epoch;
}

/* The card goes in the middle of a run: the last epoch's file is there, whole, and the message says how to go on. */
static void a_lost_device_leaves_the_last_epoch(void **state) {
    (void)state;
    if (strcmp(test_device_name(), "cpu") != 0) skip(); /* recorded runs do not pass through launch */
    scratch dir = scratch_create(NULL, NULL);
    const char *folder = scratch_path(&dir, "run"), *data = tiny_set(&dir, 8, 2);
    int n_epochs = 0;
    for (long allowed = 1500; n_epochs < 1 || n_epochs > 3; allowed += 500) {
        train_case_options o = {.data = data, .save_dir = folder, .settings = short_run};
        train_case c = train_case_open(&o);
        train_outcome out;
        train_case_model(&c, tiny_model(&c.arena));
        honest = c.dev->api;
        pretended = *honest;
        pretended.launch = launch_until;
        launches_left = allowed;
        c.dev->api = &pretended;
        c.setup.on_epoch = count_epochs;
        c.setup.user = &n_epochs;
        assert_int_equal(train_run(&c.setup, &out), OL_ERROR_DEVICE);
        const char *message = ol_context_message(c.ctx);
        assert_non_null(strstr(message, "error 719"));
        if (n_epochs >= 1 && strstr(message, "resume=True model=") == NULL) fail_msg("%s", message);
        c.dev->api = honest;
        train_case_close(&c);
        assert_true(allowed < 20000);
    }
    checkpoint last;
    const char *path = scratch_path(&dir, "run/weights/last.pt");
    if (checkpoint_read(dir.ctx, path, &last) != OL_OK) fail_msg("%s", ol_context_message(dir.ctx));
    assert_int_equal(last.epoch, n_epochs - 1);
    checkpoint_deinit(&last);
    scratch_destroy(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_batch_fits_and_is_nearly_the_largest),
        cmocka_unit_test(measured_is_what_is_taken),
        cmocka_unit_test(open_batches_are_chosen),
        cmocka_unit_test(a_lost_device_leaves_the_last_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
