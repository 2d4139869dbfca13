#include "data/mosaic.h"

static int smaller(int a, int b) {
    return a < b ? a : b;
}

mosaic_tile mosaic_place(int i, int height, int width, int centre_y, int centre_x, int imgsz) {
    const int left = i % 2 == 0, top = i < 2, side = 2 * imgsz;
    const int w = smaller(width, left ? centre_x : side - centre_x);
    const int h = smaller(height, top ? centre_y : side - centre_y);
    mosaic_tile t;
    t.x1 = left ? centre_x - w : centre_x;
    t.y1 = top ? centre_y - h : centre_y;
    t.x2 = t.x1 + w;
    t.y2 = t.y1 + h;
    t.from_x = left ? width - w : 0;
    t.from_y = top ? height - h : 0;
    return t;
}
