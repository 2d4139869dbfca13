#include "base/settings_check.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define MAX_SIDE 8192.0 /* of a picture that a network sees; memory grows with its fourth power */

/* A kind's check: NULL when the value is fine, else what comes after "'name=value' ". In it NAME stands for the
 * argument, TYPE for the type of the value, WORDS for the allowed words. */
typedef const char *(*check_fn)(const setting_info *info, const value *v, value *tidy);

static const char not_int[] = "is of invalid type TYPE. 'NAME' must be an int (i.e. 'NAME=8')";
static const char not_number[] =
    "is of invalid type TYPE. Valid 'NAME' types are int (i.e. 'NAME=0') or float (i.e. 'NAME=0.5')";
static const char not_bool[] = "is of invalid type TYPE. 'NAME' must be a bool (i.e. 'NAME=True' or 'NAME=False')";
static const char not_fraction[] = "is an invalid value. Valid 'NAME' values are between 0.0 and 1.0.";
static const char not_listed[] = "is invalid. Valid 'NAME' values are WORDS.";

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
    if (v->kind != VALUE_STRING) return "is of invalid type TYPE. 'NAME' must be a text (i.e. 'NAME=abc')";
    return *info->words == '\0' || is_word(info->words, v->as.string) ? NULL : not_listed;
}

static const char *check_int_from(const value *v, value *tidy, int64_t low, const char *too_low) {
    int64_t n;
    if (v->kind == VALUE_BOOL || !value_as_int(v, &n)) return not_int;
    if (n > INT_MAX) return "is an invalid value. 'NAME' must be at most 2147483647.";
    if (n < low) return too_low;
    *tidy = (value){.kind = VALUE_INT, .line = v->line, .as.integer = n};
    return NULL;
}

static const char *check_integer(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    return check_int_from(v, tidy, -(int64_t)INT_MAX, "is an invalid value. 'NAME' must be >= -2147483647.");
}

static const char *check_natural(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    return check_int_from(v, tidy, 0, "is an invalid value. 'NAME' must be >= 0.");
}

static const char *check_positive(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    return check_int_from(v, tidy, 1, "is an invalid value. 'NAME' must be >= 1.");
}

static const char *check_real(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    if (!value_is_number(v)) return not_number;
    return isfinite(value_as_double(v)) ? NULL : "is an invalid value. 'NAME' must be finite.";
}

static const char *check_fraction(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    if (!value_is_number(v)) return not_number;
    const double x = value_as_double(v);
    return x >= 0.0 && x <= 1.0 ? NULL : not_fraction;
}

static const char *check_batch(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    if (!value_is_number(v)) return not_number;
    const double x = value_as_double(v);
    if (x > 0.0 && x < 1.0) return NULL;
    const char *complaint = check_int_from(v, tidy, x == -1.0 ? -1 : 1, "");
    return complaint == NULL ? NULL
                             : "is an invalid value. Valid 'NAME' values are an int of at least 1, -1 (automatic), or "
                               "a share of memory between 0 and 1.";
}

static const char *check_bool(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    return v->kind == VALUE_BOOL ? NULL : not_bool;
}

static bool is_side(const setting_info *info, const value *v, value *tidy) {
    return check_positive(info, v, tidy) == NULL && value_as_double(v) <= MAX_SIDE;
}

static const char *check_size(const setting_info *info, const value *v, value *tidy) {
    static const char complaint[] =
        "is an invalid value. 'NAME' must be an int of 1 to 8192 or a pair (i.e. 'NAME=640' or 'NAME=[480,640]')";
    if (v->kind != VALUE_LIST) return is_side(info, v, tidy) ? NULL : complaint;
    if (v->as.list.count < 1 || v->as.list.count > 2) return complaint;
    for (size_t i = 0; i < v->as.list.count; i++) {
        value ignored;
        if (!is_side(info, v->as.list.items[i], &ignored)) return complaint;
    }
    return NULL;
}

static const char *check_bool_or_word(const setting_info *info, const value *v, value *tidy) {
    (void)tidy;
    if (v->kind == VALUE_BOOL) return NULL;
    return v->kind == VALUE_STRING && is_word(info->words, v->as.string) ? NULL : not_listed;
}

static const char *check_device(const setting_info *info, const value *v, value *tidy) {
    static const char complaint[] =
        "is invalid. 'NAME' must be 'cpu', an index or a list of indices (i.e. 'NAME=cpu', 'NAME=0' or 'NAME=[0,1]')";
    (void)info;
    (void)tidy;
    if (v->kind == VALUE_STRING || v->kind == VALUE_INT) return NULL;
    if (v->kind != VALUE_LIST || v->as.list.count == 0) return complaint;
    for (size_t i = 0; i < v->as.list.count; i++) {
        if (v->as.list.items[i]->kind != VALUE_INT && v->as.list.items[i]->kind != VALUE_STRING) return complaint;
    }
    return NULL;
}

static const char *check_switch(const setting_info *info, const value *v, value *tidy) {
    (void)info;
    (void)tidy;
    return v->kind == VALUE_BOOL || v->kind == VALUE_STRING
               ? NULL
               : "is of invalid type TYPE. 'NAME' must be a bool or a text (i.e. 'NAME=True')";
}

