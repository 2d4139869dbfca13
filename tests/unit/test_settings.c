/* Settings: defaults, checks and their messages, names, files. */
#include "golden.h"

#include "base/file.h"
#include "base/settings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void defaults_are_those_of_the_table(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    settings s;
    assert_int_equal(settings_init(&s, ctx), OL_OK);
    assert_int_equal(s.epochs, 100);
    assert_true(s.lr0 == 0.01 && s.momentum == 0.937 && s.batch == 16.0);
    assert_string_equal(s.optimizer, "auto");
    assert_null(s.model);
    assert_true(isnan(s.conf) && isnan(s.time));
    assert_int_equal(s.nms, SETTING_NONE);
    assert_int_equal(s.opset, SETTING_UNSET);
    assert_true(s.save && !s.rect);
    int hw[2];
    settings_image_size(&s, hw);
    assert_true(hw[0] == 640 && hw[1] == 640);
    assert_int_equal(settings_cache(&s), SETTING_CACHE_OFF);
    assert_true(settings_switch_on(s.pretrained) && settings_switch_text(s.pretrained) == NULL);
    for (int i = 0; i < SETTING_COUNT; i++) assert_false(s.given[i]);
    settings_deinit(&s);
    ol_context_destroy(ctx);
}

static void typed_values_reach_their_fields(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    settings s, copy;
    assert_int_equal(settings_init(&s, ctx), OL_OK);
    static const char *const pairs[][2] = {{"epochs", "3.0"},         {"imgsz", "224,128"},   {"name", "007"},
                                           {"freeze", "[0, 2]"},      {"classes", "5"},       {"nms", "False"},
                                           {"conf", "0.5"},           {"cache", "disk"},      {"batch", "-1"},
                                           {"half", "True"},          {"hide_conf", "true"},  {"scale", "(0.8, 1.2)"},
                                           {"fraction", "[0.5, 10]"}, {"pretrained", "a.pt"}, {"task", "detect"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(settings_set_text(&s, pairs[i][0], pairs[i][1]), OL_OK);
    assert_int_equal(s.epochs, 3);
    assert_int_equal(s.values[SETTING_ID_epochs]->kind, VALUE_INT);
    int hw[2], *items = NULL;
    size_t count = 0;
    settings_image_size(&s, hw);
    assert_true(hw[0] == 224 && hw[1] == 128);
    assert_string_equal(s.name, "007");
    assert_int_equal(settings_ints(&a, s.freeze, &items, &count), OL_OK);
    assert_true(count == 2 && items[0] == 0 && items[1] == 2);
    assert_int_equal(settings_ints(&a, s.classes, &items, &count), OL_OK);
    assert_true(count == 1 && items[0] == 5);
    assert_int_equal(s.nms, SETTING_FALSE);
    assert_true(s.conf == 0.5 && s.batch == -1.0 && !s.show_conf);
    assert_int_equal(settings_cache(&s), SETTING_CACHE_DISK);
    assert_int_equal(s.quantize->as.integer, 16);
    double low, high, share;
    int64_t number;
    settings_range(s.scale, &low, &high);
    assert_true(low == 0.8 && high == 1.2);
    settings_fraction(&s, 0, &share, &number);
    assert_true(share == 0.5 && number == 0);
    settings_fraction(&s, 1, &share, &number);
    assert_int_equal(number, 10);
    assert_string_equal(settings_switch_text(s.pretrained), "a.pt");
    assert_true(s.given[SETTING_ID_epochs] && s.given[SETTING_ID_show_conf] && !s.given[SETTING_ID_lr0]);

    assert_int_equal(settings_copy(&s, &copy), OL_OK);
    settings_deinit(&s);
    assert_string_equal(copy.name, "007");
    assert_true(copy.given[SETTING_ID_epochs]);
    settings_deinit(&copy);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

static void bad_values_are_named(void **state) {
    (void)state;
    static const struct {
        const char *name, *typed, *says;
    } cases[] = {
        {"conf", "2", "'conf=2' is an invalid value. Valid 'conf' values are between 0.0 and 1.0."},
        {"epochs", "0", "'epochs=0' is an invalid value. 'epochs' must be >= 1."},
        {"epochs", "1.5", "'epochs=1.5' is of invalid type float. 'epochs' must be an int (i.e. 'epochs=8')"},
        {"epochs", "none", "'epochs=None' is invalid. 'epochs' must not be None."},
        {"epochs", "99999999999", "'epochs=99999999999'"},
        {"save", "3", "'save=3' is of invalid type int. 'save' must be a bool (i.e. 'save=True' or 'save=False')"},
        {"lr0", "abc",
         "'lr0=abc' is of invalid type str. Valid 'lr0' types are int (i.e. 'lr0=0') or float (i.e. 'lr0=0.5')"},
        {"imgsz", "[1,2,3]", "'imgsz=[1, 2, 3]'"},
        {"imgsz", "0", "'imgsz=0'"},
        {"imgsz", "8193", "'imgsz=8193'"},
        {"imgsz", "[64, 1000000]", "'imgsz=[64, 1000000]'"},
        {"batch", "0", "'batch=0'"},
        {"batch", "1.5", "'batch=1.5'"},
        {"cache", "foo", "'cache=foo' is invalid. Valid 'cache' values are True, False, 'ram', or 'disk'."},
        {"amp", "fp8", "Valid 'amp' values are True, False, 'fp16', 'bf16', or 'fp32'."},
        {"task", "foo", "'detect', 'segment'"},
        {"optimizer", "foo", "'auto', 'SGD', 'MuSGD'"},
        {"fraction", "0", "'fraction=0'"},
        {"fraction", "1.5", "'fraction=1.5'"},
        {"scale", "(1.2, 0.8)", "'scale=[1.2, 0.8]'"},
        {"quantize", "7", "'quantize=7' is invalid. Valid 'quantize' values are 8, 16, 32, 'int8'"},
        {"nms", "3", "'nms=3'"},
        {"seed", "-1", "'seed=-1'"},
        {"classes", "a", "'classes=a'"},
        {"imgsz", "", "'imgsz=' has no value"},
        {"modle", "x", "'modle' is not a valid YOLO argument. Similar arguments are i.e. ['mode=train', 'model']."},
        {"frobnicate", "1", "'frobnicate' is not a valid YOLO argument. 'yolo cfg' lists"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ol_context *ctx = test_context();
        settings s;
        assert_int_equal(settings_init(&s, ctx), OL_OK);
        assert_int_equal(settings_set_text(&s, cases[i].name, cases[i].typed), OL_ERROR_ARGUMENT);
        if (strstr(ol_context_message(ctx), cases[i].says) == NULL)
            fail_msg("%s=%s: %s", cases[i].name, cases[i].typed, ol_context_message(ctx));
        settings_deinit(&s);
        ol_context_destroy(ctx);
    }
}

static void files_set_defaults_and_explicit_arguments_win(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    arena a;
    arena_init(&a, ctx, 0);
    settings s;
    assert_int_equal(settings_init(&s, ctx), OL_OK);
    assert_int_equal(settings_set_text(&s, "epochs", "7"), OL_OK);
    const char *path = arena_printf(&a, "%s/test_settings.yaml", TESTS_BUILD_DIR),
               *source = "epochs: 3\nlr0: 0.1\nsave_dir: /x\nmodel: null\n";
    assert_int_equal(file_write_atomic(ctx, path, source, strlen(source)), OL_OK);
    assert_int_equal(settings_read(&s, path), OL_OK);
    assert_int_equal(s.epochs, 7);
    assert_true(s.lr0 == 0.1 && !s.given[SETTING_ID_lr0]);

    text written;
    text_init(&written, ctx);
    assert_int_equal(settings_set_save_dir(&s, "/runs/detect/train"), OL_OK);
    assert_int_equal(settings_write(&written, &s), OL_OK);
    assert_ptr_equal(
        strstr(text_c(&written), "task: detect\nmode: train\nmodel: null\ndata: null\nepochs: 7\ntime: null\n"),
        text_c(&written));
    assert_non_null(strstr(text_c(&written), "\nlr0: 0.1\n"));
    assert_non_null(strstr(text_c(&written), "\ntracker: tracktrack.yaml\nsave_dir: /runs/detect/train\n"));

    source = "epochs: 3\nlearning: 1\n";
    assert_int_equal(file_write_atomic(ctx, path, source, strlen(source)), OL_OK);
    assert_int_equal(settings_read(&s, path), OL_ERROR_ARGUMENT);
    assert_non_null(strstr(ol_context_message(ctx), "test_settings.yaml:2: 'learning' is not a valid"));
    ctx_clear(ctx);
    const value *map = NULL;
    assert_int_equal(yaml_parse(&a, "stored", "epochs: 1.5\npatience: 5\nother: 1\n", 33, &map), OL_OK);
    assert_int_equal(settings_set_map(&s, map, "stored", false), OL_OK);
    assert_int_equal(s.patience, 5);
    text_deinit(&written);
    settings_deinit(&s);
    arena_deinit(&a);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table), cmocka_unit_test(typed_values_reach_their_fields),
        cmocka_unit_test(bad_values_are_named), cmocka_unit_test(files_set_defaults_and_explicit_arguments_win)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
