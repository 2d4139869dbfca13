#include "data/loader.h"

#include "base/file.h"
#include "base/machine.h"
#include "base/pool.h"
#include "base/ring.h"
#include "data/letterbox.h"
#include "data/loader_slots.h"
#include "data/pixel_cache.h"
#include "data/resize.h"
#include "data/sampler.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define MIN_STRIDE       32
#define MAX_IMGSZ        8192
#define AUTO_CACHE_BYTES ((uint64_t)512 << 20)
#define PARTNER_BATCHES  8
#define MAX_PARTNERS     1000 /* of a mosaic, when the set is too large to keep (data document, section 2.4) */
#define RECT_PAD         0.5  /* of validation batches, in strides */
#define SEEN_SHARE       1.75 /* pictures' bytes for the pixels that a recipe needs; 1.1 is usual, 4 the most */
#define SEEN_MORE        3.0  /* and for a batch */

/* One thread's share of the work. */
typedef struct loader_worker {
    loader *l;
    augmenter *augmenter;
    pixel_reader reader;
    image storage, scratch; /* validation: the resized picture, the letterboxed one */
    uint8_t *planes;        /* a sample before the multi-scale resize; NULL without it */
    image plane;
    int position;  /* in the epoch, of the sample being made */
    int n_fetched; /* pictures of that sample so far */
    bool own_unreadable;
} loader_worker;

