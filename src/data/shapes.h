/* Draws the `shapes` data set: coloured shapes on textured ground, an ordinary YOLO data set that is the same, byte for
 * byte, on every machine. For demonstrations and tests. */
#ifndef DATA_SHAPES_H
#define DATA_SHAPES_H

#include "base/context.h"

#define SHAPES_N_CLASSES 4 /* circle, square, triangle, star */

/* Writes folder/data.yaml, folder/images/{train,val}/NNN.png and folder/labels/{train,val}/NNN.txt. The folder may
 * exist; files of the same names are replaced. `size_px` is the longer side, 64..2048. */
ol_status shapes_write(ol_context *ctx, const char *folder, int n_train, int n_val, int size_px, uint64_t seed);

#endif
