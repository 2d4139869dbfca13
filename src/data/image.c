#include "data/image_codec.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PREFIX_BYTES ((size_t)64 * 1024) /* enough for the headers of nearly every picture */
#define TAIL_BYTES   16

static const struct {
    image_format format;
    const char *name;
    image_probe_fn probe; /* NULL: recognised, not decoded */
    image_decode_fn decode;
} formats[] = {
    {IMAGE_FORMAT_JPEG, "JPEG", image_jpeg_probe, image_jpeg_decode},
    {IMAGE_FORMAT_PNG, "PNG", image_png_probe, image_png_decode},
    {IMAGE_FORMAT_WEBP, "WebP", image_webp_probe, image_webp_decode},
    {IMAGE_FORMAT_BMP, "BMP", image_bmp_probe, image_bmp_decode},
    {IMAGE_FORMAT_TIFF, "TIFF", image_tiff_probe, image_tiff_decode},
    {IMAGE_FORMAT_HEIF, "HEIF", NULL, NULL},
    {IMAGE_FORMAT_AVIF, "AVIF", NULL, NULL},
    {IMAGE_FORMAT_JPEG2000, "JPEG 2000", NULL, NULL},
    {IMAGE_FORMAT_GIF, "GIF", NULL, NULL},
};

static const struct {
    image_format format;
    size_t at, length;
    const char *magic;
} magics[] = {
    {IMAGE_FORMAT_JPEG, 0, 3, "\xFF\xD8\xFF"},
    {IMAGE_FORMAT_PNG, 0, 8, "\x89PNG\r\n\x1A\n"},
    {IMAGE_FORMAT_WEBP, 8, 4, "WEBP"}, /* after "RIFF" and a size */
    {IMAGE_FORMAT_TIFF, 0, 4, "II*\0"},
    {IMAGE_FORMAT_TIFF, 0, 4, "MM\0*"},
    {IMAGE_FORMAT_TIFF, 0, 4, "II+\0"}, /* BigTIFF */
    {IMAGE_FORMAT_TIFF, 0, 4, "MM\0+"},
    {IMAGE_FORMAT_AVIF, 4, 8, "ftypavif"},
    {IMAGE_FORMAT_AVIF, 4, 8, "ftypavis"},
    {IMAGE_FORMAT_HEIF, 4, 7, "ftyphei"},
    {IMAGE_FORMAT_HEIF, 4, 7, "ftyphev"},
    {IMAGE_FORMAT_HEIF, 4, 8, "ftypmif1"},
    {IMAGE_FORMAT_HEIF, 4, 8, "ftypmsf1"},
    {IMAGE_FORMAT_JPEG2000, 0, 12, "\0\0\0\x0CjP  \r\n\x87\n"},
    {IMAGE_FORMAT_JPEG2000, 0, 4, "\xFF\x4F\xFF\x51"},
    {IMAGE_FORMAT_GIF, 0, 4, "GIF8"},
    {IMAGE_FORMAT_BMP, 0, 2, "BM"}, /* last: the shortest */
};

size_t image_bytes(const image *im) {
    return (size_t)im->height * (size_t)im->width * (size_t)im->channels;
}

ol_status image_reserve(ol_context *ctx, image *im, int height, int width, int channels) {
    if (height < 1 || width < 1 || height > IMAGE_MAX_SIDE || width > IMAGE_MAX_SIDE || channels < 1 || channels > 4)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "a picture of %d x %d pixels and %d channels is not possible", height,
                        width, channels);
    const size_t needed = (size_t)height * (size_t)width * (size_t)channels;
    if (needed > im->capacity_bytes) {
        uint8_t *grown = mem_alloc_aligned(ctx, needed, 1);
        if (grown == NULL) return OL_ERROR_MEMORY;
        if (im->capacity_bytes > 0) mem_free_aligned(ctx, im->pixels);
        im->pixels = grown;
        im->capacity_bytes = needed;
    }
    im->height = height;
    im->width = width;
    im->channels = channels;
    return OL_OK;
}

void image_deinit(ol_context *ctx, image *im) {
    if (im->capacity_bytes > 0) mem_free_aligned(ctx, im->pixels);
    *im = (image){0};
}

image image_view(const uint8_t *pixels, int height, int width, int channels) {
    return (image){.pixels = (uint8_t *)(uintptr_t)pixels, .height = height, .width = width, .channels = channels};
}