struct loader {
    ol_context *ctx;
    const dataset *d;
    loader_options o;
    augment_settings augment; /* with mosaic closed once asked for */
    int batch_size, n_batches, max_targets, max_h, max_w;
    int32_t *order;  /* (n) picture of each position */
    int32_t *shapes; /* (n_batches,2) h,w of the epoch */
    bool shuffled;   /* anew each epoch; otherwise `order` is fixed */
    int n_partners;  /* 0: mosaic partners come from the whole set, else from that many positions before */
    pixel_cache *pixels;
    pool *pool;
    ring *ring;
    loader_worker *workers;
    int n_workers;
    loader_slot *slots;
    int n_slots;
    int epoch, next_batch;
    bool running;                     /* workers are in an epoch */
    bool want_recipes, gives_recipes; /* from the next epoch on; in this one */
    loader_stats stats;
    double started_s;
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* ---- samples ---- */

/* What a picture looks like to the augmenter. Its first request is the sample's own picture; partners are positions
 * before it in the epoch's order when the set is too large to keep, so that they are still in memory. */
static ol_status fetch(void *user, ol_context *ctx, uint32_t index, image *storage, augment_picture *picture) {
    loader_worker *w = user;
    const loader *l = w->l;
    const bool own = w->n_fetched++ == 0;
    int real = (int)index;
    bool readable = true;
    if (!own && l->n_partners > 0) {
        int position = w->position - 1 - (int)index;
        if (position < 0) position += l->d->n;
        real = l->order[position];
    }
    const ol_status status = pixel_cache_fetch(l->pixels, ctx, &w->reader, real, storage, &picture->pixels, &readable);
    if (status != OL_OK) return status;
    picture->labels = readable ? l->d->items[real].labels : (label_rows){0};
    if (own) w->own_unreadable = !readable;
    return OL_OK;
}

static int copy_targets(const loader *l, const float *rows, int n_rows, float *targets) {
    const int n = min_int(n_rows, l->max_targets);
    if (n > 0 && rows != NULL) memcpy(targets, rows, 5 * (size_t)n * sizeof *targets);
    memset(targets + 5 * n, 0, 5 * (size_t)(l->max_targets - n) * sizeof *targets);
    return n;
}

static ol_status resize_to_batch(loader_worker *w, ol_context *ctx, int from_h, int from_w, int h, int width,
                                 uint8_t *out) {
    for (int c = 0; c < w->l->d->channels; c++) {
        const image src = image_view(w->planes + (size_t)c * (size_t)from_h * (size_t)from_w, from_h, from_w, 1);
        const ol_status status = resize_bilinear(ctx, &src, h, width, &w->plane);
        if (status != OL_OK) return status;
        memcpy(out + (size_t)c * (size_t)h * (size_t)width, w->plane.pixels, (size_t)h * (size_t)width);
    }
    return OL_OK;
}

/* With `writer` as a recipe (see writer->full), else as planes. */
static ol_status make_training_sample(loader_worker *w, ol_context *ctx, int index, const int32_t shape[2],
                                      recipe_writer *writer, uint8_t *out, float *targets, int32_t *n_targets) {
    const loader *l = w->l;
    const augment_source source = {fetch, w, (uint32_t)(l->n_partners > 0 ? l->n_partners : l->d->n)};
    augment_settings s = l->augment;
    const bool resized = w->planes != NULL;
    const float *rows = NULL;
    int n_rows = 0;
    if (l->o.rect && !resized) {
        s.out_height = shape[0];
        s.out_width = shape[1];
    }
    const uint32_t epoch = (uint32_t)l->epoch, number = (uint32_t)index;
    ol_status status;
    w->n_fetched = 0;
    if (writer != NULL)
        status = augment_write_recipe(w->augmenter, &s, &source, l->o.seed, epoch, number, writer, &rows, &n_rows);
    else
        status = augment_sample(w->augmenter, &s, &source, l->o.seed, epoch, number, resized ? w->planes : out, &rows,
                                &n_rows);
    if (status == OL_OK) *n_targets = copy_targets(l, rows, n_rows, targets);
    if (status == OL_OK && resized)
        status = resize_to_batch(w, ctx, s.out_height, s.out_width, shape[0], shape[1], out);
    return status;
}

/* Boxes of the picture as fractions of the padded one. */
static void place_targets(const label_rows *labels, const letterbox_geometry *g, int h, int w, float *targets) {
    for (int i = 0; i < labels->n; i++) {
        const float *from = labels->rows + 5 * i;
        float *to = targets + 5 * i;
        const double scale_x = w * g->ratio_w, scale_y = h * g->ratio_h;
        to[0] = from[0];
        to[1] = (float)((from[1] * scale_x + g->left) / g->out_width);
        to[2] = (float)((from[2] * scale_y + g->top) / g->out_height);
        to[3] = (float)(from[3] * scale_x / g->out_width);
        to[4] = (float)(from[4] * scale_y / g->out_height);
    }
}

static ol_status make_validation_sample(loader_worker *w, ol_context *ctx, int index, const int32_t shape[2],
                                        uint8_t *out, float *targets, int32_t *n_targets, batch_image *info) {
    augment_picture picture = {0};
    ol_status status = fetch(w, ctx, (uint32_t)index, &w->storage, &picture);
    if (status != OL_OK) return status;
    const int h = picture.pixels->height, width = picture.pixels->width;
    const letterbox_options options = {.height = shape[0], .width = shape[1], .no_scale_up = true};
    const letterbox_geometry g = letterbox_plan(h, width, &options);
    status = letterbox_planes(ctx, picture.pixels, &g, &w->scratch, out);
    if (status != OL_OK) return status;
    *n_targets = copy_targets(w->l, picture.labels.rows, picture.labels.n, targets);
    place_targets(&picture.labels, &g, h, width, targets);
    info->gain_h = (double)h / info->h0 * g.ratio_h;
    info->gain_w = (double)width / info->w0 * g.ratio_w;
    info->pad_left = g.left;
    info->pad_top = g.top;
    return OL_OK;
}

/* As a recipe where the device makes the pictures and this one's pixels have room, else here. */
static ol_status place_training_sample(loader_worker *w, ol_context *ctx, int index, const int32_t shape[2],
                                       loader_slot *slot, int row, uint8_t *out, float *targets) {
    const loader *l = w->l;
    int32_t *n = &slot->n_targets[row];
    if (l->gives_recipes) {
        recipe_writer writer = {.recipe = &slot->recipes[row], .pixels = &slot->pixels};
        const ol_status status = make_training_sample(w, ctx, index, shape, &writer, out, targets, n);
        if (status != OL_OK || !writer.full) return status;
        writer.recipe->n_layers = 0;
        pixel_cache_release(l->pixels, &w->reader);
    }
    return make_training_sample(w, ctx, index, shape, NULL, out, targets, n);
}

static ol_status make_sample(loader *l, ol_context *ctx, int worker, uint64_t ticket) {
    loader_worker *w = &l->workers[worker];
    const int position = (int)ticket, number = position / l->batch_size, row = position % l->batch_size;
    loader_slot *slot = &l->slots[number % l->n_slots];
    const int index = l->order[position];
    const data_item *item = &l->d->items[index];
    const int32_t *shape = l->shapes + 2 * number;
    uint8_t *out = slot->images + (size_t)row * (size_t)l->d->channels * (size_t)shape[0] * (size_t)shape[1];
    float *targets = slot->targets + 5 * (size_t)row * (size_t)l->max_targets;
    batch_image *info = &slot->info[row];
    ol_status status;
    w->position = position;
    w->n_fetched = 0;
    w->own_unreadable = false;
    *info = (batch_image){.path = item->path, .index = index, .h0 = item->h, .w0 = item->w, .gain_h = 1, .gain_w = 1};
    if (l->o.training)
        status = place_training_sample(w, ctx, index, shape, slot, row, out, targets);
    else
        status = make_validation_sample(w, ctx, index, shape, out, targets, &slot->n_targets[row], info);
    info->unreadable = w->own_unreadable;
    pixel_cache_release(l->pixels, &w->reader);
    return status == OL_OK ? OL_OK : ctx_annotate(ctx, status, "%s", item->path);
}

static ol_status work(void *user, ol_context *ctx, int worker, size_t index) {
    loader *l = user;
    uint64_t ticket;
    (void)index;
    while (ring_claim(l->ring, &ticket)) {
        const ol_status status = make_sample(l, ctx, worker, ticket);
        if (status != OL_OK) {
            ring_stop(l->ring);
            return status;
        }
        ring_finish(l->ring, ticket);
    }
    return OL_OK;
}

/* ---- epochs ---- */

static int64_t first_ticket_after(const loader *l, int batch_number) {
    const int64_t end = (int64_t)(batch_number + 1) * l->batch_size;
    return end < l->d->n ? end : l->d->n;
}

static ol_status stop_epoch(loader *l) {
    if (!l->running) return OL_OK;
    l->running = false;
    ring_stop(l->ring);
    return pool_wait(l->pool);
}

/* Shapes of a square or multi-scale epoch; rectangular ones are fixed when the loader is made. */
static void set_shapes(loader *l) {
    for (int b = 0; b < l->n_batches; b++) {
        int32_t *shape = l->shapes + 2 * b;
        if (!l->o.rect) shape[0] = shape[1] = l->o.imgsz;
        if (l->o.multi_scale > 0)
            shape[0] = shape[1] = sampler_multi_scale(l->o.seed, (uint32_t)l->epoch, (uint32_t)b, l->o.imgsz,
                                                      l->o.stride, l->o.multi_scale);
    }
}

ol_status loader_start(loader *l, int epoch) {
    const ol_status status = stop_epoch(l);
    if (status != OL_OK) return status;
    l->epoch = epoch;
    l->next_batch = 0;
    l->stats = (loader_stats){0};
    l->started_s = now_s();
    if (l->shuffled) sampler_shuffle(l->o.seed, (uint32_t)epoch, l->order, l->d->n);
    set_shapes(l);
    l->gives_recipes = l->want_recipes && l->slots[0].recipes != NULL;
    for (int i = 0; i < l->n_slots; i++) loader_slot_clear(&l->slots[i]);
    ring_reset(l->ring, (uint64_t)l->d->n);
    l->running = true;
    return pool_start(l->pool, work, l);
}

/* Without threads: the samples below `end`, here and now. */
static ol_status work_in_caller(loader *l, int64_t end) {
    ol_context *own = pool_context(l->pool, 0);
    uint64_t ticket;
    for (int64_t done = (int64_t)l->next_batch * l->batch_size; done < end; done++) {
        if (!ring_try_claim(l->ring, &ticket)) break;
        ctx_clear(own);
        const ol_status status = make_sample(l, own, 0, ticket);
        if (status != OL_OK) {
            char message[1024];
            ctx_message(own, message, sizeof message);
            return ctx_fail(l->ctx, status, "%s", message);
        }
        ring_finish(l->ring, ticket);
    }
    return OL_OK;
}

static void publish(loader *l, int number, int64_t end) {
    loader_slot *slot = &l->slots[number % l->n_slots];
    batch *b = &slot->public;
    *b = (batch){.n = (int)(end - (int64_t)number * l->batch_size),
                 .channels = l->d->channels,
                 .h = l->shapes[2 * number],
                 .w = l->shapes[2 * number + 1],
                 .images = slot->images,
                 .max_targets = l->max_targets,
                 .targets = slot->targets,
                 .n_targets = slot->n_targets,
                 .info = slot->info};
    for (int i = 0; i < b->n; i++) b->n_objects += slot->n_targets[i];
    if (l->gives_recipes) {
        const size_t used = atomic_load(&slot->pixels.used), most = slot->pixels.capacity;
        slot->made = (picture_batch){.kind = PICTURES_SAMPLES,
                                     .n = b->n,
                                     .channels = b->channels,
                                     .h = b->h,
                                     .w = b->w,
                                     .recipes = slot->recipes,
                                     .pixels = slot->pixels.bytes,
                                     .pixel_bytes = used < most ? used : most,
                                     .most_pixel_bytes = most,
                                     .planes = slot->images};
        b->recipes = &slot->made;
    }
    l->stats.n_images += b->n;
}

ol_status loader_next(loader *l, const batch **out) {
    if (!l->running && l->next_batch < l->n_batches)
        return ctx_fail(l->ctx, OL_ERROR_INTERNAL, "loader_next without loader_start");
    if (l->next_batch > 0) {
        loader_slot_clear(&l->slots[(l->next_batch - 1) % l->n_slots]);
        ring_release(l->ring, (uint64_t)first_ticket_after(l, l->next_batch - 1));
    }
    if (l->next_batch == l->n_batches) {
        *out = NULL;
        return stop_epoch(l);
    }
    const double before = now_s();
    const int number = l->next_batch;
    const int64_t end = first_ticket_after(l, number);
    ol_status status = OL_OK;
    if (l->o.workers == 0) status = work_in_caller(l, end);
    if (status == OL_OK && !ring_wait(l->ring, (uint64_t)end)) {
        status = stop_epoch(l);
        if (status == OL_OK) status = ctx_fail(l->ctx, OL_ERROR_INTERNAL, "the loader was stopped");
    }
    if (status != OL_OK) return status;
    publish(l, number, end);
    const double after = now_s();
    l->stats.waited_s += after - before;
    l->stats.elapsed_s = after - l->started_s;
    l->next_batch++;
    *out = &l->slots[number % l->n_slots].public;
    return OL_OK;
}

void loader_give_recipes(loader *l, bool on) {
    l->want_recipes = on;
}

void loader_close_mosaic(loader *l) {
    augment_close_mosaic(&l->augment);
}

loader_stats loader_get_stats(const loader *l) {
    return l->stats;
}

void loader_report_wait(const loader *l) {
    char line[512];
    if (loader_describe_wait(&l->stats, l->d->name, l->o.workers, line, sizeof line))
        ctx_log(l->ctx, OL_LOG_INFO, "%s", line);
}

int loader_n_batches(const loader *l) {
    return l->n_batches;
}
int loader_batch_size(const loader *l) {
    return l->batch_size;
}
int loader_max_targets(const loader *l) {
    return l->max_targets;
}

void loader_batch_shape(const loader *l, int index, int hw[2]) {
    hw[0] = l->shapes[2 * index];
    hw[1] = l->shapes[2 * index + 1];
}

/* ---- creation ---- */

static ol_status check(ol_context *ctx, const dataset *d, const loader_options *o) {
    if (d->channels != 1 && d->channels != 3)
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                        "%s: pictures of %d channels cannot be loaded: 1 (grey) and 3 (colour) can", d->name,
                        d->channels);
    if (o->batch < 1)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "batch=%d: at least one picture a batch is needed", o->batch);
    if (o->imgsz < MIN_STRIDE || o->imgsz > MAX_IMGSZ)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "imgsz=%d: %d to %d are possible", o->imgsz, MIN_STRIDE, MAX_IMGSZ);
    if (d->n < 1) return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s: the data set has no pictures", d->name);
    return OL_OK;
}

