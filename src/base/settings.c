#include "base/settings.h"

#include "base/file.h"
#include "base/settings_check.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

const setting_info setting_infos[SETTING_COUNT] = {
#define SETTING(kind, name, default_text, words, group, doc)                                                           \
    {#name, SETTING_##kind, default_text, words, SETTING_GROUP_##group, doc},
#include "base/settings.def"
#undef SETTING
};

static const size_t field_offsets[SETTING_COUNT] = {
#define SETTING(kind, name, default_text, words, group, doc) offsetof(settings, name),
#include "base/settings.def"
#undef SETTING
};

/* Names of the field that still turn up; `inverse`: the new key is the negation of the old one. */
static const struct deprecated {
    const char *old, *now;
    bool inverse;
} deprecated_names[] = {{"boxes", "show_boxes", false},   {"hide_labels", "show_labels", true},
                        {"hide_conf", "show_conf", true}, {"line_thickness", "line_width", false},
                        {"half", "quantize", false},      {"int8", "quantize", false},
                        {"end2end", "nms", true}};
static const char *const dropped_names[] = {"label_smoothing", "save_hybrid", "crop_fraction", "keras"};

bool setting_find(const char *name, setting_id *id) {
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(setting_infos[i].name, name) == 0) {
            *id = (setting_id)i;
            return true;
        }
    }
    return false;
}

bool setting_is_flag(setting_id id) {
    const setting_info *info = &setting_infos[id];
    return info->kind == SETTING_TRISTATE || strcmp(info->default_text, "True") == 0 ||
           strcmp(info->default_text, "False") == 0;
}

const char *setting_group_name(setting_group group) {
    static const char *const names[SETTING_GROUP_COUNT] = {"General",    "Training",
                                                           "Validation", "Prediction and validation",
                                                           "Export",     "Hyper-parameters and augmentation"};
    return names[group];
}

/* Which C field a kind has: how a checked value is copied into it. */
static void store_text(settings *s, size_t at, const value *v) {
    *(const char **)((char *)s + at) = v->kind == VALUE_STRING ? v->as.string : NULL;
}
static void store_int(settings *s, size_t at, const value *v) {
    *(int *)((char *)s + at) = v->kind == VALUE_INT ? (int)v->as.integer : SETTING_UNSET;
}
static void store_double(settings *s, size_t at, const value *v) {
    *(double *)((char *)s + at) = value_is_number(v) ? value_as_double(v) : (double)NAN;
}
static void store_bool(settings *s, size_t at, const value *v) {
    *(bool *)((char *)s + at) = v->as.boolean;
}
static void store_tristate(settings *s, size_t at, const value *v) {
    *(setting_tristate *)((char *)s + at) = v->kind == VALUE_BOOL ? (setting_tristate)v->as.boolean : SETTING_NONE;
}
static void store_value(settings *s, size_t at, const value *v) {
    *(const value **)((char *)s + at) = v;
}

static void (*const stores[SETTING_KIND_COUNT])(settings *, size_t, const value *) = {
    [SETTING_TEXT] = store_text,
    [SETTING_INTEGER] = store_int,
    [SETTING_NATURAL] = store_int,
    [SETTING_POSITIVE] = store_int,
    [SETTING_OPTIONAL_POSITIVE] = store_int,
    [SETTING_REAL] = store_double,
    [SETTING_FRACTION] = store_double,
    [SETTING_OPTIONAL_FRACTION] = store_double,
    [SETTING_BATCH] = store_double,
    [SETTING_BOOL] = store_bool,
    [SETTING_TRISTATE] = store_tristate,
    [SETTING_SIZE] = store_value,
    [SETTING_CACHE] = store_value,
    [SETTING_DEVICE] = store_value,
    [SETTING_SWITCH] = store_value,
    [SETTING_AMP] = store_value,
    [SETTING_SHARE] = store_value,
    [SETTING_INTS] = store_value,
    [SETTING_QUANTIZE] = store_value,
    [SETTING_RANGE] = store_value,
};

