/* The line that tells a user that training waits for its pictures: when it is written, and its figures. */
#include "data/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char line[512];

static bool described(double waited_s, double elapsed_s) {
    const loader_stats s = {.n_images = 100, .waited_s = waited_s, .elapsed_s = elapsed_s};
    line[0] = '\0';
    return loader_describe_wait(&s, "train", 2, line, sizeof line);
}

static void a_slow_source_is_named_with_its_share(void **state) {
    (void)state;
    assert_true(described(37.25, 50));
    assert_string_equal(line,
                        "train: waiting for data 74% of the epoch (37.2 s): workers=2; more of them or cache=ram help");
    assert_true(described(60, 60)); /* everything was waiting */
    assert_non_null(strstr(line, " 100% of the epoch (60.0 s)"));
    assert_true(described(60.5, 60)); /* clocks of two readings */
    assert_non_null(strstr(line, " 100% of the epoch"));
}

static void little_waiting_is_no_line(void **state) {
    (void)state;
    assert_false(described(0, 0)); /* an epoch that did not begin */
    assert_false(described(0, 100));
    assert_false(described(4.9, 5));  /* too short to matter */
    assert_false(described(19, 100)); /* less than a fifth */
    assert_string_equal(line, "");
    assert_true(described(5, 5));
    assert_true(described(20, 100));
    assert_non_null(strstr(line, " 20% of the epoch (20.0 s)"));
}

static void long_names_are_cut(void **state) {
    (void)state;
    char small[24];
    const loader_stats s = {.n_images = 100, .waited_s = 30, .elapsed_s = 40};
    assert_true(loader_describe_wait(&s, "a/data/set/with/a/long/name", 8, small, sizeof small));
    assert_int_equal(strlen(small), sizeof small - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_slow_source_is_named_with_its_share),
                                       cmocka_unit_test(little_waiting_is_no_line),
                                       cmocka_unit_test(long_names_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
