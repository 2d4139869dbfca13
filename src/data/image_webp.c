#include "data/image_codec.h"

#include <string.h>

#include <webp/decode.h>

#define RIFF_BYTES    12
#define EXTENDED_EXIF 0x08

/* The EXIF chunk of an extended file usually comes last, so its flag makes a probe of a prefix ask for the rest. */
static ol_status find_orientation(image_input *in, int *orientation) {
    const uint8_t *p = in->bytes;
    *orientation = 1;
    if (in->n_bytes < RIFF_BYTES + 18) return image_fail_truncated(in, "inside the WebP headers");
    if (memcmp(p + RIFF_BYTES, "VP8X", 4) != 0 || (p[RIFF_BYTES + 8] & EXTENDED_EXIF) == 0) return OL_OK;
    for (size_t at = RIFF_BYTES; in->n_bytes - at >= 8;) {
        const size_t length = get_u32le(p + at + 4);
        const bool is_exif = memcmp(p + at, "EXIF", 4) == 0;
        at += 8;
        if (in->n_bytes - at < length) break;
        if (is_exif) {
            *orientation = exif_orientation(p + at, length);
            return OL_OK;
        }
        at += length;
        if (at % 2 == 1 && at < in->n_bytes) at++;
    }
    if (in->prefix) return image_fail_truncated(in, "inside the WebP");
    return OL_OK;
}

static ol_status read_header(image_input *in, WebPBitstreamFeatures *features, int *orientation) {
    if (in->n_bytes >= 8 && !in->prefix && (uint64_t)get_u32le(in->bytes + 4) + 8 > in->n_bytes)
        return image_fail_truncated(in, "the WebP ends before the length in its header");
    ol_status status = find_orientation(in, orientation);
    if (status != OL_OK) return status;
    const VP8StatusCode code = WebPGetFeatures(in->bytes, in->n_bytes, features);
    if (code == VP8_STATUS_NOT_ENOUGH_DATA) return image_fail_truncated(in, "inside the WebP headers");
    if (code != VP8_STATUS_OK)
        return image_fail(in, OL_ERROR_FORMAT, "damaged WebP header: restore or remove the file");
    if (features->has_animation)
        return image_fail(in, OL_ERROR_UNSUPPORTED, "animated WebP is not supported: save a single frame");
    return image_check_size(in, (uint64_t)features->height, (uint64_t)features->width);
}

ol_status image_webp_probe(image_input *in, image_info *info) {
    WebPBitstreamFeatures features = {0};
    int orientation = 1;
    const ol_status status = read_header(in, &features, &orientation);
    if (status == OL_OK) image_info_set(info, IMAGE_FORMAT_WEBP, features.height, features.width, orientation);
    return status;
}

ol_status image_webp_decode(image_input *in, int channels, image *out, int *orientation) {
    WebPDecoderConfig config;
    uint8_t *rgb = NULL;
    ol_status status;
    if (!WebPInitDecoderConfig(&config))
        return ctx_fail(in->ctx, OL_ERROR_INTERNAL, "libwebp is of another version than its headers");
    if ((status = read_header(in, &config.input, orientation)) != OL_OK) return status;
    const int height = config.input.height, width = config.input.width;
    if ((status = image_reserve(in->ctx, out, height, width, channels)) != OL_OK) return status;
    const size_t n_pixels = (size_t)height * (size_t)width;
    if (channels == 1 && (rgb = mem_alloc(in->ctx, n_pixels, 3)) == NULL) return OL_ERROR_MEMORY;
    config.output.colorspace = channels == 1 ? MODE_RGB : MODE_BGR;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = channels == 1 ? rgb : out->pixels;
    config.output.u.RGBA.stride = 3 * width;
    config.output.u.RGBA.size = n_pixels * 3;
    const VP8StatusCode code = WebPDecode(in->bytes, in->n_bytes, &config);
    if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED)
        status = image_fail_truncated(in, "inside the WebP's pixels");
    else if (code == VP8_STATUS_OUT_OF_MEMORY)
        status = ctx_fail(in->ctx, OL_ERROR_MEMORY, "%s: out of memory", in->name);
    else if (code != VP8_STATUS_OK)
        status = image_fail(in, OL_ERROR_FORMAT, "damaged WebP: restore or remove the file");
    else if (channels == 1)
        image_row_from_rgb(out->pixels, 1, rgb, 3, (int)n_pixels);
    WebPFreeDecBuffer(&config.output);
    mem_free(in->ctx, rgb);
    return status;
}