void image_fill(image *im, uint8_t x) {
    memset(im->pixels, x, image_bytes(im));
}

image_format image_sniff(const uint8_t *bytes, size_t n_bytes) {
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (n_bytes < magics[i].at + magics[i].length) continue;
        if (memcmp(bytes + magics[i].at, magics[i].magic, magics[i].length) == 0) return magics[i].format;
    }
    return IMAGE_FORMAT_UNKNOWN;
}

bool image_suffix_known(const char *suffix) {
    static const char *const known[] = {".avif", ".bmp", ".dng", ".heic", ".heif", ".jp2", ".jpeg",
                                        ".jpg",  ".mpo", ".png", ".tif",  ".tiff", ".webp"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(suffix, known[i]) == 0) return true;
    return false;
}

ol_status image_fail(image_input *in, ol_status status, const char *format, ...) {
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ctx_fail(in->ctx, status, "%s: %s", in->name, what);
}

ol_status image_fail_truncated(image_input *in, const char *detail) {
    if (in->prefix) {
        in->need_more = true;
        return OL_ERROR_FORMAT;
    }
    return image_fail(in, OL_ERROR_FORMAT, "image file is truncated (%s): restore or remove the file", detail);
}

ol_status image_check_size(image_input *in, uint64_t height, uint64_t width) {
    if (height == 0 || width == 0)
        return image_fail(in, OL_ERROR_FORMAT, "the picture's header says %llu x %llu pixels: the file is damaged",
                          (unsigned long long)height, (unsigned long long)width);
    if (height > IMAGE_MAX_SIDE || width > IMAGE_MAX_SIDE || height * width > IMAGE_MAX_PIXELS)
        return image_fail(
            in, OL_ERROR_FORMAT,
            "the picture is %llu x %llu pixels, more than the limits of %d a side and %d in all: scale it "
            "down or cut it into tiles",
            (unsigned long long)height, (unsigned long long)width, IMAGE_MAX_SIDE, IMAGE_MAX_PIXELS);
    return OL_OK;
}

static const void *find_format(image_input *in, size_t *at) {
    const image_format format = image_sniff(in->bytes, in->n_bytes);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i].format != format) continue;
        *at = i;
        if (formats[i].probe != NULL) return &formats[i];
        image_fail(in, OL_ERROR_UNSUPPORTED,
                   "%s pictures are not supported: convert it to JPEG, PNG, WebP, BMP or TIFF", formats[i].name);
        return NULL;
    }
    if (in->n_bytes == 0)
        image_fail(in, OL_ERROR_FORMAT, "the file is empty: restore or remove it");
    else
        image_fail(in, OL_ERROR_FORMAT,
                   "not a picture (neither JPEG, PNG, WebP, BMP nor TIFF by its content): replace or remove the file");
    *at = sizeof formats / sizeof formats[0];
    return NULL;
}

static ol_status probe(image_input *in, image_info *info) {
    size_t at;
    image_info found = {0};
    if (find_format(in, &at) == NULL)
        return at < sizeof formats / sizeof formats[0] ? OL_ERROR_UNSUPPORTED : OL_ERROR_FORMAT;
    const ol_status status = formats[at].probe(in, &found);
    if (status == OL_OK) *info = found;
    return status;
}

ol_status image_probe(ol_context *ctx, const char *name, const uint8_t *bytes, size_t n_bytes, image_info *info) {
    image_input in = {.ctx = ctx, .name = name, .bytes = bytes, .n_bytes = n_bytes};
    return probe(&in, info);
}

ol_status image_decode(ol_context *ctx, const char *name, const uint8_t *bytes, size_t n_bytes, int channels,
                       image *out) {
    image_input in = {.ctx = ctx, .name = name, .bytes = bytes, .n_bytes = n_bytes};
    size_t at;
    int orientation = 1;
    if (channels != 1 && channels != 3)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "pictures have 1 or 3 channels, not %d: check `channels`", channels);
    if (find_format(&in, &at) == NULL)
        return at < sizeof formats / sizeof formats[0] ? OL_ERROR_UNSUPPORTED : OL_ERROR_FORMAT;
    const ol_status status = formats[at].decode(&in, channels, out, &orientation);
    return status == OL_OK ? image_orient(ctx, out, orientation) : status;
}

