/* Descriptions, state-dict names and shapes, parameter counts, initial weights, class names. */
#include "base/file.h"
#include "golden.h"
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static model *make(ol_context *ctx, const char *name, int nc) {
    model *m = NULL;
    const ol_status status = model_create(ctx, &(model_spec){.name = name, .nc = nc}, &m);
    if (status != OL_OK) fail_msg("%s: %s", name, ol_context_message(ctx));
    return m;
}

static void shape_of_tsv(const char *field, shape *s) {
    *s = (shape){.rank = 0};
    if (strcmp(field, "scalar") == 0) return;
    for (const char *p = field; *p != '\0';) {
        char *end;
        s->dim[s->rank++] = strtol(p, &end, 10);
        p = *end == 'x' ? end + 1 : end;
    }
}

static void test_state_dicts_equal_reference(void **state) {
    (void)state;
    static const int64_t parameters[5] = {2572280, 10009784, 21896248, 26299704, 58993368};
    static const size_t n_params[5] = {366, 366, 396, 558, 558};
    ol_context *ctx = test_context();
    for (int k = 0; k < 5; k++) {
        char path[512], name[32], *bytes;
        size_t n_bytes, row = 0, params = 0;
        snprintf(path, sizeof path, TESTS_GOLDEN_DIR "/state_dict/yolo26%c-state-dict.tsv", "nsmlx"[k]);
        snprintf(name, sizeof name, "yolo26%c.yaml", "nsmlx"[k]);
        model *m = make(ctx, name, 0);
        assert_int_equal(file_read(ctx, path, 0, &bytes, &n_bytes), OL_OK);
        char *save = NULL, *line = strtok_r(bytes, "\n", &save);
        while ((line = strtok_r(NULL, "\n", &save)) != NULL) {
            char key[128], dims[64], type[16], kind[16];
            shape want;
            assert_int_equal(sscanf(line, "%*d %127s %63s %15s %15s", key, dims, type, kind), 4);
            assert_true(row < m->state.count);
            assert_string_equal(m->state.items[row].name, key);
            shape_of_tsv(dims, &want);
            assert_true(shape_equal(&m->state.items[row].t.shape, &want));
            assert_int_equal(m->state.items[row].t.type, strcmp(type, "int64") == 0 ? DTYPE_I64 : DTYPE_F32);
            assert_int_equal(model_is_param(m, row), strcmp(kind, "param") == 0);
            params += strcmp(kind, "param") == 0;
            row++;
        }
        assert_int_equal(row, m->state.count);
        assert_int_equal(params, n_params[k]);
        assert_int_equal(model_parameter_count(m), parameters[k]);
        mem_free(ctx, bytes);
        model_destroy(m);
    }
    ol_context_destroy(ctx);
}

static void test_overrides(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    model *m = make(ctx, "yolo26n.yaml", 3);
    assert_int_equal(model_parameter_count(m), 2504970);
    assert_int_equal(m->desc.nc, 3);
    int64_t nc = 0;
    assert_true(value_as_int(value_get(m->desc.yaml, "nc"), &nc));
    assert_int_equal(nc, 3);
    model_destroy(m);
    assert_int_equal(model_create(ctx, &(model_spec){.name = "yolo26n.yaml", .channels = 1}, &m), OL_OK);
    assert_int_equal(model_parameter_count(m), 2571992);
    model_destroy(m);
    assert_int_equal(model_create(ctx, &(model_spec){.name = "yolo26n.yaml", .nc = 7, .class_width = 80}, &m), OL_OK);
    assert_int_equal(tensor_list_find(&m->state, "model.23.cv3.0.2.weight")->shape.dim[1], 80);
    assert_int_equal(tensor_list_find(&m->state, "model.23.cv3.0.2.weight")->shape.dim[0], 7);
    model_destroy(m);
    ol_context_destroy(ctx);
}

