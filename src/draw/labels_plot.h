/* labels.jpg: how many objects of which class, where and how large (data document, section 3.7). */
#ifndef DRAW_LABELS_PLOT_H
#define DRAW_LABELS_PLOT_H

#include "base/context.h"

/* `rows` (n,5): class, cx, cy, w, h as fractions of the picture. */
ol_status draw_labels_plot(ol_context *ctx, const char *path, const float *rows, size_t n, int nc,
                           const char *const *names);

#endif