static bool is_share(const value *v) {
    const double x = value_is_number(v) ? value_as_double(v) : (double)NAN;
    return (x > 0.0 && x <= 1.0) || (v->kind == VALUE_INT && v->as.integer > 1);
}

static const char *check_share(const setting_info *info, const value *v, value *tidy) {
    static const char complaint[] =
        "is invalid. Use an integer count > 1, a ratio in (0, 1], or a list of two or three of these for NAME.";
    (void)info;
    (void)tidy;
    if (v->kind != VALUE_LIST) return is_share(v) ? NULL : complaint;
    if (v->as.list.count < 2 || v->as.list.count > 3) return complaint;
    for (size_t i = 0; i < v->as.list.count; i++) {
        if (!is_share(v->as.list.items[i])) return complaint;
    }
    return NULL;
}

static const char *check_ints(const setting_info *info, const value *v, value *tidy) {
    static const char complaint[] =
        "is invalid. 'NAME' must be an int of at least 0 or a list of them (i.e. 'NAME=0' or 'NAME=[0,2]')";
    if (v->kind != VALUE_LIST) return check_natural(info, v, tidy) == NULL ? NULL : complaint;
    for (size_t i = 0; i < v->as.list.count; i++) {
        value ignored;
        if (check_natural(info, v->as.list.items[i], &ignored) != NULL) return complaint;
    }
    return NULL;
}

static const char *check_quantize(const setting_info *info, const value *v, value *tidy) {
    int64_t n;
    if (v->kind == VALUE_STRING) return is_word(info->words, v->as.string) ? NULL : not_listed;
    if (v->kind == VALUE_BOOL || !value_as_int(v, &n) || (n != 8 && n != 16 && n != 32)) return not_listed;
    *tidy = (value){.kind = VALUE_INT, .line = v->line, .as.integer = n};
    return NULL;
}

static const char *check_range(const setting_info *info, const value *v, value *tidy) {
    if (v->kind != VALUE_LIST) return check_fraction(info, v, tidy);
    if (v->as.list.count == 2 && value_is_number(v->as.list.items[0]) && value_is_number(v->as.list.items[1])) {
        const double low = value_as_double(v->as.list.items[0]), high = value_as_double(v->as.list.items[1]);
        if (low > 0.0 && low <= high && isfinite(high)) return NULL;
    }
    return "is an invalid value. Valid 'NAME' values are between 0.0 and 1.0, or a pair (min,max) with 0 < min <= max.";
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
    [SETTING_SIZE] = {check_size, "int of 1 to 8192 or a pair"},
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

/* The allowed words as "True, False, 'ram', or 'disk'". */
static void append_words(text *out, const setting_info *info) {
    const char *const first = info->kind == SETTING_CACHE || info->kind == SETTING_AMP ? "True, False" : "";
    text_printf(out, "%s", first);
    for (const char *at = info->words; *at != '\0';) {
        const size_t n = strcspn(at, "|");
        const bool last = at[n] == '\0', number = *at >= '0' && *at <= '9';
        text_printf(out, "%s%s%s%.*s%s", out->length > 0 ? ", " : "", last ? "or " : "", number ? "" : "'", (int)n, at,
                    number ? "" : "'");
        at += n + (at[n] == '|');
    }
}

static ol_status fail(ol_context *ctx, const setting_info *info, const value *v, const char *complaint) {
    text message, shown, words;
    text_init(&message, ctx);
    text_init(&shown, ctx);
    text_init(&words, ctx);
    if (v->kind == VALUE_STRING)
        text_printf(&shown, "%s", v->as.string);
    else
        literal_write(&shown, v);
    append_words(&words, info);
    const struct {
        const char *mark, *put;
    } marks[] = {
        {"NAME", info->name}, {"TYPE", v->kind == VALUE_MAP ? "dict" : value_kind_name(v)}, {"WORDS", text_c(&words)}};
    text_printf(&message, "'%s=%.200s' ", info->name, text_c(&shown));
    for (const char *at = complaint; *at != '\0';) {
        size_t i = 0, n = 0;
        while (i < 3 && strncmp(at, marks[i].mark, n = strlen(marks[i].mark)) != 0) i++;
        if (i < 3)
            text_printf(&message, "%s", marks[i].put);
        else
            text_append(&message, at, n = 1);
        at += n;
    }
    const ol_status status = ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s", text_c(&message));
    text_deinit(&words);
    text_deinit(&shown);
    text_deinit(&message);
    return status;
}

ol_status setting_check(ol_context *ctx, const setting_info *info, const value *v, value *tidy) {
    value kept = *v;
    if (v->kind == VALUE_NULL) {
        if (strcmp(info->default_text, "None") != 0) return fail(ctx, info, v, "is invalid. 'NAME' must not be None.");
        *tidy = kept;
        return OL_OK;
    }
    const char *complaint = kinds[info->kind].check(info, v, &kept);
    if (complaint != NULL) return fail(ctx, info, v, complaint);
    *tidy = kept;
    return OL_OK;
}