/* Most objects of one sample: four tiles, each mixed with another sample, pasted into, and with pasted instances. */
static int most_targets(const loader *l) {
    const augment_settings *a = &l->o.augment;
    int64_t most = l->d->max_labels > 0 ? l->d->max_labels : 1;
    if (l->o.training) {
        if (a->mosaic > 0 && !l->o.rect) most *= 4;
        if (a->mixup > 0 && !l->o.rect) most *= 2;
        if (a->cutmix > 0 && !l->o.rect) most *= 2;
        if (a->copy_paste > 0 && l->d->polygons && !l->o.rect) most *= 2;
    }
    return most < 100000 ? (int)most : 100000;
}

static bool shapes_all_equal(const loader *l) {
    for (int b = 1; b < l->n_batches; b++)
        if (l->shapes[2 * b] != l->shapes[0] || l->shapes[2 * b + 1] != l->shapes[1]) return false;
    return true;
}

static ol_status plan_rect(loader *l) {
    int32_t *sizes = mem_alloc(l->ctx, (size_t)l->d->n, 2 * sizeof *sizes);
    if (sizes == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < l->d->n; i++) {
        sizes[2 * i] = l->d->items[i].h;
        sizes[2 * i + 1] = l->d->items[i].w;
    }
    const ol_status status = sampler_rect(l->ctx, sizes, l->d->n, l->batch_size, l->o.imgsz, l->o.stride,
                                          l->o.training ? 0.0 : RECT_PAD, l->order, l->shapes);
    mem_free(l->ctx, sizes);
    l->shuffled = l->o.training && shapes_all_equal(l);
    if (status == OL_OK && l->o.training && !l->shuffled)
        ctx_log(l->ctx, OL_LOG_WARNING, "%s: rect=True keeps pictures of like shape together, so they are not shuffled",
                l->d->name);
    return status;
}