static void test_scale_letter(void **state) {
    (void)state;
    assert_int_equal(scale_letter("yolo26n.yaml"), 'n');
    assert_int_equal(scale_letter("runs/yolo26x.pt"), 'x');
    assert_int_equal(scale_letter("yolov8m.yaml"), 'm');
    assert_int_equal(scale_letter("my-yolo26l-shapes.yaml"), 'l');
    assert_int_equal(scale_letter("yolo26.yaml"), 0);
    assert_int_equal(scale_letter("n/custom.yaml"), 0);
}

static void test_initial_weights(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    model *m = make(ctx, "yolo26n.yaml", 0), *again = make(ctx, "yolo26n.yaml", 0);
    model_initialize(m, 5);
    model_initialize(again, 5);
    for (size_t i = 0; i < m->state.count; i++) {
        const tensor *t = &m->state.items[i].t;
        assert_memory_equal(t->data, again->state.items[i].t.data,
                            (size_t)shape_elements(&t->shape) * dtype_bytes(t->type));
    }
    const tensor *w = tensor_list_find(&m->state, "model.1.conv.weight"); /* fan-in 16*9 */
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < shape_elements(&w->shape); i++) {
        largest = fmax(largest, fabs((double)tensor_f32(w)[i]));
        sum += (double)tensor_f32(w)[i];
    }
    assert_true(largest <= 1.0 / 12 && largest > 0.99 / 12);
    assert_true(fabs(sum / (double)shape_elements(&w->shape)) < 0.003);
    static const float class_bias[3] = {-11.536642F, -10.150348F, -8.764053F};
    for (int level = 0; level < 3; level++) {
        char name[64];
        snprintf(name, sizeof name, "model.23.one2one_cv3.%d.2.bias", level);
        assert_close(name, tensor_f32(tensor_list_find(&m->state, name)), &class_bias[level], 1, 1e-6, 0);
        snprintf(name, sizeof name, "model.23.cv2.%d.2.bias", level);
        assert_true(tensor_f32(tensor_list_find(&m->state, name))[3] == 2.0F);
    }
    const tensor *a = tensor_list_find(&m->state, "model.23.cv3.1.0.1.conv.weight");
    const tensor *b = tensor_list_find(&m->state, "model.23.one2one_cv3.1.0.1.conv.weight");
    assert_memory_equal(a->data, b->data, (size_t)shape_elements(&a->shape) * 4);
    model_initialize(again, 6);
    assert_memory_not_equal(w->data, tensor_list_find(&again->state, "model.1.conv.weight")->data, 64);
    model_destroy(m);
    model_destroy(again);
    ol_context_destroy(ctx);
}

/* Layers of a small description; the line of the first layer is 5. */
#define YAML(layers) "nc: 4\nend2end: True\nreg_max: 1\nbackbone:\n" layers
#define CONVS        "  - [-1, 1, Conv, [16, 3, 2]]\n  - [-1, 1, Conv, [16, 3, 2]]\n"
#define TAIL         "head:\n  - [[0, 1], 1, Detect, [nc]]\n"

