#include "data/dataset.h"

#include "base/file.h"
#include "base/pool.h"
#include "data/label_cache.h"
#include "data/picture_list.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHOWN     20   /* warnings about single pictures */
#define PROGRESS_STEP 1000 /* pictures */

/* The set under construction, and what only the scan needs. */
typedef struct opening {
    ol_context *ctx;
    const data_config *config;
    const dataset_options *options;
    dataset *d;
    picture_list list;
    scan_record *records; /* one a listed picture */
    label_rules rules;
    label_cache cache;
    pool *pool;
    char *cache_path; /* NULL: none */
    uint64_t cache_key;
    atomic_size_t n_scanned, n_from_cache;
    int n_shown;
} opening;

/* What a dataset owns besides its public part: arenas that the scan's workers filled. */
typedef struct dataset_memory {
    dataset public;
    arena *scan_arenas;
    int n_arenas;
    label_cache cache;
} dataset_memory;

char *dataset_cache_folder(arena *a) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg != NULL && path_is_absolute(xdg)) return path_join(a, xdg, "onelook");
    if (home != NULL && home[0] != '\0') return path_join(a, home, ".cache/onelook");
    return NULL;
}

/* ---- scan ---- */

static ol_status scan_one(void *user, ol_context *ctx, int worker, size_t index) {
    opening *o = user;
    dataset_memory *m = (dataset_memory *)o->d;
    scan_record *r = &o->records[index];
    arena *a = &m->scan_arenas[worker];
    a->ctx = ctx; /* messages of this worker */
    r->path = o->list.paths[index];
    r->label_path = label_path(a, r->path);
    if (r->label_path == NULL) return OL_ERROR_MEMORY;
    const scan_record *known = label_cache_find(&o->cache, r->path, r->label_path);
    if (known != NULL) {
        const char *own_path = r->path;
        *r = *known;
        r->path = own_path;
        atomic_fetch_add(&o->n_from_cache, 1);
    } else if (scan_picture(a, &o->rules, r) != OL_OK) {
        return OL_ERROR_MEMORY;
    }
    const size_t done = atomic_fetch_add(&o->n_scanned, 1) + 1;
    if (done % PROGRESS_STEP == 0)
        ctx_log(ctx, OL_LOG_PROGRESS, "%s: scanning, %zu of %zu pictures", o->d->name, done, o->list.n);
    return OL_OK;
}

static uint64_t hash_number(uint64_t hash, int64_t x) {
    return hash_bytes(hash, &x, sizeof x);
}

/* One cache file for each combination of sources and rules. */
static ol_status find_cache(opening *o) {
    arena *a = &o->d->arena;
    const char *folder = o->options->cache_folder;
    const data_paths *from = &o->config->split[o->options->split];
    if (folder == NULL) folder = dataset_cache_folder(a);
    if (folder == NULL || folder[0] == '\0') return OL_OK;
    uint64_t key = hash_number(HASH_START, o->rules.nc);
    key = hash_number(key, o->rules.any_class);
    key = hash_number(key, o->rules.pose_fields);
    uint64_t name = hash_number(key, (int64_t)(o->options->fraction * 1e6));
    for (size_t i = 0; i < from->count; i++) name = hash_bytes(name, from->items[i], strlen(from->items[i]) + 1);
    o->cache_key = key;
    o->cache_path = arena_printf(a, "%s/labels/%016llx.bin", folder, (unsigned long long)name);
    return o->cache_path != NULL ? label_cache_load(o->ctx, o->cache_path, key, &o->cache) : OL_ERROR_MEMORY;
}

/* Not being able to keep a cache is worth a message, never a failure. */
static ol_status keep_cache(opening *o, int64_t started_ns) {
    char reason[512];
    arena a;
    if (o->cache_path == NULL || o->d->from_cache) return OL_OK;
    arena_init(&a, o->ctx, 0);
    const char *folder = path_parent(&a, o->cache_path);
    ol_status status = folder != NULL ? folder_create(o->ctx, folder) : OL_ERROR_MEMORY;
    arena_deinit(&a);
    if (status == OL_OK)
        status = label_cache_write(o->ctx, o->cache_path, o->cache_key, o->records, o->list.n, started_ns);
    if (status == OL_OK || status == OL_ERROR_MEMORY) return status;
    ctx_message(o->ctx, reason, sizeof reason);
    ctx_clear(o->ctx);
    ctx_log(o->ctx, OL_LOG_WARNING, "%s: the label cache was not kept, the next run scans again: %s", o->d->name,
            reason);
    return OL_OK;
}

