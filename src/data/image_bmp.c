#include "data/image_codec.h"

#include <string.h>

#define FILE_HEADER_BYTES 14
#define CORE_HEADER_BYTES 12
#define INFO_HEADER_BYTES 40

enum { BMP_RGB = 0, BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_BITFIELDS = 3, BMP_ALPHABITFIELDS = 6 };

typedef struct bmp_header {
    int height, width;
    bool top_down;
    unsigned bits, compression;
    size_t pixels_at, palette_at, palette_entry_bytes, n_palette;
    uint32_t mask[3]; /* red, green, blue of 16 and 32 bits a pixel */
} bmp_header;

static ol_status bmp_damaged(image_input *in, const char *what) {
    return image_fail(in, OL_ERROR_FORMAT, "damaged BMP (%s): restore or remove the file", what);
}

static ol_status read_masks(image_input *in, bmp_header *b, size_t header_bytes) {
    static const uint32_t plain16[3] = {0x7C00, 0x03E0, 0x001F}, plain32[3] = {0xFF0000, 0x00FF00, 0x0000FF};
    memcpy(b->mask, b->bits == 16 ? plain16 : plain32, sizeof b->mask);
    if (b->compression != BMP_BITFIELDS && b->compression != BMP_ALPHABITFIELDS) return OL_OK;
    const size_t at = FILE_HEADER_BYTES + INFO_HEADER_BYTES; /* after the short header or inside the long ones */
    if (in->n_bytes < at + 12) return image_fail_truncated(in, "inside the BMP header");
    for (size_t k = 0; k < 3; k++) {
        b->mask[k] = get_u32le(in->bytes + at + 4 * k);
        if (b->mask[k] == 0) return bmp_damaged(in, "empty colour mask");
    }
    if (header_bytes == INFO_HEADER_BYTES) b->palette_at += b->compression == BMP_BITFIELDS ? 12 : 16;
    return OL_OK;
}

static ol_status check_kind(image_input *in, const bmp_header *b) {
    static const struct {
        unsigned bits, compression;
    } known[] = {{1, BMP_RGB},  {4, BMP_RGB},  {4, BMP_RLE4},       {8, BMP_RGB},
                 {8, BMP_RLE8}, {16, BMP_RGB}, {16, BMP_BITFIELDS}, {16, BMP_ALPHABITFIELDS},
                 {24, BMP_RGB}, {32, BMP_RGB}, {32, BMP_BITFIELDS}, {32, BMP_ALPHABITFIELDS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].bits == b->bits && known[i].compression == b->compression) return OL_OK;
    return image_fail(in, OL_ERROR_UNSUPPORTED, "a BMP of %u bits and compression %u is not supported: save it as PNG",
                      b->bits, b->compression);
}

static ol_status read_header(image_input *in, bmp_header *b) {
    const uint8_t *p = in->bytes;
    if (in->n_bytes < FILE_HEADER_BYTES + CORE_HEADER_BYTES) return image_fail_truncated(in, "inside the BMP header");
    const size_t header_bytes = get_u32le(p + 14);
    const bool core = header_bytes == CORE_HEADER_BYTES;
    if (!core && (header_bytes < INFO_HEADER_BYTES || header_bytes > 4096)) return bmp_damaged(in, "header size");
    if (in->n_bytes < FILE_HEADER_BYTES + header_bytes) return image_fail_truncated(in, "inside the BMP header");
    int64_t height = core ? (int64_t)get_u16le(p + 20) : (int32_t)get_u32le(p + 22);
    const int64_t width = core ? (int64_t)get_u16le(p + 18) : (int32_t)get_u32le(p + 18);
    b->top_down = height < 0;
    if (height < 0) height = -height;
    ol_status status = image_check_size(in, (uint64_t)height, width < 0 ? 0 : (uint64_t)width);
    if (status != OL_OK) return status;
    b->height = (int)height;
    b->width = (int)width;
    b->bits = core ? get_u16le(p + 24) : get_u16le(p + 28);
    b->compression = core ? BMP_RGB : get_u32le(p + 30);
    b->pixels_at = get_u32le(p + 10);
    b->palette_at = FILE_HEADER_BYTES + header_bytes;
    b->palette_entry_bytes = core ? 3 : 4;
    if ((status = check_kind(in, b)) != OL_OK || (status = read_masks(in, b, header_bytes)) != OL_OK) return status;
    if (b->bits > 8) return OL_OK;
    const size_t most = (size_t)1 << b->bits, named = core ? 0 : get_u32le(p + 46);
    b->n_palette = named == 0 || named > most ? most : named;
    if (in->n_bytes < b->palette_at + b->n_palette * b->palette_entry_bytes)
        return image_fail_truncated(in, "inside the BMP palette");
    return OL_OK;
}

static bool is_runs(const bmp_header *b) {
    return b->compression == BMP_RLE8 || b->compression == BMP_RLE4;
}

/* Bytes of one row, padded to four. */
static size_t stored_row_bytes(const bmp_header *b) {
    return ((size_t)b->width * b->bits + 31) / 32 * 4;
}

static ol_status check_length(image_input *in, const bmp_header *b) {
    if (in->n_bytes < b->pixels_at) return image_fail_truncated(in, "the BMP's pixels begin after its end");
    if (!is_runs(b) && in->n_bytes - b->pixels_at < stored_row_bytes(b) * (size_t)b->height)
        return image_fail_truncated(in, "fewer bytes than the BMP's pixels take");
    return OL_OK;
}

