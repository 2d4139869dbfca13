/* Transfer from a checkpoint, class-name remapping, freezing, fused files, loading as stored, the runner. */
#include "golden.h"
#include "model/runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct log_lines {
    char last[4][200]; /* the newest lines, oldest first */
} log_lines;

static void keep_line(void *user, ol_log_level level, const char *line) {
    log_lines *log = user;
    (void)level;
    memmove(log->last[0], log->last[1], sizeof log->last - sizeof log->last[0]);
    snprintf(log->last[3], sizeof log->last[3], "%s", line);
}

static ol_context *quiet_context(log_lines *log) {
    const ol_context_options options = {.struct_bytes = sizeof options, .log = keep_line, .log_user = log};
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
    return ctx;
}

static bool logged(const log_lines *log, const char *line) {
    for (int i = 0; i < 4; i++) {
        if (strcmp(log->last[i], line) == 0) return true;
    }
    return false;
}

static model *made(ol_context *ctx, const char *name, int nc, uint64_t seed) {
    model *m;
    if (model_create(ctx, &(model_spec){.name = name, .nc = nc}, &m) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    model_initialize(m, seed);
    /* statistics that differ from the initial ones, so that a missed copy shows */
    for (size_t i = 0; i < m->state.count; i++) {
        tensor *t = &m->state.items[i].t;
        if (t->type == DTYPE_I64) *(int64_t *)t->data = 17;
    }
    return m;
}

static model_source source_of(const model *m) {
    return (model_source){.name = "source.pt",
                          .yaml = m->desc.yaml,
                          .scale = m->desc.scale,
                          .state = &m->state,
                          .names = m->names,
                          .n_names = m->desc.nc};
}

static const float *floats(const model *m, const char *name) {
    const tensor *t = tensor_list_find(&m->state, name);
    if (t == NULL) fail_msg("no '%s'", name);
    return tensor_f32(t);
}

static void test_transfer_counts(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int nc, transferred, total;
    } cases[] = {{"yolo26n.yaml", 7, 696, 708},
                 {"yolo26m.yaml", 3, 756, 768},
                 {"yolo26l.yaml", 3, 1080, 1092},
                 {"yolo26n.yaml", 80, 708, 708}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        log_lines log = {0};
        ol_context *ctx = quiet_context(&log);
        model *from = made(ctx, cases[i].name, 80, 3), *to;
        const model_source source = source_of(from);
        const model_spec spec = {.name = cases[i].name, .nc = cases[i].nc};
        transfer_report report;
        char line[80];
        assert_int_equal(model_create_transferred(ctx, &spec, NULL, &source, true, 1, &to, &report), OL_OK);
        assert_int_equal(report.n_transferred, cases[i].transferred);
        assert_int_equal(report.n_total, cases[i].total);
        snprintf(line, sizeof line, "Transferred %d/%d items from pretrained weights", cases[i].transferred,
                 cases[i].total);
        assert_true(logged(&log, line));
        assert_memory_equal(floats(to, "model.10.cv1.conv.weight"), floats(from, "model.10.cv1.conv.weight"), 4096);
        assert_int_equal(*(int64_t *)tensor_list_find(&to->state, "model.0.bn.num_batches_tracked")->data, 17);
        /* the class branch keeps the source's width */
        assert_int_equal(to->head->class_width, from->head->class_width);
        if (cases[i].nc == 7) {
            const float bias = logf(5.0F / 7.0F / 6400.0F);
            assert_close("bias", floats(to, "model.23.cv3.0.2.bias"), &bias, 1, 1e-5, 0);
        }
        model_destroy(from); /* nothing of the source may be needed afterwards */
        int64_t nc = 0;
        assert_true(value_as_int(value_get(to->desc.yaml, "nc"), &nc) && nc == cases[i].nc);
        assert_int_equal(value_get(to->desc.yaml, "head")->kind, VALUE_LIST);
        model_destroy(to);
        ol_context_destroy(ctx);
    }
}