ol_status image_read(ol_context *ctx, const char *path, int channels, image *out) {
    char *bytes = NULL;
    size_t n_bytes = 0;
    ol_status status = file_check_regular(ctx, path);
    if (status == OL_OK) status = file_read(ctx, path, 0, &bytes, &n_bytes);
    if (status != OL_OK) return status;
    status = image_decode(ctx, path, (const uint8_t *)bytes, n_bytes, channels, out);
    mem_free(ctx, bytes);
    return status;
}

/* True when the file's last bytes are those with which a whole file of the format ends. Formats without such an end say
 * yes: their headers tell their length. */
static bool tail_is_whole(image_format format, const uint8_t *tail, size_t n) {
    if (format == IMAGE_FORMAT_JPEG) return n >= 2 && tail[n - 2] == 0xFF && tail[n - 1] == 0xD9;
    if (format == IMAGE_FORMAT_PNG) return n >= 8 && memcmp(tail + n - 8, "IEND\xAE\x42\x60\x82", 8) == 0;
    return true;
}

static ol_status check_whole(ol_context *ctx, const char *path, image_info *info, bool decode) {
    char *bytes = NULL;
    size_t n_bytes = 0;
    image decoded = {0};
    ol_status status = file_read(ctx, path, 0, &bytes, &n_bytes);
    if (status != OL_OK) return status;
    status = image_probe(ctx, path, (const uint8_t *)bytes, n_bytes, info);
    if (status == OL_OK && decode) status = image_decode(ctx, path, (const uint8_t *)bytes, n_bytes, 3, &decoded);
    image_deinit(ctx, &decoded);
    mem_free(ctx, bytes);
    return status;
}

ol_status image_check_file(ol_context *ctx, const char *path, image_info *info) {
    uint8_t *bytes = NULL, tail[TAIL_BYTES];
    image_info found = {0};
    ol_status status = file_check_regular(ctx, path);
    if (status != OL_OK) return status;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return ctx_fail(ctx, errno == ENOENT ? OL_ERROR_NOT_FOUND : OL_ERROR_IO, "cannot open '%s': %s", path,
                        strerror(errno));
    bytes = mem_alloc(ctx, PREFIX_BYTES, 1);
    if (bytes == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    setvbuf(file, NULL, _IONBF, 0); /* two reads, no copy through a buffer */
    const size_t n_bytes = fread(bytes, 1, PREFIX_BYTES, file);
    if (n_bytes < PREFIX_BYTES && ferror(file)) {
        status = ctx_fail(ctx, OL_ERROR_IO, "cannot read '%s': %s", path, strerror(errno));
        goto fail;
    }
    image_input in = {.ctx = ctx, .name = path, .bytes = bytes, .n_bytes = n_bytes, .prefix = n_bytes == PREFIX_BYTES};
    status = probe(&in, &found);
    if (status != OL_OK && !in.need_more) goto fail;
    bool whole = false;
    if (status == OL_OK) {
        size_t n_tail = n_bytes < TAIL_BYTES ? n_bytes : TAIL_BYTES;
        if (!in.prefix)
            memcpy(tail, bytes + n_bytes - n_tail, n_tail);
        else
            n_tail = fseek(file, -TAIL_BYTES, SEEK_END) == 0 ? fread(tail, 1, TAIL_BYTES, file) : 0;
        whole = tail_is_whole(found.format, tail, n_tail);
    }
    if (!whole) status = check_whole(ctx, path, &found, status == OL_OK);
    if (status == OL_OK) *info = found;
fail:
    mem_free(ctx, bytes);
    fclose(file);
    return status;
}

ol_status image_write(ol_context *ctx, const char *path, const image *im) {
    const char *suffix = path_suffix(path);
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    ol_status status;
    if (strcasecmp(suffix, ".png") == 0)
        status = image_encode_png(ctx, im, &bytes, &n_bytes);
    else if (strcasecmp(suffix, ".jpg") == 0 || strcasecmp(suffix, ".jpeg") == 0)
        status = image_encode_jpeg(ctx, im, NULL, &bytes, &n_bytes);
    else
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "cannot write '%s': pictures are written as .jpg or .png", path);
    if (status == OL_OK) status = file_write_atomic(ctx, path, bytes, n_bytes);
    mem_free(ctx, bytes);
    return status;
}
