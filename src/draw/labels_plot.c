#include "draw/labels_plot.h"

#include "draw/axes.h"
#include "draw/palette.h"

#include <math.h>
#include <string.h>

#define SIDE_PX   1600
#define POINT_PX  (200.0 / 72)
#define BINS      50
#define MAX_BOXES 500
#define MAX_NAMES 30

static axes panel(canvas *c, int column, int row) {
    double half = SIDE_PX / 2.0;
    return (axes){.c = c,
                  .x = column * half + 46 * POINT_PX,
                  .y = row * half + 16 * POINT_PX,
                  .w = half - 60 * POINT_PX,
                  .h = half - 60 * POINT_PX,
                  .x1 = 1,
                  .y1 = 1,
                  .font_px = 9 * POINT_PX};
}

static ol_status draw_histogram(canvas *c, ol_context *ctx, const float *rows, size_t n, int nc,
                                const char *const *names) {
    int64_t *counts = mem_alloc0(ctx, (size_t)nc, sizeof *counts), top = 1;
    if (!counts) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        float k = rows[5 * i];
        if (k >= 0 && k < (float)nc && ++counts[(int)k] > top) top = counts[(int)k];
    }
    axes a = panel(c, 0, 0);
    a.y_label = "instances";
    a.x1 = nc;
    a.y1 = (double)top * 1.06;
    a.hide_x_ticks = nc <= MAX_NAMES;
    if (!a.hide_x_ticks) a.x_label = "classes";
    axes_draw(&a);
    for (int k = 0; k < nc; k++) {
        point p = axes_point(&a, k + 0.1, (double)counts[k]);
        canvas_fill(c, p.x, p.y, a.w / nc * 0.8, a.y + a.h - p.y, class_line_colour(k), 1);
        if (nc > MAX_NAMES) continue;
        double font_px = fmin(a.font_px, a.w / nc * 0.8);
        text_style style = {.size_px = font_px, .anchor = TEXT_RIGHT, .upwards = true, .k = {38, 38, 38}};
        canvas_text(c, axes_point(&a, k + 0.5, 0).x + font_px * 0.36, a.y + a.h + font_px * 0.4, names[k], &style);
    }
    canvas_frame(c, a.x, a.y, a.w, a.h, (colour){38, 38, 38}, a.font_px * 0.08);
    mem_free(ctx, counts);
    return OL_OK;
}

/* All boxes moved to a common centre. */
static void draw_overlay(canvas *c, const float *rows, size_t n) {
    axes a = panel(c, 1, 0);
    canvas_clip(c, a.x, a.y, a.w, a.h);
    for (size_t i = 0; i < n && i < MAX_BOXES; i++) {
        double w = rows[5 * i + 3], h = rows[5 * i + 4];
        if (!isfinite(w) || !isfinite(h)) continue;
        point p = axes_point(&a, 0.5 - w / 2, 0.5 + h / 2);
        canvas_frame(c, p.x, p.y, w * a.w, h * a.h, class_line_colour((int)rows[5 * i]), POINT_PX * 0.6);
    }
    canvas_unclip(c);
    canvas_frame(c, a.x, a.y, a.w, a.h, (colour){38, 38, 38}, a.font_px * 0.08);
}

static void draw_density(canvas *c, int column, const float *rows, size_t n, int field, const char *x_label,
                         const char *y_label) {
    int64_t counts[BINS][BINS], top = 1;
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n; i++) {
        double x = rows[5 * i + (size_t)field], y = rows[5 * i + (size_t)field + 1];
        if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1)) continue;
        int64_t *cell = &counts[(int)fmin(y * BINS, BINS - 1)][(int)fmin(x * BINS, BINS - 1)];
        if (++*cell > top) top = *cell;
    }
    axes a = panel(c, column, 1);
    a.x_label = x_label;
    a.y_label = y_label;
    axes_draw(&a);
    double w = a.w / BINS, h = a.h / BINS;
    for (int y = 0; y < BINS; y++) {
        for (int x = 0; x < BINS; x++) {
            if (!counts[y][x]) continue;
            double t = 0.25 + 0.75 * sqrt((double)counts[y][x] / (double)top);
            canvas_fill(c, a.x + x * w, a.y + a.h - (y + 1) * h, w, h, blues(t), 1);
        }
    }
}

ol_status draw_labels_plot(ol_context *ctx, const char *path, const float *rows, size_t n, int nc,
                           const char *const *names) {
    if (nc < 1) return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s: a plot of labels needs at least one class", path);
    canvas *c;
    ol_status status = canvas_create(ctx, SIDE_PX, SIDE_PX, &c);
    if (status) return status;
    status = draw_histogram(c, ctx, rows, n, nc, names);
    if (!status) {
        draw_overlay(c, rows, n);
        draw_density(c, 0, rows, n, 1, "x", "y");
        draw_density(c, 1, rows, n, 3, "width", "height");
        status = canvas_write_jpeg(c, path, 95);
    }
    canvas_destroy(c);
    return status;
}
