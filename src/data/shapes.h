/* Draws the `shapes` data set: coloured shapes on textured ground, an ordinary YOLO data set for demonstrations and
 * tests. Integer arithmetic throughout: the same pixels and labels on every machine. Not thread-safe. */
#ifndef DATA_SHAPES_H
#define DATA_SHAPES_H

#include "data/image.h"

#define SHAPES_N_CLASSES   4 /* circle, square, triangle, star */
#define SHAPES_MAX_OBJECTS 8

typedef struct shapes_object {
    int cls;
    int x1, y1, x2, y2; /* the box in 1/256 pixel */
} shapes_object;

/* Picture `index` of a stream: `split` 0 is training, 1 validation. size_px is the longer side, 64..2048. */
ol_status shapes_draw(ol_context *ctx, int size_px, uint64_t seed, int split, int index, image *out,
                      shapes_object objects[SHAPES_MAX_OBJECTS], int *n_objects);

/* Writes folder/data.yaml, folder/images/{train,val}/NNN.png and folder/labels/{train,val}/NNN.txt. The folder may
 * exist; files of the same names are replaced. */
ol_status shapes_write(ol_context *ctx, const char *folder, int n_train, int n_val, int size_px, uint64_t seed);

#endif
