/* The confusion matrix as a picture: x true, y predicted, shades of blue (data document, section 3.7). 3000x2250 PNG.
 */
#ifndef DRAW_MATRIX_H
#define DRAW_MATRIX_H

#include "base/context.h"

/* `cells` (nc+1)x(nc+1), [predicted * (nc+1) + true], last index background; `names` nc of them. `normalized`: columns
 * sum to 1. */
ol_status draw_confusion(ol_context *ctx, const char *path, const int64_t *cells, int nc, const char *const *names,
                         bool normalized);

#endif
