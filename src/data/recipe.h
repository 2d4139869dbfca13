/* Packs what the device needs to make a training sample (device/pictures.h): the seen parts of the pictures and the
 * numbers that were drawn. The pixels of a batch lie in one block that several threads fill at once. */
#ifndef DATA_RECIPE_H
#define DATA_RECIPE_H

#include "data/gather.h"
#include "data/hsv.h"
#include "device/pictures.h"

#include <stdatomic.h>

typedef struct recipe_pixels {
    uint8_t *bytes;
    size_t capacity;
    atomic_size_t used;
} recipe_pixels;

/* The recorder of one sample. */
typedef struct recipe_writer {
    picture_recipe *recipe;
    recipe_pixels *pixels;
    bool full; /* a layer or its pixels had no room: the host makes this sample */
} recipe_writer;

void recipe_begin(recipe_writer *w);
/* A layer from a prepared gather; `kind` is PICTURE_BASE, _BLEND or _CUT. Returns the layer for what is special to its
 * kind, or NULL when there is no room. The pictures may go afterwards. */
picture_layer *recipe_add(recipe_writer *w, const gather *g, int kind);
void recipe_finish(recipe_writer *w, const hsv_tables *jitter, bool flip_columns, bool flip_rows, bool keep_bgr);

#endif
