/* Weight files that are cut, flipped, or made to hurt: each ends in one message, within bounded memory and time. */
#include "golden.h"

#include "base/file.h"
#include "base/text.h"
#include "formats/checkpoint.h"
#include "formats/pickle.h"
#include "formats/safetensors.h"
#include "formats/zip_reader.h"
#include "formats/zip_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FIXTURES TESTS_SOURCE_DIR "/tests/fixtures/"

/* An allocator that refuses to give more than a limit in one piece, so that absurd requests show. */
typedef struct limits {
    size_t largest;
} limits;

static void *limited_realloc(void *user, void *block, size_t bytes) {
    limits *l = user;
    if (bytes > l->largest) l->largest = bytes;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return bytes <= ((size_t)512 << 20) ? realloc(block, bytes) : NULL;
}

static ol_context *limited_context(limits *l) {
    ol_context *ctx = NULL;
    const ol_context_options options = {
        .struct_bytes = sizeof options, .realloc_block = limited_realloc, .realloc_user = l};
    assert_int_equal(ol_context_create(&options, &ctx), OL_OK);
    return ctx;
}

typedef ol_status (*read_fn)(ol_context *, const char *, const void *, size_t, checkpoint *);

/* Whatever the outcome, it must be clean: a message exactly when it failed. */
static bool read_quietly(ol_context *ctx, read_fn read, const void *bytes, size_t n) {
    checkpoint c;
    ctx_clear(ctx);
    const ol_status status = read(ctx, "x", bytes, n, &c);
    if (status == OL_OK)
        checkpoint_deinit(&c);
    else
        assert_true(strlen(ol_context_message(ctx)) > 10);
    return status == OL_OK;
}

static void cut_and_flip(const char *file, read_fn read, int n_cuts, int n_flips) {
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    char *bytes;
    size_t n;
    assert_int_equal(file_read(ctx, file, 0, &bytes, &n), OL_OK);
    assert_true(read_quietly(ctx, read, bytes, n));
    for (int i = 0; i < n_cuts; i++) {
        const size_t length = i < 100 ? (size_t)i : n * (size_t)i / (size_t)n_cuts;
        unsigned char *part = malloc(length > 0 ? length : 1); /* of exactly that size, for the address sanitizer */
        memcpy(part, bytes, length);
        assert_false(read_quietly(ctx, read, part, length));
        free(part);
    }
    uint32_t random = 1;
    for (int i = 0; i < n_flips; i++) {
        random = random * 1664525u + 1013904223u;
        const size_t at = i % 2 == 0 ? random % n : n - 1 - random % (n < 60000 ? n : 60000);
        const unsigned char bit = (unsigned char)(1u << (random >> 29));
        bytes[at] = (char)((unsigned char)bytes[at] ^ bit);
        read_quietly(ctx, read, bytes, n);
        bytes[at] = (char)((unsigned char)bytes[at] ^ bit);
    }
    assert_true(l.largest < (size_t)64 << 20);
    mem_free(ctx, bytes);
    ol_context_destroy(ctx);
}

static void cut_and_flipped_checkpoints_end_cleanly(void **state) {
    (void)state;
    cut_and_flip(FIXTURES "tiny.pt", checkpoint_read_memory, 300, 600);
}

static void cut_and_flipped_safetensors_end_cleanly(void **state) {
    (void)state;
    cut_and_flip(FIXTURES "tiny.safetensors", safetensors_read_memory, 300, 600);
}

/* The pickle alone: no checksum stands before the interpreter. */
static void flipped_pickles_end_cleanly(void **state) {
    (void)state;
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    zip_reader *zip;
    char *bytes;
    size_t n;
    assert_int_equal(zip_reader_open(ctx, FIXTURES "tiny.pt", &zip), OL_OK);
    assert_int_equal(zip_reader_read(zip, zip_reader_find(zip, "archive/data.pkl"), 1 << 24, &bytes, &n), OL_OK);
    uint32_t random = 7;
    for (int i = 0; i < 2000; i++) {
        arena a;
        pickle_node *root;
        const value *v;
        random = random * 1664525u + 1013904223u;
        const size_t at = (random >> 4) % n;
        const char kept = bytes[at];
        bytes[at] = (char)(random >> 24);
        arena_init(&a, ctx, (size_t)256 << 20);
        ctx_clear(ctx);
        if (pickle_parse(&a, "x", bytes, n, &root) == OL_OK) pickle_to_value(&a, root, 100000, &v);
        arena_deinit(&a);
        bytes[at] = kept;
    }
    mem_free(ctx, bytes);
    zip_reader_close(zip);
    ol_context_destroy(ctx);
}

typedef struct raw {
    const char *bytes;
    size_t n;
    const char *why;
} raw;
#define RAW(text, why)                                                                                                 \
    { text, sizeof(text) - 1, why }

