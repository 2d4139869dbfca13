#include "draw/curves.h"

#include "draw/axes.h"
#include "draw/palette.h"

#include <stdio.h>

#define WIDTH_PX   2250
#define HEIGHT_PX  1500
#define POINT_PX   (250.0 / 72)
#define FONT_PX    (10 * POINT_PX)
#define LEGEND_MAX 20

static void legend_row(canvas *c, int row, colour k, double line_width, const char *label) {
    double x = WIDTH_PX * 0.745, y = HEIGHT_PX * 0.09 + row * FONT_PX * 1.45;
    canvas_line(c, (point[]){{x, y}, {x + FONT_PX * 1.8, y}}, 2, k, 1, line_width, 0);
    text_style style = {.size_px = FONT_PX * 0.95, .k = COLOUR_BLACK};
    canvas_text(c, x + FONT_PX * 2.2, y + FONT_PX * 0.35, label, &style);
}

ol_status draw_curves(ol_context *ctx, const char *path, const curve_plot *plot) {
    canvas *c;
    ol_status status = canvas_create(ctx, WIDTH_PX, HEIGHT_PX, &c);
    if (status) return status;
    axes a = {.c = c,
              .x = WIDTH_PX * 0.075,
              .y = HEIGHT_PX * 0.07,
              .w = WIDTH_PX * 0.655,
              .h = HEIGHT_PX * 0.82,
              .x1 = 1,
              .y1 = 1,
              .font_px = FONT_PX,
              .title = plot->title,
              .x_label = plot->x_label,
              .y_label = plot->y_label};
    axes_draw(&a);
    const colour grey = {150, 150, 150}, blue = {0, 0, 255};
    bool named = plot->n_curves <= LEGEND_MAX;
    int row = 0;
    for (int i = 0; i < plot->n_curves; i++) {
        colour k = named ? class_line_colour(i) : grey;
        axes_line(&a, plot->x, plot->y + (size_t)i * (size_t)plot->n_points, (size_t)plot->n_points, k, named ? 1 : 0.6,
                  POINT_PX, 0);
        if (named) legend_row(c, row++, k, POINT_PX, plot->names[i]);
    }
    if (plot->mean) {
        axes_line(&a, plot->x, plot->mean, (size_t)plot->n_points, blue, 1, 3 * POINT_PX, 0);
        legend_row(c, row, blue, 3 * POINT_PX, plot->mean_label);
    }
    status = canvas_write_png(c, path);
    canvas_destroy(c);
    return status;
}
