/* Data sets as a whole: lists, the scan and its summary, what drops a picture, filters, and the label cache. */
#include "golden.h"
#include "log_lines.h"
#include "tiny_set.h"

#include "base/file.h"
#include "data/dataset.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_line(const log_lines *l, const char *part) {
    if (strstr(l->text, part) == NULL) fail_msg("no line says \"%s\":\n%s", part, l->text);
}

static ol_status try_open(scratch *s, const char *yaml, dataset_options options, dataset **d) {
    data_config c;
    ctx_clear(s->ctx);
    if (options.cache_folder == NULL) options.cache_folder = "";
    if (options.n_threads == 0) options.n_threads = 2;
    ol_status status = data_config_read(s->ctx, yaml, NULL, options.split, &c);
    if (status != OL_OK) return status;
    status = dataset_open(s->ctx, &c, &options, d);
    data_config_deinit(&c);
    return status;
}

static dataset *open_ok(scratch *s, const char *yaml, dataset_options options) {
    dataset *d = NULL;
    if (try_open(s, yaml, options, &d) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    return d;
}

static const data_item *item(const dataset *d, const char *name) {
    for (int i = 0; i < d->n; i++)
        if (strcmp(path_name(d->items[i].path), name) == 0) return &d->items[i];
    return NULL;
}

static void pictures_and_labels_are_paired(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml = tiny_set(&s, 9, 3);
    scratch_text(&s, "images/train/notes.txt", "not a picture");
    tiny_picture(&s, "images/train/.hidden/x.png", 40, 40, 1);
    tiny_picture(&s, "images/train/._008.png", 40, 40, 1);
    tiny_picture(&s, "images/train/deep/\xC3\xBC\xE7\x8C\xAB.JPG", 40, 50, 1);
    scratch_text(&s, "labels/train/deep/\xC3\xBC\xE7\x8C\xAB.txt",
                 "\xEF\xBB\xBF"
                 "2 .5 .5 .1 .1\r\n");
    dataset *d = open_ok(&s, yaml, (dataset_options){.training = true});
    assert_int_equal(d->n, 10);
    assert_int_equal(d->nc, 3);
    assert_string_equal(d->names[1], "bee");
    for (int i = 0; i < 9; i++) { /* in order, each with its own boxes */
        assert_string_equal(path_name(d->items[i].path), arena_printf(&s.arena, "%03d.png", i));
        assert_int_equal(d->items[i].labels.n, i % 4 + 1);
        assert_true(d->items[i].labels.rows[0] == (float)(i % 3));
    }
    assert_int_equal(d->items[9].labels.n, 1);
    assert_int_equal(d->items[9].h, 40);
    assert_int_equal(d->items[9].w, 50);
    assert_int_equal(d->max_labels, 4);
    int64_t counts[3];
    dataset_class_counts(d, counts);
    assert_int_equal(counts[0] + counts[1] + counts[2], d->n_labels);
    expect_line(&log, "train: Scanning ");
    expect_line(&log, "labels/train... 10 images, 0 backgrounds, 0 corrupt");
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void what_is_wrong_drops_out_alone(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml = tiny_set(&s, 8, 1);
    char *png = NULL;
    size_t n = 0;
    file_read(s.ctx, scratch_path(&s, "images/train/002.png"), 0, &png, &n);
    scratch_bytes(&s, "images/train/cut.png", png, n / 2);
    scratch_bytes(&s, "images/train/empty.png", "", 0);
    scratch_text(&s, "images/train/text.jpg", "no picture at all");
    mem_free(s.ctx, png);
    tiny_picture(&s, "images/train/small.png", 9, 40, 1);
    scratch_text(&s, "labels/train/001.txt", "0 .5 .5 .1 .1\n7 .5 .5 .1 .1\n");
    scratch_text(&s, "labels/train/003.txt", "0 .5 .5 nan .1\n");
    scratch_text(&s, "labels/train/004.txt", "");
    unlink(scratch_path(&s, "labels/train/005.txt"));
    scratch_text(&s, "labels/train/006.txt", "1 .5 .5 .1 .1\n1 .5 .5 .1 .1\n");
    dataset *d = open_ok(&s, yaml, (dataset_options){.training = true});
    assert_int_equal(d->n, 6); /* 0 2 4 5 6 7 */
    assert_null(item(d, "001.png"));
    assert_null(item(d, "cut.png"));
    assert_int_equal(item(d, "004.png")->labels.n, 0);
    assert_int_equal(item(d, "005.png")->labels.n, 0);
    assert_int_equal(item(d, "006.png")->labels.n, 1);
    assert_int_equal(item(d, "007.png")->labels.n, 4);
    assert_int_equal(d->n_corrupt, 6);
    assert_int_equal(d->n_empty, 1);
    assert_int_equal(d->n_missing, 5); /* the four bad pictures have none either */
    expect_line(&log, "6 images, 6 backgrounds, 6 corrupt");
    expect_line(&log, "001.png: ignoring corrupt image/label: ");
    expect_line(&log,
                "labels/train/001.txt:2: Label class 7 exceeds dataset class count 3. Possible class labels are 0-2");
    expect_line(&log, "labels/train/003.txt:1: 'nan' is not a finite number");
    expect_line(&log, "cut.png: ignoring corrupt image/label: ");
    expect_line(&log, "small.png: ignoring corrupt image/label: image size (9, 40) <10 pixels");
    expect_line(&log, "006.txt: 1 duplicate labels removed");
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void nothing_usable_is_an_error(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = NULL;
    const char *yaml = tiny_yaml(&s);
    folder_create(s.ctx, scratch_path(&s, "images/val"));
    folder_create(s.ctx, scratch_path(&s, "images/train"));
    assert_int_equal(try_open(&s, yaml, (dataset_options){.training = true}, &d), OL_ERROR_NOT_FOUND);
    assert_non_null(strstr(ol_context_message(s.ctx), "train: No images found in "));
    tiny_picture(&s, "images/train/a.png", 40, 40, 1);
    assert_int_equal(try_open(&s, yaml, (dataset_options){.training = true}, &d), OL_ERROR_NOT_FOUND);
    assert_non_null(strstr(ol_context_message(s.ctx), "labels/train/a.txt'")); /* where the label was looked for */
    d = open_ok(&s, yaml, (dataset_options){.training = false});
    assert_int_equal(d->n, 1);
    dataset_destroy(d);
    scratch_text(&s, "labels/train/a.txt", "0 5 5 1 1\n");
    d = NULL;
    assert_int_equal(try_open(&s, yaml, (dataset_options){.training = true}, &d), OL_ERROR_FORMAT);
    assert_non_null(strstr(ol_context_message(s.ctx), "No valid images found"));
    assert_non_null(strstr(ol_context_message(s.ctx), "non-normalized"));
    static const int beyond[] = {3};
    assert_int_equal(try_open(&s, yaml, (dataset_options){.classes = beyond, .n_classes = 1}, &d), OL_ERROR_ARGUMENT);
    assert_int_equal(try_open(&s, yaml, (dataset_options){.fraction = -0.5}, &d), OL_ERROR_ARGUMENT);
    assert_int_equal(try_open(&s, yaml, (dataset_options){.split = DATA_SPLIT_TEST}, &d), OL_ERROR_NOT_FOUND);
    assert_null(d);
    scratch_destroy(&s);
}

static void classes_and_fractions_select(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml = tiny_set(&s, 10, 1);
    static const int bees[] = {1};
    dataset *d = open_ok(&s, yaml, (dataset_options){.training = true, .classes = bees, .n_classes = 1});
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->items[i].labels.n; k++) assert_true(d->items[i].labels.rows[5 * k] == 1);
    assert_int_equal(d->n, 10);
    assert_int_equal(d->nc, 3);
    const int64_t n_bees = d->n_labels;
    dataset_destroy(d);
    d = open_ok(&s, yaml, (dataset_options){.training = true, .classes = bees, .n_classes = 1, .single_cls = true});
    assert_int_equal(d->n_labels, n_bees);
    assert_int_equal(d->nc, 1);
    assert_string_equal(d->names[0], "item");
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->items[i].labels.n; k++) assert_true(d->items[i].labels.rows[5 * k] == 0);
    dataset_destroy(d);
    d = open_ok(&s, yaml, (dataset_options){.training = false, .model_classes = 2});
    int64_t counts[3];
    dataset_class_counts(d, counts);
    assert_int_equal(counts[2], 0);
    expect_line(&log, "classes that the model does not have (it has 2)");
    dataset_destroy(d);
    static const struct {
        double fraction;
        int n;
    } shares[] = {{0.25, 2}, {0.35, 4}, {0.01, 1}, {1, 10}, {0, 10}, {3, 3}, {50, 10}}; /* 2.5 rounds to even */
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        d = open_ok(&s, yaml, (dataset_options){.fraction = shares[i].fraction});
        assert_int_equal(d->n, shares[i].n);
        dataset_destroy(d);
    }
    scratch_destroy(&s);
}

