#include "val/files.h"

#include "base/file.h"
#include "base/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_COCO 80

int coco_category(int class_id) {
    static const uint8_t ids[N_COCO] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                        22, 23, 24, 25, 27, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
                                        46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65,
                                        67, 70, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 84, 85, 86, 87, 88, 89, 90};
    return class_id >= 0 && class_id < N_COCO ? ids[class_id] : class_id + 1;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

bool coco_list(const char *split_path) {
    return strstr(split_path, "coco") &&
           (ends_with(split_path, "val2017.txt") || ends_with(split_path, "test-dev2017.txt"));
}

/* `x` with at most `digits` decimals, at least one. */
static void append_rounded(text *out, double x, int digits) {
    char number[64];
    int n = snprintf(number, sizeof number, "%.*f", digits, x);
    while (n > 2 && number[n - 1] == '0' && number[n - 2] != '.') number[--n] = 0;
    text_printf(out, "%s", strcmp(number, "-0.0") ? number : "0.0");
}

/* The stem as a number without leading zeros when it is one, else as text. */
static ol_status append_image_id(text *out, arena *a, const char *path) {
    const char *stem = path_stem(a, path);
    if (!stem) return OL_ERROR_MEMORY;
    if (*stem && strspn(stem, "0123456789") == strlen(stem)) {
        while (stem[0] == '0' && stem[1]) stem++;
        text_printf(out, "%s", stem);
        return OL_OK;
    }
    value *v = value_string(a, stem);
    return v ? json_write(out, v) : OL_ERROR_MEMORY;
}

ol_status predictions_append(text *out, const char *path, const detection *rows, size_t n, bool coco) {
    arena a;
    arena_init(&a, out->ctx, 0);
    ol_status status = OL_OK;
    value *name = value_string(&a, path_name(path));
    if (!name) status = OL_ERROR_MEMORY;
    for (size_t i = 0; i < n && !status; i++) {
        const detection *d = &rows[i];
        text_printf(out, "%s{\"image_id\": ", out->length ? ", " : "");
        status = append_image_id(out, &a, path);
        text_printf(out, ", \"file_name\": ");
        if (!status) status = json_write(out, name);
        text_printf(out, ", \"category_id\": %d, \"bbox\": [", coco ? coco_category(d->class_id) : d->class_id + 1);
        const double box[4] = {d->x1, d->y1, (double)d->x2 - (double)d->x1, (double)d->y2 - (double)d->y1};
        for (int k = 0; k < 4; k++) {
            text_printf(out, "%s", k ? ", " : "");
            append_rounded(out, box[k], 3);
        }
        text_printf(out, "], \"score\": ");
        append_rounded(out, d->score, 5);
        text_printf(out, "}");
    }
    if (!status && out->failed) status = OL_ERROR_MEMORY;
    arena_deinit(&a);
    return status;
}

ol_status predictions_write(ol_context *ctx, const char *path, const text *records) {
    if (!records->length) return OL_OK;
    text whole;
    text_init(&whole, ctx);
    text_printf(&whole, "[");
    text_append(&whole, records->bytes, records->length);
    text_printf(&whole, "]");
    ol_status status = whole.failed ? OL_ERROR_MEMORY : file_write_whole(ctx, path, whole.bytes, whole.length);
    text_deinit(&whole);
    return status;
}

size_t common_folder(const char *prefix, size_t prefix_bytes, const char *path) {
    size_t n = 0, folder = 0;
    for (; n < prefix_bytes && path[n] && path[n] == prefix[n]; n++) {
        if (path[n] == '/') folder = n + 1;
    }
    return folder;
}

char *label_file_stem(arena *a, const char *path, size_t root_bytes) {
    char *stem = path_with_suffix(a, path + root_bytes, "");
    for (char *s = stem; s && *s; s++) {
        if (*s == '/') *s = '_';
    }
    return stem;
}

ol_status label_file_write(ol_context *ctx, const char *path, const detection *rows, size_t n, int height, int width,
                           bool scores) {
    unlink(path);
    if (!n) return OL_OK;
    text t;
    text_init(&t, ctx);
    for (size_t i = 0; i < n; i++) {
        const detection *d = &rows[i];
        double cx = ((double)d->x1 + (double)d->x2) / 2 / width, cy = ((double)d->y1 + (double)d->y2) / 2 / height;
        double w = ((double)d->x2 - (double)d->x1) / width, h = ((double)d->y2 - (double)d->y1) / height;
        text_printf(&t, "%d %g %g %g %g", d->class_id, cx, cy, w, h);
        if (scores) text_printf(&t, " %g", (double)d->score);
        text_printf(&t, "\n");
    }
    ol_status status = t.failed ? OL_ERROR_MEMORY : file_write_whole(ctx, path, t.bytes, t.length);
    text_deinit(&t);
    return status;
}