static ol_status plan_epoch(loader *l) {
    const int n = l->d->n;
    l->batch_size = min_int(l->o.batch, n);
    l->n_batches = (n + l->batch_size - 1) / l->batch_size;
    l->max_targets = most_targets(l);
    l->order = mem_alloc(l->ctx, (size_t)n, sizeof *l->order);
    l->shapes = mem_alloc0(l->ctx, (size_t)l->n_batches, 2 * sizeof *l->shapes);
    if (l->order == NULL || l->shapes == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < n; i++) l->order[i] = i;
    l->shuffled = l->o.training;
    if (l->o.rect) {
        const ol_status status = plan_rect(l);
        if (status != OL_OK) return status;
    }
    set_shapes(l);
    l->max_h = l->max_w = l->o.imgsz;
    for (int b = 0; b < l->n_batches; b++) {
        if (l->shapes[2 * b] > l->max_h) l->max_h = l->shapes[2 * b];
        if (l->shapes[2 * b + 1] > l->max_w) l->max_w = l->shapes[2 * b + 1];
    }
    const int largest = (int)(l->o.imgsz * (1 + l->o.multi_scale) + l->o.stride);
    if (l->o.multi_scale > 0 && largest > l->max_h) l->max_h = l->max_w = largest;
    return OL_OK;
}

