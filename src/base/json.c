#include "base/scalar.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const value *convert(arena *a, const cJSON *node) {
    if (cJSON_IsBool(node)) return value_bool(a, cJSON_IsTrue(node));
    if (cJSON_IsString(node)) return value_string(a, node->valuestring);
    if (cJSON_IsNumber(node)) {
        const double x = node->valuedouble;
        if (x == floor(x) && fabs(x) < 0x1p53) return value_int(a, (int64_t)x);
        return value_float(a, x);
    }
    if (!cJSON_IsArray(node) && !cJSON_IsObject(node)) return &value_null;
    value *parent = cJSON_IsArray(node) ? value_list(a) : value_map(a);
    const cJSON *child;
    cJSON_ArrayForEach(child, node) {
        if (parent == NULL) return NULL;
        const value *item = convert(a, child);
        const ol_status status =
            cJSON_IsArray(node) ? value_append(a, parent, item) : value_set(a, parent, child->string, item);
        if (status != OL_OK) return NULL;
    }
    return parent;
}

ol_status json_parse(arena *a, const char *name, const char *text, size_t length, const value **out) {
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, length, &end, false);
    if (root == NULL) {
        int line = 1;
        for (const char *p = text; end != NULL && p < end; p++) line += *p == '\n';
        return ctx_fail(a->ctx, OL_ERROR_FORMAT, "%s:%d: not valid JSON", name, line);
    }
    const value *v = convert(a, root);
    cJSON_Delete(root);
    if (v == NULL) return OL_ERROR_MEMORY;
    *out = v;
    return OL_OK;
}

static void write_string(text *out, const char *s) {
    text_printf(out, "\"");
    for (; *s != '\0'; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_printf(out, "\\%c", c);
        else if (c < 32)
            text_printf(out, "\\u%04x", c);
        else
            text_append(out, s, 1);
    }
    text_printf(out, "\"");
}

static void write_float(text *out, double x) {
    if (!isfinite(x)) {
        text_printf(out, "null");
        return;
    }
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, x);
        if (strtod(digits, NULL) == x) break;
    }
    text_printf(out, "%s%s", digits, strpbrk(digits, ".e") == NULL ? ".0" : "");
}

ol_status json_write(text *out, const value *v) {
    static const value_spelling spelling = {.null = "null",
                                            .yes = "true",
                                            .no = "false",
                                            .comma = ",",
                                            .colon = ":",
                                            .real = write_float,
                                            .string = write_string,
                                            .keys_are_strings = true};
    value_spell(out, v, &spelling);
    return out->failed ? OL_ERROR_MEMORY : OL_OK;
}
