#include "data/image_codec.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tiffio.h>

#define TAG_DNG_VERSION    50706
#define MAX_ONE_ALLOCATION ((tmsize_t)1 << 30)

/* libtiff reads through callbacks from memory; `message` keeps its first complaint. */
typedef struct tiff_reader {
    image_input *in;
    uint64_t at;
    char message[256];
} tiff_reader;

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t n) {
    tiff_reader *r = (tiff_reader *)handle;
    if (n <= 0 || r->at >= r->in->n_bytes) return 0;
    const size_t left = r->in->n_bytes - (size_t)r->at, take = (size_t)n < left ? (size_t)n : left;
    memcpy(to, r->in->bytes + r->at, take);
    r->at += take;
    return (tmsize_t)take;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t n) {
    (void)handle, (void)from, (void)n;
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence) {
    tiff_reader *r = (tiff_reader *)handle;
    r->at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? r->at + offset : r->in->n_bytes + offset;
    return r->at;
}

static int on_close(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t on_size(thandle_t handle) {
    return ((tiff_reader *)handle)->in->n_bytes;
}

static int on_map(thandle_t handle, void **base, toff_t *size) {
    (void)handle, (void)base, (void)size;
    return 0;
}

static void on_unmap(thandle_t handle, void *base, toff_t size) {
    (void)handle, (void)base, (void)size;
}

#if TIFFLIB_VERSION >= 20221213
static int on_error(TIFF *tiff, void *user, const char *module, const char *format, va_list args) {
    tiff_reader *r = user;
    (void)tiff, (void)module;
    if (r->message[0] == '\0') vsnprintf(r->message, sizeof r->message, format, args);
    return 1;
}

static int on_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list args) {
    (void)tiff, (void)user, (void)module, (void)format, (void)args;
    return 1;
}

static TIFF *open_reader(tiff_reader *r) {
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (options == NULL) return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, MAX_ONE_ALLOCATION);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, r);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, r);
    TIFF *tiff = TIFFClientOpenExt(r->in->name, "rm", (thandle_t)r, on_read, on_write, on_seek, on_close, on_size,
                                   on_map, on_unmap, options);
    TIFFOpenOptionsFree(options);
    return tiff;
}
#else
static pthread_once_t silenced = PTHREAD_ONCE_INIT;

static void silence(void) { /* older libtiff has one handler for the whole process, and it prints */
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
}

static TIFF *open_reader(tiff_reader *r) {
    pthread_once(&silenced, silence);
    return TIFFClientOpen(r->in->name, "rm", (thandle_t)r, on_read, on_write, on_seek, on_close, on_size, on_map,
                          on_unmap);
}
#endif

typedef struct tiff_header {
    uint32_t height, width;
    uint16_t bits, samples, photometric, planar, sample_format, orientation;
} tiff_header;

static ol_status tiff_failure(const tiff_reader *r) {
    return image_fail(r->in, OL_ERROR_FORMAT, "damaged or truncated TIFF (%s): restore or remove the file",
                      r->message[0] != '\0' ? r->message : "unreadable");
}

/* Grey and RGB of 8 or 16 bits in strips; the rest goes through libtiff's own conversion to 8-bit RGBA. */
static bool is_plain(TIFF *tiff, const tiff_header *h) {
    const bool grey = h->photometric == PHOTOMETRIC_MINISBLACK || h->photometric == PHOTOMETRIC_MINISWHITE;
    const bool rgb = h->photometric == PHOTOMETRIC_RGB && h->samples >= 3;
    return (grey || rgb) && (h->bits == 8 || h->bits == 16) && h->planar == PLANARCONFIG_CONTIG && h->samples <= 16 &&
           h->sample_format == SAMPLEFORMAT_UINT && !TIFFIsTiled(tiff);
}

static ol_status read_header(tiff_reader *r, TIFF *tiff, tiff_header *h) {
    uint16_t n = 0;
    const void *version = NULL;
    if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &h->width) || !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &h->height))
        return tiff_failure(r);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &h->bits);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &h->samples);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &h->planar);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &h->sample_format);
    if (!TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &h->orientation) || h->orientation < 1 || h->orientation > 8)
        h->orientation = 1;
    if (!TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &h->photometric))
        h->photometric = h->samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    if (h->photometric == PHOTOMETRIC_CFA || TIFFGetField(tiff, TAG_DNG_VERSION, &n, &version))
        return image_fail(r->in, OL_ERROR_UNSUPPORTED,
                          "raw pictures (DNG) are not supported: develop it to JPEG or PNG");
    char reason[1024] = "";
    if (!is_plain(tiff, h) && !TIFFRGBAImageOK(tiff, reason))
        return image_fail(r->in, OL_ERROR_UNSUPPORTED, "this kind of TIFF is not supported (%.200s): save it as PNG",
                          reason);
    return image_check_size(r->in, h->height, h->width);
}

