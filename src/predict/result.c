#include "predict/result.h"

#include "base/scalar.h"
#include "base/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *result_class_name(const predict_result *r, int class_id, char buffer[16]) {
    if (class_id >= 0 && class_id < r->nc && r->names) return r->names[class_id];
    snprintf(buffer, 16, "%d", class_id);
    return buffer;
}

void result_print_counts(text *out, const predict_result *r) {
    if (!r->n_rows) text_printf(out, "(no detections), ");
    int before = -1;
    for (;;) { /* the lowest id above the one before, until there is none: rows are few */
        int id = INT32_MAX;
        size_t count = 0;
        for (size_t i = 0; i < r->n_rows; i++) {
            if (r->rows[i].class_id > before && r->rows[i].class_id < id) id = r->rows[i].class_id;
        }
        if (id == INT32_MAX) return;
        for (size_t i = 0; i < r->n_rows; i++) count += r->rows[i].class_id == id;
        char buffer[16];
        text_printf(out, "%zu %s%s, ", count, result_class_name(r, id, buffer), count > 1 ? "s" : "");
        before = id;
    }
}

void result_print_line(text *out, const predict_result *r) {
    text_printf(out, "image %zu/%zu %s: %dx%d ", r->index + 1, r->total, r->path, r->net_height, r->net_width);
    result_print_counts(out, r);
    text_printf(out, "%.1fms", r->speed_ms[PREDICT_INFERENCE]);
}

static double rounded(double x) {
    return rint(x * 1e5) / 1e5;
}

static ol_status print_string(text *out, const char *s) {
    value v = {.kind = VALUE_STRING, .as.string = s};
    return json_write(out, &v);
}

/* A decimal without an exponent and at least one digit after the point, as the field's JSON has it. */
static void print_number(text *out, double x) {
    char number[64];
    int n = snprintf(number, sizeof number, "%.5f", rounded(x));
    while (n > 2 && number[n - 1] == '0' && number[n - 2] != '.') number[--n] = 0;
    text_printf(out, "%s", number);
}

static void box_of(const predict_result *r, const detection *d, bool normalized, double box[4]) {
    double w = normalized ? r->width : 1, h = normalized ? r->height : 1;
    box[0] = d->x1 / w;
    box[1] = d->y1 / h;
    box[2] = d->x2 / w;
    box[3] = d->y2 / h;
}

static const char *const corner_names[4] = {"x1", "y1", "x2", "y2"};

ol_status result_print_json(text *out, const predict_result *r, bool normalized) {
    text_printf(out, "[");
    for (size_t i = 0; i < r->n_rows; i++) {
        const detection *d = &r->rows[i];
        char buffer[16];
        double box[4];
        box_of(r, d, normalized, box);
        text_printf(out, "%s{\"name\":", i ? "," : "");
        ol_status status = print_string(out, result_class_name(r, d->class_id, buffer));
        if (status) return status;
        text_printf(out, ",\"class\":%d,\"confidence\":", d->class_id);
        print_number(out, d->score);
        for (int k = 0; k < 4; k++) {
            text_printf(out, "%s\"%s\":", k ? "," : ",\"box\":{", corner_names[k]);
            print_number(out, box[k]);
        }
        text_printf(out, "}}");
    }
    text_printf(out, "]");
    return out->failed ? OL_ERROR_MEMORY : OL_OK;
}

ol_status result_print_json_line(text *out, const predict_result *r) {
    text_printf(out, "{\"path\":");
    ol_status status = print_string(out, r->path);
    text_printf(out, ",\"height\":%d,\"width\":%d,\"detections\":", r->height, r->width);
    if (!status) status = result_print_json(out, r, false);
    text_printf(out, ",\"speed\":{\"preprocess\":%.3f,\"inference\":%.3f,\"postprocess\":%.3f}}",
                r->speed_ms[PREDICT_PREPROCESS], r->speed_ms[PREDICT_INFERENCE], r->speed_ms[PREDICT_POSTPROCESS]);
    if (!status && out->failed) status = OL_ERROR_MEMORY;
    return status;
}

void result_print_csv(text *out, const predict_result *r) {
    text_printf(out, "name,class,confidence,box\n");
    for (size_t i = 0; i < r->n_rows; i++) {
        const detection *d = &r->rows[i];
        char buffer[16];
        const char *name = result_class_name(r, d->class_id, buffer);
        double box[4];
        box_of(r, d, false, box);
        bool quoted = strpbrk(name, ",\"\r\n") != NULL;
        text_printf(out, "%s", quoted ? "\"" : "");
        for (; *name; name++) text_printf(out, quoted && *name == '"' ? "\"\"" : "%c", *name);
        text_printf(out, "%s,%d,", quoted ? "\"" : "", d->class_id);
        print_number(out, d->score);
        for (int k = 0; k < 4; k++) {
            text_printf(out, "%s'%s': ", k ? ", " : ",\"{", corner_names[k]);
            print_number(out, box[k]);
        }
        text_printf(out, "}\"\n");
    }
}