static void damaged_pickles_name_the_place(void **state) {
    (void)state;
    static const raw rows[] = {
        RAW("", "ends too early"),
        RAW("\x80\x02", "ends too early"),
        RAW("\x80\x02N", "ends too early"),
        RAW("\x80\x09N.", "protocol"),
        RAW("\x80\x02.", "operand is missing"),
        RAW("\x80\x02\xffN.", "unknown"),
        RAW("\x80\x02I1\n.", "unknown"), /* a text instruction of protocol 0 */
        RAW("\x80\x02X\xff\xff\xff\xff.", "longer than the rest"),
        RAW("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.", "longer than the rest"),
        RAW("\x80\x02\x8b\xff\xff\xff\xff.", "ends too early"),
        RAW("\x80\x02\x96\xff\xff\xff\xff\xff\xff\xff\xff.", "longer than the rest"),
        RAW("\x80\x02Nr\xff\xff\xff\x7f.", "memo number"),
        RAW("\x80\x02h\x05.", "not read"),
        RAW("\x80\x02j\xff\xff\xff\xff.", "not read"),
        RAW("\x80\x02Na.", "operand is missing"),
        RAW("\x80\x02NNa.", "holds none"),
        RAW("\x80\x02}(Nu.", "no value"),
        RAW("\x80\x02(Nd.", "no value"),
        RAW("\x80\x02t.", "mark is missing"),
        RAW("\x80\x02N\x87.", "operand is missing"),
        RAW("\x80\x02(N\x86.", "operand is missing"), /* reaches below a mark */
        RAW("\x80\x02R.", "operand is missing"),
        RAW("\x80\x02"
            "cos",
            "no end"),
        RAW("\x80\x04NN\x93.", "something else than text"),
        RAW("\x80\x02Q.", "operand is missing"),
    };
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arena a;
        pickle_node *root;
        arena_init(&a, ctx, (size_t)64 << 20);
        ctx_clear(ctx);
        assert_int_equal(pickle_parse(&a, "some.pt", rows[i].bytes, rows[i].n, &root), OL_ERROR_FORMAT);
        if (strstr(ol_context_message(ctx), rows[i].why) == NULL) fail_msg("row %zu: %s", i, ol_context_message(ctx));
        assert_non_null(strstr(ol_context_message(ctx), "some.pt"));
        arena_deinit(&a);
    }
    assert_true(l.largest < (size_t)1 << 20);
    ol_context_destroy(ctx);
}