ol_status image_bmp_probe(image_input *in, image_info *info) {
    bmp_header b = {0};
    ol_status status = read_header(in, &b);
    if (status == OL_OK && !in->prefix) status = check_length(in, &b); /* a small file: its length can be judged */
    if (status == OL_OK) image_info_set(info, IMAGE_FORMAT_BMP, b.height, b.width, 1);
    return status;
}

/* Samples of `mask` scaled to 8 bits. */
static uint8_t masked(uint32_t pixel, uint32_t mask) {
    const int shift = __builtin_ctz(mask);
    const uint64_t top = mask >> shift, x = (pixel & mask) >> shift;
    return (uint8_t)(top == 255 ? x : (x * 255 + top / 2) / top);
}

static void put(const bmp_header *b, image *out, int row, int x, const uint8_t bgr[3]) {
    const int y = b->top_down ? row : b->height - 1 - row;
    uint8_t *to = out->pixels + ((size_t)y * (size_t)out->width + (size_t)x) * (size_t)out->channels;
    if (out->channels == 1)
        *to = image_luma(bgr[0], bgr[1], bgr[2]);
    else
        memcpy(to, bgr, 3);
}

static void palette_bgr(const image_input *in, const bmp_header *b, size_t index, uint8_t bgr[3]) {
    if (index < b->n_palette)
        memcpy(bgr, in->bytes + b->palette_at + index * b->palette_entry_bytes, 3);
    else
        memset(bgr, 0, 3);
}

static void read_pixel(const image_input *in, const bmp_header *b, const uint8_t *row, int x, uint8_t bgr[3]) {
    const size_t at = (size_t)x * b->bits;
    if (b->bits <= 8) {
        const unsigned shift = 8 - b->bits - (unsigned)(at % 8);
        palette_bgr(in, b, (size_t)(row[at / 8] >> shift) & (((size_t)1 << b->bits) - 1), bgr);
    } else if (b->bits == 24) {
        memcpy(bgr, row + at / 8, 3);
    } else {
        const uint32_t pixel = b->bits == 16 ? get_u16le(row + at / 8) : get_u32le(row + at / 8);
        for (int k = 0; k < 3; k++) bgr[k] = masked(pixel, b->mask[2 - k]);
    }
}

static void decode_rows(const image_input *in, const bmp_header *b, image *out) {
    const size_t row_bytes = stored_row_bytes(b);
    const uint8_t *row = in->bytes + b->pixels_at;
    uint8_t bgr[3];
    for (int y = 0; y < b->height; y++, row += row_bytes) {
        for (int x = 0; x < b->width; x++) {
            read_pixel(in, b, row, x, bgr);
            put(b, out, y, x, bgr);
        }
    }
}

static size_t run_index(const bmp_header *b, unsigned byte, unsigned i) {
    return b->bits == 8 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
}

/* Pairs (count, value); count 0 escapes: 0 end of row, 1 end of picture, 2 move by (dx, dy), n literal pixels. */
static ol_status decode_runs(image_input *in, const bmp_header *b, image *out) {
    const uint8_t *p = in->bytes;
    size_t at = b->pixels_at;
    int x = 0, y = 0;
    uint8_t bgr[3];
    palette_bgr(in, b, 0, bgr);
    for (int row = 0; row < b->height; row++)
        for (int column = 0; column < b->width; column++) put(b, out, row, column, bgr);
    while (y < b->height) {
        if (in->n_bytes - at < 2) return image_fail_truncated(in, "inside the BMP's pixels");
        const unsigned count = p[at], value = p[at + 1];
        at += 2;
        if (count == 0 && value == 0) {
            x = 0;
            y++;
        } else if (count == 0 && value == 1) {
            return OL_OK;
        } else if (count == 0 && value == 2) {
            if (in->n_bytes - at < 2) return image_fail_truncated(in, "inside the BMP's pixels");
            x = x + p[at] < b->width ? x + p[at] : b->width;
            y += p[at + 1];
            at += 2;
        } else {
            const unsigned n = count > 0 ? count : value;
            const size_t literal = count > 0 ? 0 : b->bits == 8 ? n : (n + 1) / 2;
            if (in->n_bytes - at < literal) return image_fail_truncated(in, "inside the BMP's pixels");
            for (unsigned i = 0; i < n && x < b->width; i++, x++) {
                const unsigned byte = count > 0 ? value : p[at + (b->bits == 8 ? i : i / 2)];
                palette_bgr(in, b, run_index(b, byte, i), bgr);
                put(b, out, y, x, bgr);
            }
            at += literal;
            if (literal % 2 == 1 && at < in->n_bytes) at++;
        }
    }
    return OL_OK;
}

ol_status image_bmp_decode(image_input *in, int channels, image *out, int *orientation) {
    bmp_header b = {0};
    ol_status status = read_header(in, &b);
    if (status != OL_OK) return status;
    *orientation = 1;
    if ((status = check_length(in, &b)) != OL_OK) return status;
    if ((status = image_reserve(in->ctx, out, b.height, b.width, channels)) != OL_OK) return status;
    if (is_runs(&b)) return decode_runs(in, &b, out);
    decode_rows(in, &b, out);
    return OL_OK;
}
