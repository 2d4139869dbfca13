/* Where the four pictures of a mosaic lie (data document, section 2.4). No pixels, no draws. Any thread. */
#ifndef DATA_MOSAIC_H
#define DATA_MOSAIC_H

/* The rectangle of the canvas that a picture covers, and the point of the picture that comes to its corner. */
typedef struct mosaic_tile {
    int x1, y1, x2, y2; /* canvas, half open; may be empty */
    int from_x, from_y; /* picture pixel at (x1, y1) */
} mosaic_tile;

/* Tile `i` (0 top-left, 1 top-right, 2 bottom-left, 3 bottom-right) of height x width around (centre_x, centre_y) on a
 * canvas of 2*imgsz x 2*imgsz. Boxes of the picture move by (x1 - from_x, y1 - from_y). */
mosaic_tile mosaic_place(int i, int height, int width, int centre_y, int centre_x, int imgsz);

#endif
