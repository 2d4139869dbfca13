#include "data/data_config.h"

#include "base/file.h"
#include "data/data_find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CLASSES  65536
#define MAX_CHANNELS 1024

const char *const data_split_names[DATA_N_SPLITS] = {"train", "val", "test", "minival"};

data_split data_split_by_name(const char *name) {
    data_split split = DATA_SPLIT_TRAIN;
    while (split < DATA_N_SPLITS && strcmp(name, data_split_names[split]) != 0) split++;
    return split;
}

char *data_datasets_folder(arena *a) {
    static const char *const candidates[] = {"datasets", "../datasets"};
    const char *chosen = getenv("ONELOOK_DATASETS");
    if (chosen != NULL && chosen[0] != '\0') return path_absolute(a, chosen);
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (file_is_folder(candidates[i])) return path_absolute(a, candidates[i]);
    return path_absolute(a, candidates[0]);
}

/* ---- reading keys ---- */

typedef struct reading {
    ol_context *ctx;
    arena *a;
    const char *file;
    const value *map;
} reading;

static bool is_null(const value *v) {
    return v == NULL || v->kind == VALUE_NULL || (v->kind == VALUE_STRING && strcmp(v->as.string, "None") == 0);
}

static const value *get(const reading *r, const char *key) {
    const value *v = value_get(r->map, key);
    return is_null(v) ? NULL : v;
}

static ol_status wrong_type(const reading *r, const char *key, const char *wanted, const value *v) {
    return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s:%d: '%s' must be %s, not %s", r->file, v->line, key, wanted,
                    value_kind_name(v));
}

/* Text of any scalar, as a class name or a path is meant ("no" and 3 are names too). */
static const char *scalar_text(arena *a, const value *v) {
    if (v->kind == VALUE_STRING) return v->as.string;
    text t;
    text_init(&t, a->ctx);
    const char *copy = literal_write(&t, v) == OL_OK ? arena_strdup(a, text_c(&t)) : NULL;
    text_deinit(&t);
    return copy;
}

/* An int, a float that is integral, or such a number as text. */
static ol_status read_count(const reading *r, const char *key, int64_t low, int64_t high, int *out) {
    const value *v = get(r, key);
    int64_t n = 0;
    if (v == NULL) return OL_OK;
    bool valid = value_as_int(v, &n);
    if (!valid && v->kind == VALUE_STRING) {
        const value *parsed = NULL;
        if (literal_parse(r->a, v->as.string, &parsed) != OL_OK) return OL_ERROR_MEMORY;
        valid = value_as_int(parsed, &n);
    }
    if (!valid) return wrong_type(r, key, "int", v);
    if (n < low || n > high)
        return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s:%d: '%s' is %lld; it must be %lld to %lld", r->file, v->line, key,
                        (long long)n, (long long)low, (long long)high);
    *out = (int)n;
    return OL_OK;
}

static ol_status read_text(const reading *r, const char *key, const char **out) {
    const value *v = get(r, key);
    if (v == NULL) return OL_OK;
    if (v->kind != VALUE_STRING) return wrong_type(r, key, "str", v);
    *out = v->as.string;
    return OL_OK;
}

/* ---- names ---- */

static ol_status names_from_list(const reading *r, const value *names, data_config *c) {
    for (size_t i = 0; i < names->as.list.count; i++)
        if ((c->names[i] = scalar_text(r->a, names->as.list.items[i])) == NULL) return OL_ERROR_MEMORY;
    return OL_OK;
}

