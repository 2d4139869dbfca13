#include "data/image_codec.h"

#include <string.h>

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3
#define MAX_IFD_ENTRIES 1024

typedef struct tiff_view {
    const uint8_t *bytes;
    size_t n_bytes;
    bool big_endian;
} tiff_view;

static unsigned u16_at(const tiff_view *v, size_t at) {
    return v->big_endian ? get_u16be(v->bytes + at) : get_u16le(v->bytes + at);
}

static uint32_t u32_at(const tiff_view *v, size_t at) {
    return v->big_endian ? get_u32be(v->bytes + at) : get_u32le(v->bytes + at);
}

/* An EXIF block is a small TIFF file; orientation is a SHORT in its first directory. */
int exif_orientation(const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) {
        bytes += 6;
        n_bytes -= 6;
    }
    if (n_bytes < 8) return 1;
    tiff_view v = {bytes, n_bytes, memcmp(bytes, "MM\0*", 4) == 0};
    if (!v.big_endian && memcmp(bytes, "II*\0", 4) != 0) return 1;
    const size_t directory = u32_at(&v, 4);
    if (directory > n_bytes - 2 || n_bytes < 2) return 1;
    const unsigned n_entries = u16_at(&v, directory);
    for (unsigned i = 0; i < n_entries && i < MAX_IFD_ENTRIES; i++) {
        const size_t at = directory + 2 + 12 * (size_t)i;
        if (at + 12 > n_bytes) return 1;
        if (u16_at(&v, at) != TAG_ORIENTATION) continue;
        const unsigned orientation = u16_at(&v, at + 8);
        return u16_at(&v, at + 2) == TYPE_SHORT && orientation >= 1 && orientation <= 8 ? (int)orientation : 1;
    }
    return 1;
}

void image_info_set(image_info *info, image_format format, int stored_height, int stored_width, int orientation) {
    const bool swap = orientation_swaps_sides(orientation);
    *info = (image_info){.format = format,
                         .height = swap ? stored_width : stored_height,
                         .width = swap ? stored_height : stored_width,
                         .orientation = orientation};
}

/* Upright pixel (y, x) comes from stored (y, x), mirrored and transposed as the orientation says:
 * bit 0 mirror columns of the stored picture, bit 1 mirror its rows, bit 2 swap the axes. */
static const uint8_t turns[9] = {0, 0, 1, 3, 2, 4, 6, 7, 5};

ol_status image_orient(ol_context *ctx, image *im, int orientation) {
    const unsigned turn = orientation >= 1 && orientation <= 8 ? turns[orientation] : 0;
    if (turn == 0) return OL_OK;
    const bool swap = (turn & 4) != 0;
    const int h = im->height, w = im->width, c = im->channels, oh = swap ? w : h, ow = swap ? h : w;
    image upright = {0};
    const ol_status status = image_reserve(ctx, &upright, oh, ow, c);
    if (status != OL_OK) return status;
    uint8_t *to = upright.pixels;
    for (int y = 0; y < oh; y++) {
        for (int x = 0; x < ow; x++) {
            int sy = swap ? x : y, sx = swap ? y : x;
            if (turn & 1) sx = w - 1 - sx;
            if (turn & 2) sy = h - 1 - sy;
            const uint8_t *from = im->pixels + ((size_t)sy * (size_t)w + (size_t)sx) * (size_t)c;
            for (int k = 0; k < c; k++) *to++ = from[k];
        }
    }
    image_deinit(ctx, im);
    *im = upright;
    return OL_OK;
}

void image_row_from_rgb(uint8_t *to, int channels, const uint8_t *from, int step, int n) {
    for (int i = 0; i < n; i++, from += step) {
        const uint8_t r = from[0], g = from[1], b = from[2]; /* `to` may be `from` */
        if (channels == 1) {
            to[i] = image_luma(b, g, r);
        } else {
            to[3 * i] = b;
            to[3 * i + 1] = g;
            to[3 * i + 2] = r;
        }
    }
}