static ol_status scan_all(opening *o) {
    dataset_memory *m = (dataset_memory *)o->d;
    const int threads = o->options->n_threads > 0 ? o->options->n_threads : ctx_threads(o->ctx);
    const int64_t started_ns = clock_now_ns();
    ol_status status = pool_create(o->ctx, threads > 1 ? threads : 0, &o->pool);
    if (status != OL_OK) return status;
    const int n_workers = pool_workers(o->pool);
    m->scan_arenas = mem_alloc0(o->ctx, (size_t)n_workers, sizeof *m->scan_arenas);
    o->records = mem_alloc0(o->ctx, o->list.n, sizeof *o->records);
    if (m->scan_arenas == NULL || o->records == NULL) return OL_ERROR_MEMORY;
    m->n_arenas = n_workers;
    for (int i = 0; i < n_workers; i++) arena_init(&m->scan_arenas[i], o->ctx, 0);
    status = find_cache(o);
    m->cache = o->cache;
    if (status == OL_OK) status = pool_run(o->pool, o->list.n, scan_one, o);
    for (int i = 0; i < n_workers; i++) m->scan_arenas[i].ctx = o->ctx;
    if (status != OL_OK) return status;
    o->d->from_cache = atomic_load(&o->n_from_cache) == o->list.n;
    return keep_cache(o, started_ns);
}

/* ---- from records to items ---- */

static void warn(opening *o, const scan_record *r) {
    const label_verdict *v = &r->verdict;
    if (!v->rejected && v->n_duplicates == 0) return;
    if (++o->n_shown > MAX_SHOWN) return;
    if (!v->rejected)
        ctx_log(o->ctx, OL_LOG_WARNING, "%s: %s: %d duplicate labels removed", o->d->name, r->label_path,
                v->n_duplicates);
    else if (v->line > 0)
        ctx_log(o->ctx, OL_LOG_WARNING, "%s: %s: ignoring corrupt image/label: %s:%d: %s", o->d->name, r->path,
                r->label_path, v->line, v->reason);
    else
        ctx_log(o->ctx, OL_LOG_WARNING, "%s: %s: ignoring corrupt image/label: %s", o->d->name, r->path, v->reason);
}

static bool class_kept(const dataset_options *options, float cls) {
    if (options->model_classes > 0 && cls >= (float)options->model_classes) return false;
    if (options->classes == NULL) return true;
    for (int i = 0; i < options->n_classes; i++)
        if ((float)options->classes[i] == cls) return true;
    return false;
}

/* A copy of `rows` without the classes that are not wanted, and with class 0 where all are one. */
static ol_status select_rows(opening *o, const label_rows *rows, label_rows *out, int64_t *n_unknown) {
    const dataset_options *options = o->options;
    arena *a = &o->d->arena;
    const bool outlines = rows->first_point != NULL;
    const size_t n_rows = (size_t)rows->n;
    *out = *rows;
    if (!options->single_cls && options->classes == NULL && options->model_classes == 0) return OL_OK;
    float *kept = arena_alloc(a, n_rows, 5 * sizeof *kept);
    int32_t *first = outlines ? arena_alloc(a, n_rows + 1, sizeof *first) : NULL;
    float *points = outlines ? arena_alloc(a, (size_t)rows->first_point[n_rows], 2 * sizeof *points) : NULL;
    if (kept == NULL || (outlines && (first == NULL || points == NULL))) return OL_ERROR_MEMORY;
    int n = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const float *row = rows->rows + 5 * i;
        if (options->model_classes > 0 && row[0] >= (float)options->model_classes) ++*n_unknown;
        if (!class_kept(options, row[0])) continue;
        memcpy(kept + 5 * (size_t)n, row, 5 * sizeof *row);
        if (options->single_cls) kept[5 * n] = 0;
        if (outlines) {
            const int32_t from = rows->first_point[i], count = rows->first_point[i + 1] - from;
            memcpy(points + 2 * first[n], rows->points + 2 * from, 2 * (size_t)count * sizeof *points);
            first[n + 1] = first[n] + count;
        }
        n++;
    }
    *out = (label_rows){n, kept, points, first};
    return OL_OK;
}

