/* A folder of its own for one test, removed afterwards, and short ways to put files into it. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "base/arena.h"

typedef struct scratch {
    ol_context *ctx;
    arena arena;
    const char *folder; /* absolute */
} scratch;

/* Fails the test when it cannot be made. `log` (may be NULL) receives the context's lines. */
scratch scratch_create(ol_log_fn log, void *user);
void scratch_destroy(scratch *s); /* with everything in it */
/* folder/name; valid until destroy. */
const char *scratch_path(scratch *s, const char *name);
/* Writes a file, with its folders, and gives its path. */
const char *scratch_text(scratch *s, const char *name, const char *text);
const char *scratch_bytes(scratch *s, const char *name, const void *bytes, size_t n);

#endif
