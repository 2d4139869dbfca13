/* Data set descriptions: finding the file, its keys, its errors, where paths are looked for. */
#include "golden.h"
#include "scratch.h"

#include "base/file.h"
#include "data/data_config.h"
#include "data/data_find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct bad_case {
    const char *what, *text, *message; /* part of the message */
} bad_case;

static const bad_case bad[] = {
    {"not YAML", "names: [a\n", "not valid YAML"},
    {"a list", "- a\n- b\n", "no data set description"},
    {"empty", "", "no data set description"},
    {"no train", "val: v\nnames: [a]\n", "'train:' key missing"},
    {"no val", "train: t\nnames: [a]\n", "'val:' key missing"},
    {"null val", "train: t\nval:\nnames: [a]\n", "'val:' key missing"},
    {"no classes", "train: t\nval: v\n", "neither 'names' nor 'nc'"},
    {"train is a number", "train: 3\nval: v\nnames: [a]\n", "'train' must be str or list, not int"},
    {"val holds a number", "train: t\nval: [v, 3]\nnames: [a]\n", "'val' must be str or list of str, not int"},
    {"an empty list", "train: []\nval: v\nnames: [a]\n", "'train' is an empty list"},
    {"names is text", "train: t\nval: v\nnames: person\n", "'names' must be list or map, not str"},
    {"no name", "train: t\nval: v\nnames: []\n", "'names' has 0 classes"},
    {"nc is text", "train: t\nval: v\nnc: many\n", "'nc' must be int, not str"},
    {"nc is zero", "train: t\nval: v\nnc: 0\n", "'nc' is 0"},
    {"nc is negative", "train: t\nval: v\nnc: -3\n", "'nc' is -3"},
    {"nc is huge", "train: t\nval: v\nnc: 1000000000000\n", "'nc' is 1000000000000"},
    {"nc is broken", "train: t\nval: v\nnc: 2.5\n", "'nc' must be int, not float"},
    {"nc disagrees", "train: t\nval: v\nnc: 3\nnames: [a, b]\n", "'names' has length 2 but 'nc' is 3"},
    {"a gap", "train: t\nval: v\nnames: {0: a, 2: b}\n",
     "2-class dataset requires class indices 0-1, but you have invalid class indices 0-2"},
    {"from one", "train: t\nval: v\nnames: {1: a, 2: b}\n", "invalid class indices 1-2"},
    {"no number", "train: t\nval: v\nnames: {a: 0}\n", "the key 'a', which is no class number"},
    {"channels", "train: t\nval: v\nnames: [a]\nchannels: none at all\n", "'channels' must be int, not str"},
    {"no channels", "train: t\nval: v\nnames: [a]\nchannels: 0\n", "'channels' is 0"},
    {"path", "path: 3\ntrain: t\nval: v\nnames: [a]\n", "'path' must be str, not int"},
    {"key points", "train: t\nval: v\nnames: [a]\nkpt_shape: [17, 5]\n", "'kpt_shape' must be"},
};

static void every_mistake_is_named(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        data_config c;
        const char *path = scratch_text(&s, "data.yaml", bad[i].text);
        ctx_clear(s.ctx);
        assert_int_not_equal(data_config_read(s.ctx, path, s.folder, DATA_N_SPLITS, &c), OL_OK);
        const char *message = ol_context_message(s.ctx);
        if (strstr(message, bad[i].message) == NULL || strstr(message, "data.yaml") == NULL)
            fail_msg("%s: %s", bad[i].what, message);
    }
    scratch_destroy(&s);
}

static data_config read_ok(scratch *s, const char *name, data_split need) {
    data_config c;
    ctx_clear(s->ctx);
    if (data_config_read(s->ctx, name, scratch_path(s, "sets"), need, &c) != OL_OK)
        fail_msg("%s", ol_context_message(s->ctx));
    return c;
}

