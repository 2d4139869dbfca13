/* What files and hosts may do to texts: control characters in names, deep YAML, names of full length, pipes and links
 * that lead nowhere, a locale with decimal commas. */
#include "base/file.h"
#include "base/value.h"
#include "tiny_set.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* The C library keeps what it reads from LOCPATH: no leak of ours. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:argz_add_sep";
}

#define LONGEST_NAME 255
#define MANY_KEYS    80000

static void keep_last(void *user, ol_log_level level, const char *line) {
    if (level != OL_LOG_PROGRESS) snprintf(user, 256, "%s", line);
}

static void messages_and_logged_lines_are_one_line(void **state) {
    (void)state;
    char logged[256] = "";
    scratch s = scratch_create(keep_last, logged);
    ctx_fail(s.ctx, OL_ERROR_IO, "'%s' is bad", "a\nb\033[31mc\177");
    assert_string_equal(ol_context_message(s.ctx), "'a?b?[31mc?' is bad");
    ctx_annotate(s.ctx, OL_ERROR_IO, "%s", "d\re");
    assert_string_equal(ol_context_message(s.ctx), "d?e: 'a?b?[31mc?' is bad");
    ctx_log(s.ctx, OL_LOG_INFO, "%s\tünï", "x\ny");
    assert_string_equal(logged, "x?y\tünï");
    scratch_destroy(&s);
}

static void deep_and_huge_yaml_is_refused_where_it_becomes_so(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const value *v = NULL;
    char deep[200];
    memset(deep, '[', sizeof deep); /* never closed: a reader that loads all of it first complains about the end */
    assert_int_equal(yaml_parse(&s.arena, "deep", deep, sizeof deep, &v), OL_ERROR_FORMAT);
    assert_string_equal(ol_context_message(s.ctx), "deep:1: nested too deeply or too large");
    ctx_clear(s.ctx);
    text keys;
    text_init(&keys, s.ctx);
    for (int i = 0; i < MANY_KEYS; i++) text_printf(&keys, "k%d: 1\n", i);
    assert_int_equal(yaml_parse(&s.arena, "wide", text_c(&keys), keys.length, &v), OL_ERROR_FORMAT);
    assert_non_null(strstr(ol_context_message(s.ctx), "a map of more than 70000 keys"));
    text_deinit(&keys);
    scratch_destroy(&s);
}

static void names_of_full_length_can_be_written(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    char name[LONGEST_NAME + 1];
    memset(name, 'n', LONGEST_NAME);
    name[LONGEST_NAME] = '\0';
    const char *path = scratch_path(&s, name);
    assert_int_equal(file_write_atomic(s.ctx, path, "abc", 3), OL_OK);
    assert_int_equal(file_write_whole(s.ctx, path, "abcd", 4), OL_OK);
    char **paths = NULL;
    size_t n = 0;
    assert_int_equal(folder_list(&s.arena, s.folder, false, &paths, &n), OL_OK);
    assert_int_equal(n, 1);
    scratch_destroy(&s);
}

static void pipes_are_refused_and_dead_links_are_listed(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    assert_int_equal(mkfifo(scratch_path(&s, "pipe.jpg"), 0600), 0);
    assert_int_equal(file_check_regular(s.ctx, scratch_path(&s, "pipe.jpg")), OL_ERROR_IO);
    ctx_clear(s.ctx);
    assert_int_equal(file_check_regular(s.ctx, scratch_text(&s, "file", "x")), OL_OK);
    assert_int_equal(file_check_regular(s.ctx, scratch_path(&s, "absent")), OL_OK);
    assert_int_equal(symlink("nowhere", scratch_path(&s, "dead.jpg")), 0);
    char **paths = NULL;
    size_t n = 0;
    assert_int_equal(folder_list(&s.arena, s.folder, true, &paths, &n), OL_OK);
    assert_int_equal(n, 2);
    assert_string_equal(path_name(paths[0]), "dead.jpg");
    scratch_destroy(&s);
}

