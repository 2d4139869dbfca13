#include "predict/source.h"

#include "base/file.h"
#include "data/image.h"

#include <string.h>
#include <strings.h>

static const char *const video_suffixes[] = {".asf", ".avi",  ".gif", ".m4v", ".mkv", ".mov",
                                             ".mp4", ".mpeg", ".mpg", ".ts",  ".wmv", ".webm"};
static const char image_formats[] = "bmp, jpeg, jpg, png, tif, tiff, webp";

static bool is_video(const char *path) {
    for (size_t i = 0; i < sizeof video_suffixes / sizeof *video_suffixes; i++) {
        if (!strcasecmp(path_suffix(path), video_suffixes[i])) return true;
    }
    return false;
}

/* What is not a picture file, folder, glob or list, in the words of the answer; NULL otherwise. */
static const char *live_source(const char *s) {
    static const struct {
        const char *prefix, *what;
    } prefixes[] = {{"rtsp://", "streams"},
                    {"rtmp://", "streams"},
                    {"tcp://", "streams"},
                    {"http://", "addresses"},
                    {"https://", "addresses"}};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!strncasecmp(s, prefixes[i].prefix, strlen(prefixes[i].prefix))) return prefixes[i].what;
    }
    if (!strcasecmp(path_suffix(s), ".streams")) return "streams";
    if (*s && strspn(s, "0123456789") == strlen(s)) return "cameras";
    if (!strcmp(s, "screen") || !strncmp(s, "screen ", 7)) return "screenshots";
    return NULL;
}

static ol_status add_path(source_list *list, const char *path) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        const char **paths = arena_alloc(&list->arena, capacity, sizeof *paths);
        if (!paths) return OL_ERROR_MEMORY;
        if (list->count) memcpy(paths, list->paths, list->count * sizeof *paths);
        list->paths = paths;
        list->capacity = capacity;
    }
    list->paths[list->count] = path_absolute(&list->arena, path);
    return list->paths[list->count++] ? OL_OK : OL_ERROR_MEMORY;
}

/* Takes the pictures of a folder or glob; counts the rest. */
static ol_status add_usable(source_list *list, char *const *paths, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (image_suffix_known(path_suffix(paths[i]))) {
            ol_status status = add_path(list, paths[i]);
            if (status) return status;
        } else if (is_video(paths[i])) {
            list->n_videos++;
        } else {
            list->n_other++;
        }
    }
    return OL_OK;
}

static ol_status add_file(source_list *list, const char *path) {
    if (is_video(path))
        return ctx_fail(list->arena.ctx, OL_ERROR_UNSUPPORTED,
                        "%s: videos come in a later version; give a picture, a folder, a glob or a list", path);
    if (!image_suffix_known(path_suffix(path))) {
        list->n_other++;
        return OL_OK;
    }
    return add_path(list, path);
}

/* A file, folder or glob; `base` is where relative names are looked up when the working folder does not have them. */
static ol_status add_entry(source_list *list, const char *entry, const char *base) {
    arena *a = &list->arena;
    ol_context *ctx = a->ctx;
    const char *live = live_source(entry);
    if (live && !file_exists(entry))
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                        "source=%s: %s come in a later version; give a picture, a folder, a glob or a list", entry,
                        live);
    const char *path = entry;
    if (base && !file_exists(path) && !path_is_absolute(path)) path = path_join(a, base, entry);
    if (!path) return OL_ERROR_MEMORY;
    char **paths = NULL;
    size_t n = 0;
    ol_status status;
    if (file_is_folder(path)) {
        status = folder_list(a, path, false, &paths, &n);
        size_t shown = 0; /* hidden files, such as a Mac's ._a.jpg, are no pictures of the folder */
        for (size_t i = 0; !status && i < n; i++)
            if (path_name(paths[i])[0] != '.') paths[shown++] = paths[i];
        return status ? status : add_usable(list, paths, shown);
    }
    if (file_exists(path)) return add_file(list, path);
    if (!strchr(entry, '*')) return ctx_fail(ctx, OL_ERROR_NOT_FOUND, "%s does not exist", entry);
    status = glob_list(a, entry, &paths, &n);
    if (!status && !n && path != entry) status = glob_list(a, path, &paths, &n);
    return status ? status : add_usable(list, paths, n);
}

/* The next cell or line of a list; NULL at the end. Blanks around it are dropped, so are quotes around a CSV cell. */
static char *next_entry(char **at, bool csv) {
    while (**at) {
        char *start = *at, *end;
        start += strspn(start, " \t\r\n");
        if (csv && *start == '"') {
            end = strchr(++start, '"');
            if (!end) end = start + strlen(start);
            *at = end + strcspn(end, ",\n");
        } else {
            end = start + strcspn(start, csv ? ",\r\n" : "\r\n");
            *at = end;
        }
        if (**at) (*at)++;
        while (end > start && strchr(" \t", end[-1])) end--;
        if (end == start) continue;
        *end = 0;
        return start;
    }
    return NULL;
}

static ol_status add_list(source_list *list, const char *path, bool csv) {
    arena *a = &list->arena;
    char *bytes = NULL;
    size_t n_bytes;
    ol_status status = file_read(a->ctx, path, 0, &bytes, &n_bytes);
    if (status) return status;
    const char *base = path_parent(a, path);
    char *at = bytes;
    if (n_bytes >= 3 && !memcmp(at, "\xEF\xBB\xBF", 3)) at += 3;
    if (!base) status = OL_ERROR_MEMORY;
    bool first = true;
    for (char *entry = next_entry(&at, csv); entry && !status; entry = next_entry(&at, csv)) {
        if (!(csv && first && !strcasecmp(entry, "source"))) {
            status = add_entry(list, entry, base);
            if (status) ctx_annotate(a->ctx, status, "%s", path);
        }
        first = false;
    }
    mem_free(a->ctx, bytes);
    return status;
}

ol_status source_list_open(ol_context *ctx, const char *source, source_list *out) {
    source_list list = {0};
    arena_init(&list.arena, ctx, 0);
    bool csv = !strcasecmp(path_suffix(source), ".csv"), txt = !strcasecmp(path_suffix(source), ".txt");
    ol_status status;
    if ((csv || txt) && file_exists(source) && !file_is_folder(source))
        status = add_list(&list, source, csv);
    else
        status = add_entry(&list, source, NULL);
    if (status) goto fail;
    if (!list.count && list.n_videos) {
        status =
            ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                     "%s holds videos only: they come in a later version; give pictures (%s)", source, image_formats);
    } else if (!list.count) {
        status = ctx_fail(ctx, OL_ERROR_NOT_FOUND, "No images or videos found in %s. Supported formats are: images: %s",
                          source, image_formats);
    }
    if (status) goto fail;
    if (list.n_videos)
        ctx_log(ctx, OL_LOG_WARNING, "%s: %zu videos are passed over; they come in a later version", source,
                list.n_videos);
    *out = list;
    return OL_OK;
fail:
    source_list_deinit(&list);
    return status;
}

void source_list_deinit(source_list *list) {
    if (list->arena.ctx) arena_deinit(&list->arena);
    *list = (source_list){0};
}
