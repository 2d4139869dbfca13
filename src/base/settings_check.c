#include "base/settings_check.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* One verdict of a kind's check: what was expected, or NULL when the value is fine. */
typedef const char *(*check_fn)(const setting_info *info, const value *v, value *tidy);

static bool is_word(const char *words, const char *x) {
    const size_t n = strlen(x);
    for (const char *at = words; *at != '\0';) {
        const size_t m = strcspn(at, "|");
        if (m == n && strncasecmp(at, x, n) == 0) return true;
        at += m + (at[m] == '|');
    }
    return false;
}

static const char *check_text(const setting_info *info, const value *v, value *tidy) {
    (void)tidy;
    if (v->kind != VALUE_STRING) return "a text";
    return *info->words == '\0' || is_word(info->words, v->as.string) ? NULL : "";
}

static const char *check_int_from(const value *v, value *tidy, int64_t low, const char *expected) {
    int64_t n;
    if (v->kind == VALUE_BOOL || !value_as_int(v, &n) || n < low || n > INT_MAX) return expected;
    *tidy = (value){.kind = VALUE_INT, .line = v->line, .as.integer = n};
    return NULL;
}

static const char *check_integer(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    return check_int_from(v, tidy, INT_MIN + 1, "an int (i.e. 'NAME=8')");
}

static const char *check_natural(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    return check_int_from(v, tidy, 0, "an int of at least 0 (i.e. 'NAME=8')");
}

static const char *check_positive(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    return check_int_from(v, tidy, 1, "an int of at least 1 (i.e. 'NAME=8')");
}

static const char *check_real(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    return value_is_number(v) && isfinite(value_as_double(v)) ? NULL
                                                              : "an int or a float (i.e. 'NAME=0' or 'NAME=0.5')";
}

static const char *check_fraction(const setting_info *info, const value *v, value *tidy) {
    if (check_real(info, v, tidy) != NULL) return "an int or a float (i.e. 'NAME=0' or 'NAME=0.5')";
    const double x = value_as_double(v);
    return x >= 0.0 && x <= 1.0 ? NULL : "between 0.0 and 1.0";
}

static const char *check_batch(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    if (check_int_from(v, tidy, 1, "no") == NULL) return NULL;
    const double x = value_is_number(v) ? value_as_double(v) : (double)NAN;
    if (x == -1.0) return check_int_from(v, tidy, -1, "no");
    return x > 0.0 && x < 1.0 ? NULL : "an int of at least 1, -1 (automatic), or a share of memory between 0 and 1";
}

static const char *check_bool(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    return v->kind == VALUE_BOOL ? NULL : "a bool (i.e. 'NAME=True' or 'NAME=False')";
}

static const char *check_size(const setting_info *info, const value *v, value *tidy) {
    static const char *const expected = "an int of at least 1 or a pair (i.e. 'NAME=640' or 'NAME=[480,640]')";
    if (v->kind != VALUE_LIST) return check_positive(info, v, tidy) == NULL ? NULL : expected;
    if (v->as.list.count < 1 || v->as.list.count > 2) return expected;
    for (size_t i = 0; i < v->as.list.count; i++) {
        value ignored;
        if (check_positive(info, v->as.list.items[i], &ignored) != NULL) return expected;
    }
    return NULL;
}

static const char *check_bool_or_word(const setting_info *info, const value *v, value *tidy) {
    (void)tidy;
    if (v->kind == VALUE_BOOL) return NULL;
    return v->kind == VALUE_STRING && is_word(info->words, v->as.string) ? NULL : "";
}

static const char *check_device(const setting_info *info, const value *v, value *tidy) {
    static const char *const expected =
        "'cpu', an index or a list of indices (i.e. 'NAME=cpu', 'NAME=0' or 'NAME=[0,1]')";
    (void)info;
    (void)tidy;
    if (v->kind == VALUE_STRING || v->kind == VALUE_INT) return NULL;
    if (v->kind != VALUE_LIST || v->as.list.count == 0) return expected;
    for (size_t i = 0; i < v->as.list.count; i++) {
        if (v->as.list.items[i]->kind != VALUE_INT && v->as.list.items[i]->kind != VALUE_STRING) return expected;
    }
    return NULL;
}

static const char *check_switch(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    return v->kind == VALUE_BOOL || v->kind == VALUE_STRING ? NULL : "a bool or a text (i.e. 'NAME=True')";
}

static bool is_share(const value *v) {
    int64_t n;
    const double x = value_is_number(v) ? value_as_double(v) : (double)NAN;
    return (x > 0.0 && x <= 1.0) || (v->kind == VALUE_INT && value_as_int(v, &n) && n > 1);
}

static const char *check_share(const setting_info *info, const value *v, value *tidy) {
    static const char *const expected =
        "above 0.0 and at most 1.0, a number of pictures above 1, or a list of two or three of these";
    (void)info;
    (void)tidy;
    if (v->kind != VALUE_LIST) return is_share(v) ? NULL : expected;
    if (v->as.list.count < 2 || v->as.list.count > 3) return expected;
    for (size_t i = 0; i < v->as.list.count; i++) {
        if (!is_share(v->as.list.items[i])) return expected;
    }
    return NULL;
}