static void test_class_remap(void **state) {
    (void)state;
    log_lines log = {0};
    ol_context *ctx = quiet_context(&log);
    model *from = made(ctx, "yolo26n.yaml", 80, 3), *to;
    const char *source_names[80], *const names[3] = {" Truck", "zebra fish", "PERSON"};
    for (int i = 0; i < 80; i++) source_names[i] = i == 0 ? "person" : i == 7 ? "truck" : "something";
    assert_int_equal(model_set_names(from, source_names, 80), OL_OK);
    const model_source source = source_of(from);
    const model_spec spec = {.name = "yolo26n.yaml", .nc = 3};
    transfer_report report;
    assert_int_equal(model_create_transferred(ctx, &spec, names, &source, true, 1, &to, &report), OL_OK);
    assert_true(logged(&log, "Remapped 2/3 cls head rows from pretrained weights by class name"));
    assert_true(logged(&log, "Transferred 708/708 items from pretrained weights"));
    static const float fresh[3] = {-8.2532F, -6.8669F, -5.4806F};
    for (int level = 0; level < 3; level++) {
        char name[64];
        snprintf(name, sizeof name, "model.23.one2one_cv3.%d.2.weight", level);
        assert_memory_equal(floats(to, name), floats(from, name) + 7 * 80, 80 * sizeof(float));
        assert_memory_equal(floats(to, name) + 2 * 80, floats(from, name), 80 * sizeof(float));
        snprintf(name, sizeof name, "model.23.cv3.%d.2.bias", level);
        assert_true(floats(to, name)[2] == floats(from, name)[0]);
        assert_close(name, floats(to, name) + 1, &fresh[level], 1, 1e-4, 0);
    }
    assert_string_equal(to->names[1], "zebra fish");
    model_destroy(to);
    assert_int_equal(model_create_transferred(ctx, &spec, names, &source, false, 1, &to, &report), OL_OK);
    assert_int_equal(report.n_transferred, 696);
    assert_int_equal(report.n_remapped, 0);
    model_destroy(to);
    model_destroy(from);
    ol_context_destroy(ctx);
}

static void test_first_conv(void **state) {
    (void)state;
    log_lines log = {0};
    ol_context *ctx = quiet_context(&log);
    model *from = made(ctx, "yolo26n.yaml", 80, 3), *to;
    const model_source source = source_of(from);
    transfer_report report;
    const float *w = floats(from, "model.0.conv.weight");
    assert_int_equal(model_create_transferred(ctx, &(model_spec){.name = "yolo26n.yaml", .channels = 1}, NULL, &source,
                                              true, 1, &to, &report),
                     OL_OK);
    assert_int_equal(report.n_transferred, 708);
    const float sum = w[27 + 4] + w[27 + 9 + 4] + w[27 + 18 + 4];
    assert_close("sum", floats(to, "model.0.conv.weight") + 9 + 4, &sum, 1, 1e-6, 0);
    model_destroy(to);
    assert_int_equal(model_create_transferred(ctx, &(model_spec){.name = "yolo26n.yaml", .channels = 4}, NULL, &source,
                                              true, 1, &to, &report),
                     OL_OK);
    assert_memory_equal(floats(to, "model.0.conv.weight") + 36, w + 27, 27 * sizeof(float));
    assert_int_equal(report.n_transferred, 708);
    model_destroy(to);
    model_destroy(from);
    ol_context_destroy(ctx);
}

