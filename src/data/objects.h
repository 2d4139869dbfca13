/* The labelled objects of one sample while it is being made: classes, boxes in pixels and, for data sets with outlines,
 * their polygons (data document, 2.4-2.7). No pixels, no draws. One set a thread. */
#ifndef DATA_OBJECTS_H
#define DATA_OBJECTS_H

#include "data/affine.h"
#include "data/labels.h"

typedef struct objects {
    int n;
    bool outlined; /* every object has an outline */
    float *cls;    /* (n) */
    box *boxes;    /* (n) pixels */
    size_t *first; /* (n+1) outline i is points first[i] … first[i+1]-1 */
    float *points; /* (…,2) pixels */
    size_t cls_capacity, boxes_capacity, first_capacity, points_capacity; /* in elements, points in floats */
} objects;

/* Zero-initialise. */
void objects_deinit(ol_context *ctx, objects *o);
void objects_clear(objects *o);
/* Appends a picture's labels, scaled to height x width pixels and moved by (dx, dy). A set keeps outlines only while
 * all that was added had them. */
ol_status objects_add_labels(ol_context *ctx, objects *o, const label_rows *labels, int height, int width, int dx,
                             int dy);
/* Appends object i of another set. */
ol_status objects_add(ol_context *ctx, objects *o, const objects *from, int i);
ol_status objects_add_all(ol_context *ctx, objects *o, const objects *from);
/* Clips to a canvas that shows no pixels beyond its border; objects without area are dropped. `scratch` is emptied. */
ol_status objects_clip(ol_context *ctx, objects *o, float height, float width, objects *scratch);
/* Moves by M into height x width; objects that fail the survival test are dropped. `scale` is the drawn g. */
void objects_warp(objects *o, const float m[9], bool perspective, float scale, float height, float width);
void objects_mirror(objects *o, float width);
/* (n,5): class, cx, cy, w, h as fractions, mirrored as asked. */
void objects_write_rows(const objects *o, float height, float width, bool flip_columns, bool flip_rows, float *rows);

/* intersection / area of b; 0 for an empty b. */
float box_share(box a, box b);

#endif
