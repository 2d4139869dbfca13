/* Literals as typed on a command line, and the Python spelling of values. */
#include "base/scalar.h"
#include "base/value.h"

#include <ctype.h>
#include <string.h>

#define MAX_DEPTH 32

typedef struct cursor {
    arena *a;
    const char *at;
    int depth;
} cursor;

static void skip_space(cursor *c) {
    while (isspace((unsigned char)*c->at)) c->at++;
}

static const value *parse_any(cursor *c, const char *stops);

static const value *parse_quoted(cursor *c) {
    const char quote = *c->at++;
    const char *end = strchr(c->at, quote);
    if (end == NULL) return NULL;
    char *copy = arena_strndup(c->a, c->at, (size_t)(end - c->at));
    value *v = copy != NULL ? value_string(c->a, copy) : NULL;
    c->at = end + 1;
    return v;
}

static const value *parse_sequence(cursor *c) {
    const bool is_map = *c->at == '{';
    const char close = is_map ? '}' : *c->at == '[' ? ']' : ')';
    const char stops[] = {',', close, '\0', '\0'}, key_stops[] = {':', ',', close, '\0'};
    value *v = is_map ? value_map(c->a) : value_list(c->a);
    if (v == NULL || c->depth >= MAX_DEPTH) return NULL;
    c->depth++;
    c->at++;
    for (skip_space(c); *c->at != close; skip_space(c)) {
        const value *item = parse_any(c, is_map ? key_stops : stops);
        if (item == NULL) return NULL;
        skip_space(c);
        if (is_map) {
            if (*c->at != ':') return NULL;
            c->at++;
            skip_space(c);
            const value *mapped = parse_any(c, stops);
            if (mapped == NULL || value_set_key(c->a, v, item, mapped) != OL_OK) return NULL;
        } else if (value_append(c->a, v, item) != OL_OK) {
            return NULL;
        }
        skip_space(c);
        if (*c->at == ',')
            c->at++;
        else if (*c->at != close)
            return NULL;
    }
    c->at++;
    c->depth--;
    return v;
}

/* A bracketed form, a quoted text, or a word up to one of `stops`. NULL: not a literal. */
static const value *parse_any(cursor *c, const char *stops) {
    skip_space(c);
    if (*c->at == '[' || *c->at == '(' || *c->at == '{') return parse_sequence(c);
    if (*c->at == '\'' || *c->at == '"') return parse_quoted(c);
    size_t n = strcspn(c->at, stops);
    const char *start = c->at;
    c->at += n;
    while (n > 0 && isspace((unsigned char)start[n - 1])) n--;
    if (n == 0) return NULL;
    char *word = arena_strndup(c->a, start, n);
    return word != NULL ? scalar_parse(c->a, word, SCALAR_LITERAL) : NULL;
}

ol_status literal_parse(arena *a, const char *text, const value **out) {
    const value *v = NULL;
    if (*text != '\0' && strchr("[({'\"", *text) != NULL) {
        cursor c = {a, text, 0};
        v = parse_any(&c, "");
        skip_space(&c);
        if (*c.at != '\0') v = NULL;
        if (v == NULL) v = value_string(a, text);
    } else {
        v = scalar_parse(a, text, SCALAR_LITERAL);
    }
    if (v == NULL) return OL_ERROR_MEMORY;
    *out = v;
    return OL_OK;
}

static void write_string(text *out, const char *s) {
    const char quote = strchr(s, '\'') != NULL && strchr(s, '"') == NULL ? '"' : '\'';
    text_append(out, &quote, 1);
    for (; *s != '\0'; s++) {
        if (*s == quote || *s == '\\')
            text_printf(out, "\\%c", *s);
        else if (*s == '\n')
            text_printf(out, "\\n");
        else
            text_append(out, s, 1);
    }
    text_append(out, &quote, 1);
}

ol_status literal_write(text *out, const value *v) {
    static const value_spelling spelling = {.null = "None",
                                            .yes = "True",
                                            .no = "False",
                                            .comma = ", ",
                                            .colon = ": ",
                                            .real = scalar_print_float,
                                            .string = write_string};
    value_spell(out, v, &spelling);
    return out->failed ? OL_ERROR_MEMORY : OL_OK;
}
