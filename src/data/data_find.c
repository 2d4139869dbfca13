#include "data/data_find.h"

#include "base/file.h"

#include <string.h>
#include <strings.h>

extern const char embedded_known_datasets_json[];

ol_status known_datasets(arena *a, const value **out) {
    return json_parse(a, "known_datasets.json", embedded_known_datasets_json, strlen(embedded_known_datasets_json),
                      out);
}

static bool has_suffix(const char *path, const char *suffix) {
    return strcasecmp(path_suffix(path), suffix) == 0;
}

static bool is_yaml(const char *path) {
    return has_suffix(path, ".yaml") || has_suffix(path, ".yml");
}

/* Of the YAML files among `paths`: the only one, or the one named like the folder; *n_yaml says how many there are. */
static const char *choose_yaml(arena *a, const char *folder, char **paths, size_t n, size_t *n_yaml) {
    static const char *const suffixes[] = {".yaml", ".yml"};
    const char *absolute = path_absolute(a, folder);
    *n_yaml = 0;
    for (size_t s = 0; s < 2 && *n_yaml == 0; s++) {
        const char *only = NULL, *namesake = NULL;
        for (size_t i = 0; i < n; i++) {
            if (!has_suffix(paths[i], suffixes[s])) continue;
            const char *stem = path_stem(a, paths[i]);
            only = paths[i];
            ++*n_yaml;
            if (stem != NULL && absolute != NULL && strcmp(stem, path_name(absolute)) == 0) namesake = paths[i];
        }
        if (*n_yaml == 1) return only;
        if (namesake != NULL) return namesake;
    }
    return NULL;
}

static ol_status find_in_folder(arena *a, const char *name, data_found *out) {
    size_t length = strlen(name);
    while (length > 1 && name[length - 1] == '/') length--;
    const char *folder = arena_strndup(a, name, length);
    if (folder == NULL) return OL_ERROR_MEMORY;
    for (int recursive = 0; recursive <= 1; recursive++) {
        char **paths = NULL;
        size_t n = 0, n_yaml = 0;
        const ol_status status = folder_list(a, folder, recursive != 0, &paths, &n);
        if (status != OL_OK) return status;
        const char *chosen = choose_yaml(a, folder, paths, n, &n_yaml);
        if (chosen != NULL) {
            *out = (data_found){chosen, NULL};
            return OL_OK;
        }
        if (n_yaml > 1)
            return ctx_fail(a->ctx, OL_ERROR_NOT_FOUND,
                            "the folder '%s' holds %zu YAML files and none is called '%s.yaml': name one with data=…",
                            name, n_yaml, path_name(folder));
    }
    return ctx_fail(a->ctx, OL_ERROR_NOT_FOUND, "the folder '%s' holds no YAML file that describes a data set", name);
}

/* By the names without their endings, which are alike in all. */
static const char *closest_known(arena *a, const value *known, const char *name) {
    const char *best = NULL, *stem = path_stem(a, name);
    double best_score = 0.6;
    for (size_t i = 0; i < known->as.map.count; i++) {
        const char *candidate = known->as.map.keys[i]->as.string;
        const char *candidate_stem = path_stem(a, candidate);
        const double score = stem && candidate_stem ? text_similarity(stem, candidate_stem) : 0.0;
        if (score > best_score) {
            best_score = score;
            best = candidate;
        }
    }
    return best;
}

static bool is_known(arena *a, const char *name) {
    const value *known = NULL;
    const char *key = is_yaml(name) ? name : arena_printf(a, "%s.yaml", name);
    return key != NULL && known_datasets(a, &known) == OL_OK && value_get(known, key) != NULL;
}

/* In the order of the data document, section 1.1. */
ol_status data_find(arena *a, const char *name, data_found *out) {
    static const char *const endings[] = {"", ".yaml", ".yml"};
    static const char *const archives[] = {".zip", ".tar", ".gz", ".tgz"};
    ol_context *ctx = a->ctx;
    if (name[0] == '\0') return ctx_fail(ctx, OL_ERROR_ARGUMENT, "data= is empty: name a data set's YAML file");
    if (strstr(name, "://") != NULL)
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                        "data='%s' is an address: download it, unpack it and name its YAML file instead", name);
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++)
        if (has_suffix(name, archives[i]))
            return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                            "data='%s' is an archive: unpack it and name its YAML file or folder instead", name);
    const bool bare = !is_yaml(name);
    const bool folder = file_is_folder(name);
    if (folder) {
        const ol_status status = find_in_folder(a, name, out);
        if (status != OL_ERROR_NOT_FOUND || !is_known(a, name)) return status;
        ctx_clear(ctx); /* a folder "coco8" with pictures only: the description is built in */
    }
    for (size_t i = 0; i < (bare ? 3 : 1); i++) {
        const char *path = arena_printf(a, "%s%s", name, endings[i]);
        if (path == NULL) return OL_ERROR_MEMORY;
        if (!file_exists(path) || file_is_folder(path)) continue;
        *out = (data_found){path, NULL};
        return OL_OK;
    }
    const value *known = NULL;
    const ol_status status = known_datasets(a, &known);
    if (status != OL_OK) return status;
    const char *key = arena_printf(a, "%s%s", name, bare ? ".yaml" : "");
    if (key == NULL) return OL_ERROR_MEMORY;
    if (value_get(known, key) != NULL) {
        *out = (data_found){NULL, key};
        return OL_OK;
    }
    const char *closest = closest_known(a, known, key);
    return ctx_fail(
        ctx, OL_ERROR_NOT_FOUND,
        "'%s' does not exist: it is no file here%s, no folder and none of the %zu data sets known by name%s%s%s", name,
        bare ? " (with .yaml or .yml neither)" : "", known->as.map.count, closest != NULL ? "; did you mean '" : "",
        closest != NULL ? closest : "", closest != NULL ? "'?" : "");
}
