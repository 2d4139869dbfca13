/* The loader: order, shapes and content of batches, the same for any number of threads; pictures that go bad; caches.
 */
#include "golden.h"
#include "tiny_set.h"

#include "base/file.h"
#include "data/file_stamp.h"
#include "data/letterbox.h"
#include "data/loader.h"
#include "data/resize.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void keep_line(void *user, ol_log_level level, const char *line) {
    char *text = user;
    if (level != OL_LOG_WARNING) return;
    const size_t used = strlen(text);
    snprintf(text + used, 8192 - used, "%s\n", line);
}

static dataset *open_split(scratch *s, const char *yaml, data_split split) {
    data_config c;
    dataset *d = NULL;
    const dataset_options options = {.split = split, .cache_folder = "", .n_threads = 1};
    if (data_config_read(s->ctx, yaml, NULL, split, &c) != OL_OK || dataset_open(s->ctx, &c, &options, &d) != OL_OK)
        fail_msg("%s", ol_context_message(s->ctx));
    data_config_deinit(&c);
    return d;
}

static loader *make(scratch *s, const dataset *d, const loader_options *o) {
    loader *l = NULL;
    if (loader_create(s->ctx, d, o, &l) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    return l;
}

static const batch *next(scratch *s, loader *l) {
    const batch *b = NULL;
    if (loader_next(l, &b) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    return b;
}

static uint64_t hash_batch(uint64_t hash, const batch *b) {
    hash = hash_bytes(hash, b->images, (size_t)b->n * (size_t)b->channels * (size_t)b->h * (size_t)b->w);
    hash = hash_bytes(hash, b->targets, (size_t)b->n * (size_t)b->max_targets * 5 * sizeof(float));
    hash = hash_bytes(hash, b->n_targets, (size_t)b->n * sizeof *b->n_targets);
    for (int i = 0; i < b->n; i++) hash = hash_bytes(hash, &b->info[i].index, sizeof b->info[i].index);
    return hash;
}

/* Everything that an epoch hands out, in one number. */
static uint64_t hash_epoch(scratch *s, loader *l, int epoch) {
    uint64_t hash = HASH_START;
    if (loader_start(l, epoch) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    for (const batch *b; (b = next(s, l)) != NULL;) hash = hash_batch(hash, b);
    return hash;
}

static loader_options training(int batch, int imgsz) {
    return (loader_options){
        .training = true, .batch = batch, .imgsz = imgsz, .stride = 32, .seed = 5, .augment = augment_defaults(imgsz)};
}

static loader_options validation(int batch, int imgsz, bool rect) {
    return (loader_options){
        .batch = batch, .imgsz = imgsz, .stride = 32, .rect = rect, .augment = augment_defaults(imgsz)};
}

static void batches_do_not_depend_on_threads(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 23, 1), DATA_SPLIT_TRAIN);
    uint64_t expected[3] = {0};
    static const int workers[] = {0, 1, 3, 8};
    static const loader_cache caches[] = {LOADER_CACHE_AUTO, LOADER_CACHE_NONE, LOADER_CACHE_RAM, LOADER_CACHE_DISK};
    for (int k = 0; k < 4; k++) {
        loader_options o = training(4, 96);
        o.workers = workers[k];
        o.cache = caches[k];
        o.cache_folder = scratch_path(&s, "cache");
        o.augment.mixup = 0.3;
        o.augment.degrees = 10;
        loader *l = make(&s, d, &o);
        assert_int_equal(loader_n_batches(l), 6);
        for (int epoch = 0; epoch < 3; epoch++) {
            const uint64_t hash = hash_epoch(&s, l, epoch);
            if (k == 0) expected[epoch] = hash;
            assert_int_equal(hash, expected[epoch]);
        }
        assert_int_equal(hash_epoch(&s, l, 1), expected[1]); /* going back gives the same again */
        loader_destroy(l);
    }
    assert_true(expected[0] != expected[1] && expected[1] != expected[2]);
    loader_options o = training(4, 96);
    o.augment.mixup = 0.3;
    o.augment.degrees = 10;
    o.seed = 6;
    loader *l = make(&s, d, &o);
    assert_true(hash_epoch(&s, l, 0) != expected[0]);
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

/* A set that does not fit: the oldest pictures make room while others are in use, and partners are recent ones. */
static void large_sets_reuse_memory(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 40, 1), DATA_SPLIT_TRAIN);
    loader_options o = training(2, 64);
    o.augment.mixup = 0.5;
    loader *l = make(&s, d, &o);
    const uint64_t kept = hash_epoch(&s, l, 0);
    loader_destroy(l);
    uint64_t expected = 0;
    static const int slots[] = {200, 1, 7, 20, 20}, workers[] = {0, 0, 4, 1, 4};
    for (int k = 0; k < 5; k++) {
        o.workers = workers[k];
        o.cache_bytes = k == 0 ? 1 : (uint64_t)slots[k] * 64 * 64 * 3; /* the first: no picture fits */
        l = make(&s, d, &o);
        const uint64_t hash = hash_epoch(&s, l, 0);
        if (k == 0) expected = hash;
        assert_int_equal(hash, expected); /* of the same samples, however much is kept */
        assert_int_equal(hash_epoch(&s, l, 0), expected);
        loader_destroy(l);
    }
    loader_options v = validation(3, 64, true);
    v.workers = 2;
    v.cache_bytes = 10 * 64 * 64 * 3;
    l = make(&s, d, &v);
    const uint64_t first = hash_epoch(&s, l, 0);
    assert_int_equal(hash_epoch(&s, l, 1), first);
    loader_destroy(l);
    v.cache = LOADER_CACHE_NONE;
    v.workers = 0;
    l = make(&s, d, &v);
    assert_int_equal(hash_epoch(&s, l, 0), first);
    loader_destroy(l);
    assert_true(expected != kept); /* partners come from the 16 pictures before */
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void an_epoch_holds_every_picture_once(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 10, 1), DATA_SPLIT_TRAIN);
    loader_options o = training(4, 64);
    o.workers = 2;
    loader *l = make(&s, d, &o);
    assert_int_equal(loader_max_targets(l), 16); /* four tiles of four */
    int first_order[10], order[10];
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[10] = {0}, at = 0, n_batches = 0;
        assert_int_equal(loader_start(l, epoch), OL_OK);
        for (const batch *b; (b = next(&s, l)) != NULL; n_batches++) {
            assert_int_equal(b->n, n_batches < 2 ? 4 : 2); /* the incomplete one is kept */
            int64_t n_objects = 0;
            for (int i = 0; i < b->n; i++) {
                assert_string_equal(b->info[i].path, d->items[b->info[i].index].path);
                seen[b->info[i].index]++;
                order[at++] = b->info[i].index;
                n_objects += b->n_targets[i];
                for (int k = 0; k < b->max_targets; k++) {
                    const float *t = b->targets + 5 * (i * b->max_targets + k);
                    if (k >= b->n_targets[i])
                        for (int j = 0; j < 5; j++) assert_true(t[j] == 0);
                    else
                        assert_true(t[1] > 0 && t[1] < 1 && t[3] > 0 && t[3] <= 1);
                }
            }
            assert_int_equal(b->n_objects, n_objects);
        }
        for (int i = 0; i < 10; i++) assert_int_equal(seen[i], 1);
        if (epoch == 0) memcpy(first_order, order, sizeof order);
    }
    assert_memory_not_equal(first_order, order, sizeof order);
    const loader_stats stats = loader_get_stats(l);
    assert_int_equal(stats.n_images, 10);
    assert_true(stats.waited_s >= 0 && stats.waited_s <= stats.elapsed_s);
    loader_destroy(l);
    o = training(50, 64);
    l = make(&s, d, &o);
    assert_int_equal(loader_batch_size(l), 10); /* capped */
    assert_int_equal(loader_n_batches(l), 1);
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void closing_mosaic_changes_the_next_epoch(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 8, 1), DATA_SPLIT_TRAIN);
    loader_options o = training(8, 64);
    loader *l = make(&s, d, &o);
    const uint64_t open = hash_epoch(&s, l, 0);
    loader_close_mosaic(l);
    const uint64_t closed = hash_epoch(&s, l, 0);
    assert_true(open != closed);
    loader_destroy(l);
    o.augment.mosaic = 0;
    l = make(&s, d, &o);
    assert_int_equal(loader_start(l, 0), OL_OK);
    const batch *b = next(&s, l);
    for (int i = 0; i < b->n; i++) assert_true(b->n_targets[i] <= d->items[b->info[i].index].labels.n);
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

