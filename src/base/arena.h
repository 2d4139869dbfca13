/* A bump allocator: many small objects that live and die together. Owns its blocks; not thread-safe. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/context.h"

typedef struct arena_block arena_block;
typedef struct arena {
    ol_context *ctx;
    arena_block *head;
    size_t total_bytes; /* handed out so far */
    size_t limit_bytes; /* 0: none. Beyond it allocation fails with OL_ERROR_FORMAT's remedy left to the caller */
} arena;

void arena_init(arena *a, ol_context *ctx, size_t limit_bytes);
void arena_deinit(arena *a);
/* 16-byte aligned and cleared; NULL with the message set when memory or the limit is out. */
void *arena_alloc(arena *a, size_t count, size_t size);
char *arena_strndup(arena *a, const char *text, size_t length);
char *arena_strdup(arena *a, const char *text);
char *arena_printf(arena *a, const char *format, ...) CTX_PRINTF(2, 3);

#endif
