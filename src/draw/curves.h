/* Curve plots of validation: one thin line a class, a thick mean, a legend (data document, section 3.7). 2250x1500 PNG.
 */
#ifndef DRAW_CURVES_H
#define DRAW_CURVES_H

#include "base/context.h"

typedef struct curve_plot {
    const char *title, *x_label, *y_label;
    int n_curves, n_points;
    const double *x;          /* n_points; both axes show 0 … 1 */
    const double *y;          /* n_curves x n_points */
    const double *mean;       /* n_points; NULL: none */
    const char *const *names; /* legend of each curve, shown if there are fewer than 21 */
    const char *mean_label;
} curve_plot;

ol_status draw_curves(ol_context *ctx, const char *path, const curve_plot *plot);

#endif
