/* A growing string. Owns its bytes; after a failed append `failed` is set and later appends do nothing, so that a
 * caller checks once at the end. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/context.h"

typedef struct text {
    ol_context *ctx;
    char *bytes; /* NUL-terminated once something was appended; text_c gives "" before that */
    size_t length, capacity;
    bool failed;
} text;

void text_init(text *t, ol_context *ctx);
void text_deinit(text *t);
void text_clear(text *t);
void text_append(text *t, const char *bytes, size_t length);
void text_printf(text *t, const char *format, ...) CTX_PRINTF(2, 3);
const char *text_c(const text *t);

/* A number of bytes for people: "1.50 GiB", "12.3 MiB", "4.0 KiB". For an argument list: text_size(n).c */
typedef struct size_words {
    char c[32];
} size_words;
size_words text_size(uint64_t bytes);

/* Ratcliff-Obershelp similarity of two strings, 0..1 (2 * matching characters / total length). */
double text_similarity(const char *a, const char *b);

#endif