static void calls_in_a_pickle_stay_data(void **state) {
    (void)state;
    static const char bytes[] = "\x80\x02"
                                "cposix\nsystem\nX\x0b\0\0\0touch pwned\x85R.";
    ol_context *ctx = test_context();
    arena a;
    pickle_node *root;
    arena_init(&a, ctx, 0);
    assert_int_equal(pickle_parse(&a, "x", bytes, sizeof bytes - 1, &root), OL_OK);
    assert_int_equal(root->kind, PICKLE_OBJECT);
    assert_string_equal(pickle_class(root)->as.global.name, "system");
    assert_false(file_exists("pwned"));
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static ol_status parse_and_convert(ol_context *ctx, const text *t, size_t arena_bytes) {
    arena a;
    pickle_node *root;
    const value *v;
    arena_init(&a, ctx, arena_bytes);
    ctx_clear(ctx);
    ol_status status = pickle_parse(&a, "x", t->bytes, t->length, &root);
    if (status == OL_OK) status = pickle_to_value(&a, root, 100000, &v);
    arena_deinit(&a);
    return status;
}

static void bombs_do_not_go_off(void **state) {
    (void)state;
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    text t;
    text_init(&t, ctx);
    for (int i = 0; i < 1000000; i++) text_append(&t, "(", 1); /* marks */
    assert_int_equal(parse_and_convert(ctx, &t, 0), OL_ERROR_FORMAT);
    text_clear(&t);
    for (int i = 0; i < 1000000; i++) text_append(&t, "]", 1); /* a list in a list in a list */
    for (int i = 0; i < 999999; i++) text_append(&t, "a", 1);
    text_append(&t, ".", 1);
    assert_int_equal(parse_and_convert(ctx, &t, 0), OL_ERROR_FORMAT);
    text_clear(&t);
    text_append(&t, "]q\0h\0a.", 7); /* a list that holds itself */
    assert_int_equal(parse_and_convert(ctx, &t, 0), OL_ERROR_FORMAT);
    text_clear(&t);
    text_append(&t, "]", 1); /* ten of the one before, thirty times over */
    for (int i = 0; i < 30; i++) {
        const char level[] = {'q', (char)i, ']', '(',     'h', (char)i, 'h', (char)i,
                              'h', (char)i, 'h', (char)i, 'h', (char)i, 'e'};
        text_append(&t, level, sizeof level);
    }
    text_append(&t, ".", 1);
    assert_int_equal(parse_and_convert(ctx, &t, 0), OL_ERROR_FORMAT);
    text_clear(&t);
    text_append(&t, "](", 2); /* one list copied into a set again and again: stopped by the arena's limit */
    for (int i = 0; i < 100000; i++) text_append(&t, "N", 1);
    text_append(&t, "eq\0", 3);
    for (int i = 0; i < 100000; i++) text_append(&t, "cbuiltins\nset\nh\0\x85R", 18);
    text_append(&t, ".", 1);
    assert_int_equal(parse_and_convert(ctx, &t, (size_t)128 << 20), OL_ERROR_FORMAT);
    text_deinit(&t);
    assert_true(l.largest < (size_t)64 << 20);
    ol_context_destroy(ctx);
}

static void foreign_files_are_named(void **state) {
    (void)state;
    static const raw rows[] = {
        RAW("", "empty"),
        RAW("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", "before version 1.6"),
        RAW("\x80\x04\x95", "bare pickle"),
        RAW("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        RAW("<!DOCTYPE html><html></html>", "web page"),
        RAW("\x89HDF\r\n\x1a\n", "HDF5"),
        RAW("hello", "not a .pt checkpoint"),
        RAW("PK\x03\x04 and no more", "cut short"),
    };
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint c;
        ctx_clear(ctx);
        assert_int_equal(checkpoint_read_memory(ctx, "some.pt", rows[i].bytes, rows[i].n, &c), OL_ERROR_FORMAT);
        if (strstr(ol_context_message(ctx), rows[i].why) == NULL) fail_msg("row %zu: %s", i, ol_context_message(ctx));
        assert_non_null(strstr(ol_context_message(ctx), "some.pt"));
    }
    checkpoint c;
    ctx_clear(ctx);
    assert_int_equal(checkpoint_read(ctx, "/nonexistent.pt", &c), OL_ERROR_NOT_FOUND);
    ctx_clear(ctx);
    assert_int_equal(checkpoint_read(ctx, TESTS_BUILD_DIR, &c), OL_ERROR_ARGUMENT);
    ol_context_destroy(ctx);
}

/* Whole archives that are not models. */
static void other_archives_are_named(void **state) {
    (void)state;
    static const struct {
        const char *entries[3];
        const char *pickle, *why;
    } rows[] = {
        {{"readme.txt"}, "", "without a data.pkl"},
        {{"x/data.pkl", "x/constants.pkl"}, "N.", "TorchScript"},
        {{"x/data.pkl"}, "}.", "without a model"},
        {{"x/data.pkl"}, "N.", "without a model"},
        {{"x/data.pkl"}, "}X\x05\0\0\0modelX\x01\0\0\0as.", "without a model"},
    };
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    char path[1024];
    snprintf(path, sizeof path, "%s/%ld-other.pt", TESTS_BUILD_DIR, (long)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zip_writer *zip;
        checkpoint c;
        assert_int_equal(zip_writer_create(ctx, path, &zip), OL_OK);
        for (int k = 0; k < 3 && rows[i].entries[k] != NULL; k++) {
            const size_t n = i == 4 ? 20 : strlen(rows[i].pickle);
            assert_int_equal(zip_writer_add(zip, rows[i].entries[k], rows[i].pickle, n), OL_OK);
        }
        assert_int_equal(zip_writer_finish(zip), OL_OK);
        zip_writer_destroy(zip);
        ctx_clear(ctx);
        assert_int_equal(checkpoint_read(ctx, path, &c), OL_ERROR_FORMAT);
        if (strstr(ol_context_message(ctx), rows[i].why) == NULL) fail_msg("row %zu: %s", i, ol_context_message(ctx));
    }
    unlink(path);
    ol_context_destroy(ctx);
}

static void hostile_safetensors_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"[]", "not a JSON object"},
        {"{", "not JSON"},
        {"{\"a\":1}", "element type"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "past the end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "past the end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]}}", "past the end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0.5],\"data_offsets\":[0,4]}}", "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}", "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "no shape"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]}}", "element type"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[0],"
         "\"data_offsets\":[0,0]}}",
         "twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[0,4]}}",
         "overlaps"},
        {"{\"__metadata__\":{\"yaml\":\"{\"}}", "x"},
    };
    limits l = {0};
    ol_context *ctx = limited_context(&l);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char bytes[512] = {0};
        const size_t n = strlen(rows[i][0]);
        checkpoint c;
        bytes[0] = (unsigned char)n;
        memcpy(bytes + 8, rows[i][0], n); /* and four bytes of data */
        ctx_clear(ctx);
        assert_int_equal(safetensors_read_memory(ctx, "x", bytes, 8 + n + 4, &c), OL_ERROR_FORMAT);
        if (strstr(ol_context_message(ctx), rows[i][1]) == NULL) fail_msg("row %zu: %s", i, ol_context_message(ctx));
    }
    text t;
    text_init(&t, ctx);
    text_append(&t, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    checkpoint c;
    ctx_clear(ctx);
    assert_int_equal(safetensors_read_memory(ctx, "x", t.bytes, t.length, &c), OL_ERROR_FORMAT);
    text_deinit(&t);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_and_flipped_checkpoints_end_cleanly),
        cmocka_unit_test(cut_and_flipped_safetensors_end_cleanly),
        cmocka_unit_test(flipped_pickles_end_cleanly),
        cmocka_unit_test(damaged_pickles_name_the_place),
        cmocka_unit_test(calls_in_a_pickle_stay_data),
        cmocka_unit_test(bombs_do_not_go_off),
        cmocka_unit_test(foreign_files_are_named),
        cmocka_unit_test(other_archives_are_named),
        cmocka_unit_test(hostile_safetensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
