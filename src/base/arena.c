#include "base/arena.h"

#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 * 1024)
#define ALIGNMENT   ((size_t)16)

struct arena_block {
    arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

void arena_init(arena *a, ol_context *ctx, size_t limit_bytes) {
    *a = (arena){.ctx = ctx, .limit_bytes = limit_bytes};
}

void arena_deinit(arena *a) {
    arena_block *block = a->head;
    while (block != NULL) {
        arena_block *next = block->next;
        mem_free(a->ctx, block);
        block = next;
    }
    a->head = NULL;
    a->total_bytes = 0;
}

void *arena_alloc(arena *a, size_t count, size_t size) {
    size_t bytes;
    if (!size_mul(count, size, &bytes) || !size_add(bytes, ALIGNMENT - 1, &bytes)) {
        ctx_fail(a->ctx, OL_ERROR_MEMORY, "a request for %zu x %zu bytes of memory overflows", count, size);
        return NULL;
    }
    bytes &= ~(ALIGNMENT - 1);
    if (bytes == 0) bytes = ALIGNMENT;
    if (a->limit_bytes > 0 && (bytes > a->limit_bytes || a->total_bytes > a->limit_bytes - bytes)) {
        ctx_fail(a->ctx, OL_ERROR_FORMAT, "the content needs more than the allowed %zu MiB of memory",
                 a->limit_bytes >> 20);
        return NULL;
    }
    if (a->head == NULL || a->head->size - a->head->used < bytes) {
        const size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        arena_block *block = mem_alloc(a->ctx, 1, sizeof *block + room);
        if (block == NULL) return NULL;
        block->next = a->head;
        block->used = 0;
        block->size = room;
        a->head = block;
    }
    void *out = a->head->bytes + a->head->used;
    a->head->used += bytes;
    a->total_bytes += bytes;
    memset(out, 0, bytes);
    return out;
}

char *arena_strndup(arena *a, const char *text, size_t length) {
    char *copy = arena_alloc(a, length + 1, 1);
    if (copy != NULL) memcpy(copy, text, length);
    return copy;
}

char *arena_strdup(arena *a, const char *text) {
    return arena_strndup(a, text, strlen(text));
}

char *arena_printf(arena *a, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    char *out = length < 0 ? NULL : arena_alloc(a, (size_t)length + 1, 1);
    if (out != NULL) vsnprintf(out, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return out;
}
