/* What `source=` may be, and the answers to what it may not be. */
#include "golden.h"

#include "base/file.h"
#include "predict/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/onelook-sources-XXXXXX";

static void put(ol_context *ctx, const char *name, const char *content) {
    arena a;
    arena_init(&a, ctx, 0);
    char *path = path_join(&a, root, name);
    assert_int_equal(folder_create(ctx, path_parent(&a, path)), OL_OK);
    assert_int_equal(file_write_atomic(ctx, path, content, strlen(content)), OL_OK);
    arena_deinit(&a);
}

static int make_files(void **state) {
    if (!mkdtemp(root) || chdir(root)) return -1;
    ol_context *ctx = test_context();
    static const char *const names[] = {"a.jpg",         "b.PNG",          "c.webp",         "notes.md",
                                        "clip.mp4",      "deep/d.jpg",     "deep/er/e.bmp",  "deep/er/f.txt",
                                        ".hidden/g.jpg", "\xC3\xA4 x.jpg", "only/movie.avi", "empty/readme",
                                        "._a.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put(ctx, names[i], "x");
    put(ctx, "list.txt",
        "\xEF\xBB\xBF"
        "a.jpg\r\n\n  deep/d.jpg  \n");
    put(ctx, "lists/near.txt", "h.jpg\ndeep/*.jpg\n");
    put(ctx, "lists/h.jpg", "x");
    put(ctx, "list.csv", "source\na.jpg,\"\xC3\xA4 x.jpg\"\nc.webp,\n");
    put(ctx, "gone.txt", "a.jpg\nnowhere.jpg\n");
    ol_context_destroy(ctx);
    *state = NULL;
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return chdir("/") || system(command);
}

/* `expected` are the names below the root, separated by '|'. */
static void assert_sources(ol_context *ctx, const char *source, const char *expected) {
    source_list list;
    if (source_list_open(ctx, source, &list)) fail_msg("%s: %s", source, ol_context_message(ctx));
    char joined[1024] = "";
    for (size_t i = 0; i < list.count; i++) {
        assert_true(path_is_absolute(list.paths[i]));
        const char *below = strstr(list.paths[i], root);
        assert_non_null(below);
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", i ? "|" : "",
                 below + strlen(root) + 1);
    }
    assert_string_equal(joined, expected);
    source_list_deinit(&list);
}

static void pictures_are_found(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    assert_sources(ctx, "a.jpg", "a.jpg");
    assert_sources(ctx, root, "a.jpg|b.PNG|c.webp|\xC3\xA4 x.jpg");
    assert_sources(ctx, "deep", "deep/d.jpg");
    assert_sources(ctx, "*.jpg", "a.jpg|\xC3\xA4 x.jpg");
    assert_sources(ctx, "**/*.jpg", "a.jpg|deep/d.jpg|lists/h.jpg|\xC3\xA4 x.jpg");
    assert_sources(ctx, "deep/**", "deep/d.jpg|deep/er/e.bmp");
    assert_sources(ctx, "d*/**/*.[bj]*", "deep/d.jpg|deep/er/e.bmp");
    assert_sources(ctx, "list.txt", "a.jpg|deep/d.jpg");
    assert_sources(ctx, "lists/near.txt", "lists/h.jpg|deep/d.jpg");
    assert_sources(ctx, "list.csv", "a.jpg|\xC3\xA4 x.jpg|c.webp");
    ol_context_destroy(ctx);
}

static void the_rest_gets_one_clear_line(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    static const struct {
        const char *source;
        ol_status status;
        const char *says;
    } cases[] = {{"nowhere.jpg", OL_ERROR_NOT_FOUND, "nowhere.jpg does not exist"},
                 {"gone.txt", OL_ERROR_NOT_FOUND, "nowhere.jpg does not exist"},
                 {"empty", OL_ERROR_NOT_FOUND, "No images or videos found in empty. Supported formats are"},
                 {"*.xyz", OL_ERROR_NOT_FOUND, "No images or videos found in *.xyz"},
                 {"notes.md", OL_ERROR_NOT_FOUND, "No images or videos found in notes.md"},
                 {"", OL_ERROR_NOT_FOUND, "does not exist"},
                 {"clip.mp4", OL_ERROR_UNSUPPORTED, "videos come in a later version"},
                 {"only", OL_ERROR_UNSUPPORTED, "videos only"},
                 {"rtsp://camera/1", OL_ERROR_UNSUPPORTED, "streams come in a later version"},
                 {"https://x.org/bus.jpg", OL_ERROR_UNSUPPORTED, "addresses come in a later version"},
                 {"0", OL_ERROR_UNSUPPORTED, "cameras come in a later version"},
                 {"screen 0", OL_ERROR_UNSUPPORTED, "screenshots come in a later version"},
                 {"many.streams", OL_ERROR_UNSUPPORTED, "streams come in a later version"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        source_list list = {0};
        ol_status status = source_list_open(ctx, cases[i].source, &list);
        if (status != cases[i].status || !strstr(ol_context_message(ctx), cases[i].says))
            fail_msg("%s gave %d: %s", cases[i].source, status, ol_context_message(ctx));
        assert_null(list.paths);
        ol_context_destroy(ctx);
        ctx = test_context();
    }
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_are_found),
                                       cmocka_unit_test(the_rest_gets_one_clear_line)};
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
