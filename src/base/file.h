/* Files and paths (UTF-8): whole-file reads, atomic writes, folders. No caching, no state. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/arena.h"

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* Reads the whole file; *bytes is NUL-terminated (the NUL is not counted) and freed with mem_free. Files larger than
 * `limit_bytes` (0: 1 GiB) are refused. The message names the path and the reason. */
ol_status file_read(ol_context *ctx, const char *path, size_t limit_bytes, char **bytes, size_t *n_bytes);
/* An error for a pipe or a device, which may let a reader wait for ever; what is absent or a folder is the reader's
 * business. */
ol_status file_check_regular(ol_context *ctx, const char *path);
/* Writes to a temporary name beside `path`, syncs and renames: `path` holds the old or the new content, never a part.
 */
ol_status file_write_atomic(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes);
/* The same without waiting for the disk: whole for every program that looks, not after a power cut. For pictures and
 * texts that can be made again. */
ol_status file_write_whole(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes);
/* Same, in two steps for writers that stream: begin gives the temporary path (in `a`), commit syncs and renames it,
 * abandon removes it. A link stays and the file that it leads to is replaced; a device or a pipe is written into. */
ol_status file_atomic_begin(arena *a, const char *path, char **temporary);
void file_atomic_abandon(const char *temporary, const char *path);
ol_status file_atomic_commit(ol_context *ctx, const char *temporary, const char *path);
/* Removes from a folder what such writers left that were killed: temporary files of processes that are gone. */
void file_atomic_sweep(const char *folder);
/* The error for a failed write, by errno; of a temporary path it names the path that was asked for. */
ol_status file_write_failed(ol_context *ctx, const char *path);
/* Neither atomic nor synced: for many files that can be made again. */
ol_status file_write(ol_context *ctx, const char *path, const void *bytes, size_t n_bytes);

/* Creates the folder and its parents; an existing folder is fine. */
ol_status folder_create(ol_context *ctx, const char *path);
/* All regular files, and links that lead nowhere, below `path` (recursive: hidden folders are not entered), sorted by
 * bytes. */
ol_status folder_list(arena *a, const char *path, bool recursive, char ***paths, size_t *n_paths);

/* Path arithmetic; results live in the arena. */
char *path_join(arena *a, const char *folder, const char *name); /* an absolute `name` is returned as it is */
char *path_parent(arena *a, const char *path);                   /* "." when there is none */
const char *path_name(const char *path);                         /* last component, a view into `path` */
char *path_stem(arena *a, const char *path);                     /* last component without its last suffix */
const char *path_suffix(const char *path);                       /* ".jpg", "" when there is none; a view */
char *path_with_suffix(arena *a, const char *path, const char *suffix);
char *path_absolute(arena *a, const char *path); /* against the working folder; no symlink resolution */
bool path_is_absolute(const char *path);

/* `path`, or path-2, path-3 … : the first that does not exist (run folders). */
char *path_numbered(arena *a, const char *path);

#endif
