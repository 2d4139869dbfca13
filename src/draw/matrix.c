#include "draw/matrix.h"

#include "draw/palette.h"

#include <math.h>
#include <stdio.h>

#define WIDTH_PX    3000
#define HEIGHT_PX   2250
#define POINT_PX    (250.0 / 72)
#define NUMBERS_MAX 29 /* classes with numbers in their cells */
#define BLANK_BELOW 0.005

typedef struct matrix_plot {
    canvas *c;
    const int64_t *cells;
    int nc, side, step; /* side = nc + 1; every step-th class has its name */
    const char *const *names;
    bool normalized;
    double x, y, size, cell; /* plot area and cell in pixels */
} matrix_plot;

/* The value shown; NAN for blank cells. */
static double cell_value(const matrix_plot *m, int predicted, int truth) {
    int64_t count = m->cells[(size_t)predicted * (size_t)m->side + (size_t)truth];
    double v = (double)count;
    if (m->normalized) {
        int64_t sum = 0;
        for (int i = 0; i < m->side; i++) sum += m->cells[(size_t)i * (size_t)m->side + (size_t)truth];
        v = (double)count / ((double)sum + 1e-9);
    }
    return v < BLANK_BELOW ? (double)NAN : v;
}

static double largest_value(const matrix_plot *m) {
    double top = 0;
    for (int i = 0; i < m->side; i++) {
        for (int j = 0; j < m->side; j++) top = fmax(top, cell_value(m, i, j));
    }
    return top;
}

static void draw_cells(const matrix_plot *m, double top) {
    double font_px = fmin(m->cell * 0.3, 11 * POINT_PX);
    for (int i = 0; i < m->side; i++) {
        for (int j = 0; j < m->side; j++) {
            double v = cell_value(m, i, j);
            if (isnan(v)) continue;
            double x = m->x + j * m->cell, y = m->y + i * m->cell, t = top > 0 ? v / top : 0;
            canvas_fill(m->c, x, y, m->cell, m->cell, blues(t), 1);
            if (m->nc > NUMBERS_MAX) continue;
            char number[32];
            snprintf(number, sizeof number, m->normalized ? "%.2f" : "%.0f", v);
            text_style style = {
                .size_px = font_px, .anchor = TEXT_CENTRE, .k = t > 0.45 ? COLOUR_WHITE : (colour){38, 38, 38}};
            canvas_text(m->c, x + m->cell / 2, y + m->cell / 2 + font_px * 0.36, number, &style);
        }
    }
}

static void draw_names(const matrix_plot *m) {
    double font_px = fmin(m->cell * m->step * 0.8, 11 * POINT_PX);
    const colour ink = {38, 38, 38};
    for (int i = 0; i < m->side; i += m->step) {
        const char *name = i < m->nc ? m->names[i] : "background";
        double at = (i + 0.5) * m->cell;
        text_style across = {.size_px = font_px, .anchor = TEXT_RIGHT, .k = ink};
        canvas_text(m->c, m->x - font_px * 0.4, m->y + at + font_px * 0.36, name, &across);
        text_style up = {.size_px = font_px, .anchor = TEXT_RIGHT, .upwards = true, .k = ink};
        canvas_text(m->c, m->x + at + font_px * 0.36, m->y + m->size + font_px * 0.4, name, &up);
    }
    text_style label = {.size_px = 12 * POINT_PX, .anchor = TEXT_CENTRE, .k = ink};
    canvas_text(m->c, m->x + m->size / 2, HEIGHT_PX - 6 * POINT_PX, "True", &label);
    label.upwards = true;
    canvas_text(m->c, m->x - 130 * POINT_PX, m->y + m->size / 2, "Predicted", &label);
}

static void draw_scale(const matrix_plot *m, double top) {
    double x = m->x + m->size + 24 * POINT_PX, w = 14 * POINT_PX;
    enum { STEPS = 200 };
    for (int i = 0; i < STEPS; i++) {
        double h = m->size / STEPS;
        canvas_fill(m->c, x, m->y + m->size - (i + 1) * h, w, h + 1, blues((i + 0.5) / STEPS), 1);
    }
    canvas_frame(m->c, x, m->y, w, m->size, (colour){38, 38, 38}, 0.8 * POINT_PX);
    for (int i = 0; i <= 5; i++) {
        char number[32];
        snprintf(number, sizeof number, m->normalized || top < 5 ? "%.2f" : "%.0f", top * i / 5);
        text_style style = {.size_px = 10 * POINT_PX, .k = {38, 38, 38}};
        canvas_text(m->c, x + w + 4 * POINT_PX, m->y + m->size * (1 - i / 5.0) + 3.6 * POINT_PX, number, &style);
    }
}

ol_status draw_confusion(ol_context *ctx, const char *path, const int64_t *cells, int nc, const char *const *names,
                         bool normalized) {
    matrix_plot m = {.cells = cells, .nc = nc, .side = nc + 1, .names = names, .normalized = normalized};
    ol_status status = canvas_create(ctx, WIDTH_PX, HEIGHT_PX, &m.c);
    if (status) return status;
    m.step = m.side > 100 ? (m.side + 59) / 60 : 1;
    m.size = HEIGHT_PX * 0.79;
    m.cell = m.size / m.side;
    m.x = WIDTH_PX * 0.22;
    m.y = HEIGHT_PX * 0.07;
    double top = normalized ? 1 : largest_value(&m);
    draw_cells(&m, top);
    canvas_frame(m.c, m.x, m.y, m.size, m.size, (colour){38, 38, 38}, 0.8 * POINT_PX);
    draw_names(&m);
    draw_scale(&m, top);
    text_style title = {.size_px = 14 * POINT_PX, .anchor = TEXT_CENTRE, .k = {38, 38, 38}};
    canvas_text(m.c, m.x + m.size / 2, m.y - 8 * POINT_PX,
                normalized ? "Confusion Matrix Normalized" : "Confusion Matrix", &title);
    status = canvas_write_png(m.c, path);
    canvas_destroy(m.c);
    return status;
}