static void files_of_killed_writers_are_swept(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    char own[64];
    snprintf(own, sizeof own, "last.pt.tmp-%ld-000000001", (long)getpid());
    scratch_text(&s, "last.pt.tmp-999999999-000000001", "part"); /* no process has that number */
    scratch_text(&s, "notes.tmp-old", "mine");
    scratch_text(&s, own, "part");
    file_atomic_sweep(s.folder);
    assert_false(file_exists(scratch_path(&s, "last.pt.tmp-999999999-000000001")));
    assert_true(file_exists(scratch_path(&s, "notes.tmp-old")) && file_exists(scratch_path(&s, own)));
    file_atomic_sweep(scratch_path(&s, "absent"));
    scratch_destroy(&s);
}

static void a_failed_write_names_what_was_asked_for(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *path = scratch_path(&s, "absent/last.pt");
    assert_int_equal(file_write_atomic(s.ctx, path, "x", 1), OL_ERROR_IO);
    assert_non_null(strstr(ol_context_message(s.ctx), "absent/last.pt': No such file"));
    scratch_destroy(&s);
}

/* A locale of decimal commas, made here: machines that run tests rarely have one. */
static bool set_comma_locale(scratch *s) {
    const char *source = scratch_text(s, "comma",
                                      "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\n"
                                      "END LC_NUMERIC\n");
    const char *made = scratch_path(s, "xx_comma");
    /* -c: the other categories are missing, which it only warns of */
    char *command = arena_printf(&s->arena, "localedef -c -i %s %s >/dev/null 2>&1", source, made);
    const int code = system(command); /* NOLINT(cert-env33-c): our own words */
    setenv("LOCPATH", s->folder, 1);
    return code >= 0 && setlocale(LC_NUMERIC, "xx_comma") != NULL && strcmp(localeconv()->decimal_point, ",") == 0;
}

static void set(ol_options *o, const char *name, const char *typed) {
    assert_int_equal(ol_options_set(o, name, typed), OL_OK);
}

/* A training run reads labels in its worker, writes arguments and results, reads them again for the plot. */
static void decimal_commas_of_the_host_change_nothing(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *data = tiny_set(&s, 4, 2);
    if (!set_comma_locale(&s)) {
        setlocale(LC_NUMERIC, "C");
        scratch_destroy(&s);
        skip();
    }
    setenv("XDG_CACHE_HOME", s.folder, 1);
    ol_options *o = NULL;
    ol_model *m = NULL;
    assert_int_equal(ol_options_create(s.ctx, &o), OL_OK);
    assert_string_equal(ol_options_get(o, "iou"), "0.7");
    set(o, "data", data);
    set(o, "project", s.folder);
    set(o, "lr0", "0.0025");
    set(o, "imgsz", "64");
    set(o, "batch", "2");
    set(o, "epochs", "1");
    set(o, "workers", "1");
    set(o, "plots", "False");
    set(o, "device", "cpu");
    assert_int_equal(ol_model_load(s.ctx, "yolo26n.yaml", &m), OL_OK);
    if (ol_train(m, o, NULL) != OL_OK) fail_msg("%s", ol_context_message(s.ctx));
    assert_string_equal(localeconv()->decimal_point, ","); /* the host keeps its own */
    setlocale(LC_NUMERIC, "C");
    const value *v = NULL;
    assert_int_equal(yaml_read(&s.arena, scratch_path(&s, "train/args.yaml"), &v), OL_OK);
    const double lr0 = value_as_double(value_get(v, "lr0"));
    assert_true(lr0 > 0.00249 && lr0 < 0.00251);
    char *csv = NULL;
    size_t n = 0, commas = 0;
    assert_int_equal(file_read(s.ctx, scratch_path(&s, "train/results.csv"), 0, &csv, &n), OL_OK);
    for (size_t i = 0; i < n; i++) commas += csv[i] == ',';
    assert_int_equal(commas, 2 * 14); /* 15 columns, a head and a row */
    mem_free(s.ctx, csv);
    ol_model_destroy(m);
    ol_options_destroy(o);
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_and_logged_lines_are_one_line),
                                       cmocka_unit_test(deep_and_huge_yaml_is_refused_where_it_becomes_so),
                                       cmocka_unit_test(names_of_full_length_can_be_written),
                                       cmocka_unit_test(pipes_are_refused_and_dead_links_are_listed),
                                       cmocka_unit_test(files_of_killed_writers_are_swept),
                                       cmocka_unit_test(a_failed_write_names_what_was_asked_for),
                                       cmocka_unit_test(decimal_commas_of_the_host_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
