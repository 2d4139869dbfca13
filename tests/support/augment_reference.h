/* The picture steps of augmentation one by one, in plain double arithmetic: what the fused gather is compared with. */
#ifndef TESTS_AUGMENT_REFERENCE_H
#define TESTS_AUGMENT_REFERENCE_H

#include "data/image.h"

/* Warp by M (source to target), bilinear, taps outside the source are 114. */
void reference_warp(const image *src, const float m[9], bool perspective, image *out);
/* The 2s x 2s canvas of four tiles around (centre_y, centre_x). */
void reference_mosaic(const image tiles[4], int imgsz, int centre_y, int centre_x, image *out);
/* B,G,R rows from planes. */
void reference_interleave(const uint8_t *b, const uint8_t *g, const uint8_t *r, int n, uint8_t *bgr);

#endif