static void keys_are_read(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *path = scratch_text(&s, "data.yaml",
                                    "\xEF\xBB\xBFpath: pictures\ntrain: [a, b/c]\nvalidation: ./v/\ntest: None\n"
                                    "names: {1: no, 0: caf\xE9 x, 2: 7}\nnc: '3'\nchannels: 1.0\nkpt_shape: [17, 3]\n"
                                    "download: https://example.com/x.zip\n");
    data_config c = read_ok(&s, path, DATA_N_SPLITS);
    assert_int_equal(c.nc, 3);
    assert_string_equal(c.names[0], "caf x"); /* the byte that is no UTF-8 is dropped */
    assert_string_equal(c.names[1], "no");
    assert_string_equal(c.names[2], "7");
    assert_int_equal(c.channels, 1);
    assert_int_equal(c.kpt_fields, 51);
    assert_string_equal(c.download, "https://example.com/x.zip");
    assert_int_equal(c.split[DATA_SPLIT_TRAIN].count, 2);
    assert_string_equal(c.split[DATA_SPLIT_TRAIN].items[1], scratch_path(&s, "pictures/b/c"));
    assert_string_equal(c.split[DATA_SPLIT_VAL].items[0], scratch_path(&s, "pictures/v"));
    assert_int_equal(c.split[DATA_SPLIT_TEST].count, 0);
    data_config_deinit(&c);

    scratch_text(&s, "data.yaml", "train: t\nval: v\nnc: 2\n");
    c = read_ok(&s, path, DATA_N_SPLITS);
    assert_string_equal(c.names[1], "class_1");
    assert_int_equal(c.channels, 3);
    assert_string_equal(c.root, s.folder);
    data_config_deinit(&c);
    scratch_destroy(&s);
}

static void paths_are_looked_for_in_order(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *path = scratch_text(&s, "conf/data.yaml", "path: set\ntrain: images/t\nval: images/v\nnames: [a]\n");
    data_config c;
    assert_int_equal(data_config_read(s.ctx, path, scratch_path(&s, "sets"), DATA_SPLIT_TRAIN, &c), OL_ERROR_NOT_FOUND);
    const char *message = ol_context_message(s.ctx);
    assert_non_null(strstr(message, "images not found, missing path"));
    assert_non_null(strstr(message, scratch_path(&s, "conf/set/images/t"))); /* both places are named */
    assert_non_null(strstr(message, scratch_path(&s, "sets/set/images/t")));

    folder_create(s.ctx, scratch_path(&s, "sets/set/images/t"));
    folder_create(s.ctx, scratch_path(&s, "sets/set/images/v"));
    c = read_ok(&s, path, DATA_SPLIT_TRAIN);
    assert_string_equal(c.root, scratch_path(&s, "sets/set"));
    data_config_deinit(&c);

    folder_create(s.ctx, scratch_path(&s, "conf/set/images/t")); /* beside the file wins, once it is complete */
    c = read_ok(&s, path, DATA_SPLIT_TRAIN);
    assert_string_equal(c.root, scratch_path(&s, "sets/set"));
    data_config_deinit(&c);
    folder_create(s.ctx, scratch_path(&s, "conf/set/images/v"));
    c = read_ok(&s, path, DATA_SPLIT_TRAIN);
    assert_string_equal(c.root, scratch_path(&s, "conf/set"));
    data_config_deinit(&c);

    ctx_clear(s.ctx);
    assert_int_equal(data_config_read(s.ctx, path, NULL, DATA_SPLIT_TEST, &c), OL_ERROR_NOT_FOUND);
    assert_non_null(strstr(ol_context_message(s.ctx), "no 'test' entry"));

    path = scratch_text(&s, "conf/up.yaml", "train: ../set/images/t\nval: ../set/images/v\nnames: [a]\n");
    c = read_ok(&s, path, DATA_SPLIT_TRAIN); /* ../set does not exist, set does */
    assert_string_equal(c.split[DATA_SPLIT_TRAIN].items[0], scratch_path(&s, "conf/set/images/t"));
    data_config_deinit(&c);
    scratch_destroy(&s);
}

