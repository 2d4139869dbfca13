#include "data/image_codec.h"

#include <stdlib.h>
#include <string.h>

#include <spng.h>

#define SIGNATURE_BYTES   8
#define CHUNK_LIMIT_BYTES ((size_t)64 * 1024 * 1024)
#define DEFLATE_MAX_RATIO 1032 /* the most that deflate can shrink anything */

typedef struct png_header {
    uint32_t height, width;
    unsigned bit_depth, colour_type;
    int orientation;
} png_header;

/* IHDR, and eXIf when it lies before the pixels (a later one would make every size probe read whole files). */
static ol_status read_header(image_input *in, png_header *header) {
    const uint8_t *p = in->bytes;
    size_t at = SIGNATURE_BYTES;
    header->orientation = 1;
    for (bool first = true;; first = false) {
        if (in->n_bytes - at < 8) return image_fail_truncated(in, "inside the PNG headers");
        const size_t length = get_u32be(p + at);
        const uint8_t *kind = p + at + 4;
        if (first != (memcmp(kind, "IHDR", 4) == 0) || (first && length != 13) || length > 0x7FFFFFFF)
            return image_fail(in, OL_ERROR_FORMAT, "damaged PNG header: restore or remove the file");
        if (memcmp(kind, "IDAT", 4) == 0 || memcmp(kind, "IEND", 4) == 0) return OL_OK;
        at += 8;
        if (in->n_bytes - at < length + 4) return image_fail_truncated(in, "inside the PNG headers");
        if (first) {
            header->width = get_u32be(p + at);
            header->height = get_u32be(p + at + 4);
            header->bit_depth = p[at + 8];
            header->colour_type = p[at + 9];
            const ol_status status = image_check_size(in, header->height, header->width);
            if (status != OL_OK) return status;
        } else if (memcmp(kind, "eXIf", 4) == 0) {
            header->orientation = exif_orientation(p + at, length);
        }
        at += length + 4;
    }
}

ol_status image_png_probe(image_input *in, image_info *info) {
    png_header header = {0};
    const ol_status status = read_header(in, &header);
    if (status == OL_OK)
        image_info_set(info, IMAGE_FORMAT_PNG, (int)header.height, (int)header.width, header.orientation);
    return status;
}

static bool can_hold(const image_input *in, const png_header *header) {
    const uint64_t row_bytes = ((uint64_t)header->width * header->bit_depth + 7) / 8; /* of one channel at least */
    return (uint64_t)in->n_bytes * DEFLATE_MAX_RATIO >= row_bytes * header->height;
}

static ol_status png_failure(image_input *in, int error) {
    if (error == SPNG_EMEM) return ctx_fail(in->ctx, OL_ERROR_MEMORY, "%s: out of memory", in->name);
    if (error == SPNG_IO_EOF || error == SPNG_EIDAT_TOO_SHORT)
        return image_fail_truncated(in, "the PNG ends before its last chunk");
    return image_fail(in, OL_ERROR_FORMAT, "damaged PNG (%s): restore or remove the file", spng_strerror(error));
}

ol_status image_png_decode(image_input *in, int channels, image *out, int *orientation) {
    png_header header = {0};
    uint8_t *rgb = NULL;
    int error = 0;
    ol_status status = read_header(in, &header);
    if (status != OL_OK) return status;
    if (!can_hold(in, &header)) return image_fail_truncated(in, "fewer bytes than the picture needs");
    spng_ctx *png = spng_ctx_new(0);
    if (png == NULL) return ctx_fail(in->ctx, OL_ERROR_MEMORY, "%s: out of memory", in->name);
    const size_t n_pixels = (size_t)header.height * header.width;
    status = image_reserve(in->ctx, out, (int)header.height, (int)header.width, channels);
    if (status != OL_OK) goto fail;
    if (channels == 1 && (rgb = mem_alloc(in->ctx, n_pixels, 3)) == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    uint8_t *to = channels == 1 ? rgb : out->pixels;
    if ((error = spng_set_image_limits(png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE)) != 0 ||
        (error = spng_set_chunk_limits(png, CHUNK_LIMIT_BYTES, CHUNK_LIMIT_BYTES)) != 0 ||
        (error = spng_set_crc_action(png, SPNG_CRC_ERROR, SPNG_CRC_DISCARD)) != 0 ||
        (error = spng_set_png_buffer(png, in->bytes, in->n_bytes)) != 0 ||
        (error = spng_decode_image(png, to, n_pixels * 3, SPNG_FMT_RGB8, 0)) != 0 ||
        (error = spng_decode_chunks(png)) != 0) {
        status = png_failure(in, error);
        goto fail;
    }
    image_row_from_rgb(out->pixels, channels, to, 3, (int)n_pixels);
    *orientation = header.orientation;
fail:
    mem_free(in->ctx, rgb);
    spng_ctx_free(png);
    return status;
}

static ol_status encode(ol_context *ctx, spng_ctx *png, const image *im, uint8_t **bytes, size_t *n_bytes) {
    struct spng_ihdr header = {.width = (uint32_t)im->width,
                               .height = (uint32_t)im->height,
                               .bit_depth = 8,
                               .color_type = im->channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR};
    const size_t n_pixels = (size_t)im->height * (size_t)im->width;
    const uint8_t *rows = im->pixels;
    uint8_t *rgb = NULL;
    int error = 0;
    ol_status status = OL_OK;
    if (im->channels == 3) {
        if ((rgb = mem_alloc(ctx, n_pixels, 3)) == NULL) return OL_ERROR_MEMORY;
        image_row_from_rgb(rgb, 3, im->pixels, 3, (int)n_pixels); /* swaps the outer channels: its own inverse */
        rows = rgb;
    }
    void *made = NULL;
    size_t length = 0;
    if ((error = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1)) == 0 && (error = spng_set_ihdr(png, &header)) == 0 &&
        (error = spng_encode_image(png, rows, image_bytes(im), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE)) == 0)
        made = spng_get_png_buffer(png, &length, &error);
    if (made == NULL) {
        status = ctx_fail(ctx, OL_ERROR_INTERNAL, "PNG encoding failed: %s", spng_strerror(error));
        goto fail;
    }
    uint8_t *copy = mem_alloc(ctx, length, 1);
    if (copy == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    memcpy(copy, made, length);
    *bytes = copy;
    *n_bytes = length;
fail:
    free(made);
    mem_free(ctx, rgb);
    return status;
}

ol_status image_encode_png(ol_context *ctx, const image *im, uint8_t **bytes, size_t *n_bytes) {
    if (im->channels != 1 && im->channels != 3)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "a picture of %d channels cannot be written as PNG", im->channels);
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    if (png == NULL) return ctx_fail(ctx, OL_ERROR_MEMORY, "out of memory while writing a PNG");
    const ol_status status = encode(ctx, png, im, bytes, n_bytes);
    spng_ctx_free(png);
    return status;
}