static const char *check_ints(const setting_info *info, const value *v, value *tidy) {
    static const char *const expected = "an int of at least 0 or a list of them (i.e. 'NAME=0' or 'NAME=[0,2]')";
    if (v->kind != VALUE_LIST) return check_natural(info, v, tidy) == NULL ? NULL : expected;
    for (size_t i = 0; i < v->as.list.count; i++) {
        value ignored;
        if (check_natural(info, v->as.list.items[i], &ignored) != NULL) return expected;
    }
    return NULL;
}

static const char *check_quantize(const setting_info *info, const value *v, value *tidy) {
    int64_t n;
    if (v->kind == VALUE_STRING) return is_word(info->words, v->as.string) ? NULL : "";
    if (v->kind == VALUE_BOOL || !value_as_int(v, &n) || (n != 8 && n != 16 && n != 32)) return "";
    *tidy = (value){.kind = VALUE_INT, .line = v->line, .as.integer = n};
    return NULL;
}

static const char *check_range(const setting_info *info, const value *v, value *tidy) {
    if (v->kind != VALUE_LIST) return check_fraction(info, v, tidy);
    if (v->as.list.count == 2 && value_is_number(v->as.list.items[0]) && value_is_number(v->as.list.items[1])) {
        const double low = value_as_double(v->as.list.items[0]), high = value_as_double(v->as.list.items[1]);
        if (low > 0.0 && low <= high && isfinite(high)) return NULL;
    }
    return "between 0.0 and 1.0, or a pair (min,max) with 0 < min <= max";
}

static const struct kind_row {
    check_fn check;
    const char *text;
} kinds[SETTING_KIND_COUNT] = {
    [SETTING_TEXT] = {check_text, "text"},
    [SETTING_INTEGER] = {check_integer, "int"},
    [SETTING_NATURAL] = {check_natural, "int ≥ 0"},
    [SETTING_POSITIVE] = {check_positive, "int ≥ 1"},
    [SETTING_OPTIONAL_POSITIVE] = {check_positive, "int ≥ 1"},
    [SETTING_REAL] = {check_real, "number"},
    [SETTING_FRACTION] = {check_fraction, "0 to 1"},
    [SETTING_OPTIONAL_FRACTION] = {check_fraction, "0 to 1"},
    [SETTING_BATCH] = {check_batch, "int ≥ 1, -1, or 0 to 1"},
    [SETTING_BOOL] = {check_bool, "True or False"},
    [SETTING_TRISTATE] = {check_bool, "None, True or False"},
    [SETTING_SIZE] = {check_size, "int ≥ 1 or a pair"},
    [SETTING_CACHE] = {check_bool_or_word, "True, False"},
    [SETTING_DEVICE] = {check_device, "text, int or list"},
    [SETTING_SWITCH] = {check_switch, "True, False or text"},
    [SETTING_AMP] = {check_bool_or_word, "True, False"},
    [SETTING_SHARE] = {check_share, "(0, 1], int > 1, or a list"},
    [SETTING_INTS] = {check_ints, "int or list of ints"},
    [SETTING_QUANTIZE] = {check_quantize, "8, 16, 32"},
    [SETTING_RANGE] = {check_range, "0 to 1, or a pair"},
};

const char *setting_kind_text(setting_kind kind) {
    return kinds[kind].text;
}

/* "an int (i.e. 'NAME=8')" with the argument's name put in. */
static void append_expected(text *out, const char *expected, const char *name) {
    for (const char *at; (at = strstr(expected, "NAME")) != NULL; expected = at + 4) {
        text_append(out, expected, (size_t)(at - expected));
        text_printf(out, "%s", name);
    }
    text_printf(out, "%s", expected);
}

static void append_words(text *out, const char *words) {
    for (const char *at = words; *at != '\0';) {
        const size_t n = strcspn(at, "|");
        text_printf(out, "%s%.*s", at == words ? "" : ", ", (int)n, at);
        at += n + (at[n] == '|');
    }
}

static ol_status fail(ol_context *ctx, const setting_info *info, const value *v, const char *expected) {
    text message, shown;
    text_init(&message, ctx);
    text_init(&shown, ctx);
    if (v->kind == VALUE_STRING)
        text_printf(&shown, "%s", v->as.string);
    else
        literal_write(&shown, v);
    const bool wrong_range = value_is_number(v) && strncmp(expected, "a", 1) != 0;
    text_printf(&message, "'%s=%.200s' is %s. Valid '%s' values are ", info->name, text_c(&shown),
                wrong_range ? "an invalid value" : "of invalid type or value", info->name);
    if (*expected == '\0') {
        if (info->kind != SETTING_TEXT) text_printf(&message, "%s, ", kinds[info->kind].text);
        append_words(&message, info->words);
    } else {
        append_expected(&message, expected, info->name);
    }
    const ol_status status = ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s.", text_c(&message));
    text_deinit(&shown);
    text_deinit(&message);
    return status;
}

ol_status setting_check(ol_context *ctx, const setting_info *info, const value *v, value *tidy) {
    value kept = *v;
    const bool may_be_null = strcmp(info->default_text, "None") == 0;
    if (v->kind == VALUE_NULL && may_be_null) {
        *tidy = kept;
        return OL_OK;
    }
    const char *expected = kinds[info->kind].check(info, v, &kept);
    if (expected != NULL) return fail(ctx, info, v, expected);
    *tidy = kept;
    return OL_OK;
}