static const struct {
    const char *yaml, *message; /* a part of it */
} bad[] = {
    {YAML("  - [-1, 40, Conv, [16, 3, 2]]\n" TAIL), "more than 256 times"},
    {YAML(CONVS "  - [-1, 1, Conv, [32768]]\n  - [-1, 9, Conv, [32768, 31]]\n" TAIL), "parameters are too many"},
    {"", "a map"},
    {"- 1\n- 2\n", "a map"},
    {"nc: 4\nreg_max: 1\n", "'backbone' and 'head'"},
    {"nc: four\nreg_max: 1\n", "'nc' must be an integer"},
    {"nc: 0\nreg_max: 1\n", "'nc' must be an integer"},
    {"nc: 4\nreg_max: 16\n", "reg_max"},
    {"nc: 4\n", "reg_max"},
    {"nc: 4\nreg_max: 1\nend2end: maybe\n", "end2end"},
    {"nc: 4\nreg_max: 1\nactivation: nn.ReLU()\n", "activation"},
    {"nc: 4\nreg_max: 1\nscales: 3\n", "scales"},
    {"nc: 4\nreg_max: 1\nscales: {n: [1, 2]}\n", "scale 'n'"},
    {"nc: 4\nreg_max: 1\nscales: {n: [0, 1, 64]}\n", "depth and width"},
    {"nc: 4\nreg_max: 1\nbackbone: []\nhead: []\n", "0 layers"},
    {YAML("  - [-1, 1, Conv]\n" TAIL), "t.yaml:5: layer 0: a layer is"},
    {YAML(CONVS "  - 17\n" TAIL), "t.yaml:7: layer 2: a layer is"},
    {YAML("  - [-1, 1, 7, [16]]\n" TAIL), "must be a name"},
    {YAML("  - [-1, 1, C2f, [16]]\n" TAIL), "unknown module 'C2f'"},
    {YAML("  - [0, 1, Conv, [16]]\n" TAIL), "'from' must hold"},
    {YAML("  - [-2, 1, Conv, [16]]\n" TAIL), "'from' must hold"},
    {YAML("  - [[], 1, Conv, [16]]\n" TAIL), "'from' must name"},
    {YAML(CONVS "  - [[0, 1], 1, Conv, [16]]\n" TAIL), "takes one input"},
    {YAML("  - [-1, 0, Conv, [16]]\n" TAIL), "repeats"},
    {YAML("  - [-1, many, Conv, [16]]\n" TAIL), "repeats"},
    {YAML("  - [-1, 1, Conv, 16]\n" TAIL), "arguments must be a list"},
    {YAML("  - [-1, 1, Conv, []]\n" TAIL), "channel count"},
    {YAML("  - [-1, 1, Conv, [-8]]\n" TAIL), "channel count"},
    {YAML("  - [-1, 1, Conv, [99999999]]\n" TAIL), "channel count"},
    {YAML("  - [-1, 1, Conv, [16, 4]]\n" TAIL), "kernel must be an odd number from 1 to 31, not 4"},
    {YAML("  - [-1, 1, Conv, [16, 3, 3]]\n" TAIL), "stride must be an integer from 1 to 2, not 3"},
    {YAML("  - [-1, 1, Conv, [16, 3, 1, 0]]\n" TAIL), "padding is not supported"},
    {YAML("  - [-1, 1, Conv, [16, 3, 1, None, 5]]\n  - [-1, 1, Conv, [16, 3, 2]]\n" TAIL), "groups must divide"},
    {YAML("  - [-1, 1, Conv, [16, 3, 1, None, 1, 1, 7]]\n" TAIL), "activation must be True or False"},
    {YAML("  - [-1, 1, Conv, [16, 3, 1, None, 1, 1, True, 9]]\n" TAIL), "at most 8"},
    {YAML("  - [-1, 1, C3k2, [16, False, 9.0]]\n" TAIL), "expansion must be a number"},
    {YAML("  - [-1, 1, C2PSA, [16]]\n  - [-1, 1, Conv, [16, 3, 2]]\n" TAIL), "equally many channels"},
    {YAML("  - [-1, 1, nn.Upsample, [None, 2, nearest]]\n" TAIL), "full size already"},
    {YAML(CONVS "  - [-1, 1, nn.Upsample, [None, 3, nearest]]\n" TAIL), "scale factor"},
    {YAML(CONVS "  - [-1, 1, nn.Upsample, [None, 2, cubic]]\n" TAIL), "'nearest'"},
    {YAML(CONVS "  - [[0, 1], 1, Concat, [1]]\n" TAIL), "sizes 1/2 and 1/4"},
    {YAML(CONVS "  - [[0, 1], 1, Concat, [0]]\n" TAIL), "dimension"},
    {YAML(CONVS "head:\n  - [-1, 1, Conv, [16]]\n"), "last layer must be Detect"},
    {YAML(CONVS "head:\n  - [[1, 0], 1, Detect, [nc]]\n"), "finest map"},
    {YAML(CONVS "head:\n  - [[0, 1], 1, Detect, [nc]]\n  - [-1, 1, Conv, [16]]\n"), "Detect must be the last"},
    {YAML("  - [-1, 3, Conv, [16, 3, 1]]\n  - [-1, 1, Conv, [16, 3, 2]]\n" TAIL), "keep its channel count"},
};