/* What a validation sample must be, made step by step from the file. */
static void check_validation_sample(scratch *s, const dataset *d, const batch *b, int i, int imgsz) {
    const batch_image *info = &b->info[i];
    const data_item *item = &d->items[info->index];
    image decoded = {0}, resized = {0}, boxed = {0}, scratch_image = {0};
    assert_int_equal(image_read(s->ctx, item->path, 3, &decoded), OL_OK);
    assert_int_equal(resize_long_side(s->ctx, &decoded, imgsz, &resized), OL_OK);
    const letterbox_options options = {.height = b->h, .width = b->w, .no_scale_up = true};
    const letterbox_geometry g = letterbox_plan(resized.height, resized.width, &options);
    assert_int_equal(letterbox_apply(s->ctx, &resized, &g, &scratch_image, &boxed), OL_OK);
    const size_t plane = (size_t)b->h * (size_t)b->w;
    const uint8_t *pixels = b->images + 3 * plane * (size_t)i;
    for (size_t p = 0; p < plane; p++)
        for (size_t c = 0; c < 3; c++) assert_int_equal(pixels[c * plane + p], boxed.pixels[3 * p + 2 - c]);
    assert_int_equal(info->h0, decoded.height);
    assert_int_equal(b->n_targets[i], item->labels.n);
    for (int k = 0; k < item->labels.n; k++) { /* in pixels of the picture the box is where the label says */
        double t[5], row[5];
        for (int j = 0; j < 5; j++) {
            t[j] = b->targets[5 * (i * b->max_targets + k) + j];
            row[j] = item->labels.rows[5 * k + j];
        }
        assert_true(t[0] == row[0]);
        assert_true(fabs(t[1] * b->w - (row[1] * info->w0 * info->gain_w + info->pad_left)) < 1e-3);
        assert_true(fabs(t[2] * b->h - (row[2] * info->h0 * info->gain_h + info->pad_top)) < 1e-3);
        assert_true(fabs(t[3] * b->w - row[3] * info->w0 * info->gain_w) < 1e-3);
    }
    image_deinit(s->ctx, &decoded);
    image_deinit(s->ctx, &resized);
    image_deinit(s->ctx, &boxed);
    image_deinit(s->ctx, &scratch_image);
}

