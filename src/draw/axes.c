#include "draw/axes.h"

#include <math.h>
#include <stdio.h>

static const colour ink = {38, 38, 38}, grid_line = {225, 225, 225};

double axes_step(double range, int n_max) {
    double step = pow(10, floor(log10(range / n_max)));
    static const double factors[] = {1, 2, 5, 10};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        if (range / (step * factors[i]) <= n_max) return step * factors[i];
    }
    return step * 10;
}

point axes_point(const axes *a, double x, double y) {
    return (point){a->x + (x - a->x0) / (a->x1 - a->x0) * a->w, a->y + a->h - (y - a->y0) / (a->y1 - a->y0) * a->h};
}

/* Ticks of one axis: grid line, mark and number. */
static void draw_ticks(const axes *a, bool horizontal) {
    double low = horizontal ? a->x0 : a->y0, high = horizontal ? a->x1 : a->y1;
    int n_max = (int)((horizontal ? a->w / (a->font_px * 4.5) : a->h / (a->font_px * 2.5)));
    if (n_max < 2) n_max = 2;
    double step = axes_step(high - low, n_max < 10 ? n_max : 10);
    int digits = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    for (double i = ceil(low / step - 1e-6); i * step <= high + 1e-6 * step; i++) {
        double v = i * step;
        point p = axes_point(a, horizontal ? v : a->x0, horizontal ? a->y0 : v);
        point end = {horizontal ? p.x : a->x + a->w, horizontal ? a->y : p.y};
        canvas_line(a->c, (point[]){p, end}, 2, grid_line, 1, a->font_px * 0.04, 0);
        point mark = {horizontal ? p.x : p.x - a->font_px * 0.25, horizontal ? p.y + a->font_px * 0.25 : p.y};
        canvas_line(a->c, (point[]){p, mark}, 2, ink, 1, a->font_px * 0.08, 0);
        char number[32];
        snprintf(number, sizeof number, "%.*f", digits, i == 0 ? 0 : v);
        text_style style = {.size_px = a->font_px, .anchor = horizontal ? TEXT_CENTRE : TEXT_RIGHT, .k = ink};
        if (horizontal)
            canvas_text(a->c, p.x, p.y + a->font_px * 1.35, number, &style);
        else
            canvas_text(a->c, p.x - a->font_px * 0.4, p.y + a->font_px * 0.36, number, &style);
    }
}

void axes_draw(const axes *a) {
    if (!a->hide_x_ticks) draw_ticks(a, true);
    if (!a->hide_y_ticks) draw_ticks(a, false);
    canvas_frame(a->c, a->x, a->y, a->w, a->h, ink, a->font_px * 0.08);
    text_style style = {.size_px = a->font_px, .anchor = TEXT_CENTRE, .k = ink};
    if (a->x_label) canvas_text(a->c, a->x + a->w / 2, a->y + a->h + a->font_px * 2.9, a->x_label, &style);
    if (a->title) {
        style.size_px = a->font_px * 1.2;
        canvas_text(a->c, a->x + a->w / 2, a->y - a->font_px * 0.7, a->title, &style);
    }
    if (a->y_label) {
        style.size_px = a->font_px;
        style.upwards = true;
        canvas_text(a->c, a->x - a->font_px * 3.1, a->y + a->h / 2, a->y_label, &style);
    }
}

void axes_line(const axes *a, const double *x, const double *y, size_t n, colour k, double alpha, double line_width,
               double dash) {
    enum { CHUNK = 1024 };
    point points[CHUNK];
    size_t at = 0;
    for (size_t i = 0; i <= n; i++) {
        bool usable = i < n && isfinite(x[i]) && isfinite(y[i]);
        if (usable) points[at++] = axes_point(a, x[i], y[i]);
        if (at && (!usable || at == CHUNK)) {
            if (at == 1) canvas_disc(a->c, points[0].x, points[0].y, line_width, k, alpha);
            canvas_line(a->c, points, at, k, alpha, line_width, dash);
            points[0] = points[at - 1];
            at = usable ? 1 : 0;
        }
    }
}
