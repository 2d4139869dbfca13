#include "predict/source.h"

#include "base/file.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

typedef struct glob_walk {
    arena *a;
    char **paths;
    size_t count, capacity;
} glob_walk;

static ol_status add_path(glob_walk *w, const char *path) {
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 64;
        char **paths = arena_alloc(w->a, capacity, sizeof *paths);
        if (!paths) return OL_ERROR_MEMORY;
        if (w->count) memcpy(paths, w->paths, w->count * sizeof *paths);
        w->paths = paths;
        w->capacity = capacity;
    }
    w->paths[w->count] = arena_strdup(w->a, path);
    return w->paths[w->count++] ? OL_OK : OL_ERROR_MEMORY;
}

static bool has_wildcard(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strchr("*?[", s[i])) return true;
    }
    return false;
}

static ol_status walk(glob_walk *w, const char *folder, const char *pattern, int depth);

/* One name of `folder` that the first component accepts: deeper with the rest, or taken when it is the last. */
static ol_status walk_name(glob_walk *w, const char *folder, const char *name, const char *rest, int depth) {
    char *path = folder[0] ? path_join(w->a, folder, name) : arena_strdup(w->a, name);
    if (!path) return OL_ERROR_MEMORY;
    if (*rest) return file_is_folder(path) ? walk(w, path, rest, depth + 1) : OL_OK;
    return file_exists(path) && !file_is_folder(path) ? add_path(w, path) : OL_OK;
}

/* `pattern` is relative to `folder` ("" is the working folder). */
static ol_status walk(glob_walk *w, const char *folder, const char *pattern, int depth) {
    if (depth > MAX_DEPTH) return OL_OK;
    while (*pattern == '/') pattern++;
    size_t n = strcspn(pattern, "/");
    const char *rest = pattern + n;
    while (*rest == '/') rest++;
    char *component = arena_strndup(w->a, pattern, n);
    if (!component) return OL_ERROR_MEMORY;
    if (!has_wildcard(component, n)) return walk_name(w, folder, component, rest, depth);
    bool any_depth = !strcmp(component, "**");
    ol_status status = OL_OK;
    if (any_depth && *rest) status = walk(w, folder, rest, depth + 1); /* ** may stand for no folder at all */
    DIR *dir = status ? NULL : opendir(folder[0] ? folder : ".");
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && !status; e = readdir(dir)) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (fnmatch(any_depth ? "*" : component, e->d_name, FNM_PERIOD | FNM_NOESCAPE)) continue;
        if (!any_depth) {
            status = walk_name(w, folder, e->d_name, rest, depth);
            continue;
        }
        char *path = folder[0] ? path_join(w->a, folder, e->d_name) : arena_strdup(w->a, e->d_name);
        if (!path)
            status = OL_ERROR_MEMORY;
        else if (file_is_folder(path))
            status = walk(w, path, pattern, depth + 1);
        else if (!*rest)
            status = add_path(w, path);
    }
    if (dir) closedir(dir);
    return status;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

ol_status glob_list(arena *a, const char *pattern, char ***paths, size_t *n_paths) {
    glob_walk w = {.a = a};
    ol_status status = walk(&w, pattern[0] == '/' ? "/" : "", pattern, 0);
    if (status) return status;
    if (w.count > 1) qsort(w.paths, w.count, sizeof *w.paths, by_bytes);
    size_t n = 0;
    for (size_t i = 0; i < w.count; i++) { /* several ** can reach a file in several ways */
        if (!n || strcmp(w.paths[n - 1], w.paths[i]) != 0) w.paths[n++] = w.paths[i];
    }
    *paths = w.paths;
    *n_paths = n;
    return OL_OK;
}