/* Keys must be 0..n-1 in any order. */
static ol_status names_from_map(const reading *r, const value *names, data_config *c) {
    const size_t n = names->as.map.count;
    int64_t low = INT64_MAX, high = INT64_MIN;
    bool valid = true;
    for (size_t i = 0; i < n; i++) {
        const value *key = names->as.map.keys[i], *parsed = key;
        int64_t id = 0;
        if (key->kind == VALUE_STRING && literal_parse(r->a, key->as.string, &parsed) != OL_OK) return OL_ERROR_MEMORY;
        if (!value_as_int(parsed, &id))
            return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s:%d: 'names' has the key '%s', which is no class number",
                            r->file, key->line, scalar_text(r->a, key));
        low = id < low ? id : low;
        high = id > high ? id : high;
        if (id < 0 || id >= (int64_t)n || c->names[id] != NULL) {
            valid = false;
            continue;
        }
        if ((c->names[id] = scalar_text(r->a, names->as.map.items[i])) == NULL) return OL_ERROR_MEMORY;
    }
    if (valid) return OL_OK;
    return ctx_fail(
        r->ctx, OL_ERROR_FORMAT,
        "%s:%d: %zu-class dataset requires class indices 0-%zu, but you have invalid class indices %lld-%lld "
        "or one twice; number the entries of 'names' without gaps",
        r->file, names->line, n, n - 1, (long long)low, (long long)high);
}

static ol_status read_names(const reading *r, data_config *c) {
    const value *names = get(r, "names");
    ol_status status = read_count(r, "nc", 1, MAX_CLASSES, &c->nc);
    if (status != OL_OK) return status;
    if (names == NULL && c->nc == 0)
        return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s has neither 'names' nor 'nc': one of them must say the classes",
                        r->file);
    if (names != NULL && names->kind != VALUE_LIST && names->kind != VALUE_MAP)
        return wrong_type(r, "names", "list or map", names);
    if (names != NULL) {
        const size_t n = names->kind == VALUE_LIST ? names->as.list.count : names->as.map.count;
        if (n == 0 || n > MAX_CLASSES)
            return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s:%d: 'names' has %zu classes; 1 to %d are possible", r->file,
                            names->line, n, MAX_CLASSES);
        if (c->nc != 0 && (size_t)c->nc != n)
            return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s: 'names' has length %zu but 'nc' is %d; they must agree",
                            r->file, n, c->nc);
        c->nc = (int)n;
    }
    c->names = arena_alloc(r->a, (size_t)c->nc, sizeof *c->names);
    if (c->names == NULL) return OL_ERROR_MEMORY;
    if (names != NULL) return names->kind == VALUE_LIST ? names_from_list(r, names, c) : names_from_map(r, names, c);
    for (int i = 0; i < c->nc; i++)
        if ((c->names[i] = arena_printf(r->a, "class_%d", i)) == NULL) return OL_ERROR_MEMORY;
    return OL_OK;
}

static ol_status read_kpt_shape(const reading *r, data_config *c) {
    const value *v = get(r, "kpt_shape");
    int64_t n = 0, d = 0;
    if (v == NULL) return OL_OK;
    if (v->kind != VALUE_LIST) return wrong_type(r, "kpt_shape", "list", v);
    if (v->as.list.count != 2 || !value_as_int(v->as.list.items[0], &n) || !value_as_int(v->as.list.items[1], &d) ||
        n < 1 || n > 10000 || d < 2 || d > 3)
        return ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s:%d: 'kpt_shape' must be [number of points, 2 or 3]", r->file,
                        v->line);
    c->kpt_fields = (int)(n * d);
    return OL_OK;
}

/* ---- paths ---- */

static ol_status read_entries(const reading *r, data_split split, data_paths *out) {
    const char *key = data_split_names[split];
    const value *v = get(r, key);
    if (v == NULL && split == DATA_SPLIT_VAL && (v = get(r, "validation")) != NULL)
        ctx_log(r->ctx, OL_LOG_WARNING, "%s: the key 'validation' is read as 'val'", r->file);
    if (v == NULL) {
        if (split != DATA_SPLIT_TRAIN && split != DATA_SPLIT_VAL) return OL_OK;
        return ctx_fail(r->ctx, OL_ERROR_FORMAT,
                        "%s '%s:' key missing; 'train' and 'val' are required in every data YAML", r->file, key);
    }
    if (v->kind != VALUE_STRING && v->kind != VALUE_LIST) return wrong_type(r, key, "str or list", v);
    const size_t n = v->kind == VALUE_LIST ? v->as.list.count : 1;
    out->items = arena_alloc(r->a, n, sizeof *out->items);
    if (out->items == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const value *item = v->kind == VALUE_LIST ? v->as.list.items[i] : v;
        if (item->kind != VALUE_STRING) return wrong_type(r, key, "str or list of str", item);
        out->items[i] = item->as.string;
    }
    out->count = n;
    return n > 0 ? OL_OK : ctx_fail(r->ctx, OL_ERROR_FORMAT, "%s:%d: '%s' is an empty list", r->file, v->line, key);
}