/* The folder of raw files; NULL with a warning when it cannot be had or has less than `room` bytes. */
static ol_status find_disk_folder(loader *l, arena *a, uint64_t room, const char **out) {
    ol_context *ctx = l->ctx;
    const char *parent = l->o.cache_folder != NULL ? l->o.cache_folder : dataset_cache_folder(a);
    const char *folder = parent != NULL ? path_join(a, parent, "pixels") : NULL;
    char why[512] = "neither XDG_CACHE_HOME nor HOME is set";
    if (parent != NULL && folder == NULL) return OL_ERROR_MEMORY;
    const ol_status status = folder != NULL ? folder_create(ctx, folder) : OL_ERROR_NOT_FOUND;
    if (status == OL_ERROR_MEMORY) return status;
    if (status != OL_OK) {
        if (folder != NULL) ctx_message(ctx, why, sizeof why);
        ctx_clear(ctx);
        ctx_log(ctx, OL_LOG_WARNING, "%s: cache=disk is not possible: %s", l->d->name, why);
    } else if (room > machine_free_disk(folder)) {
        ctx_log(ctx, OL_LOG_WARNING, "%s: cache=disk needs %.1f GiB below '%s', %.1f GiB are free: it is not used",
                l->d->name, (double)room / 0x1p30, folder, (double)machine_free_disk(folder) / 0x1p30);
    } else {
        *out = folder;
    }
    return OL_OK;
}

