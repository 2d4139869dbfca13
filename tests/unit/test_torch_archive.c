/* Tensors of hand-made archives: every storage type, views of all kinds, and views that must be refused. */
#include "golden.h"

#include "base/file.h"
#include "base/text.h"
#include "formats/checkpoint.h"
#include "formats/zip_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void put(text *t, const char *bytes, size_t n) {
    text_append(t, bytes, n);
}

static void put_int(text *t, int64_t x) { /* LONG1 */
    char bytes[10] = {'\x8a', 8};
    for (int i = 0; i < 8; i++) bytes[2 + i] = (char)((uint64_t)x >> (8 * i));
    put(t, bytes, sizeof bytes);
}

static void put_string(text *t, const char *s) {
    const char head[5] = {'X', (char)strlen(s)};
    put(t, head, 5);
    put(t, s, strlen(s));
}

static void put_tuple(text *t, const int64_t *x, int n) {
    put(t, "(", 1);
    for (int i = 0; i < n; i++) put_int(t, x[i]);
    put(t, "t", 1);
}

typedef struct view {
    const char *storage, *key;
    int64_t offset;
    int rank;
    int64_t size[8], stride[8];
    bool parameter;
} view;

/* {"t": tensor} as a state dict. */
static void put_state_dict(text *t, const view *v) {
    put(t, "\x80\x02}", 3);
    put_string(t, "t");
    if (v->parameter) put(t, "ctorch._utils\n_rebuild_parameter\n(", 34);
    put(t, "ctorch._utils\n_rebuild_tensor_v2\n(", 34);
    put(t, "(", 1);
    put_string(t, "storage");
    text_printf(t, "ctorch\n%s\n", v->storage);
    put_string(t, v->key);
    put_string(t, "cpu");
    put_int(t, 999);
    put(t, "tQ", 2);
    put_int(t, v->offset);
    put_tuple(t, v->size, v->rank);
    put_tuple(t, v->stride, v->rank);
    put(t,
        "\x89"
        "ccollections\nOrderedDict\n)RtR",
        30);
    if (v->parameter)
        put(t,
            "\x89"
            "ccollections\nOrderedDict\n)RtR",
            30);
    put(t, "s.", 2);
}

static ol_status read_view(ol_context *ctx, const view *v, const void *data, size_t n_data, checkpoint *c) {
    char path[1024];
    zip_writer *zip = NULL;
    text t;
    snprintf(path, sizeof path, "%s/%ld-view.pt", TESTS_BUILD_DIR, (long)getpid());
    text_init(&t, ctx);
    put_state_dict(&t, v);
    assert_int_equal(zip_writer_create(ctx, path, &zip), OL_OK);
    assert_int_equal(zip_writer_add(zip, "x/data.pkl", t.bytes, t.length), OL_OK);
    assert_int_equal(zip_writer_add(zip, "x/data/0", data, n_data), OL_OK);
    assert_int_equal(zip_writer_finish(zip), OL_OK);
    zip_writer_destroy(zip);
    text_deinit(&t);
    ctx_clear(ctx);
    const ol_status status = checkpoint_read(ctx, path, c);
    unlink(path);
    return status;
}

static ol_context *quiet_context(void) {
    ol_context *ctx = NULL;
    assert_int_equal(ol_context_create(NULL, &ctx), OL_OK);
    return ctx;
}

static void every_storage_type_becomes_f32(void **state) {
    (void)state;
    static const struct {
        const char *name;
        unsigned char bytes[24];
        size_t n;
    } rows[] = {
        {"HalfStorage", {0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38}, 6},
        {"BFloat16Storage", {0x80, 0x3f, 0x00, 0xc0, 0x00, 0x3f}, 6},
        {"FloatStorage", {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f}, 12},
        {"DoubleStorage", {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f}, 24},
        {"LongStorage", {1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3}, 24},
        {"IntStorage", {1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 3, 0, 0, 0}, 12},
        {"ShortStorage", {1, 0, 0xfe, 0xff, 3, 0}, 6},
        {"CharStorage", {1, 0xfe, 3}, 3},
        {"ByteStorage", {1, 254, 3}, 3},
        {"BoolStorage", {1, 0, 1}, 3},
    };
    static const double expected[][3] = {{1, -2, 0.5}, {1, -2, 0.5}, {1, -2, 0.5}, {1, -2, 0.5}, {1, -2, 3},
                                         {1, -2, 3},   {1, -2, 3},   {1, -2, 3},   {1, 254, 3},  {1, 0, 1}};
    ol_context *ctx = quiet_context();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const view v = {rows[i].name, "0", 0, 1, {3}, {1}, i % 2 == 0};
        checkpoint c;
        if (read_view(ctx, &v, rows[i].bytes, rows[i].n, &c) != OL_OK)
            fail_msg("%s: %s", rows[i].name, ol_context_message(ctx));
        const tensor *t = &c.weights.items[0].t;
        const bool integer = strcmp(rows[i].name, "LongStorage") == 0;
        assert_int_equal(t->type, integer ? DTYPE_I64 : DTYPE_F32);
        for (int k = 0; k < 3; k++)
            assert_true((integer ? (double)((int64_t *)t->data)[k] : (double)tensor_f32(t)[k]) == expected[i][k]);
        checkpoint_deinit(&c);
    }
    ol_context_destroy(ctx);
}

