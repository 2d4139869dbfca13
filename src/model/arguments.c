#include "model/arguments.h"

#include "model/module.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ol_status layer_fail(ol_context *ctx, const model_desc *desc, const layer_desc *layer, const char *format, ...) {
    char what[400], where[40] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (layer->line > 0) snprintf(where, sizeof where, ":%d", layer->line);
    if (layer->kind == NULL) {
        return ctx_fail(ctx, OL_ERROR_FORMAT, "%s%s: layer %d: %s", desc->source, where, layer->index, what);
    }
    return ctx_fail(ctx, OL_ERROR_FORMAT, "%s%s: layer %d (%s): %s", desc->source, where, layer->index,
                    layer->kind->yaml_name, what);
}

static void describe(const value *v, char *out, size_t out_bytes) {
    switch (v->kind) {
    case VALUE_BOOL:
        snprintf(out, out_bytes, "%s", v->as.boolean ? "True" : "False");
        break;
    case VALUE_INT:
        snprintf(out, out_bytes, "%lld", (long long)v->as.integer);
        break;
    case VALUE_FLOAT:
        snprintf(out, out_bytes, "%g", v->as.real);
        break;
    case VALUE_STRING:
        snprintf(out, out_bytes, "'%.40s'", v->as.string);
        break;
    default:
        snprintf(out, out_bytes, "a %s", value_kind_name(v));
    }
}

static ol_status check_number(ol_context *ctx, const model_desc *desc, const layer_desc *layer, const argument_row *row,
                              const value *v) {
    char seen[60];
    describe(v, seen, sizeof seen);
    int64_t n = 0;
    const bool integral = row->type != ARGUMENT_FLOAT;
    const bool number = integral ? value_is_number(v) && value_as_int(v, &n) : value_is_number(v);
    const double x = value_as_double(v);
    if (!number || !isfinite(x) || x < row->min || x > row->max || (row->type == ARGUMENT_ODD_INT && n % 2 == 0)) {
        return layer_fail(ctx, desc, layer, "%s must be %s from %g to %g, not %s", row->name,
                          row->type == ARGUMENT_ODD_INT ? "an odd number"
                          : integral                    ? "an integer"
                                                        : "a number",
                          row->min, row->max, seen);
    }
    return OL_OK;
}

static ol_status check_one(ol_context *ctx, const model_desc *desc, const layer_desc *layer, const argument_row *row,
                           const value *v) {
    char seen[60];
    describe(v, seen, sizeof seen);
    switch (row->type) {
    case ARGUMENT_INT:
    case ARGUMENT_ODD_INT:
    case ARGUMENT_FLOAT:
        return check_number(ctx, desc, layer, row, v);
    case ARGUMENT_BOOL:
        if (v->kind == VALUE_BOOL) return OL_OK;
        return layer_fail(ctx, desc, layer, "%s must be True or False, not %s", row->name, seen);
    case ARGUMENT_NULL:
        if (v->kind == VALUE_NULL) return OL_OK;
        return layer_fail(ctx, desc, layer, "%s is not supported: leave it out or write None, not %s", row->name, seen);
    case ARGUMENT_NEAREST:
        if (v->kind == VALUE_STRING && strcmp(v->as.string, "nearest") == 0) return OL_OK;
        return layer_fail(ctx, desc, layer, "%s must be 'nearest', not %s", row->name, seen);
    case ARGUMENT_ANY:
        return OL_OK;
    }
    return OL_OK;
}

ol_status arguments_check(ol_context *ctx, const model_desc *desc, const layer_desc *layer, const value *args) {
    const argument_row *rows = layer->kind->arguments;
    size_t n_rows = 0;
    while (n_rows < LAYER_MAX_ARGUMENTS && rows[n_rows].name != NULL) n_rows++;
    if (args->as.list.count > n_rows) {
        return layer_fail(ctx, desc, layer, "%zu arguments where at most %zu are understood", args->as.list.count,
                          n_rows);
    }
    for (size_t i = 0; i < args->as.list.count; i++) {
        const ol_status status = check_one(ctx, desc, layer, &rows[i], args->as.list.items[i]);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

double argument_of(const layer_desc *layer, const char *name) {
    const argument_row *rows = layer->kind->arguments;
    for (size_t i = 0; i < LAYER_MAX_ARGUMENTS && rows[i].name != NULL; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (i >= layer->args->as.list.count) return rows[i].fallback;
        const value *v = layer->args->as.list.items[i];
        if (v->kind == VALUE_BOOL) return v->as.boolean ? 1.0 : 0.0;
        return value_as_double(v);
    }
    return 0.0;
}