static const value *copy_value(arena *a, const value *v) {
    value *copy = NULL;
    ol_status status = OL_OK;
    switch (v->kind) {
    case VALUE_STRING:
        return value_string(a, v->as.string);
    case VALUE_LIST:
        copy = value_list(a);
        for (size_t i = 0; copy != NULL && status == OL_OK && i < v->as.list.count; i++)
            status = value_append(a, copy, copy_value(a, v->as.list.items[i]));
        break;
    case VALUE_MAP:
        copy = value_map(a);
        for (size_t i = 0; copy != NULL && status == OL_OK && i < v->as.map.count; i++)
            status = value_set_key(a, copy, copy_value(a, v->as.map.keys[i]), copy_value(a, v->as.map.items[i]));
        break;
    default:
        copy = arena_alloc(a, 1, sizeof *copy);
        if (copy != NULL) *copy = *v;
        break;
    }
    return status == OL_OK ? copy : NULL;
}

ol_status settings_set_quietly(settings *s, setting_id id, const value *v) {
    const setting_info *info = &setting_infos[id];
    value tidy; /* 3.0 for an int becomes 3 */
    ol_status status = setting_check(s->memory.ctx, info, v, &tidy);
    if (status != OL_OK) return status;
    const value *kept = copy_value(&s->memory, &tidy);
    if (kept == NULL) return OL_ERROR_MEMORY;
    s->values[id] = kept;
    stores[info->kind](s, field_offsets[id], kept);
    return OL_OK;
}

ol_status settings_init(settings *s, ol_context *ctx) {
    memset(s, 0, sizeof *s);
    arena_init(&s->memory, ctx, 0);
    arena scratch;
    arena_init(&scratch, ctx, 0);
    ol_status status = OL_OK;
    for (int i = 0; status == OL_OK && i < SETTING_COUNT; i++) {
        const value *v = NULL;
        status = literal_parse(&scratch, setting_infos[i].default_text, &v);
        if (status == OL_OK) status = settings_set_quietly(s, (setting_id)i, v);
    }
    arena_deinit(&scratch);
    if (status != OL_OK) settings_deinit(s);
    return status;
}

void settings_deinit(settings *s) {
    arena_deinit(&s->memory);
}

ol_status settings_copy(const settings *s, settings *copy) {
    settings made;
    ol_status status = settings_init(&made, s->memory.ctx);
    if (status != OL_OK) return status;
    for (int i = 0; status == OL_OK && i < SETTING_COUNT; i++)
        status = settings_set_quietly(&made, (setting_id)i, s->values[i]);
    memcpy(made.given, s->given, sizeof made.given);
    if (status == OL_OK && s->save_dir != NULL) status = settings_set_save_dir(&made, s->save_dir);
    if (status != OL_OK) {
        settings_deinit(&made);
        return status;
    }
    *copy = made;
    return OL_OK;
}

/* The value that a deprecated key stands for. half=True is quantize=16, int8=True is quantize=8, False is None. */
static value translated(const struct deprecated *old, const value *v) {
    value now = *v;
    if (strcmp(old->now, "quantize") == 0 && v->kind == VALUE_BOOL) {
        now = v->as.boolean ? (value){.kind = VALUE_INT, .as.integer = strcmp(old->old, "half") == 0 ? 16 : 8}
                            : value_null;
    } else if (old->inverse && v->kind == VALUE_BOOL) {
        now.as.boolean = !v->as.boolean;
        if (strcmp(old->now, "nms") == 0 && now.as.boolean) now = value_null;
    }
    return now;
}

ol_status settings_set(settings *s, const char *name, const value *v) {
    ol_context *ctx = s->memory.ctx;
    setting_id id;
    for (size_t i = 0; i < sizeof dropped_names / sizeof *dropped_names; i++) {
        if (strcmp(name, dropped_names[i]) != 0) continue;
        ctx_log(ctx, OL_LOG_WARNING, "'%s' is deprecated and no longer used; it is ignored.", name);
        return OL_OK;
    }
    for (size_t i = 0; i < sizeof deprecated_names / sizeof *deprecated_names; i++) {
        const struct deprecated *old = &deprecated_names[i];
        if (strcmp(name, old->old) != 0) continue;
        ctx_log(ctx, OL_LOG_WARNING, "'%s' is deprecated and will be removed in the future. Use '%s' instead.", name,
                old->now);
        const value now = translated(old, v);
        return settings_set(s, old->now, &now);
    }
    if (!setting_find(name, &id)) return settings_fail_unknown(ctx, name);
    ol_status status = settings_set_quietly(s, id, v);
    if (status == OL_OK) s->given[id] = true;
    return status;
}

static bool name_is_known(const char *name) {
    setting_id id;
    for (size_t i = 0; i < sizeof dropped_names / sizeof *dropped_names; i++) {
        if (strcmp(name, dropped_names[i]) == 0) return true;
    }
    for (size_t i = 0; i < sizeof deprecated_names / sizeof *deprecated_names; i++) {
        if (strcmp(name, deprecated_names[i].old) == 0) return true;
    }
    return setting_find(name, &id);
}

