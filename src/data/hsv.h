/* Colour jitter: three tables applied in 8-bit HSV space, bit exact with the data document, sections 2.2 and 2.9.
 * No draws here. Keeps no state; any thread. */
#ifndef DATA_HSV_H
#define DATA_HSV_H

#include <stddef.h>
#include <stdint.h>

typedef struct hsv_tables {
    uint8_t h[256], s[256], v[256];
} hsv_tables;

/* From the products draw * gain: hue is turned by 180*rh, saturation and value are scaled by 1+rs and 1+rv. */
void hsv_tables_init(hsv_tables *t, double rh, double rs, double rv);

/* Elements of scratch for hsv_jitter_row. */
#define HSV_SCRATCH(width) (3 * ((size_t)(width) + 8))

/* Jitters n pixels of three planes in place. The last n mod 32 pixels are rounded and not truncated on the way back, as
 * the reference's vector loop leaves them. */
void hsv_jitter_row(const hsv_tables *t, uint8_t *b, uint8_t *g, uint8_t *r, int n, int32_t *scratch);

/* One way only, in place: b, g, r of 0..255 become h 0..179, s and v 0..255. n is a multiple of 8. */
void hsv_from_bgr(int32_t *b_to_h, int32_t *g_to_s, int32_t *r_to_v, int n);

#endif