static void test_bad_descriptions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ol_context *ctx = NULL;
        assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
        arena a;
        arena_init(&a, ctx, 0);
        const value *root = NULL;
        ol_status status = yaml_parse(&a, "t.yaml", bad[i].yaml, strlen(bad[i].yaml), &root);
        model *m = NULL;
        if (status == OL_OK) status = model_create(ctx, &(model_spec){.name = "t.yaml", .yaml = root}, &m);
        const char *message = ol_context_message(ctx);
        if (status == OL_OK || strstr(message, bad[i].message) == NULL || strchr(message, '\n') != NULL) {
            fail_msg("case %zu: expected '%s', got '%s'", i, bad[i].message, message);
        }
        assert_null(m);
        arena_deinit(&a);
        ol_context_destroy(ctx);
    }
}

static void test_user_yaml(void **state) {
    (void)state;
    static const char yaml[] = "nc: 2\nend2end: False\nreg_max: 1\nbackbone:\n" CONVS
                               "  - [-1, 2, Bottleneck, [16]]\n  - [-1, 1, SPPF, [16, 5]]\n"
                               "  - [-1, 1, DWConv, [32, 3]]\n" TAIL;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const value *root;
    model *m;
    assert_int_equal(yaml_parse(&a, "t.yaml", yaml, strlen(yaml), &root), OL_OK);
    assert_int_equal(model_create(ctx, &(model_spec){.name = "t.yaml", .yaml = root}, &m), OL_OK);
    assert_non_null(tensor_list_find(&m->state, "model.2.1.cv2.conv.weight"));
    assert_int_equal(tensor_list_find(&m->state, "model.4.conv.weight")->shape.dim[1], 1);
    assert_null(tensor_list_find(&m->state, "model.5.one2one_cv2.0.0.conv.weight"));
    assert_false(m->has_one2one);
    assert_int_equal(m->strides[1], 4);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

/* Every single-byte change of the embedded description either parses or gives one line; never a crash. */
static void test_mutated_yaml(void **state) {
    (void)state;
    extern const char embedded_yolo26_yaml[];
    const size_t n = strlen(embedded_yolo26_yaml);
    static const char replacements[] = {'\0', '-', '[', '9', ' ', 'x', ',', '\n', (char)0xff};
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    for (size_t at = 0; at < n; at += 3) {
        for (size_t k = at % 3; k < sizeof replacements; k += 3) {
            ol_context *ctx = NULL;
            assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
            arena a;
            arena_init(&a, ctx, 0);
            memcpy(copy, embedded_yolo26_yaml, n + 1);
            copy[at] = replacements[k];
            const value *root = NULL;
            ol_status status = yaml_parse(&a, "m.yaml", copy, n, &root);
            model_desc desc;
            module *tree = NULL;
            if (status == OL_OK) status = description_parse(&a, &(model_spec){.name = "yolo26n", .yaml = root}, &desc);
            if (status == OL_OK) status = module_tree_build(&a, &desc, &tree);
            if (status != OL_OK) {
                assert_true(ol_context_message(ctx)[0] != '\0');
                assert_null(strchr(ol_context_message(ctx), '\n'));
            }
            arena_deinit(&a);
            ol_context_destroy(ctx);
        }
    }
    free(copy);
}

static void test_names(void **state) {
    (void)state;
    const char *const digits[] = {"0", "1"}, *const words[] = {"0", "cat"};
    assert_false(names_are_real(digits, 2));
    assert_true(names_are_real(words, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_dicts_equal_reference),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_scale_letter),
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_bad_descriptions),
        cmocka_unit_test(test_user_yaml),
        cmocka_unit_test(test_mutated_yaml),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
