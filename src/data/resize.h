/* Bilinear resizing of uint8 pictures, bit exact with the integer scheme of the data document, section 2.2, the
 * long-side resize of 2.1, and the change from B,G,R rows to R,G,B planes.
 * Keeps no state; any thread. */
#ifndef DATA_RESIZE_H
#define DATA_RESIZE_H

#include "data/image.h"

/* Up and down, no antialiasing. `out` must not be `src`. Equal sizes copy. */
ol_status resize_bilinear(ol_context *ctx, const image *src, int height, int width, image *out);

/* Size after scaling the long side to imgsz: r = imgsz/max(h,w), each side min(ceil(side*r), imgsz), at least 1. */
void resize_long_side_size(int height, int width, int imgsz, int *out_height, int *out_width);
ol_status resize_long_side(ol_context *ctx, const image *src, int imgsz, image *out);

/* (H,W,3) B,G,R -> planes (3,H,W) R,G,B, or B,G,R when `keep_bgr`; one channel: plain copy. */
void planes_from_image(const image *src, bool keep_bgr, uint8_t *planes);

#endif
