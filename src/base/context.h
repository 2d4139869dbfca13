/* The context: error message, log, allocator, interrupt flag. Owns nothing else; every fallible call takes one.
 * ctx_fail and ctx_log may be called from any thread; the first error of a call is the one that is kept. */
#ifndef BASE_CONTEXT_H
#define BASE_CONTEXT_H

#include "onelook.h"

#include <stdarg.h>

#define CTX_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))

/* Records the message unless one is pending and returns `status`: `return ctx_fail(ctx, OL_ERROR_IO, "…", …)`. */
ol_status ctx_fail(ol_context *ctx, ol_status status, const char *format, ...) CTX_PRINTF(3, 4);
/* Puts "text: " before the pending message, to say where it happened. */
ol_status ctx_annotate(ol_context *ctx, ol_status status, const char *format, ...) CTX_PRINTF(3, 4);
/* Forgets the pending message: for callers that handle a failure themselves, and at the entry of public calls. */
void ctx_clear(ol_context *ctx);
/* Copies the pending message ("" if none), for a warning that quotes it. */
void ctx_message(ol_context *ctx, char *buffer, size_t buffer_bytes);

void ctx_log(ol_context *ctx, ol_log_level level, const char *format, ...) CTX_PRINTF(3, 4);

bool ctx_interrupted(const ol_context *ctx);
/* Once a call has ended with OL_ERROR_INTERRUPTED: the next one starts afresh. */
void ctx_interrupt_clear(ol_context *ctx);
int ctx_threads(const ol_context *ctx);

/* Memory. `count * size` is checked for overflow. On failure the message is set and NULL returned; zero bytes give a
 * unique block. mem_alloc0 clears. mem_resize keeps the old block on failure. mem_free accepts NULL. */
void *mem_alloc(ol_context *ctx, size_t count, size_t size);
void *mem_alloc0(ol_context *ctx, size_t count, size_t size);
void *mem_resize(ol_context *ctx, void *block, size_t count, size_t size);
void mem_free(ol_context *ctx, void *block);
char *mem_strdup(ol_context *ctx, const char *text);
/* 64-byte aligned; freed with mem_free_aligned. For pixels and tensors. */
void *mem_alloc_aligned(ol_context *ctx, size_t count, size_t size);
void mem_free_aligned(ol_context *ctx, void *block);

/* Makes room for at least `needed` elements in a growing array: doubles `*capacity`. */
ol_status mem_grow(ol_context *ctx, void **block, size_t *capacity, size_t needed, size_t element_bytes);

/* False when a*b or a+b would not fit. */
bool size_mul(size_t a, size_t b, size_t *product);
bool size_add(size_t a, size_t b, size_t *sum);

#endif
