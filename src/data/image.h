/* Pictures: decoding JPEG, PNG, WebP, BMP and TIFF, reading their size without decoding, encoding JPEG and PNG.
 * The format is found by content, never by the file's suffix; EXIF orientation is applied to pixels and sizes alike.
 * Keeps no state; every function may be called from any thread on its own images. Input bytes are untrusted. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include "base/context.h"

/* Height x width x channels, uint8, rows adjacent; channels in the order B,G,R, or one grey channel.
 * Zero-initialise; `image_deinit` releases. Functions that fill an image reuse its memory where it is large enough. */
typedef struct image {
    uint8_t *pixels;
    int height, width, channels;
    size_t capacity_bytes; /* size of the block behind `pixels`; 0: borrowed, never freed */
} image;

/* Larger sides and pixel counts are refused before anything is allocated (the count is where the field's tools stop).
 */
#define IMAGE_MAX_SIDE   65535
#define IMAGE_MAX_PIXELS 178956970

/* Makes room for height x width x channels; the content is undefined. A borrowed image becomes an owned one. */
ol_status image_reserve(ol_context *ctx, image *im, int height, int width, int channels);
void image_deinit(ol_context *ctx, image *im);
/* Borrows pixels that outlive it. */
image image_view(const uint8_t *pixels, int height, int width, int channels);
size_t image_bytes(const image *im);
void image_fill(image *im, uint8_t x);

typedef enum image_format {
    IMAGE_FORMAT_UNKNOWN,
    IMAGE_FORMAT_JPEG,
    IMAGE_FORMAT_PNG,
    IMAGE_FORMAT_WEBP,
    IMAGE_FORMAT_BMP,
    IMAGE_FORMAT_TIFF,
    /* recognised in order to say so, not decoded: */
    IMAGE_FORMAT_HEIF,
    IMAGE_FORMAT_AVIF,
    IMAGE_FORMAT_JPEG2000,
    IMAGE_FORMAT_GIF
} image_format;

image_format image_sniff(const uint8_t *bytes, size_t n_bytes);
/* True for the suffixes of picture lists (".jpg", any case; data document, section 1.2). */
bool image_suffix_known(const char *suffix);

typedef struct image_info {
    image_format format;
    int height, width; /* upright: after EXIF orientation */
    int orientation;   /* EXIF 1..8 */
} image_info;

/* Size and format from the headers alone. `name` goes into messages. OL_ERROR_FORMAT for what is no picture, is damaged
 * or too large; OL_ERROR_UNSUPPORTED for formats that are recognised but not decoded. */
ol_status image_probe(ol_context *ctx, const char *name, const uint8_t *bytes, size_t n_bytes, image_info *info);
/* The same for a file, reading no more than it must; in addition a JPEG whose last two bytes are not its end marker is
 * decoded, and refused when its stream is cut ("image file is truncated", data document, section 1.5). */
ol_status image_check_file(ol_context *ctx, const char *path, image_info *info);

/* Decodes to `channels` (3: B,G,R, grey expanded; 1: grey). Alpha is dropped, 16-bit samples are shifted right by 8.
 * JPEG as libjpeg-turbo's default (islow, fancy upsampling). Bytes after a JPEG's end are ignored; a cut file is
 * refused. On failure the content of `out` is undefined but it can be used again or released. */
ol_status image_decode(ol_context *ctx, const char *name, const uint8_t *bytes, size_t n_bytes, int channels,
                       image *out);
ol_status image_read(ol_context *ctx, const char *path, int channels, image *out);

typedef struct image_jpeg_options {
    int quality;      /* 1..100; 0: 95 */
    bool full_chroma; /* 4:4:4 instead of 4:2:0 */
} image_jpeg_options;

/* *bytes is freed with mem_free. `options` may be NULL. */
ol_status image_encode_jpeg(ol_context *ctx, const image *im, const image_jpeg_options *options, uint8_t **bytes,
                            size_t *n_bytes);
ol_status image_encode_png(ol_context *ctx, const image *im, uint8_t **bytes, size_t *n_bytes);
/* By suffix of `path`: .png, else .jpg or .jpeg at the default quality; anything else is an argument error. Atomic. */
ol_status image_write(ol_context *ctx, const char *path, const image *im);

#endif