static void files_are_found_by_name(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    arena *a = &s.arena;
    data_found f;
    const char *yaml = "train: t\nval: v\nnames: [a]\n";
    scratch_text(&s, "one/whatever.yml", yaml);
    scratch_text(&s, "two/x.yaml", yaml);
    scratch_text(&s, "two/two.yaml", yaml);
    scratch_text(&s, "three/x.yaml", yaml);
    scratch_text(&s, "three/y.yaml", yaml);
    scratch_text(&s, "deep/in/it/z.yaml", yaml);
    scratch_text(&s, "none/readme.txt", "");
    scratch_text(&s, "bare.yaml", yaml);
    assert_int_equal(data_find(a, scratch_path(&s, "one"), &f), OL_OK);
    assert_string_equal(f.path, scratch_path(&s, "one/whatever.yml"));
    assert_int_equal(data_find(a, scratch_path(&s, "two/"), &f), OL_OK);
    assert_string_equal(f.path, scratch_path(&s, "two/two.yaml"));
    assert_int_equal(data_find(a, scratch_path(&s, "deep"), &f), OL_OK);
    assert_string_equal(f.path, scratch_path(&s, "deep/in/it/z.yaml"));
    assert_int_equal(data_find(a, scratch_path(&s, "bare"), &f), OL_OK);
    assert_string_equal(f.path, scratch_path(&s, "bare.yaml"));
    assert_int_equal(data_find(a, "coco8", &f), OL_OK);
    assert_string_equal(f.known, "coco8.yaml");
    assert_int_equal(data_find(a, "VOC.yaml", &f), OL_OK);
    assert_null(f.path);

    static const char *const wrong[][2] = {
        {"three", "holds 2 YAML files"}, {"none", "holds no YAML file"},       {"coco9.yaml", "did you mean 'coco"},
        {"x/y", "'x/y' does not exist"}, {"https://e.com/a.yaml", "download"}, {"a.zip", "unpack it"},
        {"", "data= is empty"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ctx_clear(s.ctx);
        const char *name = i < 2 ? scratch_path(&s, wrong[i][0]) : wrong[i][0];
        assert_int_not_equal(data_find(a, name, &f), OL_OK);
        if (strstr(ol_context_message(s.ctx), wrong[i][1]) == NULL) fail_msg("%s: %s", name, ol_context_message(s.ctx));
    }
    scratch_destroy(&s);
}

static void known_sets_are_whole(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const value *known = NULL;
    assert_int_equal(known_datasets(&s.arena, &known), OL_OK);
    assert_true(known->as.map.count > 40);
    for (size_t i = 0; i < known->as.map.count; i++) {
        data_config c = read_ok(&s, known->as.map.keys[i]->as.string, DATA_N_SPLITS);
        assert_true(c.nc > 0);
        data_config_deinit(&c);
    }
    folder_create(s.ctx, scratch_path(&s, "sets/coco8/images/train"));
    folder_create(s.ctx, scratch_path(&s, "sets/coco8/images/val"));
    data_config c = read_ok(&s, "coco8", DATA_SPLIT_TRAIN);
    assert_int_equal(c.nc, 80);
    assert_string_equal(c.names[79], "toothbrush");
    assert_string_equal(c.root, scratch_path(&s, "sets/coco8"));
    data_config_deinit(&c);
    data_config missing;
    assert_int_equal(data_config_read(s.ctx, "coco128.yaml", scratch_path(&s, "sets"), DATA_SPLIT_VAL, &missing),
                     OL_ERROR_NOT_FOUND);
    assert_non_null(strstr(ol_context_message(s.ctx), scratch_path(&s, "sets/coco128/images/train2017")));
    assert_non_null(strstr(ol_context_message(s.ctx), "Nothing is downloaded"));
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_named),        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(paths_are_looked_for_in_order), cmocka_unit_test(files_are_found_by_name),
        cmocka_unit_test(known_sets_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
