/* From `source=` to a list of picture files (data document, section 4.1). Looks at names only, never into pictures.
 * Owns the paths. */
#ifndef PREDICT_SOURCE_H
#define PREDICT_SOURCE_H

#include "base/arena.h"

typedef struct source_list {
    arena arena;
    const char **paths; /* absolute; those of a folder or glob in byte order */
    size_t count, capacity;
    size_t n_videos, n_other; /* files passed over: videos, and what is neither picture nor video */
} source_list;

/* A file, a folder (not recursive), a glob (`*`, `?`, `[…]`, `**` for any depth), or a .txt/.csv list of these. Videos
 * in a folder are passed over with a warning. OL_ERROR_NOT_FOUND for what does not exist and for an empty result,
 * OL_ERROR_UNSUPPORTED for videos, streams, cameras, screens and addresses. */
ol_status source_list_open(ol_context *ctx, const char *source, source_list *out);
void source_list_deinit(source_list *list);

/* Files that match the pattern, sorted by bytes; hidden names only where the pattern names the dot. */
ol_status glob_list(arena *a, const char *pattern, char ***paths, size_t *n_paths);

#endif