/* root / entry; a single entry "../x" that does not exist there is tried as root / "x" (data document, section 1.1). */
static const char *resolve(arena *a, const char *root, const char *entry, bool single) {
    while (entry[0] == '.' && entry[1] == '/') entry += 2;
    if (entry[0] == '\0' || strcmp(entry, ".") == 0) return root;
    char *path = path_join(a, root, entry);
    if (path != NULL && single && strncmp(entry, "../", 3) == 0 && !file_exists(path))
        path = path_join(a, root, entry + 3);
    for (size_t n = path != NULL ? strlen(path) : 0; n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
    return path;
}

static ol_status resolve_all(const data_config *c, arena *a, const char *root, data_paths out[DATA_N_SPLITS]) {
    for (int s = 0; s < DATA_N_SPLITS; s++) {
        const data_paths *entries = &c->split[s];
        out[s] = (data_paths){arena_alloc(a, entries->count, sizeof *entries->items), entries->count};
        if (out[s].items == NULL) return OL_ERROR_MEMORY;
        for (size_t i = 0; i < entries->count; i++)
            if ((out[s].items[i] = resolve(a, root, entries->items[i], entries->count == 1)) == NULL)
                return OL_ERROR_MEMORY;
    }
    return OL_OK;
}

static const char *first_missing(const data_paths paths[DATA_N_SPLITS], data_split need) {
    for (data_split s = DATA_SPLIT_TRAIN; s < DATA_N_SPLITS; s++) {
        if (s != need && !(need == DATA_SPLIT_TRAIN && s == DATA_SPLIT_VAL)) continue; /* training validates as well */
        for (size_t i = 0; i < paths[s].count; i++)
            if (!file_exists(paths[s].items[i])) return paths[s].items[i];
    }
    return NULL;
}

/* Folders that `path` may mean, best first: beside the YAML file, here, and in the folder of data sets. */
static size_t candidate_roots(arena *a, const char *path, const char *yaml_path, const char *datasets,
                              const char *roots[3]) {
    const char *beside = yaml_path != NULL ? path_parent(a, yaml_path) : NULL;
    size_t n = 0;
    if (path != NULL && path_is_absolute(path)) {
        roots[n++] = path;
        return n;
    }
    if (beside != NULL) roots[n++] = path != NULL ? resolve(a, beside, path, false) : beside;
    if (path == NULL) return n;
    roots[n++] = path_absolute(a, path);
    roots[n++] = resolve(a, datasets, path, false);
    return n;
}

static ol_status choose_root(const reading *r, const char *path, const char *yaml_path, const char *datasets,
                             data_split need, data_config *c) {
    const char *roots[3] = {NULL};
    const char *missing = NULL;
    data_paths resolved[DATA_N_SPLITS];
    const size_t n = candidate_roots(r->a, path, yaml_path, datasets, roots);
    text looked;
    text_init(&looked, r->ctx);
    for (size_t i = 0; i < n; i++) {
        if (roots[i] == NULL || resolve_all(c, r->a, roots[i], resolved) != OL_OK) {
            text_deinit(&looked);
            return OL_ERROR_MEMORY;
        }
        missing = first_missing(resolved, need);
        if (missing == NULL || need == DATA_N_SPLITS) {
            c->root = roots[i];
            memcpy(c->split, resolved, sizeof resolved);
            text_deinit(&looked);
            return OL_OK;
        }
        text_printf(&looked, "%s'%s'", i > 0 ? ", " : "", missing);
    }
    const ol_status status = ctx_fail(
        r->ctx, OL_ERROR_NOT_FOUND,
        "Dataset '%s' images not found, missing path %s. %s: put the set under '%s' (ONELOOK_DATASETS names another "
        "folder), or set 'path' to where it lies. Nothing is downloaded%s%s%s",
        r->file, text_c(&looked), n > 1 ? "These were tried in turn" : "It was looked for there", datasets,
        c->download != NULL ? " (its address is " : "", c->download != NULL ? c->download : "",
        c->download != NULL ? ")" : "");
    text_deinit(&looked);
    return status;
}

/* ---- file ---- */

/* Length of the UTF-8 sequence at `s`, 0 when it is not one. */
static size_t utf8_length(const unsigned char *s, size_t left) {
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                     : (s[0] & 0xF0) == 0xE0       ? 3
                     : (s[0] & 0xF8) == 0xF0       ? 4
                                                   : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return n;
}

/* Bytes that are no UTF-8 are dropped: a class name in an old encoding must not make the file unreadable. */
static size_t drop_undecodable(char *bytes, size_t n) {
    size_t kept = 0;
    for (size_t at = 0; at < n;) {
        const size_t length = utf8_length((const unsigned char *)bytes + at, n - at);
        memmove(bytes + kept, bytes + at, length);
        kept += length;
        at += length > 0 ? length : 1;
    }
    return kept;
}

static ol_status read_map(arena *a, const char *path, const value **out) {
    char *bytes = NULL;
    size_t n = 0;
    ol_status status = file_read(a->ctx, path, (size_t)64 << 20, &bytes, &n);
    if (status != OL_OK) return status;
    status = yaml_parse(a, path, bytes, drop_undecodable(bytes, n), out);
    mem_free(a->ctx, bytes);
    if (status == OL_OK && (*out)->kind != VALUE_MAP)
        return ctx_fail(a->ctx, OL_ERROR_FORMAT, "%s is no data set description: 'key: value' lines are expected",
                        path);
    return status;
}

static ol_status load(arena *a, const data_found *found, const char **yaml_path, const char **file, const value **map) {
    if (found->path != NULL) {
        *yaml_path = path_absolute(a, found->path);
        *file = *yaml_path;
        return *yaml_path == NULL ? OL_ERROR_MEMORY : read_map(a, found->path, map);
    }
    const value *known = NULL;
    const ol_status status = known_datasets(a, &known);
    if (status != OL_OK) return status;
    *file = found->known;
    *map = value_get(known, found->known);
    return OL_OK;
}

ol_status data_config_read(ol_context *ctx, const char *name, const char *datasets_folder, data_split need,
                           data_config *out) {
    data_config c = {.channels = 3};
    data_found found = {0};
    const char *yaml_path = NULL, *path = NULL;
    arena_init(&c.arena, ctx, (size_t)512 << 20);
    reading r = {.ctx = ctx, .a = &c.arena};
    const char *datasets = datasets_folder != NULL ? path_absolute(r.a, datasets_folder) : data_datasets_folder(r.a);
    ol_status status = datasets == NULL ? OL_ERROR_MEMORY : data_find(r.a, name, &found);
    if (status == OL_OK) status = load(r.a, &found, &yaml_path, &r.file, &r.map);
    c.file = r.file;
    for (data_split s = DATA_SPLIT_TRAIN; status == OL_OK && s < DATA_N_SPLITS; s++)
        status = read_entries(&r, s, &c.split[s]);
    if (status == OL_OK) status = read_names(&r, &c);
    if (status == OL_OK) status = read_count(&r, "channels", 1, MAX_CHANNELS, &c.channels);
    if (status == OL_OK) status = read_kpt_shape(&r, &c);
    if (status == OL_OK) status = read_text(&r, "path", &path);
    const value *download = status == OL_OK ? get(&r, "download") : NULL;
    if (download != NULL && download->kind == VALUE_STRING && strstr(download->as.string, "://") != NULL &&
        strchr(download->as.string, '\n') == NULL)
        c.download = download->as.string;
    if (status == OL_OK && need < DATA_N_SPLITS && c.split[need].count == 0)
        status = ctx_fail(ctx, OL_ERROR_NOT_FOUND, "%s has no '%s' entry: add one or choose another split", c.file,
                          data_split_names[need]);
    if (status == OL_OK) status = choose_root(&r, path, yaml_path, datasets, need, &c);
    if (status != OL_OK) {
        arena_deinit(&c.arena);
        return status;
    }
    *out = c;
    return OL_OK;
}

void data_config_deinit(data_config *config) {
    arena_deinit(&config->arena);
}
