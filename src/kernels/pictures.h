/* Recipes of network inputs, packed by the host and read by pictures.gpu.c: fixed-width members, no addresses. Tiles
 * are offsets into the pixels that come with the recipes. Included by both sides. */
#ifndef KERNELS_PICTURES_H
#define KERNELS_PICTURES_H

#define PICTURE_MAX_TILES  4
#define PICTURE_MAX_LAYERS 3 /* a sample, one mixed in, one cut in */
#define PICTURE_PAD        114

/* Pixels (B,G,R or grey) of the plane's columns [x1,x2) and rows [y1,y2). */
typedef struct picture_tile {
    unsigned long long offset;
    int row_bytes, x1, y1, x2, y2, unused;
} picture_tile;

enum { PICTURE_BASE = 0, PICTURE_BLEND, PICTURE_CUT };

/* A plane of 114 with tiles on it, seen through the inverse of an affine or perspective map (data/gather.h). */
typedef struct picture_layer {
    double inverse[9]; /* output pixel to plane */
    double ratio;      /* BLEND: the share of what is there already */
    picture_tile tiles[PICTURE_MAX_TILES];
    int n_tiles, perspective, separable, kind;
    int x1, y1, x2, y2;                 /* hull of the tiles before they were trimmed to what is seen */
    int cut_x1, cut_y1, cut_x2, cut_y2; /* CUT: the output pixels that this layer replaces */
} picture_layer;

/* One sample: layers in order, then colours by three tables in HSV space, then flips. */
typedef struct picture_recipe {
    picture_layer layers[PICTURE_MAX_LAYERS];
    int n_layers; /* 0: the picture was made by the host */
    int jitter, flip_columns, flip_rows, keep_bgr, unused;
    unsigned char tables[3][256]; /* hue, saturation, value */
} picture_recipe;

/* A picture (B,G,R or grey) scaled to inner_w x inner_h and put at (left, top) on 114 (data/letterbox.h). */
typedef struct letterbox_recipe {
    double scale_x, scale_y; /* source pixels an inner pixel */
    unsigned long long offset;
    int src_h, src_w, inner_h, inner_w, top, left;
} letterbox_recipe;

#endif