static void test_freeze(void **state) {
    (void)state;
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
    model *m = made(ctx, "yolo26n.yaml", 0, 1);
    static const struct {
        const char *freeze;
        int frozen;          /* parameter tensors; -1: an error */
        const char *message; /* a part of it */
    } cases[] = {{"null", 0, NULL},
                 {"0", 0, NULL},
                 {"2", 6, NULL},
                 {"[1]", 3, NULL},
                 {"[23.cv2]", 24, NULL},
                 {"[0, 23.one2one_cv3]", 45, NULL},
                 {"24", -1, "nothing to train"},
                 {"-1", -1, "whole number"},
                 {"[99]", -1, "no layer 99"},
                 {"[[1]]", -1, "not a list"},
                 {"1.5", -1, "whole number"},
                 {"'22'", 27, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena a;
        arena_init(&a, ctx, 0);
        const value *freeze;
        assert_int_equal(yaml_parse(&a, "freeze", cases[i].freeze, strlen(cases[i].freeze), &freeze), OL_OK);
        ctx_clear(ctx);
        const ol_status status = model_freeze(m, freeze);
        if (cases[i].frozen < 0) {
            assert_int_equal(status, OL_ERROR_ARGUMENT);
            if (strstr(ol_context_message(ctx), cases[i].message) == NULL) fail_msg("%s", ol_context_message(ctx));
        } else {
            int n = 0;
            assert_int_equal(status, OL_OK);
            for (size_t k = 0; k < m->state.count; k++) n += m->frozen[k];
            if (n != cases[i].frozen) fail_msg("%s: %d", cases[i].freeze, n);
        }
        arena_deinit(&a);
    }
    const value *one = &(value){.kind = VALUE_INT, .as.integer = 1};
    assert_int_equal(model_freeze(m, one), OL_OK);
    assert_true(module_child(m->root->children[0], "bn")->frozen);
    assert_false(module_child(m->root->children[1], "bn")->frozen);
    model_destroy(m);
    ol_context_destroy(ctx);
}

/* A state dict with only the named entries' prefix left out, and batch norms folded when asked for. */
static void test_load_as_stored(void **state) {
    (void)state;
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
    model *from = made(ctx, "yolo26n.yaml", 7, 3), *to;
    model_source source = source_of(from);
    assert_int_equal(model_create_from_source(ctx, &source, &to), OL_OK);
    assert_int_equal(to->desc.nc, 7);
    assert_true(to->has_one2many && to->has_one2one);
    for (size_t i = 0; i < to->state.count; i++) {
        const tensor *t = &to->state.items[i].t;
        assert_memory_equal(t->data, from->state.items[i].t.data,
                            (size_t)shape_elements(&t->shape) * dtype_bytes(t->type));
    }
    model_destroy(to);
    /* one tensor missing, one too many, one of another shape */
    for (int wrong = 0; wrong < 3; wrong++) {
        tensor_list state_dict;
        tensor_list_init(&state_dict, ctx);
        for (size_t i = 0; i < from->state.count; i++) {
            const named_tensor *t = &from->state.items[i];
            const bool chosen = strcmp(t->name, "model.5.bn.running_var") == 0;
            tensor *copy;
            if (chosen && wrong == 0) continue;
            const shape s = chosen && wrong == 2 ? shape_1d(3) : t->t.shape;
            assert_int_equal(tensor_list_add(&state_dict, t->name, t->t.type, s, &copy), OL_OK);
            memcpy(copy->data, t->t.data, (size_t)shape_elements(&s) * dtype_bytes(t->t.type));
        }
        if (wrong == 1)
            assert_int_equal(tensor_list_add(&state_dict, "model.99.weight", DTYPE_F32, shape_1d(1), NULL), OL_OK);
        source.state = &state_dict;
        to = NULL;
        ctx_clear(ctx);
        assert_int_equal(model_create_from_source(ctx, &source, &to), OL_ERROR_FORMAT);
        assert_null(to);
        assert_non_null(strstr(ol_context_message(ctx), wrong == 1 ? "model.99.weight" : "model.5.bn.running_var"));
        tensor_list_deinit(&state_dict);
    }
    model_destroy(from);
    ol_context_destroy(ctx);
}

static void fill_statistics(model *m) {
    for (size_t i = 0; i < m->state.count; i++) {
        named_tensor *t = &m->state.items[i];
        const size_t n = (size_t)shape_elements(&t->t.shape);
        if (strstr(t->name, ".running_mean") != NULL) golden_hash(t->name, tensor_f32(&t->t), n, -0.3, 0.3);
        if (strstr(t->name, ".running_var") != NULL) golden_hash(t->name, tensor_f32(&t->t), n, 0.5, 1.5);
    }
}

static void run_once(runner *r, const uint8_t *images, int n, int h, int w, float **decoded, runner_result *result) {
    assert_int_equal(runner_run(r, images, n, h, w, NULL, result), OL_OK);
    const size_t count = (size_t)n * (size_t)result->rows * (size_t)result->anchors;
    *decoded = malloc(count * sizeof **decoded);
    assert_non_null(*decoded);
    memcpy(*decoded, result->decoded, count * sizeof **decoded);
}

static void test_runner(void **state) {
    (void)state;
    log_lines log = {0};
    ol_context *ctx = quiet_context(&log);
    device *dev;
    runner *r;
    runner_result result;
    float *one, *two, *again;
    assert_int_equal(device_open(ctx, "cpu", &dev), OL_OK);
    model *m = made(ctx, "yolo26n.yaml", 3, 1);
    fill_statistics(m);
    static uint8_t images[2 * 3 * 64 * 96];
    for (size_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(i * 2654435761u >> 24);
    assert_int_equal(runner_create(ctx, dev, m, &(runner_options){.decoded = true, .raw = true, .max_plans = 2}, &r),
                     OL_OK);
    run_once(r, images, 1, 64, 96, &one, &result);
    assert_int_equal(result.rows, 7);
    assert_int_equal(result.anchors, 126);
    assert_int_equal(result.branch, MODEL_ONE2MANY);
    assert_non_null(result.boxes);
    run_once(r, images, 2, 64, 96, &two, &result);
    assert_close("first image alone and in a batch", two, one, 7 * 126, 1e-4, 1e-4);
    free(two);
    run_once(r, images, 2, 32, 64, &two, &result); /* evicts the first plan */
    run_once(r, images, 1, 64, 96, &again, &result);
    assert_memory_equal(one, again, 7 * 126 * sizeof(float));
    free(two);
    free(again);
    /* other weights reach the plans that exist */
    model *other = made(ctx, "yolo26n.yaml", 3, 2);
    fill_statistics(other);
    assert_int_equal(runner_set_weights(r, &other->state), OL_OK);
    run_once(r, images, 1, 64, 96, &again, &result);
    assert_memory_not_equal(one, again, 7 * 126 * sizeof(float));
    free(again);
    assert_int_equal(runner_set_weights(r, &m->state), OL_OK);
    run_once(r, images, 1, 64, 96, &again, &result);
    assert_memory_equal(one, again, 7 * 126 * sizeof(float));
    free(again);
    /* sizes the network cannot take */
    assert_int_equal(runner_run(r, images, 1, 60, 96, NULL, &result), OL_ERROR_ARGUMENT);
    assert_non_null(strstr(ol_context_message(ctx), "multiple of the model's largest stride 32"));
    runner_destroy(r);
    free(one);
    model_destroy(other);
    model_destroy(m);
    device_close(dev);
    ol_context_destroy(ctx);
}

/* Grey and four-channel pictures, a model without the one-to-one branch, the smallest picture, losses beside the
 * outputs. */
static void test_runner_of_odd_models(void **state) {
    (void)state;
    static const char plain[] = "nc: 2\nend2end: False\nreg_max: 1\nbackbone:\n  - [-1, 1, Conv, [8, 3, 2]]\n"
                                "  - [-1, 1, Conv, [16, 3, 2]]\n  - [-1, 1, Conv, [16, 3, 2]]\n"
                                "head:\n  - [[1, 2], 1, Detect, [nc]]\n";
    log_lines log = {0};
    ol_context *ctx = quiet_context(&log);
    device *dev;
    arena a;
    const value *root;
    arena_init(&a, ctx, 0);
    assert_int_equal(device_open(ctx, "cpu", &dev), OL_OK);
    assert_int_equal(yaml_parse(&a, "plain.yaml", plain, strlen(plain), &root), OL_OK);
    const struct {
        model_spec spec;
        int h, w, anchors;
    } cases[] = {{{.name = "yolo26n.yaml", .channels = 1, .nc = 1}, 32, 32, 21},
                 {{.name = "yolo26n.yaml", .channels = 4, .nc = 200}, 96, 32, 63},
                 {{.name = "plain.yaml", .yaml = root}, 8, 24, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model *m;
        runner *r;
        runner_result result;
        static uint8_t images[2 * 4 * 96 * 96];
        for (size_t k = 0; k < sizeof images; k++) images[k] = (uint8_t)(k * 40503u >> 8);
        assert_int_equal(model_create(ctx, &cases[i].spec, &m), OL_OK);
        model_initialize(m, 1);
        float rows[2 * 3 * 5] = {0, 0.5F, 0.5F, 0.6F, 0.7F}, gains[205] = {7.5F, 0.5F, 1.5F, 1, 2};
        const int32_t count[2] = {1, 0};
        for (int c = 5; c < 205; c++) gains[c] = 1.0F;
        const runner_targets targets = {.rows = rows, .count = count, .max_targets = 3, .gains = gains};
        assert_int_equal(
            runner_create(ctx, dev, m, &(runner_options){.decode = MODEL_ONE2ONE, .decoded = true, .loss = true}, &r),
            OL_OK);
        if (runner_run(r, images, 2, cases[i].h, cases[i].w, &targets, &result) != OL_OK) {
            fail_msg("%s", ol_context_message(ctx));
        }
        assert_int_equal(result.anchors, cases[i].anchors);
        assert_int_equal(result.branch, i == 2 ? MODEL_ONE2MANY : MODEL_ONE2ONE);
        for (int k = 0; k < 3; k++) assert_true(isfinite(result.loss_items[k]) && result.loss_items[k] > 0);
        for (int k = 0; k < 2 * result.rows * result.anchors; k++) assert_true(isfinite(result.decoded[k]));
        runner_destroy(r);
        model_destroy(m);
    }
    device_close(dev);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

/* What fusing keeps gives the same outputs when it is read back. */
static void test_fused_source(void **state) {
    (void)state;
    log_lines log = {0};
    ol_context *ctx = quiet_context(&log);
    model *from = made(ctx, "yolo26n.yaml", 3, 1), *to;
    tensor_list folded, kept;
    fill_statistics(from);
    tensor_list_init(&folded, ctx);
    tensor_list_init(&kept, ctx);
    assert_int_equal(model_fold(from, &from->state, &folded), OL_OK);
    for (size_t i = 0; i < folded.count; i++) {
        const named_tensor *t = &folded.items[i];
        tensor *copy;
        if (strstr(t->name, "one2one_") != NULL) continue;
        assert_int_equal(tensor_list_add(&kept, t->name, t->t.type, t->t.shape, &copy), OL_OK);
        memcpy(copy->data, t->t.data, (size_t)shape_elements(&t->t.shape) * sizeof(float));
    }
    assert_int_equal(kept.count, 204);
    model_source source = source_of(from);
    source.state = &kept;
    assert_int_equal(model_create_from_source(ctx, &source, &to), OL_OK);
    assert_true(to->has_one2many && !to->has_one2one);
    tensor_list again;
    tensor_list_init(&again, ctx);
    assert_int_equal(model_fold(to, &to->state, &again), OL_OK);
    for (size_t i = 0; i < kept.count; i++) {
        const tensor *t = &kept.items[i].t, *u = tensor_list_find(&again, kept.items[i].name);
        assert_close(kept.items[i].name, tensor_f32(u), tensor_f32(t), (size_t)shape_elements(&t->shape), 1e-7, 1e-6);
    }
    device *dev;
    runner *r;
    runner_result result;
    assert_int_equal(device_open(ctx, "cpu", &dev), OL_OK);
    assert_int_equal(runner_create(ctx, dev, to, &(runner_options){.decode = MODEL_ONE2ONE}, &r), OL_OK);
    assert_non_null(strstr(log.last[3], "no one-to-one head"));
    static const uint8_t black[3 * 32 * 32];
    assert_int_equal(runner_run(r, black, 1, 32, 32, NULL, &result), OL_OK);
    assert_int_equal(result.branch, MODEL_ONE2MANY);
    runner_destroy(r);
    device_close(dev);
    model_destroy(to);
    transfer_report report; /* training from it is possible but warned of */
    assert_int_equal(model_create_transferred(ctx, &(model_spec){.name = "yolo26n.yaml", .nc = 3}, NULL, &source, true,
                                              1, &to, &report),
                     OL_OK);
    assert_non_null(strstr(log.last[2], "fused weights"));
    assert_true(report.n_transferred < 200);
    model_destroy(to);
    tensor_list_deinit(&folded);
    tensor_list_deinit(&kept);
    tensor_list_deinit(&again);
    model_destroy(from);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfer_counts), cmocka_unit_test(test_class_remap),
        cmocka_unit_test(test_first_conv),      cmocka_unit_test(test_freeze),
        cmocka_unit_test(test_load_as_stored),  cmocka_unit_test(test_runner),
        cmocka_unit_test(test_fused_source),    cmocka_unit_test(test_runner_of_odd_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
