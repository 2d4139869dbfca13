/* The table of label rules: what is kept, what drops a picture, and with which line and reason. */
#include "golden.h"

#include "data/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct rule_case {
    const char *what, *text;
    int n_rows;         /* -1: rejected */
    int line;           /* of a rejection */
    const char *reason; /* part of it */
    int n_duplicates;
} rule_case;

static const rule_case cases[] = {
    {"one box", "0 0.5 0.5 0.2 0.2\n", 1, 0, "", 0},
    {"no newline at the end", "0 0.5 0.5 0.2 0.2", 1, 0, "", 0},
    {"empty", "", 0, 0, "", 0},
    {"blank lines only", "\n \t\r\n\n", 0, 0, "", 0},
    {"CRLF and tabs", "0\t0.5 0.5 0.2 0.2\r\n1 0.4 0.4 0.1 0.1\r\n", 2, 0, "", 0},
    {"byte order mark",
     "\xEF\xBB\xBF"
     "1 0.5 0.5 0.2 0.2\n",
     1, 0, "", 0},
    {"exponents", "0 5e-1 .5 2E-1 +0.2\n", 1, 0, "", 0},
    {"class as float", "1.0 0.5 0.5 0.2 0.2\n", 1, 0, "", 0},
    {"the edge of what is kept", "0 1.01 -0.01 0.2 0.2\n", 1, 0, "", 0},
    {"too few columns", "0 0.5 0.5 0.2 0.2\n\n0 0.5 0.5 0.2\n", -1, 3, "labels require 5 columns, 4 columns detected",
     0},
    {"six columns", "0 0.5 0.5 0.2 0.2 0.9\n", -1, 1, "labels require 5 columns, 6 columns detected", 0},
    {"pixels", "0 0.5 0.5 0.2 0.2\n0 320 240 64 48\n", -1, 2, "non-normalized or out of bounds coordinates [320]", 0},
    {"just too large", "0 0.5 0.5 1.02 0.2\n", -1, 1, "non-normalized", 0},
    {"negative centre", "0 -0.02 0.5 0.2 0.2\n", -1, 1, "negative label values [-0.02]", 0},
    {"negative width", "0 0.5 0.5 -0.001 0.2\n", -1, 1, "negative label values", 0},
    {"negative class", "-1 0.5 0.5 0.2 0.2\n", -1, 1, "negative label values [-1]", 0},
    {"class between integers", "0.5 0.5 0.5 0.2 0.2\n", -1, 1, "non-integer class labels [0.5]", 0},
    {"class beyond nc", "2 0.5 0.5 0.2 0.2\n3 0.5 0.5 0.2 0.2\n", -1, 2,
     "Label class 3 exceeds dataset class count 3. Possible class labels are 0-2", 0},
    {"not a number", "0 0.5 0.5 nan 0.2\n", -1, 1, "'nan' is not a finite number", 0},
    {"infinite", "0 0.5 inf 0.2 0.2\n", -1, 1, "not a finite number", 0},
    {"larger than a float", "0 0.5 1e39 0.2 0.2\n", -1, 1, "not a finite number", 0},
    {"a word", "0 0.5 0.5 0.2 0.2\nperson 0.5 0.5 0.2 0.2\n", -1, 2, "'person' is not a number", 0},
    {"commas", "0,0.5,0.5,0.2,0.2\n", -1, 1, "is not a number", 0},
    {"hexadecimal", "0x1 0.5 0.5 0.2 0.2\n", -1, 1, "is not a number", 0},
    {"a decimal comma", "0 0,5 0.5 0.2 0.2\n", -1, 1, "'0,5' is not a number", 0},
    {"duplicates", "1 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.2\n1 0.5 0.5 0.2 0.2\n1 0.50 0.5 0.2 0.2\n", 2, 0, "", 2},
    {"an outline", "2 0.1 0.1 0.5 0.1 0.5 0.7\n", 1, 0, "", 0},
    {"an outline and a box", "2 0.1 0.1 0.5 0.1 0.5 0.7\n0 0.5 0.5 0.2 0.2\n", -1, 2,
     "labels mix segment and detection rows", 0},
    {"half a point", "2 0.1 0.1 0.5 0.1 0.5 0.7 0.3\n", -1, 1, "an outline needs x y pairs", 0},
    {"equal outlines", "2 0.1 0.1 0.5 0.1 0.5 0.7\n2 0.1 0.1 0.5 0.1 0.5 0.7\n", 1, 0, "", 1},
    {"outlines with one box", "2 0.1 0.1 0.5 0.1 0.5 0.7\n2 0.1 0.7 0.5 0.1 0.5 0.7\n", 2, 0, "", 0},
    {"an outline outside", "2 0.1 0.1 0.5 0.1 2.5 0.7\n", -1, 1, "out of bounds", 0},
};

