#include "base/context.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 2048
#define LINE_BYTES    4096

struct ol_context {
    ol_log_fn log;
    void *log_user;
    ol_realloc_fn realloc_block;
    void *realloc_user;
    int n_threads;
    atomic_bool interrupted;
    pthread_mutex_t lock; /* guards message and calls of log */
    char message[MESSAGE_BYTES];
};

static void *realloc_default(void *user, void *block, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, bytes);
}

static int threads_available(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

ol_status ol_context_create(const ol_context_options *options, ol_context **context) {
    ol_context_options o = {0};
    if (options != NULL) {
        const size_t given = options->struct_bytes;
        memcpy(&o, options, given < sizeof o ? given : sizeof o);
    }
    ol_realloc_fn realloc_block = o.realloc_block != NULL ? o.realloc_block : realloc_default;
    ol_context *ctx = realloc_block(o.realloc_user, NULL, sizeof *ctx);
    if (ctx == NULL) return OL_ERROR_MEMORY;
    memset(ctx, 0, sizeof *ctx);
    ctx->log = o.log;
    ctx->log_user = o.log_user;
    ctx->realloc_block = realloc_block;
    ctx->realloc_user = o.realloc_user;
    ctx->n_threads = o.n_threads > 0 ? o.n_threads : threads_available();
    atomic_init(&ctx->interrupted, false);
    if (pthread_mutex_init(&ctx->lock, NULL) != 0) {
        realloc_block(o.realloc_user, ctx, 0);
        return OL_ERROR_MEMORY;
    }
    *context = ctx;
    return OL_OK;
}

void ol_context_destroy(ol_context *ctx) {
    if (ctx == NULL) return;
    pthread_mutex_destroy(&ctx->lock);
    ctx->realloc_block(ctx->realloc_user, ctx, 0);
}

const char *ol_context_message(const ol_context *ctx) {
    return ctx->message;
}

void ol_context_interrupt(ol_context *ctx) {
    atomic_store(&ctx->interrupted, true);
}

bool ctx_interrupted(const ol_context *ctx) {
    return atomic_load(&ctx->interrupted);
}

void ctx_interrupt_clear(ol_context *ctx) {
    atomic_store(&ctx->interrupted, false);
}

int ctx_threads(const ol_context *ctx) {
    return ctx->n_threads;
}

/* File names and labels may hold anything; a message and a logged line are one line all the same. */
static void make_one_line(char *text) {
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < 32 && *text != '\t') || *text == 127) *text = '?';
}

ol_status ctx_fail(ol_context *ctx, ol_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&ctx->lock);
    if (ctx->message[0] == '\0') {
        vsnprintf(ctx->message, sizeof ctx->message, format, args);
        make_one_line(ctx->message);
    }
    pthread_mutex_unlock(&ctx->lock);
    va_end(args);
    return status;
}

ol_status ctx_annotate(ol_context *ctx, ol_status status, const char *format, ...) {
    char where[MESSAGE_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(where, sizeof where, format, args);
    va_end(args);
    make_one_line(where);
    pthread_mutex_lock(&ctx->lock);
    const size_t added = strlen(where) + 2, kept = MESSAGE_BYTES - 1 - added; /* `where` is at most half a message */
    memmove(ctx->message + added, ctx->message, kept);
    memcpy(ctx->message, where, added - 2);
    memcpy(ctx->message + added - 2, ": ", 2);
    ctx->message[MESSAGE_BYTES - 1] = '\0';
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

void ctx_clear(ol_context *ctx) {
    pthread_mutex_lock(&ctx->lock);
    ctx->message[0] = '\0';
    pthread_mutex_unlock(&ctx->lock);
}

void ctx_message(ol_context *ctx, char *buffer, size_t buffer_bytes) {
    pthread_mutex_lock(&ctx->lock);
    snprintf(buffer, buffer_bytes, "%s", ctx->message);
    pthread_mutex_unlock(&ctx->lock);
}

void ctx_log(ol_context *ctx, ol_log_level level, const char *format, ...) {
    if (ctx->log == NULL) return;
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    make_one_line(line);
    pthread_mutex_lock(&ctx->lock);
    ctx->log(ctx->log_user, level, line);
    pthread_mutex_unlock(&ctx->lock);
}

bool size_mul(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

bool size_add(size_t a, size_t b, size_t *sum) {
    return !__builtin_add_overflow(a, b, sum);
}

void *mem_resize(ol_context *ctx, void *block, size_t count, size_t size) {
    size_t bytes;
    if (!size_mul(count, size, &bytes)) {
        ctx_fail(ctx, OL_ERROR_MEMORY, "a request for %zu x %zu bytes of memory overflows", count, size);
        return NULL;
    }
    void *grown = ctx->realloc_block(ctx->realloc_user, block, bytes > 0 ? bytes : 1);
    if (grown == NULL) ctx_fail(ctx, OL_ERROR_MEMORY, "out of memory: %zu bytes were asked for", bytes);
    return grown;
}

void *mem_alloc(ol_context *ctx, size_t count, size_t size) {
    return mem_resize(ctx, NULL, count, size);
}

void *mem_alloc0(ol_context *ctx, size_t count, size_t size) {
    void *block = mem_alloc(ctx, count, size);
    if (block != NULL) memset(block, 0, count * size);
    return block;
}

void mem_free(ol_context *ctx, void *block) {
    if (block != NULL) ctx->realloc_block(ctx->realloc_user, block, 0);
}

char *mem_strdup(ol_context *ctx, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(ctx, bytes, 1);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

/* The block starts `shift` bytes after the one that the allocator gave; the byte before it holds shift - 1. */
void *mem_alloc_aligned(ol_context *ctx, size_t count, size_t size) {
    const size_t alignment = 64;
    size_t bytes;
    if (!size_mul(count, size, &bytes) || !size_add(bytes, alignment, &bytes)) {
        ctx_fail(ctx, OL_ERROR_MEMORY, "a request for %zu x %zu bytes of memory overflows", count, size);
        return NULL;
    }
    unsigned char *raw = mem_alloc(ctx, bytes, 1);
    if (raw == NULL) return NULL;
    const size_t shift = alignment - (uintptr_t)raw % alignment;
    raw[shift - 1] = (unsigned char)(shift - 1);
    return raw + shift;
}

void mem_free_aligned(ol_context *ctx, void *block) {
    if (block == NULL) return;
    unsigned char *start = block;
    mem_free(ctx, start - start[-1] - 1);
}

ol_status mem_grow(ol_context *ctx, void **block, size_t *capacity, size_t needed, size_t element_bytes) {
    if (needed <= *capacity) return OL_OK;
    size_t room = *capacity > 0 ? *capacity : 8;
    while (room < needed) {
        if (!size_mul(room, 2, &room))
            return ctx_fail(ctx, OL_ERROR_MEMORY, "an array of %zu elements is too large", needed);
    }
    void *grown = mem_resize(ctx, *block, room, element_bytes);
    if (grown == NULL) return OL_ERROR_MEMORY;
    *block = grown;
    *capacity = room;
    return OL_OK;
}
