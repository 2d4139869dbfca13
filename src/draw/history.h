/* results.png: losses and metrics over the epochs of a run, with a smoothed line (data document, section 3.7). */
#ifndef DRAW_HISTORY_H
#define DRAW_HISTORY_H

#include "base/context.h"

typedef struct history_series {
    const char *name; /* "train/box_loss" */
    const double *values;
} history_series;

/* Panels fill two rows from the left, the first half of the series above. `epochs` has n values, as has each series. */
ol_status draw_history(ol_context *ctx, const char *path, const double *epochs, size_t n, const history_series *series,
                       int n_series);
/* The same from a results.csv: losses and metrics, in the order of the field's picture. */
ol_status draw_history_csv(ol_context *ctx, const char *csv_path, const char *path);
/* Gaussian smoothing with mirrored ends, cut at 4 sigma. */
void history_smooth(const double *y, size_t n, double sigma, double *out);

#endif