ol_status image_tiff_probe(image_input *in, image_info *info) {
    if (in->prefix) return image_fail_truncated(in, "inside the TIFF"); /* the directory may lie anywhere */
    tiff_reader r = {.in = in};
    tiff_header h = {0};
    TIFF *tiff = open_reader(&r);
    if (tiff == NULL) return tiff_failure(&r);
    const ol_status status = read_header(&r, tiff, &h);
    TIFFClose(tiff);
    if (status == OL_OK) image_info_set(info, IMAGE_FORMAT_TIFF, (int)h.height, (int)h.width, h.orientation);
    return status;
}

static void convert_plain_row(const tiff_header *h, uint8_t *samples, image *out, uint8_t *to) {
    const size_t n = (size_t)h->width * h->samples;
    if (h->bits == 16) { /* in the machine's byte order by now */
        for (size_t i = 0; i < n; i++) {
            uint16_t wide;
            memcpy(&wide, samples + 2 * i, 2);
            samples[i] = (uint8_t)(wide >> 8);
        }
    }
    if (h->photometric == PHOTOMETRIC_RGB) {
        image_row_from_rgb(to, out->channels, samples, h->samples, out->width);
        return;
    }
    const uint8_t invert = h->photometric == PHOTOMETRIC_MINISWHITE ? 0xFF : 0;
    for (size_t x = 0; x < (size_t)out->width; x++)
        memset(to + x * (size_t)out->channels, samples[x * h->samples] ^ invert, (size_t)out->channels);
}

static ol_status decode_plain(tiff_reader *r, TIFF *tiff, const tiff_header *h, image *out) {
    const size_t row_bytes = (size_t)out->width * (size_t)out->channels;
    const tmsize_t stored = TIFFScanlineSize(tiff);
    if (stored < (tmsize_t)((size_t)h->width * h->samples * (h->bits / 8u))) return tiff_failure(r);
    uint8_t *samples = mem_alloc(r->in->ctx, (size_t)stored, 1);
    if (samples == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    for (uint32_t y = 0; y < h->height && status == OL_OK; y++) {
        if (TIFFReadScanline(tiff, samples, y, 0) != 1)
            status = tiff_failure(r);
        else
            convert_plain_row(h, samples, out, out->pixels + row_bytes * y);
    }
    mem_free(r->in->ctx, samples);
    return status;
}

static ol_status decode_converted(tiff_reader *r, TIFF *tiff, const tiff_header *h, image *out) {
    const size_t n_pixels = (size_t)h->height * h->width;
    uint32_t *rgba = mem_alloc(r->in->ctx, n_pixels, sizeof *rgba);
    if (rgba == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    if (TIFFReadRGBAImageOriented(tiff, h->width, h->height, rgba, h->orientation, 1) != 1) {
        status = tiff_failure(r);
    } else {
        for (size_t i = 0; i < n_pixels; i++) {
            const uint8_t rgb[3] = {TIFFGetR(rgba[i]), TIFFGetG(rgba[i]), TIFFGetB(rgba[i])};
            image_row_from_rgb(out->pixels + i * (size_t)out->channels, out->channels, rgb, 3, 1);
        }
    }
    mem_free(r->in->ctx, rgba);
    return status;
}

ol_status image_tiff_decode(image_input *in, int channels, image *out, int *orientation) {
    tiff_reader r = {.in = in};
    tiff_header h = {0};
    TIFF *tiff = open_reader(&r);
    if (tiff == NULL) return tiff_failure(&r);
    ol_status status = read_header(&r, tiff, &h);
    if (status == OL_OK) status = image_reserve(in->ctx, out, (int)h.height, (int)h.width, channels);
    if (status == OL_OK)
        status = is_plain(tiff, &h) ? decode_plain(&r, tiff, &h, out) : decode_converted(&r, tiff, &h, out);
    TIFFClose(tiff);
    *orientation = h.orientation;
    return status;
}