static void views_are_gathered_in_logical_order(void **state) {
    (void)state;
    float data[24];
    for (int i = 0; i < 24; i++) data[i] = (float)i;
    static const struct {
        view v;
        int64_t n;
        float first[6];
    } rows[] = {
        {{"FloatStorage", "0", 5, 0, {0}, {0}, false}, 1, {5}},                                   /* 0-dim */
        {{"FloatStorage", "0", 0, 2, {2, 3}, {1, 2}, false}, 6, {0, 2, 4, 1, 3, 5}},              /* transposed */
        {{"FloatStorage", "0", 3, 1, {3}, {7}, false}, 3, {3, 10, 17}},                           /* a column */
        {{"FloatStorage", "0", 2, 2, {2, 2}, {0, 1}, false}, 4, {2, 3, 2, 3}},                    /* expanded */
        {{"FloatStorage", "0", 0, 4, {1, 3, 2, 2}, {12, 1, 6, 3}, true}, 12, {0, 3, 6, 9, 1, 4}}, /* channels last */
        {{"FloatStorage", "0", 1, 3, {1, 2, 1}, {77, 1, 99}, false}, 2, {1, 2}}, /* strides of ones are idle */
        {{"FloatStorage", "0", 24, 2, {0, 5}, {5, 1}, false}, 0, {0}},           /* empty */
    };
    ol_context *ctx = quiet_context();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint c;
        if (read_view(ctx, &rows[i].v, data, sizeof data, &c) != OL_OK)
            fail_msg("row %zu: %s", i, ol_context_message(ctx));
        const tensor *t = &c.weights.items[0].t;
        assert_int_equal(shape_elements(&t->shape), rows[i].n);
        assert_int_equal(t->shape.rank, rows[i].v.rank);
        for (int64_t k = 0; k < rows[i].n && k < 6; k++) assert_true(tensor_f32(t)[k] == rows[i].first[k]);
        checkpoint_deinit(&c);
    }
    ol_context_destroy(ctx);
}

static void views_beyond_their_data_are_refused(void **state) {
    (void)state;
    static const float data[24];
    const int64_t huge = (int64_t)1 << 62;
    const view rows[] = {
        {"FloatStorage", "0", 0, 1, {25}, {1}, false},
        {"FloatStorage", "0", 24, 1, {1}, {1}, false},
        {"FloatStorage", "0", 24, 0, {0}, {0}, false},
        {"FloatStorage", "0", -1, 1, {1}, {1}, false},
        {"FloatStorage", "0", huge, 1, {1}, {1}, false},
        {"FloatStorage", "0", 0, 1, {2}, {huge}, false},
        {"FloatStorage", "0", 0, 1, {4}, {huge}, false},
        {"FloatStorage", "0", 0, 2, {2, 2}, {1, -1}, false},
        {"FloatStorage", "0", 0, 1, {-3}, {1}, false},
        {"FloatStorage", "0", 0, 3, {huge, huge, huge}, {0, 0, 0}, false},
        {"FloatStorage", "0", 0, 1, {(int64_t)1 << 40}, {0}, false}, /* a terabyte from one number */
        {"FloatStorage", "0", 0, 7, {1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, false},
        {"DoubleStorage", "0", 0, 1, {13}, {1}, false},
        {"FloatStorage", "1", 0, 1, {1}, {1}, false},
        {"FloatStorage", "../x/data/0", 0, 1, {1}, {1}, false},
        {"QInt8Storage", "0", 0, 1, {1}, {1}, false},
    };
    ol_context *ctx = quiet_context();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint c;
        const ol_status status = read_view(ctx, &rows[i], data, sizeof data, &c);
        if (status != OL_ERROR_FORMAT) fail_msg("row %zu: status %d", i, (int)status);
        assert_non_null(strstr(ol_context_message(ctx), "'t'"));
    }
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_storage_type_becomes_f32),
        cmocka_unit_test(views_are_gathered_in_logical_order),
        cmocka_unit_test(views_beyond_their_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
