#include "draw/history.h"

#include "base/file.h"
#include "draw/axes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINT_PX (200.0 / 72)
#define PANEL_W  (170 * POINT_PX)
#define PANEL_H  (210 * POINT_PX)

void history_smooth(const double *y, size_t n, double sigma, double *out) {
    int64_t reach = (int64_t)(4 * sigma + 0.5), period = 2 * (int64_t)n;
    for (int64_t i = 0; i < (int64_t)n; i++) {
        double sum = 0, weights = 0;
        for (int64_t k = -reach; k <= reach; k++) {
            int64_t at = ((i + k) % period + period) % period;
            if (at >= (int64_t)n) at = period - 1 - at;
            double w = exp(-0.5 * (double)(k * k) / (sigma * sigma));
            if (!isfinite(y[at])) continue;
            sum += w * y[at];
            weights += w;
        }
        out[i] = weights > 0 ? sum / weights : (double)NAN;
    }
}

static void draw_panel(canvas *c, double x, double y, const double *epochs, size_t n, const history_series *s,
                       double *smooth) {
    axes a = {.c = c,
              .x = x + 40 * POINT_PX,
              .y = y + 24 * POINT_PX,
              .w = PANEL_W - 52 * POINT_PX,
              .h = PANEL_H - 48 * POINT_PX,
              .x0 = epochs[0],
              .x1 = epochs[n - 1],
              .y0 = INFINITY,
              .y1 = -INFINITY,
              .font_px = 9 * POINT_PX,
              .title = s->name};
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(s->values[i])) continue;
        a.y0 = fmin(a.y0, s->values[i]);
        a.y1 = fmax(a.y1, s->values[i]);
    }
    if (!(a.y0 <= a.y1)) a.y0 = 0, a.y1 = 1;
    double margin = a.y1 > a.y0 ? (a.y1 - a.y0) * 0.06 : fmax(fabs(a.y0) * 0.1, 0.01);
    a.y0 -= margin;
    a.y1 += margin;
    if (!(a.x1 > a.x0)) a.x0 -= 0.5, a.x1 += 0.5;
    axes_draw(&a);
    const colour blue = {31, 119, 180}, orange = {255, 127, 14};
    axes_line(&a, epochs, s->values, n, blue, 1, 1.8 * POINT_PX, 0);
    for (size_t i = 0; i < n && n <= 60; i++) {
        if (!isfinite(s->values[i])) continue;
        point p = axes_point(&a, epochs[i], s->values[i]);
        canvas_disc(c, p.x, p.y, 2.4 * POINT_PX, blue, 1);
    }
    history_smooth(s->values, n, 3, smooth);
    axes_line(&a, epochs, smooth, n, orange, 1, 1.8 * POINT_PX, 3 * POINT_PX);
}

ol_status draw_history(ol_context *ctx, const char *path, const double *epochs, size_t n, const history_series *series,
                       int n_series) {
    if (!epochs || !n || n_series < 1) return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%s: no epoch to draw", path);
    int columns = (n_series + 1) / 2;
    double *smooth = mem_alloc(ctx, n, sizeof *smooth);
    if (!smooth) return OL_ERROR_MEMORY;
    canvas *c;
    ol_status status =
        canvas_create(ctx, (int)(columns * PANEL_W + 6 * POINT_PX), (int)(2 * PANEL_H + 6 * POINT_PX), &c);
    if (!status) {
        for (int i = 0; i < n_series; i++) {
            const int column = i % columns, row = i / columns;
            draw_panel(c, column * PANEL_W, row * PANEL_H, epochs, n, &series[i], smooth);
        }
        status = canvas_write_png(c, path);
        canvas_destroy(c);
    }
    mem_free(ctx, smooth);
    return status;
}

#define CSV_MAX_COLUMNS 64

typedef struct csv_table {
    const char *names[CSV_MAX_COLUMNS];
    double *values[CSV_MAX_COLUMNS];
    int n_columns;
    size_t n_rows;
} csv_table;

/* Cuts the text at its separators; cells that are no number become NAN. */
static ol_status csv_parse(arena *a, const char *path, char *bytes, csv_table *t) {
    size_t n_lines = 0;
    for (const char *s = bytes; *s; s++) n_lines += *s == '\n';
    char *rest_lines = NULL, *line = strtok_r(bytes, "\r\n", &rest_lines), *rest = NULL;
    for (char *s = line ? strtok_r(line, ",", &rest) : NULL; s && t->n_columns < CSV_MAX_COLUMNS;
         s = strtok_r(NULL, ",", &rest)) {
        t->names[t->n_columns] = s + strspn(s, " ");
        t->values[t->n_columns] = arena_alloc(a, n_lines + 1, sizeof(double));
        if (!t->values[t->n_columns++]) return OL_ERROR_MEMORY;
    }
    while ((line = strtok_r(NULL, "\r\n", &rest_lines)) && t->n_rows <= n_lines) {
        int i = 0;
        for (char *s = strtok_r(line, ",", &rest); s && i < t->n_columns; s = strtok_r(NULL, ",", &rest)) {
            char *end;
            double v = strtod(s, &end);
            t->values[i++][t->n_rows] = end == s ? (double)NAN : v;
        }
        while (i < t->n_columns) t->values[i++][t->n_rows] = (double)NAN;
        t->n_rows++;
    }
    if (!t->n_columns || !t->n_rows) return ctx_fail(a->ctx, OL_ERROR_FORMAT, "%s: no rows to draw", path);
    return OL_OK;
}

/* The two rows of the field's picture: training losses and P, R above; validation losses and the two mAPs below. */
static int choose_series(const csv_table *t, history_series *out) {
    static const char *const parts[][2] = {
        {"train/", NULL}, {"metrics/precision", "metrics/recall"}, {"val/", NULL}, {"metrics/mAP50", NULL}};
    int n = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        for (int i = 0; i < t->n_columns; i++) {
            const char *name = t->names[i];
            bool wanted = !strncmp(name, parts[p][0], strlen(parts[p][0]));
            if (parts[p][1]) wanted |= !strncmp(name, parts[p][1], strlen(parts[p][1]));
            if (wanted) out[n++] = (history_series){name, t->values[i]};
        }
    }
    return n;
}

ol_status draw_history_csv(ol_context *ctx, const char *csv_path, const char *path) {
    arena a;
    arena_init(&a, ctx, 0);
    char *bytes = NULL;
    size_t n_bytes;
    csv_table t = {0};
    history_series series[CSV_MAX_COLUMNS];
    ol_status status = file_read(ctx, csv_path, 0, &bytes, &n_bytes);
    if (!status) status = csv_parse(&a, csv_path, bytes, &t);
    if (!status) status = draw_history(ctx, path, t.values[0], t.n_rows, series, choose_series(&t, series));
    mem_free(ctx, bytes);
    arena_deinit(&a);
    return status;
}