static void lists_name_pictures(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    tiny_set(&s, 5, 2);
    const char *yaml =
        scratch_text(&s, "lists.yaml", "train: train.txt\nval: [images/val/001.png, images/val]\nnc: 3\n");
    scratch_text(&s, "train.txt",
                 arena_printf(&s.arena,
                              "\xEF\xBB\xBF./images/train/003.png\r\n%s/images/train/001.png\n\nimages/train/000.png \n"
                              "./notes.md\n./images/train/gone.png",
                              s.folder));
    dataset *d = open_ok(&s, yaml, (dataset_options){.training = true});
    assert_int_equal(d->n, 3); /* sorted; the missing one is reported as corrupt */
    assert_int_equal(d->n_corrupt, 1);
    assert_string_equal(path_name(d->items[0].path), "000.png");
    assert_string_equal(path_name(d->items[2].path), "003.png");
    dataset_destroy(d);
    d = open_ok(&s, yaml, (dataset_options){.split = DATA_SPLIT_VAL});
    assert_int_equal(d->n, 3); /* named twice: twice */
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void outlines_count_when_all_have_them(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml = tiny_set(&s, 3, 1);
    for (int i = 0; i < 3; i++)
        scratch_text(&s, arena_printf(&s.arena, "labels/train/%03d.txt", i),
                     "0 .1 .1 .5 .1 .5 .5\n1 .2 .2 .6 .2 .6 .6 .2 .6\n");
    dataset *d = open_ok(&s, yaml, (dataset_options){.training = true});
    assert_true(d->polygons);
    assert_int_equal(d->items[1].labels.first_point[2], 7);
    dataset_destroy(d);
    static const int second[] = {1};
    d = open_ok(&s, yaml, (dataset_options){.classes = second, .n_classes = 1}); /* outlines follow their rows */
    assert_int_equal(d->items[0].labels.n, 1);
    assert_int_equal(d->items[0].labels.first_point[1], 4);
    assert_true(d->items[0].labels.points[0] == 0.2f);
    dataset_destroy(d);
    scratch_text(&s, "labels/train/001.txt", "0 .5 .5 .1 .1\n");
    d = open_ok(&s, yaml, (dataset_options){.training = true});
    assert_false(d->polygons);
    for (int i = 0; i < 3; i++) assert_null(d->items[i].labels.first_point);
    assert_int_equal(d->items[0].labels.n, 2);
    expect_line(&log, "2 of 3 label files hold outlines");
    dataset_destroy(d);
    scratch_destroy(&s);
}

/* ---- the label cache ---- */

static void age(const char *path) { /* older than the two seconds that the cache does not trust */
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    if (utimensat(AT_FDCWD, path, old, 0) != 0) fail_msg("cannot set the time of %s", path);
}

static const char *cache_file(scratch *s) {
    char **paths = NULL;
    size_t n = 0;
    assert_int_equal(folder_list(&s->arena, scratch_path(s, "cache"), true, &paths, &n), OL_OK);
    assert_int_equal(n, 1);
    return paths[0];
}

/* Change times cannot be set, so the pictures have to wait until they are settled. */
static dataset_options settled(scratch *s, const char **yaml) {
    *yaml = tiny_set(s, 6, 1);
    scratch_text(s, "labels/train/001.txt", "0 .1 .1 .5 .1 .5 .5\n");
    scratch_text(s, "labels/train/002.txt", "9 .5 .5 .1 .1\n");
    usleep(2200 * 1000);
    const dataset_options options = {.training = true, .cache_folder = scratch_path(s, "cache")};
    dataset *d = open_ok(s, *yaml, options);
    assert_false(d->from_cache);
    dataset_destroy(d);
    return options;
}

static int count_first(const dataset *d, const char *name) {
    return item(d, name) != NULL ? item(d, name)->labels.n : -1;
}

static void the_cache_gives_the_same_set(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml;
    const dataset_options options = settled(&s, &yaml);
    dataset *plain = open_ok(&s, yaml, (dataset_options){.training = true});
    dataset *d = open_ok(&s, yaml, options);
    assert_true(d->from_cache);
    assert_false(plain->from_cache);
    assert_int_equal(d->n, plain->n);
    assert_int_equal(d->n_corrupt, 1);
    for (int i = 0; i < d->n; i++) {
        assert_string_equal(d->items[i].path, plain->items[i].path);
        assert_string_equal(d->items[i].label_path, plain->items[i].label_path);
        assert_int_equal(d->items[i].h, plain->items[i].h);
        assert_int_equal(d->items[i].labels.n, plain->items[i].labels.n);
        assert_true(d->items[i].identity == plain->items[i].identity);
        assert_memory_equal(d->items[i].labels.rows, plain->items[i].labels.rows, (size_t)d->items[i].labels.n * 20);
    }
    expect_line(&log, "(from the label cache)");
    expect_line(&log, "Label class 9 exceeds"); /* the reasons are kept too */
    dataset_destroy(plain);
    dataset_destroy(d);

    scratch_text(&s, "data.yaml",
                 "path: .\ntrain: images/train\nval: images/val\nnc: 10\n"); /* other rules, other records */
    d = open_ok(&s, yaml, options);
    assert_false(d->from_cache);
    assert_int_equal(d->n_corrupt, 0);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void no_edit_goes_unseen(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *yaml;
    const dataset_options options = settled(&s, &yaml);
    const char *label = scratch_path(&s, "labels/train/000.txt");
    struct stat before;
    assert_int_equal(stat(label, &before), 0);
    char *text = NULL;
    size_t n = 0;
    assert_int_equal(file_read(s.ctx, label, 0, &text, &n), OL_OK);

    text[0] = '2'; /* same size, modification time put back, same inode */
    FILE *file = fopen(label, "r+b");
    assert_int_equal(fwrite(text, 1, n, file), n);
    fclose(file);
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, label, times, 0), 0);
    dataset *d = open_ok(&s, yaml, options);
    assert_true(item(d, "000.png")->labels.rows[0] == 2);
    dataset_destroy(d);
    usleep(2200 * 1000);
    dataset_destroy(open_ok(&s, yaml, options));
    d = open_ok(&s, yaml, options);
    assert_true(d->from_cache);
    dataset_destroy(d);

    text[0] = '1'; /* another file of the same size and times under the name */
    scratch_bytes(&s, "labels/train/new", text, n);
    mem_free(s.ctx, text);
    age(scratch_path(&s, "labels/train/new"));
    rename(scratch_path(&s, "labels/train/new"), label);
    d = open_ok(&s, yaml, options);
    assert_true(item(d, "000.png")->labels.rows[0] == 1);
    dataset_destroy(d);

    unlink(label); /* gone, and a new one for a picture that had none */
    d = open_ok(&s, yaml, options);
    assert_int_equal(count_first(d, "000.png"), 0);
    dataset_destroy(d);
    tiny_picture(&s, "images/train/000.png", 70, 80, 9); /* the picture itself */
    tiny_picture(&s, "images/train/zzz.png", 70, 80, 9); /* and one more */
    d = open_ok(&s, yaml, options);
    assert_int_equal(item(d, "000.png")->h, 70);
    assert_int_equal(count_first(d, "zzz.png"), 0);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void a_broken_cache_is_made_anew(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml;
    const dataset_options options = settled(&s, &yaml);
    const char *path = cache_file(&s);
    char *whole = NULL;
    size_t n = 0;
    assert_int_equal(file_read(s.ctx, path, 0, &whole, &n), OL_OK);
    for (size_t cut = 0; cut < n; cut += n / 23 + 1) { /* truncated, and one byte flipped */
        FILE *file = fopen(path, "wb");
        fwrite(whole, 1, cut, file);
        fclose(file);
        dataset *d = open_ok(&s, yaml, options);
        assert_false(d->from_cache);
        assert_int_equal(d->n, 5);
        dataset_destroy(d);
        file = fopen(path, "wb");
        whole[cut] = (char)(whole[cut] ^ 0x20);
        fwrite(whole, 1, n, file);
        whole[cut] = (char)(whole[cut] ^ 0x20);
        fclose(file);
        d = open_ok(&s, yaml, options);
        assert_false(d->from_cache);
        dataset_destroy(d);
    }
    mem_free(s.ctx, whole);
    dataset *d = open_ok(&s, yaml, options);
    assert_true(d->from_cache);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void no_cache_costs_a_message(void **state) {
    (void)state;
    log_lines log = {.length = 0};
    scratch s = scratch_create(log_lines_keep, &log);
    const char *yaml = tiny_set(&s, 2, 1);
    scratch_text(&s, "file", "a file where the folder should be");
    dataset *d = open_ok(&s, yaml, (dataset_options){.training = true, .cache_folder = scratch_path(&s, "file/cache")});
    assert_int_equal(d->n, 2);
    expect_line(&log, "the label cache was not kept");
    dataset_destroy(d);
    char **paths = NULL;
    size_t n = 0;
    folder_list(&s.arena, s.folder, true, &paths, &n);
    assert_int_equal(n, 8); /* data.yaml, file, 3 pictures, 3 labels: nothing was written into the set */
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_and_labels_are_paired),
        cmocka_unit_test(what_is_wrong_drops_out_alone),
        cmocka_unit_test(nothing_usable_is_an_error),
        cmocka_unit_test(classes_and_fractions_select),
        cmocka_unit_test(lists_name_pictures),
        cmocka_unit_test(outlines_count_when_all_have_them),
        cmocka_unit_test(the_cache_gives_the_same_set),
        cmocka_unit_test(no_edit_goes_unseen),
        cmocka_unit_test(a_broken_cache_is_made_anew),
        cmocka_unit_test(no_cache_costs_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
