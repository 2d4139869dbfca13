#include "train/results.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fixed_columns[] = {"epoch",
                                            "time",
                                            "train/box_loss",
                                            "train/cls_loss",
                                            "train/l1_loss",
                                            "metrics/precision(B)",
                                            "metrics/recall(B)",
                                            "metrics/mAP50(B)",
                                            "metrics/mAP50-95(B)",
                                            "val/box_loss",
                                            "val/cls_loss",
                                            "val/l1_loss"};
enum { FIXED_COLUMNS = sizeof fixed_columns / sizeof fixed_columns[0] };

void results_init(results *r, ol_context *ctx, int n_groups) {
    *r = (results){.ctx = ctx, .n_groups = n_groups};
}

void results_deinit(results *r) {
    mem_free(r->ctx, r->cells);
}

int results_columns(const results *r) {
    return FIXED_COLUMNS + r->n_groups;
}

void results_column_name(int column, char *buffer, size_t buffer_bytes) {
    if (column < FIXED_COLUMNS)
        snprintf(buffer, buffer_bytes, "%s", fixed_columns[column]);
    else
        snprintf(buffer, buffer_bytes, "lr/pg%d", column - FIXED_COLUMNS);
}

static double rounded(const char *format, double x) {
    char text[64];
    snprintf(text, sizeof text, format, x);
    return strtod(text, NULL);
}

double results_round(double x) {
    return rounded("%.5f", x);
}

static ol_status row_reserve(results *r, double **row) {
    const size_t columns = (size_t)results_columns(r);
    const ol_status status =
        mem_grow(r->ctx, (void **)&r->cells, &r->capacity, (r->n_rows + 1) * columns, sizeof *r->cells);
    if (status != OL_OK) return status;
    *row = r->cells + r->n_rows++ * columns;
    return OL_OK;
}

ol_status results_add(results *r, const train_epoch *e) {
    double *row;
    const ol_status status = row_reserve(r, &row);
    if (status != OL_OK) return status;
    const train_metrics *m = &e->metrics;
    const double rounded5[10] = {e->train_losses[0], e->train_losses[1], e->train_losses[2], m->precision,
                                 m->recall,          m->map50,           m->map50_95,        m->losses[0],
                                 m->losses[1],       m->losses[2]};
    int c = 0;
    row[c++] = e->epoch;
    row[c++] = rounded("%.6g", e->seconds);
    for (int i = 0; i < 10; i++) row[c++] = rounded("%.6g", results_round(rounded5[i]));
    for (int g = 0; g < r->n_groups; g++) row[c++] = rounded("%.6g", e->lr[g]);
    return OL_OK;
}

ol_status results_write(const results *r, const char *path) {
    text t;
    text_init(&t, r->ctx);
    const int columns = results_columns(r);
    for (int c = 0; c < columns; c++) {
        char name[40];
        results_column_name(c, name, sizeof name);
        text_printf(&t, "%s%s", c > 0 ? "," : "", name);
    }
    text_append(&t, "\n", 1);
    for (size_t i = 0; i < r->n_rows; i++)
        for (int c = 0; c < columns; c++)
            text_printf(&t, "%.6g%s", r->cells[i * (size_t)columns + (size_t)c], c + 1 < columns ? "," : "\n");
    const ol_status status = t.failed ? OL_ERROR_MEMORY : file_write_atomic(r->ctx, path, text_c(&t), t.length);
    text_deinit(&t);
    return status;
}

ol_status results_to_value(arena *a, const results *r, const value **out) {
    value *map = value_map(a);
    if (!map) return OL_ERROR_MEMORY;
    const int columns = results_columns(r);
    for (int c = 0; c < columns; c++) {
        char name[40];
        value *list = value_list(a);
        if (!list) return OL_ERROR_MEMORY;
        for (size_t i = 0; i < r->n_rows; i++) {
            const double x = r->cells[i * (size_t)columns + (size_t)c];
            const ol_status status = value_append(a, list, c == 0 ? value_int(a, (int64_t)x) : value_float(a, x));
            if (status != OL_OK) return status;
        }
        results_column_name(c, name, sizeof name);
        const ol_status status = value_set(a, map, name, list);
        if (status != OL_OK) return status;
    }
    *out = map;
    return OL_OK;
}

ol_status results_from_value(results *r, const value *map, int epochs) {
    const value *numbers = value_get(map, "epoch");
    const int columns = results_columns(r);
    if (!numbers || numbers->kind != VALUE_LIST) return OL_OK;
    for (size_t i = 0; i < numbers->as.list.count; i++) {
        if (!value_is_number(numbers->as.list.items[i]) || value_as_double(numbers->as.list.items[i]) > epochs)
            continue;
        double *row;
        const ol_status status = row_reserve(r, &row);
        if (status != OL_OK) return status;
        for (int c = 0; c < columns; c++) {
            char name[40];
            results_column_name(c, name, sizeof name);
            const value *list = value_get(map, name);
            const bool known =
                list && list->kind == VALUE_LIST && i < list->as.list.count && value_is_number(list->as.list.items[i]);
            row[c] = known ? value_as_double(list->as.list.items[i]) : 0.0;
        }
    }
    return OL_OK;
}
