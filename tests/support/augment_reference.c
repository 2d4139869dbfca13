#include "augment_reference.h"

#include "data/affine.h"
#include "data/mosaic.h"

#include <math.h>
#include <string.h>

static double tap(const image *src, int x, int y, int k) {
    if (x < 0 || y < 0 || x >= src->width || y >= src->height) return 114.0;
    return src->pixels[(y * src->width + x) * src->channels + k];
}

void reference_warp(const image *src, const float m[9], bool perspective, image *out) {
    double inverse[9];
    affine_invert(m, inverse);
    for (int y = 0; y < out->height; y++) {
        for (int x = 0; x < out->width; x++) {
            const double w = perspective ? inverse[6] * x + inverse[7] * y + inverse[8] : 1.0;
            const double px = (inverse[0] * x + inverse[1] * y + inverse[2]) / w;
            const double py = (inverse[3] * x + inverse[4] * y + inverse[5]) / w;
            const double ix = floor(px), iy = floor(py), fx = px - ix, fy = py - iy;
            for (int k = 0; k < out->channels; k++) {
                double mixed = 114.0;
                if (fabs(px) < 1e6 && fabs(py) < 1e6) {
                    const int tx = (int)ix, ty = (int)iy;
                    mixed = (1 - fy) * ((1 - fx) * tap(src, tx, ty, k) + fx * tap(src, tx + 1, ty, k)) +
                            fy * ((1 - fx) * tap(src, tx, ty + 1, k) + fx * tap(src, tx + 1, ty + 1, k));
                }
                out->pixels[(y * out->width + x) * out->channels + k] = (uint8_t)rint(mixed);
            }
        }
    }
}

void reference_mosaic(const image tiles[4], int imgsz, int centre_y, int centre_x, image *out) {
    image_fill(out, 114);
    for (int i = 0; i < 4; i++) {
        const mosaic_tile t = mosaic_place(i, tiles[i].height, tiles[i].width, centre_y, centre_x, imgsz);
        for (int y = t.y1; y < t.y2; y++)
            for (int x = t.x1; x < t.x2; x++)
                memcpy(out->pixels + (y * out->width + x) * 3,
                       tiles[i].pixels + ((y - t.y1 + t.from_y) * tiles[i].width + x - t.x1 + t.from_x) * 3, 3);
    }
}

void reference_interleave(const uint8_t *b, const uint8_t *g, const uint8_t *r, int n, uint8_t *bgr) {
    for (int i = 0; i < n; i++) {
        bgr[3 * i] = b[i];
        bgr[3 * i + 1] = g[i];
        bgr[3 * i + 2] = r[i];
    }
}
