/* The base room: values, readers, random numbers, half floats, files. */
#include "golden.h"

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void half_floats_round_to_even_and_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const float x = half_to_float((uint16_t)bits);
        if (!isnan(x)) assert_int_equal(float_to_half(x), bits);
    }
    assert_int_equal(float_to_half(1.0f + 0x1p-11f), 0x3C00); /* a tie goes to even */
    assert_int_equal(float_to_half(65520.0f), 0x7C00);
    assert_int_equal(float_to_bf16(1.00390625f), 0x3F80);
}

static void yaml_reads_what_the_field_writes(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const char *source = "path: ../data # comment\nnames:\n  0: person\n  1: 'no'\nnc: 2\nlr: 1e-3\nempty:\nscales: "
                         "{n: [0.5, 0.25, 1024]}\n";
    const value *v = NULL;
    assert_int_equal(yaml_parse(&a, "x.yaml", source, strlen(source), &v), OL_OK);
    assert_string_equal(value_get(v, "path")->as.string, "../data");
    assert_int_equal(value_get(v, "names")->as.map.keys[1]->as.integer, 1);
    assert_string_equal(value_get(v, "names")->as.map.items[1]->as.string, "no");
    assert_true(value_get(v, "lr")->as.real == 1e-3);
    assert_int_equal(value_get(v, "empty")->kind, VALUE_NULL);
    assert_int_equal(value_get(value_get(v, "scales"), "n")->as.list.items[2]->as.integer, 1024);

    text t;
    text_init(&t, ctx);
    assert_int_equal(yaml_write(&t, v), OL_OK);
    const value *again = NULL;
    assert_int_equal(yaml_parse(&a, "again", text_c(&t), t.length, &again), OL_OK);
    assert_string_equal(value_get(again, "names")->as.map.items[1]->as.string, "no");
    text_deinit(&t);

    const char *bad = "a: [1, 2\nb: 3\n";
    assert_int_equal(yaml_parse(&a, "bad.yaml", bad, strlen(bad), &v), OL_ERROR_FORMAT);
    assert_non_null(strstr(ol_context_message(ctx), "bad.yaml:2"));
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void literals_follow_the_command_line_grammar(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    static const struct {
        const char *source, *written;
    } cases[] = {{"True", "True"},
                 {"none", "None"},
                 {"12", "12"},
                 {"0.50", "0.5"},
                 {"[0, 1]", "[0, 1]"},
                 {"(1,'a')", "[1, 'a']"},
                 {"{0: 'x'}", "{0: 'x'}"},
                 {"coco8.yaml", "'coco8.yaml'"},
                 {"[1, 2", "'[1, 2'"},
                 {"1e-5", "1.0e-05"},
                 {"-3", "-3"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const value *v = NULL;
        text t;
        text_init(&t, ctx);
        assert_int_equal(literal_parse(&a, cases[i].source, &v), OL_OK);
        assert_int_equal(literal_write(&t, v), OL_OK);
        assert_string_equal(text_c(&t), cases[i].written);
        text_deinit(&t);
    }
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void random_streams_do_not_depend_on_order(void **state) {
    (void)state;
    rng a = rng_stream(7, RNG_AUGMENT, 3, 11), b = rng_stream(7, RNG_AUGMENT, 3, 12),
        again = rng_stream(7, RNG_AUGMENT, 3, 11);
    double mean = 0.0, beta = 0.0;
    for (int i = 0; i < 20000; i++) {
        const double u = rng_uniform(&a);
        assert_true(u == rng_uniform(&again));
        mean += u / 20000;
        beta += rng_beta(&b, 32, 32) / 20000;
    }
    assert_true(fabs(mean - 0.5) < 0.01);
    assert_true(fabs(beta - 0.5) < 0.003);
    rng c = {.key = {0, 0}};
    assert_int_equal(rng_u32(&c), 0x6627E8D5u); /* Philox4x32-10 known answer for zero counter and key */
}

static void atomic_writes_leave_no_temporary_files(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const char *folder = arena_printf(&a, "%s/test_base_files", TESTS_BUILD_DIR);
    assert_int_equal(folder_create(ctx, folder), OL_OK);
    const char *path = path_join(&a, folder, "a.txt");
    assert_int_equal(file_write_atomic(ctx, path, "one", 3), OL_OK);
    assert_int_equal(file_write_atomic(ctx, path, "second", 6), OL_OK);
    char *bytes = NULL, **paths = NULL;
    size_t n = 0;
    assert_int_equal(file_read(ctx, path, 0, &bytes, &n), OL_OK);
    assert_string_equal(bytes, "second");
    mem_free(ctx, bytes);
    assert_int_equal(folder_list(&a, folder, true, &paths, &n), OL_OK);
    assert_int_equal(n, 1);
    unlink(path);
    rmdir(folder);
    assert_string_equal(path_suffix("a.b/c"), "");
    assert_string_equal(path_suffix("a/c.tar.gz"), ".gz");
    assert_string_equal(path_stem(&a, "x/yolo26n.pt"), "yolo26n");
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

/* A rename would put a file in the place of a pipe, a device or a link. */
static void atomic_writes_keep_links_and_pipes(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    const char *folder = arena_printf(&a, "%s/test_base_links", TESTS_BUILD_DIR);
    assert_int_equal(folder_create(ctx, folder), OL_OK);
    const char *file = path_join(&a, folder, "file"), *link = path_join(&a, folder, "link");
    const char *pipe = path_join(&a, folder, "pipe");
    unlink(link), unlink(pipe);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    struct stat st;
    char *bytes = NULL, got[8] = "";
    size_t n = 0;
    ol_status (*const writers[])(ol_context *, const char *, const void *, size_t) = {file_write_atomic,
                                                                                      file_write_whole};
    for (int i = 0; i < 2; i++) {
        unlink(file);
        assert_int_equal(writers[i](ctx, link, "one", 3), OL_OK); /* leads nowhere yet: a file takes its place */
        unlink(link);
        assert_int_equal(symlink("file", link), 0);
        assert_int_equal(file_write(ctx, file, "old", 3), OL_OK);
        assert_int_equal(writers[i](ctx, link, "new", 3), OL_OK);
        assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
        assert_int_equal(file_read(ctx, file, 0, &bytes, &n), OL_OK);
        assert_string_equal(bytes, "new");
        mem_free(ctx, bytes);
        const int fd = open(pipe, O_RDWR | O_NONBLOCK);
        assert_true(fd >= 0);
        assert_int_equal(writers[i](ctx, pipe, "text", 4), OL_OK);
        assert_true(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
        assert_int_equal(read(fd, got, sizeof got), 4);
        assert_memory_equal(got, "text", 4);
        close(fd);
    }
    unlink(file), unlink(link), unlink(pipe);
    assert_int_equal(rmdir(folder), 0);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(half_floats_round_to_even_and_back),
                                       cmocka_unit_test(yaml_reads_what_the_field_writes),
                                       cmocka_unit_test(literals_follow_the_command_line_grammar),
                                       cmocka_unit_test(random_streams_do_not_depend_on_order),
                                       cmocka_unit_test(atomic_writes_leave_no_temporary_files),
                                       cmocka_unit_test(atomic_writes_keep_links_and_pipes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