/* Where pixels are kept, with the reasons of loader.h when it is not what was asked for. */
static ol_status plan_cache(loader *l) {
    ol_context *ctx = l->ctx;
    const uint64_t need = pixel_cache_need(l->d, l->o.imgsz), free_bytes = machine_free_memory();
    const uint64_t bound = l->o.cache_bytes > 0 ? l->o.cache_bytes : AUTO_CACHE_BYTES;
    uint64_t limit = bound;
    arena a;
    ol_status status = OL_OK;
    const char *folder = NULL;
    arena_init(&a, ctx, 0);
    if (free_bytes > 0 && free_bytes / 4 < limit) limit = free_bytes / 4;
    pixel_policy policy = need <= limit ? PIXEL_KEEP_ALL : l->o.training ? PIXEL_KEEP_RECENT : PIXEL_KEEP_FIRST;
    if (l->o.cache == LOADER_CACHE_NONE) policy = PIXEL_KEEP_NONE;
    if (l->o.cache == LOADER_CACHE_RAM && (free_bytes == 0 || need <= free_bytes / 2)) policy = PIXEL_KEEP_ALL;
    if (l->o.cache == LOADER_CACHE_RAM && policy != PIXEL_KEEP_ALL)
        ctx_log(
            ctx, OL_LOG_WARNING,
            "%s: cache=ram needs %.1f GiB and as much again to spare, %.1f GiB are free: only some pictures are kept",
            l->d->name, (double)need / 0x1p30, (double)free_bytes / 0x1p30);
    if (l->o.cache == LOADER_CACHE_DISK) status = find_disk_folder(l, &a, need + need / 10, &folder);
    if (folder != NULL) policy = PIXEL_KEEP_DISK;
    if (status == OL_OK) status = pixel_cache_create(ctx, l->d, l->o.imgsz, policy, limit, folder, &l->pixels);
    arena_deinit(&a);
    /* A bound of the set alone, not of this machine: the samples of a seed must not depend on free memory. */
    if (l->o.training && l->o.cache != LOADER_CACHE_RAM && need > bound)
        l->n_partners = min_int(l->d->n, min_int(PARTNER_BATCHES * l->batch_size, MAX_PARTNERS));
    return status;
}

/* Bytes for a batch's pixels, where a device can make what these options ask for; else 0. */
static size_t recipe_bytes(const loader_options *o, int batch, size_t picture_bytes) {
    const augment_settings *a = &o->augment;
    const double usual = SEEN_SHARE * (1.0 + a->mixup + a->cutmix) * batch + SEEN_MORE;
    if (!o->training || o->multi_scale > 0 || !augment_has_recipe(a) || !device_makes_pictures(o->maker)) return 0;
    return (size_t)((double)picture_bytes * (o->recipe_room > 0.0 ? o->recipe_room : usual));
}

size_t loader_recipe_pixels(const loader_options *o, int channels, int batch) {
    return recipe_bytes(o, batch, (size_t)channels * (size_t)o->imgsz * (size_t)o->imgsz);
}

static ol_status add_recipes(loader *l, size_t picture_bytes) {
    const size_t bytes = recipe_bytes(&l->o, l->batch_size, picture_bytes);
    if (bytes == 0) return OL_OK;
    return loader_slots_add_recipes(l->ctx, l->slots, l->n_slots, l->o.maker, l->batch_size, bytes);
}