static void every_rule(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    const label_rules rules = {.nc = 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rule_case *c = &cases[i];
        arena a;
        label_rows rows = {0};
        label_verdict v = {0};
        arena_init(&a, ctx, 0);
        assert_int_equal(labels_parse(&a, c->text, strlen(c->text), &rules, &rows, &v), OL_OK);
        if (v.rejected != (c->n_rows < 0)) fail_msg("%s: %s", c->what, v.rejected ? v.reason : "was accepted");
        if (v.rejected) {
            if (v.line != c->line) fail_msg("%s: line %d, not %d", c->what, v.line, c->line);
            if (strstr(v.reason, c->reason) == NULL) fail_msg("%s: %s", c->what, v.reason);
            assert_int_equal(rows.n, 0);
        } else {
            if ((int)rows.n != c->n_rows) fail_msg("%s: %d rows", c->what, rows.n);
            assert_int_equal(v.n_duplicates, c->n_duplicates);
        }
        arena_deinit(&a);
    }
    ol_context_destroy(ctx);
}

static void values_and_order(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    label_rows rows = {0};
    label_verdict v = {0};
    const label_rules rules = {.nc = 3};
    arena_init(&a, ctx, 0);
    const char *plain = "2 0.9 0.5 0.2 0.1\n0 0.25 0.5 0.2 0.3\n";
    assert_int_equal(labels_parse(&a, plain, strlen(plain), &rules, &rows, &v), OL_OK);
    assert_true(rows.rows[0] == 2 && rows.rows[1] == 0.9f && rows.rows[9] == 0.3f); /* file order */
    assert_null(rows.first_point);

    const char *twice = "2 0.9 0.5 0.2 0.1\n0 0.25 0.5 0.2 0.3\n2 0.9 0.5 0.2 0.1\n0 0.125 0.5 0.2 0.3\n";
    assert_int_equal(labels_parse(&a, twice, strlen(twice), &rules, &rows, &v), OL_OK);
    assert_int_equal(rows.n, 3); /* sorted, because a duplicate was removed */
    assert_true(rows.rows[1] == 0.125f && rows.rows[6] == 0.25f && rows.rows[10] == 2);

    const char *outlines = "1 0.25 0.25 0.75 0.25 0.5 0.75\n0 0 0 0.5 0 0.5 1 0 1\n";
    assert_int_equal(labels_parse(&a, outlines, strlen(outlines), &rules, &rows, &v), OL_OK);
    assert_int_equal(rows.n, 2);
    for (int k = 1; k < 5; k++) assert_true(rows.rows[k] == 0.5f);
    assert_int_equal(rows.first_point[1], 3);
    assert_int_equal(rows.first_point[2], 7);
    assert_true(rows.points[2 * 3 + 2] == 0.5f);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void rules_of_the_set(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    label_rows rows = {0};
    label_verdict v = {0};
    arena_init(&a, ctx, 0);
    const label_rules any = {.nc = 1, .any_class = true};
    const char *high = "7 0.5 0.5 0.2 0.2\n";
    assert_int_equal(labels_parse(&a, high, strlen(high), &any, &rows, &v), OL_OK);
    assert_false(v.rejected);
    assert_int_equal(rows.n, 1);
    const label_rules pose = {.nc = 1, .pose_fields = 6};
    const char *points = "0 0.5 0.5 0.2 0.2 0.1 0.1 2 0.3 0.3 1\n"; /* key points, not an outline */
    assert_int_equal(labels_parse(&a, points, strlen(points), &pose, &rows, &v), OL_OK);
    assert_int_equal(rows.n, 1);
    assert_null(rows.first_point);
    assert_true(rows.rows[1] == 0.5f && rows.rows[3] == 0.2f);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void any_prefix_is_survived(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    const char *text = "\xEF\xBB\xBF"
                       "1 0.25 0.25 0.75 0.25 0.5 0.75\r\n0 0 0 0.5 0 0.5 1 0 1\n\n1e5 nan x";
    const label_rules rules = {.nc = 3};
    for (size_t n = 0; n <= strlen(text); n++) {
        arena a;
        label_rows rows = {0};
        label_verdict v = {0};
        arena_init(&a, ctx, 0);
        assert_int_equal(labels_parse(&a, text, n, &rules, &rows, &v), OL_OK);
        arena_deinit(&a);
    }
    ol_context_destroy(ctx);
}

static void label_paths(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"/d/images/train/a.jpg", "/d/labels/train/a.txt"},
        {"/images/d/images/train/a.b.jpg", "/images/d/labels/train/a.b.txt"},
        {"/images/images/images/a.jpg", "/images/images/labels/a.txt"},
        {"/d/myimages/a.jpg", "/d/myimages/a.txt"},
        {"/d/images", "/d/images.txt"},
        {"/d/images/no suffix", "/d/labels/no suffix.txt"},
        {"/d/images/\xC3\xBC\xE7\x8C\xAB.png", "/d/labels/\xC3\xBC\xE7\x8C\xAB.txt"},
    };
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(label_path(&a, pairs[i][0]), pairs[i][1]);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule),       cmocka_unit_test(values_and_order),
        cmocka_unit_test(rules_of_the_set), cmocka_unit_test(any_prefix_is_survived),
        cmocka_unit_test(label_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