static void validation_letterboxes_in_order(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 1, 9), DATA_SPLIT_VAL);
    for (int rect = 0; rect <= 1; rect++) {
        for (int workers = 0; workers <= 3; workers += 3) {
            loader_options o = validation(4, 96, rect != 0);
            o.workers = workers;
            loader *l = make(&s, d, &o);
            double last = 0;
            int n = 0, number = 0;
            assert_int_equal(loader_start(l, 0), OL_OK);
            for (const batch *b; (b = next(&s, l)) != NULL; number++) {
                int hw[2];
                loader_batch_shape(l, number, hw);
                assert_int_equal(b->h, hw[0]);
                assert_int_equal(b->w, hw[1]);
                if (!rect) assert_true(b->h == 96 && b->w == 96);
                assert_int_equal(b->max_targets, 4);
                for (int i = 0; i < b->n; i++, n++) {
                    const double ratio = (double)b->info[i].h0 / b->info[i].w0;
                    if (rect) assert_true(ratio >= last);
                    if (!rect) assert_int_equal(b->info[i].index, n);
                    last = ratio;
                    check_validation_sample(&s, d, b, i, 96);
                }
            }
            assert_int_equal(n, 9);
            loader_destroy(l);
        }
    }
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void rectangular_training_keeps_shapes(void **state) {
    (void)state;
    char log[8192] = "";
    scratch s = scratch_create(keep_line, log);
    dataset *d = open_split(&s, tiny_set(&s, 9, 1), DATA_SPLIT_TRAIN);
    loader_options o = training(3, 160);
    o.rect = true;
    o.workers = 2;
    loader *l = make(&s, d, &o);
    assert_non_null(strstr(log, "rect=True"));
    assert_int_equal(loader_max_targets(l), 4); /* no mosaic */
    bool oblong = false;
    assert_int_equal(loader_start(l, 0), OL_OK);
    for (const batch *b; (b = next(&s, l)) != NULL;) oblong = oblong || b->h != b->w;
    assert_true(oblong);
    loader_destroy(l);
    o.imgsz = 96; /* one shape for all batches: nothing speaks against shuffling */
    o.batch = 9;
    log[0] = '\0';
    l = make(&s, d, &o);
    assert_string_equal(log, "");
    assert_true(hash_epoch(&s, l, 0) != hash_epoch(&s, l, 1));
    int order[2][9];
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(loader_start(l, epoch), OL_OK);
        const batch *b = next(&s, l);
        for (int i = 0; i < 9; i++) order[epoch][i] = b->info[i].index;
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void multi_scale_batches_vary(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 24, 1), DATA_SPLIT_TRAIN);
    loader_options o = training(2, 96);
    o.multi_scale = 0.5;
    int sizes[12], low = 1000, high = 0;
    for (int workers = 0; workers <= 2; workers += 2) {
        o.workers = workers;
        loader *l = make(&s, d, &o);
        assert_int_equal(loader_start(l, 3), OL_OK);
        int number = 0;
        for (const batch *b; (b = next(&s, l)) != NULL; number++) {
            assert_int_equal(b->h, b->w);
            assert_int_equal(b->h % 32, 0);
            if (workers == 0) sizes[number] = b->h;
            assert_int_equal(sizes[number], b->h);
            low = b->h < low ? b->h : low;
            high = b->h > high ? b->h : high;
        }
        loader_destroy(l);
    }
    assert_true(low < 96 && high > 96 && high <= 160 && low >= 32);
    dataset_destroy(d);
    scratch_destroy(&s);
}

