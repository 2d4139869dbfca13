/* What the decoders share: the input bytes, how they fail, and one table row a format. Private to the image files. */
#ifndef DATA_IMAGE_CODEC_H
#define DATA_IMAGE_CODEC_H

#include "data/image.h"

typedef struct image_input {
    ol_context *ctx;
    const char *name; /* for messages */
    const uint8_t *bytes;
    size_t n_bytes;
    bool prefix;    /* there is more in the file than `bytes`: running off the end is not an error yet */
    bool need_more; /* set by a probe that ran off the end of a prefix */
} image_input;

/* One line "<name>: <what>", naming the remedy. */
ol_status image_fail(image_input *in, ol_status status, const char *format, ...) CTX_PRINTF(3, 4);
/* The line for input that ends too early; for a prefix it only asks for more. */
ol_status image_fail_truncated(image_input *in, const char *detail);
/* Checks the limits of image.h. */
ol_status image_check_size(image_input *in, uint64_t height, uint64_t width);

/* Fills format, upright size and orientation. */
typedef ol_status (*image_probe_fn)(image_input *in, image_info *info);
/* Decodes as stored, to 3 (B,G,R) or 1 channel, and gives the orientation that remains to be applied. */
typedef ol_status (*image_decode_fn)(image_input *in, int channels, image *out, int *orientation);

ol_status image_jpeg_probe(image_input *in, image_info *info);
ol_status image_jpeg_decode(image_input *in, int channels, image *out, int *orientation);
ol_status image_png_probe(image_input *in, image_info *info);
ol_status image_png_decode(image_input *in, int channels, image *out, int *orientation);
ol_status image_webp_probe(image_input *in, image_info *info);
ol_status image_webp_decode(image_input *in, int channels, image *out, int *orientation);
ol_status image_bmp_probe(image_input *in, image_info *info);
ol_status image_bmp_decode(image_input *in, int channels, image *out, int *orientation);
ol_status image_tiff_probe(image_input *in, image_info *info);
ol_status image_tiff_decode(image_input *in, int channels, image *out, int *orientation);

/* Orientation 1..8 from an EXIF block, with or without "Exif\0\0" before it; 1 when there is none that makes sense. */
int exif_orientation(const uint8_t *bytes, size_t n_bytes);
static inline bool orientation_swaps_sides(int orientation) {
    return orientation >= 5;
}
void image_info_set(image_info *info, image_format format, int stored_height, int stored_width, int orientation);
/* Turns the picture upright. */
ol_status image_orient(ol_context *ctx, image *im, int orientation);

/* Luma of one B,G,R pixel: 0.299 R + 0.587 G + 0.114 B in 14 fractional bits. */
static inline uint8_t image_luma(unsigned b, unsigned g, unsigned r) {
    return (uint8_t)((b * 1868 + g * 9617 + r * 4899 + 8192) >> 14);
}
/* Writes one row of `channels` from n pixels of R,G,B(,x) samples that lie `step` bytes apart. */
void image_row_from_rgb(uint8_t *to, int channels, const uint8_t *from, int step, int n);

static inline unsigned get_u16le(const uint8_t *p) {
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}
static inline uint32_t get_u32le(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline unsigned get_u16be(const uint8_t *p) {
    return (unsigned)p[0] << 8 | (unsigned)p[1];
}
static inline uint32_t get_u32be(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

#endif
