#include "base/scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) return true;
    }
    return false;
}

static bool parse_int(const char *text, int64_t *x) {
    const char *p = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*p)) return false;
    int base = 10;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) base = 16;
    char *end;
    errno = 0;
    const long long n = strtoll(text, &end, base);
    if (*end != '\0' || errno != 0) return false;
    *x = n;
    return true;
}

/* Accepts what Python and YAML call a float; refuses hexadecimal floats and the words that strtod knows. */
static bool parse_float(const char *text, double *x) {
    const char *p = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*p) && !(*p == '.' && isdigit((unsigned char)p[1]))) return false;
    if (strpbrk(text, "xXpPiInN") != NULL) return false;
    char *end;
    const double d = strtod(text, &end);
    if (*end != '\0') return false;
    *x = d;
    return true;
}

value *scalar_parse(arena *a, const char *text, scalar_style style) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL}, *const falses[] = {"false", "False", "FALSE",
                                                                                          NULL};
    static const char *const infinities[] = {".inf", ".Inf", ".INF", "+.inf", "-.inf", NULL}, *const nans[] = {
                                                                                                  ".nan", ".NaN",
                                                                                                  ".NAN", NULL};
    int64_t integer;
    double real;
    if (style == SCALAR_YAML) {
        if (is_one_of(text, nulls)) return arena_alloc(a, 1, sizeof(value));
        if (is_one_of(text, trues)) return value_bool(a, true);
        if (is_one_of(text, falses)) return value_bool(a, false);
        if (is_one_of(text, infinities)) return value_float(a, *text == '-' ? -INFINITY : INFINITY);
        if (is_one_of(text, nans)) return value_float(a, NAN);
    } else {
        if (strcasecmp(text, "none") == 0) return arena_alloc(a, 1, sizeof(value));
        if (strcasecmp(text, "true") == 0) return value_bool(a, true);
        if (strcasecmp(text, "false") == 0) return value_bool(a, false);
    }
    if (parse_int(text, &integer)) return value_int(a, integer);
    if (parse_float(text, &real)) return value_float(a, real);
    return value_string(a, text);
}

void scalar_print_float(text *out, double x) {
    if (isnan(x)) {
        text_printf(out, ".nan");
        return;
    }
    if (isinf(x)) {
        text_printf(out, x < 0 ? "-.inf" : ".inf");
        return;
    }
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, x);
        if (strtod(digits, NULL) == x) break;
    }
    /* 1e-05 becomes 1.0e-05 so that YAML 1.1 readers see a float */
    const char *e = strchr(digits, 'e');
    if (strchr(digits, '.') != NULL) {
        text_printf(out, "%s", digits);
    } else if (e != NULL) {
        text_printf(out, "%.*s.0%s", (int)(e - digits), digits, e);
    } else {
        text_printf(out, "%s.0", digits);
    }
}

static bool needs_quotes(const char *s) {
    if (*s == '\0' || isspace((unsigned char)*s) || isspace((unsigned char)s[strlen(s) - 1])) return true;
    if (strchr("-?:,[]{}#&*!|>'\"%@`~", *s) != NULL) return true;
    if (strstr(s, ": ") != NULL || strstr(s, " #") != NULL || s[strlen(s) - 1] == ':') return true;
    for (const char *p = s; *p != '\0'; p++) {
        if ((unsigned char)*p < 32 || *p == 127) return true;
    }
    static const char *const words[] = {"null",  "Null", "NULL", "true", "True", "TRUE", "false", "False",
                                        "FALSE", "yes",  "Yes",  "YES",  "no",   "No",   "NO",    "on",
                                        "On",    "ON",   "off",  "Off",  "OFF",  "y",    "n",     NULL};
    int64_t integer;
    double real;
    return is_one_of(s, words) || *s == '.' || *s == '+' || parse_int(s, &integer) || parse_float(s, &real);
}

void scalar_print_yaml_string(text *out, const char *s) {
    if (!needs_quotes(s)) {
        text_printf(out, "%s", s);
        return;
    }
    text_printf(out, "\"");
    for (; *s != '\0'; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_printf(out, "\\%c", c);
        else if (c < 32 || c == 127)
            text_printf(out, "\\x%02x", c);
        else
            text_append(out, s, 1);
    }
    text_printf(out, "\"");
}

static void spell_list(text *out, const value *v, const value_spelling *s) {
    text_printf(out, "[");
    for (size_t i = 0; i < v->as.list.count; i++) {
        if (i > 0) text_printf(out, "%s", s->comma);
        value_spell(out, v->as.list.items[i], s);
    }
    text_printf(out, "]");
}

static void spell_map(text *out, const value *v, const value_spelling *s) {
    text_printf(out, "{");
    for (size_t i = 0; i < v->as.map.count; i++) {
        const value *key = v->as.map.keys[i];
        const char *quote = s->keys_are_strings && key->kind != VALUE_STRING ? "\"" : "";
        text_printf(out, "%s%s", i > 0 ? s->comma : "", quote);
        value_spell(out, key, s);
        text_printf(out, "%s%s", quote, s->colon);
        value_spell(out, v->as.map.items[i], s);
    }
    text_printf(out, "}");
}

void value_spell(text *out, const value *v, const value_spelling *s) {
    switch (v->kind) {
    case VALUE_NULL:
        text_printf(out, "%s", s->null);
        break;
    case VALUE_BOOL:
        text_printf(out, "%s", v->as.boolean ? s->yes : s->no);
        break;
    case VALUE_INT:
        text_printf(out, "%lld", (long long)v->as.integer);
        break;
    case VALUE_FLOAT:
        s->real(out, v->as.real);
        break;
    case VALUE_STRING:
        s->string(out, v->as.string);
        break;
    case VALUE_LIST:
        spell_list(out, v, s);
        break;
    case VALUE_MAP:
        spell_map(out, v, s);
        break;
    }
}
