#include "data/picture_list.h"

#include "base/file.h"
#include "data/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct growing {
    arena *a;
    const char **paths;
    size_t n, capacity;
} growing;

static ol_status add(growing *g, const char *path) {
    if (path == NULL) return OL_ERROR_MEMORY;
    void *block = (void *)g->paths;
    const ol_status status = mem_grow(g->a->ctx, &block, &g->capacity, g->n + 1, sizeof *g->paths);
    g->paths = block;
    if (status == OL_OK) g->paths[g->n++] = path;
    return status;
}

static ol_status add_folder(growing *g, const char *folder) {
    char **paths = NULL;
    size_t n = 0;
    ol_status status = folder_list(g->a, folder, true, &paths, &n);
    for (size_t i = 0; status == OL_OK && i < n; i++)
        if (path_name(paths[i])[0] != '.' && image_suffix_known(path_suffix(paths[i]))) status = add(g, paths[i]);
    return status;
}

/* "./x" lies beside the list; another relative path in the working folder, or else beside the list too. */
static const char *list_entry(arena *a, const char *list, const char *entry) {
    if (path_is_absolute(entry)) return entry;
    const char *folder = path_parent(a, list);
    if (folder == NULL) return NULL;
    if (entry[0] == '.' && entry[1] == '/') return path_join(a, folder, entry + 2);
    return file_exists(entry) ? path_absolute(a, entry) : path_join(a, folder, entry);
}

static ol_status add_list(growing *g, const char *list) {
    char *bytes = NULL;
    size_t n = 0;
    ol_status status = file_read(g->a->ctx, list, 0, &bytes, &n);
    if (status != OL_OK) return status;
    char *at = bytes, *end = bytes + n;
    if (n >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    while (status == OL_OK && at < end) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        char *last = stop;
        while (last > at && strchr(" \t\r", last[-1]) != NULL) last--;
        while (at < last && strchr(" \t", *at) != NULL) at++;
        const char *entry = arena_strndup(g->a, at, (size_t)(last - at));
        if (entry == NULL)
            status = OL_ERROR_MEMORY;
        else if (image_suffix_known(path_suffix(entry)))
            status = add(g, list_entry(g->a, list, entry));
        at = stop + 1;
    }
    mem_free(g->a->ctx, bytes);
    return status;
}

static int compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static size_t kept_by_fraction(size_t n, double fraction) {
    double wanted = (double)n;
    if (fraction > 0 && fraction < 1) wanted = fmax(1.0, nearbyint((double)n * fraction));
    if (fraction > 1) wanted = fmin((double)n, fraction);
    return (size_t)wanted;
}

static ol_status finish(const growing *g, double fraction, picture_list *out) {
    const char **paths = arena_alloc(g->a, g->n, sizeof *paths);
    if (paths == NULL || g->paths == NULL) return OL_ERROR_MEMORY;
    const size_t kept = kept_by_fraction(g->n, fraction);
    qsort((void *)g->paths, g->n, sizeof *g->paths, compare);
    memcpy((void *)paths, (const void *)g->paths, kept * sizeof *paths);
    *out = (picture_list){paths, kept};
    return OL_OK;
}

ol_status picture_list_read(arena *a, const char *split, const data_paths *from, double fraction, picture_list *out) {
    growing g = {.a = a};
    ol_status status = OL_OK;
    if (!(fraction >= 0) || (fraction > 1 && fraction != floor(fraction)))
        return ctx_fail(a->ctx, OL_ERROR_ARGUMENT,
                        "fraction=%g is invalid: give a share in (0, 1] or a whole number above 1", fraction);
    for (size_t i = 0; status == OL_OK && i < from->count; i++) {
        const char *path = from->items[i];
        if (file_is_folder(path))
            status = add_folder(&g, path);
        else if (image_suffix_known(path_suffix(path)) && file_exists(path))
            status = add(&g, path);
        else
            status = add_list(&g, path);
        if (status != OL_OK) status = ctx_annotate(a->ctx, status, "%s", split);
    }
    if (status == OL_OK && g.n == 0)
        status = ctx_fail(a->ctx, OL_ERROR_NOT_FOUND,
                          "%s: No images found in %s. Supported formats are: bmp, jpeg, jpg, png, tif, tiff, webp",
                          split, from->count > 0 ? from->items[0] : "an empty list");
    if (status == OL_OK) status = finish(&g, fraction, out);
    mem_free(a->ctx, (void *)g.paths);
    return status;
}