static uint64_t identity_of(const scan_record *r) {
    return hash_bytes(hash_bytes(HASH_START, r->path, strlen(r->path)), &r->picture, sizeof r->picture);
}

static ol_status add_items(opening *o) {
    dataset *d = o->d;
    int64_t n_unknown = 0;
    d->items = arena_alloc(&d->arena, o->list.n, sizeof *d->items);
    if (d->items == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < o->list.n; i++) {
        const scan_record *r = &o->records[i];
        d->n_missing += r->state == LABEL_MISSING;
        d->n_empty += r->state == LABEL_EMPTY;
        d->n_found += r->state == LABEL_FOUND;
        d->n_corrupt += r->verdict.rejected;
        d->n_duplicates += r->verdict.rejected ? 0 : r->verdict.n_duplicates;
        if (r->verdict.rejected) continue;
        data_item item = {
            .path = r->path, .label_path = r->label_path, .h = r->h, .w = r->w, .identity = identity_of(r)};
        const ol_status status = select_rows(o, &r->rows, &item.labels, &n_unknown);
        if (status != OL_OK) return status;
        d->items[d->n++] = item;
    }
    if (n_unknown > 0)
        ctx_log(o->ctx, OL_LOG_WARNING,
                "%s: %lld objects of classes that the model does not have (it has %d) are left out", d->name,
                (long long)n_unknown, o->options->model_classes);
    return OL_OK;
}

/* Outlines count only when every labelled picture has them (data document, section 1.3). */
static void settle_outlines(opening *o) {
    dataset *d = o->d;
    int n_outlined = 0, n_labelled = 0;
    for (int i = 0; i < d->n; i++) {
        const label_rows *rows = &d->items[i].labels;
        if (rows->n == 0) continue;
        n_labelled++;
        n_outlined += rows->first_point != NULL;
    }
    d->polygons = n_outlined > 0 && n_outlined == n_labelled;
    if (n_outlined > 0 && !d->polygons)
        ctx_log(
            o->ctx, OL_LOG_WARNING,
            "%s: %d of %d label files hold outlines and the others boxes: the outlines are dropped, their boxes kept",
            d->name, n_outlined, n_labelled);
    for (int i = 0; i < d->n; i++) {
        label_rows *rows = &d->items[i].labels;
        if (!d->polygons || rows->n == 0) *rows = (label_rows){.n = rows->n, .rows = rows->rows};
        d->n_labels += rows->n;
        if (rows->n > d->max_labels) d->max_labels = rows->n;
    }
}

/* "labels/train" as far as the first label path tells. */
static void summarise(opening *o) {
    const dataset *d = o->d;
    const char *first = o->list.n > 0 ? o->records[0].label_path : "";
    const int folder_length = (int)(path_name(first) - first);
    for (size_t i = 0; i < o->list.n; i++) warn(o, &o->records[i]);
    if (o->n_shown > MAX_SHOWN)
        ctx_log(o->ctx, OL_LOG_WARNING, "%s: … and %d more pictures with messages like these", d->name,
                o->n_shown - MAX_SHOWN);
    ctx_log(o->ctx, OL_LOG_INFO, "%s: Scanning %.*s... %d images, %d backgrounds, %d corrupt%s", d->name,
            folder_length > 1 ? folder_length - 1 : folder_length, first, d->n_found, d->n_missing + d->n_empty,
            d->n_corrupt, d->from_cache ? " (from the label cache)" : "");
}

