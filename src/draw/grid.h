/* The pictures of a batch side by side with their labels or predictions: train_batchN.jpg, val_batchN_labels.jpg,
 * val_batchN_pred.jpg (data document, section 3.7). */
#ifndef DRAW_GRID_H
#define DRAW_GRID_H

#include "data/loader.h"
#include "draw/boxes.h"

#define GRID_MAX_IMAGES 16

/* Up to 16 pictures in ceil(sqrt(n)) columns, filled column by column, scaled so that the sheet has at most 1920 pixels
 * a side. rows NULL: the batch's own labels, with names only. Otherwise one list a picture in network pixels (score-
 * descending), of which scores above 0.25 are drawn with `%.1f`. */
ol_status draw_grid(ol_context *ctx, const char *path, const batch *b, const detection_list *rows,
                    const char *const *names, int nc);

/* train_batch0.jpg … of the first `n` batches of an epoch, as training will see them. Leaves the loader in the middle
 * of that epoch: the next loader_start begins anew with the same samples. */
ol_status draw_first_batches(ol_context *ctx, loader *l, int epoch, int n, const char *folder, const char *const *names,
                             int nc);

#endif
