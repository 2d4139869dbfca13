#include "val/report.h"

#include "base/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define N_COLUMNS 9

static const char *const summary_columns[N_COLUMNS] = {"Class",  "Images", "Instances", "Box-P",   "Box-R",
                                                       "Box-F1", "mAP50",  "mAP75",     "mAP50-95"};

void val_report_deinit(val_report *r) {
    if (r->arena.ctx) arena_deinit(&r->arena);
    *r = (val_report){0};
}

double val_fitness(const val_report *r) {
    return isnan(r->box.map) ? 0 : r->box.map;
}

void val_print_header(text *out) {
    text_printf(out, "%22s%11s%11s%11s%11s%11s%11s", "Class", "Images", "Instances", "Box(P", "R", "mAP50",
                "mAP50-95)");
}

static void print_row(text *out, const char *name, int64_t images, int64_t instances, const double values[4]) {
    text_printf(out, "%22s%11lld%11lld", name, (long long)images, (long long)instances);
    for (int i = 0; i < 4; i++) {
        if (isnan(values[i]))
            text_printf(out, "%11s", "none");
        else
            text_printf(out, "%11.3g", values[i]);
    }
}

static double class_map(const val_report *r, int k) {
    double sum = 0;
    for (int t = 0; t < VAL_N_IOU; t++) sum += r->box.ap[k * VAL_N_IOU + t];
    return sum / VAL_N_IOU;
}

void val_print_all(text *out, const val_report *r) {
    const double values[4] = {r->box.mp, r->box.mr, r->box.map50, r->box.map};
    print_row(out, "all", r->n_images, r->n_instances, values);
}

void val_print_class(text *out, const val_report *r, int k) {
    int id = r->box.classes[k];
    const double values[4] = {r->box.p[k], r->box.r[k], r->box.ap[k * VAL_N_IOU], class_map(r, k)};
    print_row(out, r->names[id], r->images_per_class[id], r->instances_per_class[id], values);
}

void val_print_speed(text *out, const val_report *r) {
    text_printf(out, "Speed: %.1fms preprocess, %.1fms inference, %.1fms loss, %.1fms postprocess per image",
                r->speed_ms[VAL_PREPROCESS], r->speed_ms[VAL_INFERENCE], r->speed_ms[VAL_LOSS],
                r->speed_ms[VAL_POSTPROCESS]);
}

static ol_status set_number(arena *a, value *map, const char *key, double x) {
    value *v = value_float(a, x);
    return v ? value_set(a, map, key, v) : OL_ERROR_MEMORY;
}

ol_status val_results(arena *a, const val_report *r, const char *third, const value **out) {
    value *map = value_map(a);
    if (!map) return OL_ERROR_MEMORY;
    char third_key[64];
    snprintf(third_key, sizeof third_key, "val/%s", third);
    const struct {
        const char *key;
        double x;
        bool wanted;
    } rows[] = {{"metrics/precision(B)", r->box.mp, true}, {"metrics/recall(B)", r->box.mr, true},
                {"metrics/mAP50(B)", r->box.map50, true},  {"metrics/mAP50-95(B)", r->box.map, true},
                {"val/box_loss", r->loss[0], r->has_loss}, {"val/cls_loss", r->loss[1], r->has_loss},
                {third_key, r->loss[2], r->has_loss},      {"fitness", val_fitness(r), true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].wanted) continue;
        char *key = arena_strdup(a, rows[i].key);
        ol_status status = key ? set_number(a, map, key, rows[i].x) : OL_ERROR_MEMORY;
        if (status) return status;
    }
    *out = map;
    return OL_OK;
}

/* The six numbers of a class's row, rounded to five decimals. */
static void summary_numbers(const val_report *r, int k, double out[6]) {
    const double *ap = r->box.ap + k * VAL_N_IOU;
    const double raw[6] = {r->box.p[k], r->box.r[k], r->box.f1[k], ap[0], ap[5], class_map(r, k)};
    for (int i = 0; i < 6; i++) out[i] = rint(raw[i] * 1e5) / 1e5;
}

ol_status val_summary(arena *a, const val_report *r, const value **out) {
    value *list = value_list(a);
    if (!list) return OL_ERROR_MEMORY;
    for (int k = 0; k < r->box.n; k++) {
        int id = r->box.classes[k];
        double numbers[6];
        summary_numbers(r, k, numbers);
        value *map = value_map(a);
        const value *cells[N_COLUMNS] = {value_string(a, r->names[id]), value_int(a, r->images_per_class[id]),
                                         value_int(a, r->instances_per_class[id])};
        for (int i = 0; i < 6; i++) cells[3 + i] = value_float(a, numbers[i]);
        for (int i = 0; i < N_COLUMNS; i++) {
            if (!map || !cells[i]) return OL_ERROR_MEMORY;
            ol_status status = value_set(a, map, summary_columns[i], cells[i]);
            if (status) return status;
        }
        ol_status status = value_append(a, list, map);
        if (status) return status;
    }
    *out = list;
    return OL_OK;
}

/* A CSV cell, quoted where it has to be. */
static void append_cell(text *out, const char *s) {
    if (!strpbrk(s, ",\"\r\n")) {
        text_printf(out, "%s", s);
        return;
    }
    text_printf(out, "\"");
    for (; *s; s++) text_printf(out, *s == '"' ? "\"\"" : "%c", *s);
    text_printf(out, "\"");
}

void val_summary_csv(text *out, const val_report *r) {
    for (int i = 0; i < N_COLUMNS; i++) text_printf(out, "%s%s", i ? "," : "", summary_columns[i]);
    text_printf(out, "\n");
    for (int k = 0; k < r->box.n; k++) {
        int id = r->box.classes[k];
        double numbers[6];
        summary_numbers(r, k, numbers);
        append_cell(out, r->names[id]);
        text_printf(out, ",%lld,%lld", (long long)r->images_per_class[id], (long long)r->instances_per_class[id]);
        for (int i = 0; i < 6; i++) {
            text_printf(out, ",");
            scalar_print_float(out, numbers[i]);
        }
        text_printf(out, "\n");
    }
}
