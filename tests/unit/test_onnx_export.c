/* Exported graphs read back with the schema: names, shapes, metadata, and that every node's inputs exist before it.
 * Their arithmetic is checked with ONNX Runtime by tests/reference. */
#include "golden.h"
#include "tiny_model.h"

#include "base/file.h"
#include "formats/onnx_export.h"

#include <onnx.pb-c.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct exported {
    ol_context *ctx;
    arena a;
    model *m;
    Onnx__ModelProto *proto;
} exported;

static exported export_tiny(const onnx_export_options *options) {
    exported e = {.ctx = test_context()};
    char path[1024], *bytes;
    size_t n;
    arena_init(&e.a, e.ctx, 0);
    e.m = tiny_model(&e.a);
    snprintf(path, sizeof path, "%s/%ld-tiny.onnx", TESTS_BUILD_DIR, (long)getpid());
    if (onnx_export(e.ctx, path, e.m, options) != OL_OK) fail_msg("%s", ol_context_message(e.ctx));
    assert_int_equal(file_read(e.ctx, path, 0, &bytes, &n), OL_OK);
    e.proto = onnx__model_proto__unpack(NULL, n, (const uint8_t *)bytes);
    assert_non_null(e.proto);
    mem_free(e.ctx, bytes);
    unlink(path);
    return e;
}

static void release(exported *e) {
    onnx__model_proto__free_unpacked(e->proto, NULL);
    model_destroy(e->m);
    arena_deinit(&e->a);
    ol_context_destroy(e->ctx);
}

/* "1,3,height,width" */
static const char *dims_of(const Onnx__ValueInfoProto *info) {
    static char out[128];
    const Onnx__TensorShapeProto *s = info->type->tensor_type->shape;
    size_t used = 0;
    for (size_t i = 0; i < s->n_dim; i++) {
        const bool named = s->dim[i]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        used += (size_t)(named ? snprintf(out + used, sizeof out - used, "%s%s", i > 0 ? "," : "", s->dim[i]->dim_param)
                               : snprintf(out + used, sizeof out - used, "%s%lld", i > 0 ? "," : "",
                                          (long long)s->dim[i]->dim_value));
    }
    return out;
}

static const char *metadata(const exported *e, const char *key) {
    for (size_t i = 0; i < e->proto->n_metadata_props; i++)
        if (strcmp(e->proto->metadata_props[i]->key, key) == 0) return e->proto->metadata_props[i]->value;
    return NULL;
}

static size_t count_ops(const exported *e, const char *op) {
    size_t n = 0;
    for (size_t i = 0; i < e->proto->graph->n_node; i++) n += strcmp(e->proto->graph->node[i]->op_type, op) == 0;
    return n;
}

/* What OpenVINO 2026.4 mistakes for a part that can be left out (formats/onnx_tail.c). */
static bool gathers_from_a_slice(const exported *e) {
    const Onnx__GraphProto *g = e->proto->graph;
    for (size_t i = 0; i < g->n_node; i++) {
        if (strcmp(g->node[i]->op_type, "Slice") != 0) continue;
        for (size_t k = 0; k < g->n_node; k++)
            if (strcmp(g->node[k]->op_type, "GatherElements") == 0 &&
                strcmp(g->node[k]->input[0], g->node[i]->output[0]) == 0)
                return true;
    }
    return false;
}

static bool is_known(const exported *e, const char *name, size_t before) {
    const Onnx__GraphProto *g = e->proto->graph;
    if (name[0] == '\0') return true;
    for (size_t i = 0; i < g->n_input; i++)
        if (strcmp(g->input[i]->name, name) == 0) return true;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(g->initializer[i]->name, name) == 0) return true;
    for (size_t i = 0; i < before; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            if (strcmp(g->node[i]->output[k], name) == 0) return true;
    return false;
}

static void assert_well_formed(const exported *e) {
    const Onnx__GraphProto *g = e->proto->graph;
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (!is_known(e, g->node[i]->input[k], i))
                fail_msg("%s reads '%s' before it is there", g->node[i]->name, g->node[i]->input[k]);
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            if (is_known(e, g->node[i]->output[k], i)) fail_msg("'%s' is written twice", g->node[i]->output[k]);
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        const Onnx__TensorProto *t = g->initializer[i];
        size_t n = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64     ? 8
                   : t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ? 2
                                                                            : 4;
        for (size_t k = 0; k < t->n_dims; k++) n *= (size_t)t->dims[k];
        assert_int_equal(t->raw_data.len, n);
    }
    assert_int_equal(g->n_input, 1);
    assert_int_equal(g->n_output, 1);
    assert_string_equal(g->input[0]->name, "images");
    assert_string_equal(g->output[0]->name, "output0");
    assert_true(is_known(e, "output0", g->n_node));
}

