/* Run folders: numbered, and never two runs in one. */
#include "scratch.h"

#include "api/run_folder.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static settings settings_of(scratch *s, const char *exist_ok) {
    settings t;
    assert_int_equal(settings_init(&t, s->ctx), OL_OK);
    assert_int_equal(settings_set_text(&t, "project", s->folder), OL_OK);
    assert_int_equal(settings_set_text(&t, "exist_ok", exist_ok), OL_OK);
    return t;
}

static void choose(settings *t) {
    assert_int_equal(run_folder_choose(t, "train"), OL_OK);
}

static void create(settings *t) {
    int n_created = 0;
    assert_int_equal(run_folder_create(t, "train", &n_created), OL_OK);
    assert_true(file_is_folder(t->save_dir));
}

/* A run reads its data between the two: what starts meanwhile sees the same free number. */
static void runs_that_choose_at_once_get_folders_of_their_own(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    settings runs[3];
    static const char *const names[3] = {"train", "train-2", "train-3"};
    for (int i = 0; i < 3; i++) {
        runs[i] = settings_of(&s, "False");
        choose(&runs[i]);
        assert_string_equal(path_name(runs[i].save_dir), "train");
    }
    for (int i = 0; i < 3; i++) {
        create(&runs[i]);
        assert_string_equal(path_name(runs[i].save_dir), names[i]);
        settings_deinit(&runs[i]);
    }
    scratch_destroy(&s);
}

static void exist_ok_shares_a_folder(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    for (int i = 0; i < 2; i++) {
        settings t = settings_of(&s, "True");
        choose(&t);
        create(&t);
        assert_string_equal(path_name(t.save_dir), "train");
        settings_deinit(&t);
    }
    scratch_destroy(&s);
}

static void a_file_in_the_way_is_an_error(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    settings t = settings_of(&s, "True");
    int n_created = 0;
    scratch_text(&s, "train", "a file");
    choose(&t);
    assert_int_equal(run_folder_create(&t, "train", &n_created), OL_ERROR_IO);
    assert_non_null(strstr(ol_context_message(s.ctx), "a file of that name exists"));
    settings_deinit(&t);
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_that_choose_at_once_get_folders_of_their_own),
                                       cmocka_unit_test(exist_ok_shares_a_folder),
                                       cmocka_unit_test(a_file_in_the_way_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
