#include "predict/result.h"

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
