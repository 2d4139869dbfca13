#include "base/text.h"

#include <stdio.h>
#include <string.h>

void text_init(text *t, ol_context *ctx) {
    *t = (text){.ctx = ctx};
}

void text_deinit(text *t) {
    mem_free(t->ctx, t->bytes);
    *t = (text){.ctx = t->ctx};
}

void text_clear(text *t) {
    t->length = 0;
    if (t->bytes != NULL) t->bytes[0] = '\0';
}

static bool text_reserve(text *t, size_t extra) {
    if (t->failed) return false;
    size_t needed;
    void *block = t->bytes;
    if (!size_add(t->length, extra, &needed) || mem_grow(t->ctx, &block, &t->capacity, needed + 1, 1) != OL_OK) {
        t->failed = true;
        return false;
    }
    t->bytes = block;
    return true;
}

void text_append(text *t, const char *bytes, size_t length) {
    if (!text_reserve(t, length)) return;
    if (length > 0) memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = '\0';
}

void text_printf(text *t, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && text_reserve(t, (size_t)length)) {
        vsnprintf(t->bytes + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

const char *text_c(const text *t) {
    return t->bytes != NULL ? t->bytes : "";
}

size_words text_size(uint64_t bytes) {
    size_words w;
    const double n = (double)bytes;
    if (n >= 0x1p30)
        snprintf(w.c, sizeof w.c, "%.2f GiB", n / 0x1p30);
    else if (n >= 0x1p20)
        snprintf(w.c, sizeof w.c, "%.1f MiB", n / 0x1p20);
    else
        snprintf(w.c, sizeof w.c, "%.1f KiB", n / 0x1p10);
    return w;
}

/* Length of the longest common substring and where it starts in each. */
static size_t longest_match(const char *a, size_t na, const char *b, size_t nb, size_t *at_a, size_t *at_b) {
    size_t best = 0;
    for (size_t i = 0; i < na; i++) {
        for (size_t j = 0; j < nb; j++) {
            size_t n = 0;
            while (i + n < na && j + n < nb && a[i + n] == b[j + n]) n++;
            if (n > best) {
                best = n;
                *at_a = i;
                *at_b = j;
            }
        }
    }
    return best;
}

static size_t matching_characters(const char *a, size_t na, const char *b, size_t nb) {
    size_t i = 0, j = 0;
    const size_t n = na > 0 && nb > 0 ? longest_match(a, na, b, nb, &i, &j) : 0;
    if (n == 0) return 0;
    return n + matching_characters(a, i, b, j) + matching_characters(a + i + n, na - i - n, b + j + n, nb - j - n);
}

double text_similarity(const char *a, const char *b) {
    const size_t na = strlen(a), nb = strlen(b);
    if (na + nb == 0) return 1.0;
    return 2.0 * (double)matching_characters(a, na, b, nb) / (double)(na + nb);
}
