/* The fused gather: mosaic, affine or perspective warp and plane order in one pass, one output row at a time, without
 * the intermediate canvas. The CPU reference of the device kernel: for each output pixel, M's inverse gives a
 * real-valued point of an endless plane of 114 on which up to four pictures lie; the value is the bilinear mix of its
 * four neighbours, rounded (data document, section 2.2). No draws. One sampler a thread. */
#ifndef DATA_GATHER_H
#define DATA_GATHER_H

#include "base/context.h"

#define GATHER_PAD       114
#define GATHER_MAX_TILES 4

typedef struct gather_tile {
    const uint8_t *pixels; /* the pixel at (x1, y1) of the plane; B,G,R or grey */
    size_t row_bytes;
    int x1, y1, x2, y2; /* half open; tiles do not overlap */
} gather_tile;

typedef struct gather {
    gather_tile tiles[GATHER_MAX_TILES];
    int n_tiles;  /* empty tiles are left out */
    int channels; /* 1 or 3 */
    int out_height, out_width;
    double inverse[9]; /* output pixel to plane */
    bool perspective;
    /* Prepared by gather_begin: */
    bool separable;      /* no rotation, shear or tilt: columns and rows do not mix */
    int x1, y1, x2, y2;  /* hull of the tiles */
    int line_x1, n_line; /* plane columns that a row needs */
    int32_t *at_x, *at_y;
    float *part_x, *part_y;
    float *line;
    uint8_t *rows[2];
    void *memory;
    size_t memory_bytes;
} gather;

/* Zero-initialise; clears tiles and keeps memory. */
void gather_reset(gather *g, int channels, int out_height, int out_width);
void gather_add(gather *g, const gather_tile *tile);
/* After the tiles: takes M (source to target, float32). Allocates only when larger than ever before. */
ol_status gather_begin(ol_context *ctx, gather *g, const float m[9], bool perspective);
/* Output row y into planes B, G, R of out_width (one channel: `b` alone). */
void gather_row(gather *g, int y, uint8_t *b, uint8_t *green, uint8_t *r);
void gather_deinit(ol_context *ctx, gather *g);

#endif
