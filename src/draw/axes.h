/* The frame of a plot: title, axis labels, ticks at round numbers, and lines in data coordinates. Draws on a canvas it
 * does not own; keeps no state. */
#ifndef DRAW_AXES_H
#define DRAW_AXES_H

#include "draw/canvas.h"

typedef struct axes {
    canvas *c;
    double x, y, w, h;     /* the plot area in pixels, without labels */
    double x0, x1, y0, y1; /* data range; x1 > x0, y1 > y0 */
    double font_px;
    const char *title, *x_label, *y_label; /* NULL: none */
    bool hide_x_ticks, hide_y_ticks;
} axes;

/* A step of 1, 2 or 5 times a power of ten that cuts the range into at most n_max parts. */
double axes_step(double range, int n_max);
void axes_draw(const axes *a);
point axes_point(const axes *a, double x, double y);
/* n points joined; gaps where a value is not finite. */
void axes_line(const axes *a, const double *x, const double *y, size_t n, colour k, double alpha, double line_width,
               double dash);

#endif