/* Names of files and folders keep the way they were typed: 007, 1e3, and the camera 0. */
static bool is_file_or_folder(const char *name) {
    static const char *const names[] = {"name", "project", "source", "model", "data", "cfg", "distill_model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

ol_status settings_set_text(settings *s, const char *name, const char *typed) {
    if (!name_is_known(name)) return settings_fail_unknown(s->memory.ctx, name);
    if (*typed == '\0')
        return ctx_fail(s->memory.ctx, OL_ERROR_ARGUMENT,
                        "'%s=' has no value; give one as in '%s=…' or leave the argument out", name, name);
    const bool is_none = strcasecmp(typed, "none") == 0, stays_text = !is_none && is_file_or_folder(name);
    const value *v = NULL;
    ol_status status = OL_OK;
    if (stays_text)
        v = value_string(&s->memory, typed);
    else if (strcmp(name, "imgsz") == 0 && strchr(typed, ',') != NULL && strchr("[(", *typed) == NULL)
        status = literal_parse(&s->memory, arena_printf(&s->memory, "[%s]", typed), &v);
    else
        status = literal_parse(&s->memory, typed, &v);
    if (status != OL_OK || v == NULL) return OL_ERROR_MEMORY;
    return settings_set(s, name, v);
}

static ol_status set_entry(settings *s, const char *name, const value *v, bool strict) {
    ol_context *ctx = s->memory.ctx;
    setting_id id;
    if (!setting_find(name, &id)) return strict ? settings_fail_unknown(ctx, name) : OL_OK;
    if (s->given[id]) return OL_OK;
    ol_status status = settings_set_quietly(s, id, v);
    if (status != OL_OK && status != OL_ERROR_MEMORY && !strict) {
        ctx_clear(ctx);
        status = OL_OK;
    }
    return status;
}

ol_status settings_set_map(settings *s, const value *map, const char *where, bool strict) {
    ol_context *ctx = s->memory.ctx;
    if (map->kind != VALUE_MAP)
        return ctx_fail(ctx, OL_ERROR_FORMAT, "%s: expected lines of the form 'name: value'", where);
    for (size_t i = 0; i < map->as.map.count; i++) {
        const value *key = map->as.map.keys[i];
        if (key->kind != VALUE_STRING) {
            if (strict) return ctx_fail(ctx, OL_ERROR_FORMAT, "%s:%d: argument names must be text", where, key->line);
            continue;
        }
        if (strcmp(key->as.string, "save_dir") == 0) continue; /* an args.yaml may be used as cfg */
        ol_status status = set_entry(s, key->as.string, map->as.map.items[i], strict);
        if (status != OL_OK)
            return key->line > 0 ? ctx_annotate(ctx, status, "%s:%d", where, key->line)
                                 : ctx_annotate(ctx, status, "%s", where);
    }
    return OL_OK;
}

ol_status settings_read(settings *s, const char *path) {
    arena scratch;
    arena_init(&scratch, s->memory.ctx, 0);
    const value *map = NULL;
    ol_status status = yaml_read(&scratch, path, &map);
    if (status == OL_OK) status = settings_set_map(s, map, path, true);
    arena_deinit(&scratch);
    return status;
}

ol_status settings_set_save_dir(settings *s, const char *path) {
    const char *copy = arena_strdup(&s->memory, path);
    if (copy == NULL) return OL_ERROR_MEMORY;
    s->save_dir = copy;
    return OL_OK;
}

ol_status settings_to_map(arena *a, const settings *s, const value **map) {
    value *made = value_map(a);
    if (made == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    for (int i = 0; status == OL_OK && i < SETTING_COUNT; i++)
        status = value_set(a, made, setting_infos[i].name, s->values[i]);
    if (status == OL_OK)
        status = value_set(a, made, "save_dir", s->save_dir != NULL ? value_string(a, s->save_dir) : &value_null);
    if (status == OL_OK) *map = made;
    return status;
}

ol_status settings_write(text *out, const settings *s) {
    arena scratch;
    arena_init(&scratch, s->memory.ctx, 0);
    const value *map = NULL;
    ol_status status = settings_to_map(&scratch, s, &map);
    if (status == OL_OK) status = yaml_write(out, map);
    arena_deinit(&scratch);
    return status;
}