static void requests_give_the_documented_shapes(void **state) {
    (void)state;
    static const struct {
        onnx_export_options o;
        const char *in, *out, *end2end;
        int opset, ir;
    } rows[] = {
        {{.height = 96, .width = 64, .nms = SETTING_NONE}, "1,3,96,64", "1,7,126", "False", 18, 8},
        {{.height = 96, .width = 64, .nms = SETTING_NONE, .batch = 4, .opset = 11},
         "4,3,96,64",
         "4,7,126",
         "False",
         11,
         6},
        {{.height = 96, .width = 64, .nms = SETTING_NONE, .dynamic = true, .opset = 22},
         "batch,3,height,width",
         "batch,7,anchors",
         "False",
         22,
         10},
        {{.height = 64, .width = 64, .nms = SETTING_FALSE}, "1,3,64,64", "1,84,6", "True", 18, 8}, /* fewer anchors than
                                                                                                      max_det */
        {{.height = 64, .width = 64, .nms = SETTING_FALSE, .max_det = 20, .dynamic = true},
         "batch,3,64,64",
         "batch,20,6",
         "True",
         18,
         8},
        {{.height = 64, .width = 64, .nms = SETTING_TRUE, .max_det = 20}, "1,3,64,64", "1,20,6", "False", 18, 8},
        {{.height = 64, .width = 64, .nms = SETTING_TRUE, .dynamic = true, .half = true},
         "batch,3,height,width",
         "batch,300,6",
         "False",
         18,
         8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        onnx_export_options o = rows[i].o;
        o.conf = o.iou = NAN;
        exported e = export_tiny(&o);
        assert_well_formed(&e);
        assert_string_equal(dims_of(e.proto->graph->input[0]), rows[i].in);
        assert_string_equal(dims_of(e.proto->graph->output[0]), rows[i].out);
        assert_string_equal(metadata(&e, "end2end"), rows[i].end2end);
        assert_int_equal(e.proto->opset_import[0]->version, rows[i].opset);
        assert_int_equal(e.proto->ir_version, rows[i].ir);
        assert_int_equal(count_ops(&e, "TopK"), rows[i].o.nms == SETTING_FALSE ? 2 : 0);
        assert_false(gathers_from_a_slice(&e));
        assert_int_equal(count_ops(&e, "NonMaxSuppression"), rows[i].o.nms == SETTING_TRUE ? 1 : 0);
        release(&e);
    }
}

static void metadata_has_what_loaders_read(void **state) {
    (void)state;
    const onnx_export_options o = {
        .height = 64, .width = 96, .batch = 2, .nms = SETTING_NONE, .conf = NAN, .iou = NAN, .data = "shapes.yaml"};
    exported e = export_tiny(&o);
    static const char *const rows[][2] = {
        {"description", "YOLO26t model trained on shapes.yaml"},
        {"stride", "32"},
        {"task", "detect"},
        {"head", "Detect"},
        {"batch", "2"},
        {"imgsz", "[64, 96]"},
        {"names", "{0: 'circle', 1: 'square', 2: \"tri'angle\"}"},
        {"channels", "3"},
        {"args", "{'batch': 2, 'quantize': None, 'nms': None, 'dynamic': False, 'opset': 18}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_string_equal(metadata(&e, rows[i][0]), rows[i][1]);
    static const char *const present[] = {"author", "date", "version", "license", "docs", "layout"};
    for (size_t i = 0; i < sizeof present / sizeof *present; i++) assert_non_null(metadata(&e, present[i]));
    assert_int_equal(strlen(metadata(&e, "date")), 25);
    release(&e);
}

static void weights_are_the_folded_ones(void **state) {
    (void)state;
    for (int half = 0; half < 2; half++) {
        const onnx_export_options o = {
            .height = 64, .width = 64, .nms = SETTING_NONE, .conf = NAN, .iou = NAN, .half = half != 0};
        exported e = export_tiny(&o);
        tensor_list folded;
        size_t n_weights = 0;
        tensor_list_init(&folded, e.ctx);
        assert_int_equal(model_fold(e.m, &e.m->state, &folded), OL_OK);
        for (size_t i = 0; i < e.proto->graph->n_initializer; i++) {
            const Onnx__TensorProto *t = e.proto->graph->initializer[i];
            const tensor *w = tensor_list_find(&folded, t->name);
            if (w == NULL) continue;
            n_weights++;
            assert_int_equal(t->data_type,
                             half ? ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
            for (int64_t k = 0; k < shape_elements(&w->shape); k++) {
                uint16_t bits;
                float x;
                if (half) {
                    memcpy(&bits, t->raw_data.data + 2 * k, sizeof bits);
                    assert_int_equal(bits, float_to_half(tensor_f32(w)[k]));
                } else {
                    memcpy(&x, t->raw_data.data + 4 * k, sizeof x);
                    assert_true(x == tensor_f32(w)[k]);
                }
            }
        }
        assert_true(n_weights > 50);
        tensor_list_deinit(&folded);
        release(&e);
    }
}

static void bad_requests_name_the_remedy(void **state) {
    (void)state;
    static const struct {
        onnx_export_options o;
        const char *why;
    } rows[] = {
        {{.height = 64, .width = 64, .opset = 10}, "opset=10"},
        {{.height = 64, .width = 64, .opset = 99}, "from 11 to 22"},
        {{.height = 65, .width = 64}, "multiple"},
    };
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
    arena a;
    arena_init(&a, ctx, 0);
    model *m = tiny_model(&a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ctx_clear(ctx);
        assert_int_equal(onnx_export(ctx, "/nonexistent/x.onnx", m, &rows[i].o), OL_ERROR_ARGUMENT);
        if (strstr(ol_context_message(ctx), rows[i].why) == NULL) fail_msg("row %zu: %s", i, ol_context_message(ctx));
    }
    ctx_clear(ctx);
    assert_int_equal(onnx_export(ctx, "/nonexistent/x.onnx", m, &(onnx_export_options){.height = 64, .width = 64}),
                     OL_ERROR_IO);
    model_destroy(m);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_give_the_documented_shapes),
        cmocka_unit_test(metadata_has_what_loaders_read),
        cmocka_unit_test(weights_are_the_folded_ones),
        cmocka_unit_test(bad_requests_name_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
