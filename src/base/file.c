#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY_ENDING ".tmp-"
#define TEMPORARY_STEM   200 /* bytes of a file's name that its temporary name keeps; file systems allow 255 in all */

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool file_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

ol_status file_check_regular(ol_context *ctx, const char *path) {
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) return OL_OK;
    return ctx_fail(ctx, OL_ERROR_IO, "cannot read '%s': it is a pipe or a device; give an ordinary file", path);
}

ol_status file_read(ol_context *ctx, const char *path, size_t limit_bytes, char **bytes, size_t *n_bytes) {
    const size_t limit = limit_bytes > 0 ? limit_bytes : (size_t)1 << 30;
    ol_status status = OL_OK;
    char *buffer = NULL;
    size_t length = 0;
    struct stat st;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return ctx_fail(ctx, errno == ENOENT ? OL_ERROR_NOT_FOUND : OL_ERROR_IO, "cannot open '%s': %s", path,
                        strerror(errno));
    if (fstat(fileno(file), &st) != 0 || S_ISDIR(st.st_mode)) {
        status = ctx_fail(ctx, OL_ERROR_IO, "cannot read '%s': it is a folder", path);
        goto fail;
    }
    if ((uintmax_t)st.st_size > limit) {
        status = ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' is larger than the allowed %zu bytes", path, limit);
        goto fail;
    }
    size_t capacity = (size_t)st.st_size + 1;
    buffer = mem_alloc(ctx, capacity, 1);
    if (buffer == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    for (;;) { /* pipes and /proc report no size: read until the end */
        length += fread(buffer + length, 1, capacity - 1 - length, file);
        if (length < capacity - 1 || feof(file)) break;
        const int next = fgetc(file);
        if (next == EOF) break;
        if (length + 1 > limit) {
            status = ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' is larger than the allowed %zu bytes", path, limit);
            goto fail;
        }
        char *grown = mem_resize(ctx, buffer, capacity * 2 + 64, 1);
        if (grown == NULL) {
            status = OL_ERROR_MEMORY;
            goto fail;
        }
        buffer = grown;
        capacity = capacity * 2 + 64;
        buffer[length++] = (char)next;
    }
    if (ferror(file)) {
        status = ctx_fail(ctx, OL_ERROR_IO, "cannot read '%s': %s", path, strerror(errno));
        goto fail;
    }
    fclose(file);
    buffer[length] = '\0';
    *bytes = buffer;
    *n_bytes = length;
    return OL_OK;
fail:
    mem_free(ctx, buffer);
    fclose(file);
    return status;
}

/* Where in a temporary name the name that was asked for ends; its length when it is none. */
static int asked_length(const char *path) {
    const char *ending = strstr(path_name(path), TEMPORARY_ENDING);
    return ending != NULL ? (int)(ending - path) : (int)strlen(path);
}

ol_status file_write_failed(ol_context *ctx, const char *path) {
    const int why = errno;
    return ctx_fail(ctx, OL_ERROR_IO, "cannot write '%.*s': %s%s", asked_length(path), path, strerror(why),
                    why == ENOSPC || why == EDQUOT ? "; free some of it, or write elsewhere" : "");
}

/* Where a write to `path` goes: links are followed, so that the file they lead to is replaced and not the link.
 * `target` has PATH_MAX bytes. False for a device or a pipe: a rename would put a file in its place. */
static bool replaceable(const char *path, char *target) {
    struct stat st;
    if (realpath(path, target) == NULL)
        return stat(path, &st) != 0 && snprintf(target, PATH_MAX, "%s", path) < PATH_MAX;
    return stat(target, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

ol_status file_atomic_begin(arena *a, const char *path, char **temporary) {
    struct timespec now = {0};
    char target[PATH_MAX];
    if (!replaceable(path, target)) {
        *temporary = arena_printf(a, "%s", path);
        return *temporary != NULL ? OL_OK : OL_ERROR_MEMORY;
    }
    clock_gettime(CLOCK_REALTIME, &now); /* two runs of one process may write one path */
    const char *stem = path_name(target);
    const int kept = (int)(stem - target) + TEMPORARY_STEM; /* room for the ending in the longest possible name */
    char *name = arena_printf(a, "%.*s" TEMPORARY_ENDING "%ld-%09ld", kept, target, (long)getpid(), now.tv_nsec);
    if (name == NULL) return OL_ERROR_MEMORY;
    *temporary = name;
    return OL_OK;
}

void file_atomic_abandon(const char *temporary, const char *path) {
    if (strcmp(temporary, path) != 0) unlink(temporary);
}

void file_atomic_sweep(const char *folder) {
    char path[4096];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const char *ending = strstr(entry->d_name, TEMPORARY_ENDING);
        char *end = NULL;
        const long pid = ending != NULL ? strtol(ending + strlen(TEMPORARY_ENDING), &end, 10) : 0;
        if (pid <= 0 || *end != '-' || (kill((pid_t)pid, 0) == 0 || errno != ESRCH)) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path) unlink(path);
    }
    if (dir != NULL) closedir(dir);
}

static void sync_parent(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    if (length >= sizeof folder) return;
    memcpy(folder, path, length);
    folder[length] = '\0';
    const int fd = open(slash == NULL ? "." : length == 0 ? "/" : folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static ol_status put_in_place(ol_context *ctx, const char *temporary, const char *path) {
    char target[PATH_MAX];
    if (strcmp(temporary, path) == 0) return OL_OK; /* a device or a pipe, which was written into */
    errno = EEXIST;                                 /* one came meanwhile */
    if (replaceable(path, target) && rename(temporary, target) == 0) return OL_OK;
    file_write_failed(ctx, path);
    file_atomic_abandon(temporary, path);
    return OL_ERROR_IO;
}

ol_status file_atomic_commit(ol_context *ctx, const char *temporary, const char *path) {
    if (strcmp(temporary, path) == 0) return OL_OK; /* a device or a pipe */
    const int fd = open(temporary, O_RDONLY);
    if (fd < 0 || fsync(fd) != 0) {
        if (fd >= 0) close(fd);
        file_write_failed(ctx, path);
        file_atomic_abandon(temporary, path);
        return OL_ERROR_IO;
    }
    close(fd);
    const ol_status status = put_in_place(ctx, temporary, path);
    if (status == OL_OK) sync_parent(temporary);
    return status;
}

static ol_status write_all(ol_context *ctx, const char *path, const char *mode, const void *bytes, size_t n_bytes) {
    FILE *file = fopen(path, mode);
    if (file == NULL) return file_write_failed(ctx, path);
    const bool written = n_bytes == 0 || fwrite(bytes, 1, n_bytes, file) == n_bytes;
    const int write_errno = errno;
    if (fclose(file) != 0 || !written) {
        if (!written) errno = write_errno;
        return file_write_failed(ctx, path);
    }
    return OL_OK;
}

typedef ol_status (*commit_fn)(ol_context *ctx, const char *temporary, const char *path);

static ol_status write_and_rename(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes,
                                  commit_fn commit) {
    arena a;
    char *temporary = NULL;
    arena_init(&a, ctx, 0);
    ol_status status = file_atomic_begin(&a, path, &temporary);
    if (status == OL_OK) {
        status = write_all(ctx, temporary, "wb", bytes, n_bytes);
        if (status == OL_OK)
            status = commit(ctx, temporary, path);
        else
            file_atomic_abandon(temporary, path);
    }
    arena_deinit(&a);
    return status;
}

ol_status file_write_atomic(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes) {
    return write_and_rename(ctx, path, bytes, n_bytes, file_atomic_commit);
}

ol_status file_write_whole(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes) {
    return write_and_rename(ctx, path, bytes, n_bytes, put_in_place);
}

ol_status file_write(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes) {
    return write_all(ctx, path, "wb", bytes, n_bytes);
}

ol_status folder_create(ol_context *ctx, const char *path) {
    char *copy = mem_strdup(ctx, path);
    if (copy == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    for (char *at = copy + 1; status == OL_OK; at++) {
        if (*at != '/' && *at != '\0') continue;
        const bool last = *at == '\0';
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && !(errno == EEXIST && file_is_folder(copy)) &&
            !(errno != EEXIST && file_is_folder(copy)))
            status = ctx_fail(ctx, OL_ERROR_IO, "cannot create the folder '%s': %s", copy,
                              errno == EEXIST ? "a file of that name exists" : strerror(errno));
        if (last) break;
        *at = '/';
    }
    mem_free(ctx, copy);
    return status;
}

typedef struct path_list {
    char **paths;
    size_t count, capacity;
} path_list;

static ol_status list_into(arena *a, const char *folder, bool recursive, int depth, path_list *list) {
    if (depth > 64) return ctx_fail(a->ctx, OL_ERROR_IO, "'%s' is nested more than 64 folders deep", folder);
    DIR *dir = opendir(folder);
    if (dir == NULL) return ctx_fail(a->ctx, OL_ERROR_IO, "cannot list the folder '%s': %s", folder, strerror(errno));
    ol_status status = OL_OK;
    for (struct dirent *entry; status == OL_OK && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *path = path_join(a, folder, entry->d_name);
        struct stat st;
        if (path == NULL) {
            status = OL_ERROR_MEMORY;
        } else if (stat(path, &st) != 0 && (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode))) {
            continue; /* gone since */
        } else if (S_ISDIR(st.st_mode)) {
            if (recursive && entry->d_name[0] != '.') status = list_into(a, path, true, depth + 1, list);
        } else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) { /* a link that leads nowhere: the reader says so */
            void *block = list->paths;
            status = mem_grow(a->ctx, &block, &list->capacity, list->count + 1, sizeof *list->paths);
            list->paths = block;
            if (status == OL_OK) list->paths[list->count++] = path;
        }
    }
    closedir(dir);
    return status;
}

static int compare_paths(const void *x, const void *y) {
    return strcmp(*(char *const *)x, *(char *const *)y);
}

ol_status folder_list(arena *a, const char *path, bool recursive, char ***paths, size_t *n_paths) {
    path_list list = {0};
    ol_status status = list_into(a, path, recursive, 0, &list);
    char **copy = status == OL_OK ? arena_alloc(a, list.count + 1, sizeof *copy) : NULL;
    if (status == OL_OK && copy == NULL) status = OL_ERROR_MEMORY;
    if (status == OL_OK) {
        if (list.count > 0) {
            qsort(list.paths, list.count, sizeof *list.paths, compare_paths);
            memcpy(copy, list.paths, list.count * sizeof *copy);
        }
        *paths = copy;
        *n_paths = list.count;
    }
    mem_free(a->ctx, list.paths);
    return status;
}

bool path_is_absolute(const char *path) {
    return path[0] == '/';
}

char *path_join(arena *a, const char *folder, const char *name) {
    if (path_is_absolute(name) || folder[0] == '\0') return arena_strdup(a, name);
    const size_t n = strlen(folder);
    return arena_printf(a, folder[n - 1] == '/' ? "%s%s" : "%s/%s", folder, name);
}

const char *path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *path_parent(arena *a, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return arena_strdup(a, ".");
    if (slash == path) return arena_strdup(a, "/");
    return arena_strndup(a, path, (size_t)(slash - path));
}

const char *path_suffix(const char *path) {
    const char *name = path_name(path), *dot = strrchr(name, '.');
    return dot != NULL && dot != name ? dot : name + strlen(name);
}

char *path_stem(arena *a, const char *path) {
    const char *name = path_name(path);
    return arena_strndup(a, name, (size_t)(path_suffix(path) - name));
}

char *path_with_suffix(arena *a, const char *path, const char *suffix) {
    return arena_printf(a, "%.*s%s", (int)(path_suffix(path) - path), path, suffix);
}

char *path_absolute(arena *a, const char *path) {
    if (path_is_absolute(path)) return arena_strdup(a, path);
    char folder[4096];
    if (getcwd(folder, sizeof folder) == NULL) return arena_strdup(a, path);
    while (path[0] == '.' && path[1] == '/') path += 2;
    return path[0] == '\0' || strcmp(path, ".") == 0 ? arena_strdup(a, folder) : path_join(a, folder, path);
}

char *path_numbered(arena *a, const char *path) {
    if (!file_exists(path)) return arena_strdup(a, path);
    for (int n = 2;; n++) {
        char *candidate = arena_printf(a, "%s-%d", path, n);
        if (candidate == NULL || !file_exists(candidate)) return candidate;
    }
}
