/* The layer table and summary lines as the reference prints them. */
#include "golden.h"
#include "model/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct lines {
    int n;
    char text[40][160];
} lines;

static void keep_line(void *user, ol_log_level level, const char *line) {
    lines *l = user;
    (void)level;
    if (l->n < 40) snprintf(l->text[l->n++], sizeof l->text[0], "%s", line);
}

static ol_context *line_context(lines *l) {
    const ol_context_options options = {.struct_bytes = sizeof options, .log = keep_line, .log_user = l};
    ol_context *ctx = NULL;
    l->n = 0;
    assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
    return ctx;
}

static const struct {
    const char *name;
    int nc, channels;
    bool fused;
    model_branch kept;
    const char *line;
} cases[] = {
    {"yolo26n.yaml", 0, 0, false, MODEL_BOTH,
     "YOLO26n summary: 260 layers, 2,572,280 parameters, 2,572,280 gradients, 6.2 GFLOPs"},
    {"yolo26n.yaml", 3, 0, false, MODEL_BOTH,
     "YOLO26n summary: 260 layers, 2,504,970 parameters, 2,504,970 gradients, 5.9 GFLOPs"},
    {"yolo26n.yaml", 0, 1, false, MODEL_BOTH,
     "YOLO26n summary: 260 layers, 2,571,992 parameters, 2,571,992 gradients, 6.2 GFLOPs"},
    {"yolo26s.yaml", 0, 0, false, MODEL_BOTH,
     "YOLO26s summary: 260 layers, 10,009,784 parameters, 10,009,784 gradients, 23.1 GFLOPs"},
    {"yolo26m.yaml", 0, 0, false, MODEL_BOTH,
     "YOLO26m summary: 280 layers, 21,896,248 parameters, 21,896,248 gradients, 75.6 GFLOPs"},
    {"yolo26l.yaml", 0, 0, false, MODEL_BOTH,
     "YOLO26l summary: 392 layers, 26,299,704 parameters, 26,299,704 gradients, 94.2 GFLOPs"},
    {"yolo26l.yaml", 3, 0, false, MODEL_BOTH,
     "YOLO26l summary: 392 layers, 26,180,970 parameters, 26,180,970 gradients, 93.5 GFLOPs"},
    {"yolo26x.yaml", 0, 0, false, MODEL_BOTH,
     "YOLO26x summary: 392 layers, 58,993,368 parameters, 58,993,368 gradients, 210.1 GFLOPs"},
    {"yolo26n.yaml", 0, 0, true, MODEL_ONE2MANY,
     "YOLO26n summary (fused): 120 layers, 2,408,932 parameters, 0 gradients, 5.5 GFLOPs"},
    {"yolo26n.yaml", 0, 0, true, MODEL_ONE2ONE,
     "YOLO26n summary (fused): 122 layers, 2,408,932 parameters, 0 gradients, 5.5 GFLOPs"},
    {"yolo26s.yaml", 0, 0, true, MODEL_ONE2MANY,
     "YOLO26s summary (fused): 120 layers, 9,496,140 parameters, 0 gradients, 20.9 GFLOPs"},
    {"yolo26m.yaml", 0, 0, true, MODEL_ONE2MANY,
     "YOLO26m summary (fused): 130 layers, 20,411,132 parameters, 0 gradients, 68.4 GFLOPs"},
    {"yolo26l.yaml", 0, 0, true, MODEL_ONE2MANY,
     "YOLO26l summary (fused): 188 layers, 24,807,420 parameters, 0 gradients, 86.8 GFLOPs"},
    {"yolo26x.yaml", 0, 0, true, MODEL_ONE2MANY,
     "YOLO26x summary (fused): 188 layers, 55,725,948 parameters, 0 gradients, 194.4 GFLOPs"},
};

static void test_summary_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lines l;
        model *m;
        ol_context *ctx = line_context(&l);
        const model_spec spec = {.name = cases[i].name, .nc = cases[i].nc, .channels = cases[i].channels};
        assert_int_equal(model_create(ctx, &spec, &m), OL_OK);
        assert_int_equal(model_log_summary(m, cases[i].fused, cases[i].kept), OL_OK);
        assert_string_equal(l.text[l.n - 1], cases[i].line);
        model_destroy(m);
        ol_context_destroy(ctx);
    }
}

static void test_layer_table(void **state) {
    (void)state;
    lines l;
    model *m;
    ol_context *ctx = line_context(&l);
    assert_int_equal(model_create(ctx, &(model_spec){.name = "yolo26l.yaml", .nc = 3}, &m), OL_OK);
    assert_int_equal(model_log_layers(m), OL_OK);
    assert_int_equal(l.n, 27);
    assert_string_equal(l.text[0], "Overriding model.yaml nc=80 with nc=3");
    assert_string_equal(l.text[2], "                   from  n    params  module                                       "
                                   "arguments                     ");
    assert_string_equal(l.text[5], "  2                  -1  2    173824  ultralytics.nn.modules.block.C3k2            "
                                   "[128, 256, 2, True, 0.25]     ");
    assert_string_equal(l.text[14], " 11                  -1  1         0  torch.nn.modules.upsampling.Upsample        "
                                    " [None, 2, 'nearest']          ");
    assert_string_equal(l.text[21], " 18            [-1, 13]  1         0  ultralytics.nn.modules.conv.Concat          "
                                    " [1]                           ");
    assert_string_equal(l.text[26], " 23        [16, 19, 22]  1   2803242  ultralytics.nn.modules.head.Detect          "
                                    " [3, 1, True, [256, 512, 512]] ");
    model_destroy(m);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_summary_lines), cmocka_unit_test(test_layer_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