static ol_status check_result(opening *o) {
    const dataset *d = o->d;
    if (d->n == 0) {
        for (size_t i = 0; i < o->list.n; i++) {
            const scan_record *r = &o->records[i];
            if (r->verdict.rejected)
                return ctx_fail(o->ctx, OL_ERROR_FORMAT,
                                "%s: No valid images found: all %zu were left out, the first ('%s') because of: %s",
                                d->name, o->list.n, r->path, r->verdict.reason);
        }
    }
    if (d->n_labels > 0) return OL_OK;
    const scan_record *r = &o->records[0];
    const char *why =
        d->n_missing == (int)o->list.n ? "no label file was found" : "the label files hold no objects to use";
    if (o->options->training)
        return ctx_fail(o->ctx, OL_ERROR_NOT_FOUND, "%s: %s: the labels of '%s' are expected in '%s'", d->name, why,
                        r->path, r->label_path);
    ctx_log(o->ctx, OL_LOG_WARNING, "%s: %s: the labels of '%s' are expected in '%s'", d->name, why, r->path,
            r->label_path);
    return OL_OK;
}

static ol_status copy_names(opening *o) {
    dataset *d = o->d;
    const int n = o->options->single_cls ? 1 : o->config->nc;
    d->nc = n;
    d->channels = o->config->channels;
    d->names = arena_alloc(&d->arena, (size_t)n, sizeof *d->names);
    if (d->names == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        d->names[i] = arena_strdup(&d->arena, o->options->single_cls ? "item" : o->config->names[i]);
        if (d->names[i] == NULL) return OL_ERROR_MEMORY;
    }
    return OL_OK;
}

static ol_status check_options(ol_context *ctx, const data_config *config, const dataset_options *options) {
    if (options->split >= DATA_N_SPLITS || config->split[options->split].count == 0)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s has no '%s' entry", config->file,
                        options->split < DATA_N_SPLITS ? data_split_names[options->split] : "?");
    for (int i = 0; options->classes != NULL && i < options->n_classes; i++)
        if (options->classes[i] < 0 || options->classes[i] >= config->nc)
            return ctx_fail(ctx, OL_ERROR_ARGUMENT, "classes=[%d] is no class of %s: its classes are 0-%d",
                            options->classes[i], config->file, config->nc - 1);
    return OL_OK;
}

ol_status dataset_open(ol_context *ctx, const data_config *config, const dataset_options *options, dataset **out) {
    ol_status status = check_options(ctx, config, options);
    if (status != OL_OK) return status;
    dataset_memory *m = mem_alloc0(ctx, 1, sizeof *m);
    if (m == NULL) return OL_ERROR_MEMORY;
    dataset *d = &m->public;
    opening o = {.ctx = ctx, .config = config, .options = options, .d = d};
    o.rules = (label_rules){config->nc, options->single_cls, config->kpt_fields};
    d->ctx = ctx;
    d->name = data_split_names[options->split];
    arena_init(&d->arena, ctx, 0);
    arena_init(&m->cache.arena, ctx, 0);
    arena_init(&o.cache.arena, ctx, 0);
    status = copy_names(&o);
    if (status == OL_OK)
        status = picture_list_read(&d->arena, d->name, &config->split[options->split], options->fraction, &o.list);
    if (status == OL_OK && o.list.n > INT32_MAX / 2)
        status = ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s: %zu pictures are too many for one set", d->name, o.list.n);
    if (status == OL_OK) status = scan_all(&o);
    if (status == OL_OK) status = add_items(&o);
    if (status == OL_OK) settle_outlines(&o);
    if (status == OL_OK) summarise(&o);
    if (status == OL_OK) status = check_result(&o);
    pool_destroy(o.pool);
    mem_free(ctx, o.records);
    if (status != OL_OK) {
        dataset_destroy(d);
        return status;
    }
    *out = d;
    return OL_OK;
}

void dataset_destroy(dataset *d) {
    if (d == NULL) return;
    dataset_memory *m = (dataset_memory *)d;
    ol_context *ctx = d->ctx;
    for (int i = 0; i < m->n_arenas; i++) arena_deinit(&m->scan_arenas[i]);
    mem_free(ctx, m->scan_arenas);
    label_cache_deinit(&m->cache);
    arena_deinit(&d->arena);
    mem_free(ctx, m);
}

void dataset_class_counts(const dataset *d, int64_t *counts) {
    memset(counts, 0, (size_t)d->nc * sizeof *counts);
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->items[i].labels.n; k++) counts[(int)d->items[i].labels.rows[5 * k]]++;
}