/* Files that go bad between the scan and the epoch: their samples are grey, everyone else's stay the same. */
static void a_picture_that_goes_bad_shifts_nothing(void **state) {
    (void)state;
    char log[8192] = "";
    scratch s = scratch_create(keep_line, log);
    const char *yaml = tiny_set(&s, 1, 12);
    dataset *d = open_split(&s, yaml, DATA_SPLIT_VAL);
    scratch_text(&s, "images/val/003.png", "this was a picture");
    unlink(scratch_path(&s, "images/val/007.png"));
    tiny_picture(&s, "images/val/010.png", 77, 33, 1); /* another size: the labels may not fit it */
    for (int workers = 0; workers <= 2; workers += 2) {
        log[0] = '\0';
        loader_options o = validation(5, 64, false);
        o.workers = workers;
        loader *l = make(&s, d, &o);
        for (int epoch = 0; epoch < 2; epoch++) {
            assert_int_equal(loader_start(l, epoch), OL_OK);
            for (const batch *b; (b = next(&s, l)) != NULL;) {
                for (int i = 0; i < b->n; i++) {
                    const int index = b->info[i].index;
                    const bool bad = index == 3 || index == 7 || index == 10;
                    assert_int_equal(b->info[i].unreadable, bad);
                    if (!bad) {
                        check_validation_sample(&s, d, b, i, 64);
                        continue;
                    }
                    assert_int_equal(b->n_targets[i], 0);
                    for (int p = 0; p < 3 * 64 * 64; p++) assert_int_equal(b->images[i * 3 * 64 * 64 + p], 114);
                }
            }
        }
        loader_destroy(l);
        static const char *const named[] = {"003.png", "007.png", "010.png"};
        for (int i = 0; i < 3; i++) {
            const char *first = strstr(log, named[i]);
            assert_non_null(first); /* named, and once although there were two epochs */
            assert_null(strstr(strchr(first, '\n'), named[i]));
        }
    }
    dataset_destroy(d);
    d = open_split(&s, yaml, DATA_SPLIT_VAL); /* scanned afterwards, two drop out and the third has its new size */
    assert_int_equal(d->n, 10);
    loader_options o = validation(4, 64, true);
    loader *l = make(&s, d, &o);
    assert_int_equal(loader_start(l, 0), OL_OK);
    for (const batch *b; (b = next(&s, l)) != NULL;)
        for (int i = 0; i < b->n; i++) check_validation_sample(&s, d, b, i, 64);
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void bad_pictures_do_not_stop_training(void **state) {
    (void)state;
    char log[8192] = "";
    scratch s = scratch_create(keep_line, log);
    dataset *d = open_split(&s, tiny_set(&s, 12, 1), DATA_SPLIT_TRAIN);
    scratch_text(&s, "images/train/004.png", "this was a picture");
    loader_options o = training(5, 64);
    o.workers = 3;
    loader *l = make(&s, d, &o);
    const uint64_t hash = hash_epoch(&s, l, 0);
    assert_int_equal(hash_epoch(&s, l, 0), hash);
    assert_non_null(strstr(log, "images/train/004.png: it can no longer be read"));
    loader_destroy(l);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void raw_files_are_used_and_checked(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    const char *yaml = tiny_set(&s, 6, 1);
    dataset *d = open_split(&s, yaml, DATA_SPLIT_TRAIN);
    loader_options o = training(3, 64);
    const char *cache = scratch_path(&s, "cache");
    loader *l = make(&s, d, &o);
    const uint64_t expected = hash_epoch(&s, l, 0);
    loader_destroy(l);
    o.cache = LOADER_CACHE_DISK;
    o.cache_folder = cache;
    char **raw = NULL;
    size_t n_raw = 0;
    for (int round = 0; round < 4; round++) { /* written, read, damaged, cut */
        l = make(&s, d, &o);
        assert_int_equal(hash_epoch(&s, l, 0), expected);
        loader_destroy(l);
        assert_int_equal(folder_list(&s.arena, cache, true, &raw, &n_raw), OL_OK);
        assert_int_equal(n_raw, 6);
        FILE *file = fopen(raw[round], "r+b");
        fseek(file, 100, SEEK_SET);
        fputc('x', file);
        fclose(file);
        assert_int_equal(truncate(raw[round + 1], 50 * round), 0);
    }
    char **files = NULL;
    size_t n = 0;
    assert_int_equal(folder_list(&s.arena, scratch_path(&s, "images"), true, &files, &n), OL_OK);
    assert_int_equal(n, 7); /* nothing beside the pictures */
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void epochs_can_be_left_early(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    dataset *d = open_split(&s, tiny_set(&s, 20, 1), DATA_SPLIT_TRAIN);
    loader_options o = training(2, 64);
    o.workers = 3;
    loader *l = make(&s, d, &o), *fresh = make(&s, d, &o);
    for (int round = 0; round < 5; round++) {
        assert_int_equal(loader_start(l, round), OL_OK);
        for (int i = 0; i < round; i++) assert_non_null(next(&s, l));
    }
    assert_int_equal(hash_epoch(&s, l, 9), hash_epoch(&s, fresh, 9));
    assert_int_equal(loader_start(l, 1), OL_OK); /* destroyed while workers are busy */
    loader_destroy(l);
    loader_destroy(fresh);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void grey_pictures_have_one_plane(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    tiny_set(&s, 4, 2);
    const char *yaml = scratch_text(&s, "grey.yaml", "train: images/train\nval: images/val\nnc: 3\nchannels: 1\n");
    dataset *d = open_split(&s, yaml, DATA_SPLIT_TRAIN);
    for (int k = 0; k < 2; k++) {
        loader_options o = k == 0 ? training(4, 64) : validation(4, 64, false);
        loader *l = make(&s, d, &o);
        assert_int_equal(loader_start(l, 0), OL_OK);
        const batch *b = next(&s, l);
        assert_int_equal(b->channels, 1);
        int varied = 0;
        for (int p = 1; p < 4 * 64 * 64; p++) varied += b->images[p] != b->images[p - 1];
        assert_true(varied > 100);
        loader_destroy(l);
    }
    dataset_destroy(d);
    yaml = scratch_text(&s, "five.yaml", "train: images/train\nval: images/val\nnc: 3\nchannels: 5\n");
    d = open_split(&s, yaml, DATA_SPLIT_TRAIN);
    loader *l = NULL;
    loader_options o = training(4, 64);
    assert_int_equal(loader_create(s.ctx, d, &o, &l), OL_ERROR_UNSUPPORTED);
    dataset_destroy(d);
    scratch_destroy(&s);
}

static void options_come_from_settings(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    settings set;
    assert_int_equal(settings_init(&set, s.ctx), OL_OK);
    loader_options o = loader_options_val(&set, 8, 320, 32);
    assert_true(o.rect && !o.training && o.batch == 8);
    assert_int_equal(settings_set_text(&set, "rect", "False"), OL_OK);
    assert_int_equal(settings_set_text(&set, "cache", "ram"), OL_OK);
    assert_int_equal(settings_set_text(&set, "scale", "0.9"), OL_OK);
    assert_int_equal(settings_set_text(&set, "mosaic", "0.25"), OL_OK);
    assert_int_equal(settings_set_text(&set, "copy_paste_mode", "mixup"), OL_OK);
    assert_false(loader_options_val(&set, 8, 320, 32).rect);
    o = loader_options_train(&set, 16, 320, 32);
    assert_true(o.training && !o.rect && o.cache == LOADER_CACHE_RAM);
    assert_true(o.augment.mosaic == 0.25 && o.augment.copy_paste_mixup && o.augment.fliplr == 0.5);
    assert_true(fabs(o.augment.scale_low - 0.1) < 1e-12 && fabs(o.augment.scale_high - 1.9) < 1e-12);
    settings_deinit(&set);
    scratch_destroy(&s);
}

/* ---- no allocation in the steady state ---- */

typedef struct counter {
    size_t n;
} counter;

static void *counting_realloc(void *user, void *block, size_t bytes) {
    counter *c = user;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    __atomic_fetch_add(&c->n, 1, __ATOMIC_RELAXED);
    return realloc(block, bytes);
}

static void later_epochs_allocate_nothing(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    counter c = {0};
    const ol_context_options options = {
        .struct_bytes = sizeof options, .realloc_block = counting_realloc, .realloc_user = &c};
    ol_context *plain = s.ctx, *counting = NULL;
    assert_int_equal(ol_context_create(&options, &counting), OL_OK);
    const char *yaml = tiny_set(&s, 9, 1);
    s.ctx = counting;
    dataset *d = open_split(&s, yaml, DATA_SPLIT_TRAIN);
    loader_options o = training(3, 64);
    o.workers = 1; /* with more, which worker meets the largest sample first is chance */
    loader *l = make(&s, d, &o);
    for (int epoch = 0; epoch < 30; epoch++) hash_epoch(&s, l, epoch);
    const size_t before = c.n;
    for (int epoch = 0; epoch < 5; epoch++) hash_epoch(&s, l, epoch); /* samples that were made before */
    assert_int_equal(c.n, before);
    loader_destroy(l);
    dataset_destroy(d);
    s.ctx = plain;
    ol_context_destroy(counting);
    scratch_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_do_not_depend_on_threads),  cmocka_unit_test(large_sets_reuse_memory),
        cmocka_unit_test(an_epoch_holds_every_picture_once), cmocka_unit_test(closing_mosaic_changes_the_next_epoch),
        cmocka_unit_test(validation_letterboxes_in_order),   cmocka_unit_test(rectangular_training_keeps_shapes),
        cmocka_unit_test(multi_scale_batches_vary),          cmocka_unit_test(a_picture_that_goes_bad_shifts_nothing),
        cmocka_unit_test(bad_pictures_do_not_stop_training), cmocka_unit_test(raw_files_are_used_and_checked),
        cmocka_unit_test(epochs_can_be_left_early),          cmocka_unit_test(grey_pictures_have_one_plane),
        cmocka_unit_test(options_come_from_settings),        cmocka_unit_test(later_epochs_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
