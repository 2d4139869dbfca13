#include "api/preferences.h"

#include "base/file.h"
#include "base/numbers.h"
#include "base/value.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct preference {
    const char *name, *fallback;
    size_t offset;
} table[] = {{"runs_dir", "runs", offsetof(preferences, runs_dir)},
             {"datasets_dir", "datasets", offsetof(preferences, datasets_dir)},
             {"weights_dir", "weights", offsetof(preferences, weights_dir)}};
#define N_PREFERENCES (sizeof table / sizeof *table)

static const char **field(preferences *p, size_t i) {
    return (const char **)((char *)p + table[i].offset);
}

/* NULL when neither a configuration nor a home folder is known. */
static char *file_path(arena *a) {
    const char *own = getenv("ONELOOK_CONFIG_DIR"), *shared = getenv("YOLO_CONFIG_DIR"),
               *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (own != NULL && *own != '\0') return arena_printf(a, "%s/settings.json", own);
    if (shared != NULL && *shared != '\0') return arena_printf(a, "%s/Onelook/settings.json", shared);
    if (xdg != NULL && *xdg != '\0') return arena_printf(a, "%s/Onelook/settings.json", xdg);
    if (home != NULL && *home != '\0') return arena_printf(a, "%s/.config/Onelook/settings.json", home);
    return NULL;
}

ol_status preferences_read(arena *a, preferences *out) {
    ol_context *ctx = a->ctx;
    preferences p;
    for (size_t i = 0; i < N_PREFERENCES; i++) *field(&p, i) = table[i].fallback;
    const char *path = file_path(a);
    if (path != NULL && file_exists(path)) {
        char *bytes = NULL;
        size_t n = 0;
        const value *map = NULL;
        ol_status status = file_read(ctx, path, (size_t)1 << 20, &bytes, &n);
        if (status == OL_OK) status = json_parse(a, path, bytes, n, &map);
        mem_free(ctx, bytes);
        if (status != OL_OK) {
            char message[512];
            ctx_message(ctx, message, sizeof message);
            ctx_clear(ctx);
            ctx_log(ctx, OL_LOG_WARNING, "settings are ignored: %s; 'yolo settings reset' writes them anew", message);
        }
        for (size_t i = 0; i < N_PREFERENCES; i++) {
            const value *v = value_get(map, table[i].name);
            if (v != NULL && v->kind == VALUE_STRING && v->as.string[0] != '\0') *field(&p, i) = v->as.string;
        }
    }
    *out = p;
    return OL_OK;
}

static ol_status write_file(arena *a, preferences *p) {
    const char *path = file_path(a);
    if (path == NULL)
        return ctx_fail(a->ctx, OL_ERROR_NOT_FOUND,
                        "no place for the settings file: set HOME or ONELOOK_CONFIG_DIR to a folder");
    value *map = value_map(a);
    for (size_t i = 0; map != NULL && i < N_PREFERENCES; i++) {
        ol_status status = value_set(a, map, table[i].name, value_string(a, *field(p, i)));
        if (status != OL_OK) return status;
    }
    const char *folder = path_parent(a, path);
    if (map == NULL || folder == NULL) return OL_ERROR_MEMORY;
    text json;
    text_init(&json, a->ctx);
    ol_status status = json_write(&json, map);
    text_printf(&json, "\n");
    if (status == OL_OK) status = folder_create(a->ctx, folder);
    if (status == OL_OK) status = file_write_atomic(a->ctx, path, text_c(&json), json.length);
    text_deinit(&json);
    return status;
}

ol_status ol_preferences_list(ol_context *ctx, ol_report_fn line, void *user) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    arena a;
    arena_init(&a, ctx, 0);
    preferences p;
    ol_status status = preferences_read(&a, &p);
    const char *path = file_path(&a);
    if (status == OL_OK) {
        for (size_t i = 0; i < N_PREFERENCES; i++) line(user, table[i].name, *field(&p, i));
        line(user, "file", path != NULL ? path : "none (no home folder)");
    }
    arena_deinit(&a);
    return status;
}

ol_status ol_preferences_set(ol_context *ctx, const char *name, const char *typed) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    size_t which = 0;
    while (which < N_PREFERENCES && strcmp(table[which].name, name) != 0) which++;
    if (which == N_PREFERENCES)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "'%.100s' is not a setting; there are runs_dir, datasets_dir and weights_dir", name);
    if (*typed == '\0')
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'%s=' has no value; give a folder as in '%s=/data/%s'", name, name,
                        table[which].fallback);
    arena a;
    arena_init(&a, ctx, 0);
    preferences p;
    ol_status status = preferences_read(&a, &p);
    if (status == OL_OK) {
        *field(&p, which) = typed;
        status = write_file(&a, &p);
    }
    arena_deinit(&a);
    return status;
}

ol_status ol_preferences_reset(ol_context *ctx) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    arena a;
    arena_init(&a, ctx, 0);
    preferences p;
    for (size_t i = 0; i < N_PREFERENCES; i++) *field(&p, i) = table[i].fallback;
    const ol_status status = write_file(&a, &p);
    arena_deinit(&a);
    return status;
}