static ol_status make_slots(loader *l) {
    const size_t n = (size_t)l->batch_size, pixels = (size_t)l->d->channels * (size_t)l->max_h * (size_t)l->max_w;
    l->n_slots = l->o.workers == 0 ? 1 : 3 + l->o.workers / l->batch_size;
    if (l->n_slots > l->n_batches) l->n_slots = l->n_batches;
    l->slots = mem_alloc0(l->ctx, (size_t)l->n_slots, sizeof *l->slots);
    if (l->slots == NULL) return OL_ERROR_MEMORY;
    device *copier = l->o.training ? NULL : l->o.maker; /* training's images are made there */
    for (int i = 0; i < l->n_slots; i++) {
        const ol_status status = loader_slot_init(l->ctx, &l->slots[i], copier, l->batch_size, pixels, l->max_targets);
        if (status != OL_OK) return status;
    }
    const ol_status status = add_recipes(l, pixels);
    if (status != OL_OK) return status;
    return ring_create(l->ctx, n * (size_t)l->n_slots, &l->ring);
}

static ol_status make_workers(loader *l) {
    ol_status status = pool_create(l->ctx, l->o.workers, &l->pool);
    if (status != OL_OK) return status;
    l->n_workers = pool_workers(l->pool);
    l->workers = mem_alloc0(l->ctx, (size_t)l->n_workers, sizeof *l->workers);
    if (l->workers == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < l->n_workers && status == OL_OK; i++) {
        loader_worker *w = &l->workers[i];
        w->l = l;
        if (l->o.training) status = augmenter_create(pool_context(l->pool, i), &w->augmenter);
        if (l->o.training && l->o.multi_scale > 0) {
            w->planes = mem_alloc_aligned(l->ctx, (size_t)l->d->channels, (size_t)l->o.imgsz * (size_t)l->o.imgsz);
            if (w->planes == NULL) status = OL_ERROR_MEMORY;
        }
    }
    return status;
}

ol_status loader_create(ol_context *ctx, const dataset *d, const loader_options *options, loader **out) {
    ol_status status = check(ctx, d, options);
    if (status != OL_OK) return status;
    loader *l = mem_alloc0(ctx, 1, sizeof *l);
    if (l == NULL) return OL_ERROR_MEMORY;
    l->ctx = ctx;
    l->d = d;
    l->o = *options;
    if (l->o.stride < MIN_STRIDE) l->o.stride = MIN_STRIDE;
    l->augment = options->augment;
    l->augment.imgsz = l->augment.out_height = l->augment.out_width = options->imgsz;
    if (!l->o.training) l->o.multi_scale = 0;
    if (l->o.rect) augment_close_mosaic(&l->augment);
    status = plan_epoch(l);
    if (status == OL_OK) status = plan_cache(l);
    if (status == OL_OK) status = make_slots(l);
    if (status == OL_OK) status = make_workers(l);
    if (status != OL_OK) {
        loader_destroy(l);
        return status;
    }
    *out = l;
    return OL_OK;
}

void loader_destroy(loader *l) {
    if (l == NULL) return;
    ol_context *ctx = l->ctx;
    if (l->running) {
        ring_stop(l->ring);
        pool_wait(l->pool);
    }
    for (int i = 0; l->workers != NULL && i < l->n_workers; i++) {
        loader_worker *w = &l->workers[i];
        augmenter_destroy(w->augmenter);
        pixel_reader_deinit(ctx, &w->reader);
        image_deinit(ctx, &w->storage);
        image_deinit(ctx, &w->scratch);
        image_deinit(ctx, &w->plane);
        mem_free_aligned(ctx, w->planes);
    }
    mem_free(ctx, l->workers);
    pool_destroy(l->pool); /* after the augmenters, which use its contexts */
    for (int i = 0; l->slots != NULL && i < l->n_slots; i++) loader_slot_deinit(ctx, &l->slots[i], l->o.maker);
    mem_free(ctx, l->slots);
    ring_destroy(l->ring);
    pixel_cache_destroy(l->pixels);
    mem_free(ctx, l->order);
    mem_free(ctx, l->shapes);
    mem_free(ctx, l);
}
