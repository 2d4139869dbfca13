#include "data/image_codec.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define MAX_SCANS 100 /* of a progressive picture: more is an attack on our time */

enum {
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_APP1 = 0xE1,
    MARKER_TEM = 0x01,
    MARKER_RST0 = 0xD0,
    MARKER_RST7 = 0xD7
};

/* SOF0 … SOF15 without DHT (C4), JPG (C8) and DAC (CC). */
static bool is_frame_header(unsigned marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

typedef struct jpeg_header {
    unsigned frame_marker;
    int height, width, orientation;
} jpeg_header;

/* Walks the marker segments up to the frame header; the first EXIF block counts. */
static ol_status read_header(image_input *in, jpeg_header *header) {
    const uint8_t *p = in->bytes;
    size_t at = 2;
    bool have_exif = false;
    header->orientation = 1;
    for (;;) {
        while (at < in->n_bytes && p[at] != 0xFF) at++; /* rubbish between segments is skipped, as decoders do */
        while (at < in->n_bytes && p[at] == 0xFF) at++; /* fill bytes */
        if (at >= in->n_bytes) return image_fail_truncated(in, "no JPEG frame header");
        const unsigned marker = p[at++];
        if (marker == 0 || marker == MARKER_TEM || marker == MARKER_SOI ||
            (marker >= MARKER_RST0 && marker <= MARKER_RST7))
            continue;
        if (marker == MARKER_EOI || marker == MARKER_SOS)
            return image_fail(in, OL_ERROR_FORMAT, "the JPEG has no frame header: restore or remove the file");
        if (in->n_bytes - at < 2) return image_fail_truncated(in, "inside the JPEG headers");
        const size_t length = get_u16be(p + at);
        if (length < 2) return image_fail(in, OL_ERROR_FORMAT, "damaged JPEG header: restore or remove the file");
        if (in->n_bytes - at < length) return image_fail_truncated(in, "inside the JPEG headers");
        if (marker == MARKER_APP1 && !have_exif && length >= 8 && memcmp(p + at + 2, "Exif\0\0", 6) == 0) {
            header->orientation = exif_orientation(p + at + 2, length - 2);
            have_exif = true;
        }
        if (is_frame_header(marker)) {
            if (length < 8)
                return image_fail(in, OL_ERROR_FORMAT, "damaged JPEG frame header: restore or remove the file");
            if (p[at + 2] != 8)
                return image_fail(in, OL_ERROR_UNSUPPORTED, "a JPEG of %u bits is not supported: save it with 8",
                                  (unsigned)p[at + 2]);
            if (p[at + 7] != 1 && p[at + 7] != 3 && p[at + 7] != 4)
                return image_fail(in, OL_ERROR_UNSUPPORTED,
                                  "a JPEG of %u components is not supported: convert it to colour or grey",
                                  (unsigned)p[at + 7]);
            header->frame_marker = marker;
            header->height = (int)get_u16be(p + at + 3);
            header->width = (int)get_u16be(p + at + 5);
            return image_check_size(in, (uint64_t)header->height, (uint64_t)header->width);
        }
        at += length;
    }
}

ol_status image_jpeg_probe(image_input *in, image_info *info) {
    jpeg_header header = {0};
    const ol_status status = read_header(in, &header);
    if (status == OL_OK) image_info_set(info, IMAGE_FORMAT_JPEG, header.height, header.width, header.orientation);
    return status;
}

/* libjpeg reports by callbacks: fatal ones jump back to `guarded`, nothing is printed. */
typedef struct jpeg_guard {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    bool cut; /* the source ran dry */
} jpeg_guard;

static void on_fatal(j_common_ptr cinfo) {
    jpeg_guard *guard = (jpeg_guard *)cinfo->err;
    cinfo->err->format_message(cinfo, guard->message);
    longjmp(guard->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level) {
    jpeg_guard *guard = (jpeg_guard *)cinfo->err;
    if (level < 0 && cinfo->err->msg_code == JWRN_JPEG_EOF) guard->cut = true;
}

static void on_output(j_common_ptr cinfo) {
    (void)cinfo;
}

static void on_progress(j_common_ptr cinfo) {
    if (!cinfo->is_decompressor) return;
    const struct jpeg_decompress_struct *d = (const struct jpeg_decompress_struct *)cinfo;
    if (d->input_scan_number <= MAX_SCANS) return;
    jpeg_guard *guard = (jpeg_guard *)cinfo->err;
    snprintf(guard->message, sizeof guard->message, "more than %d scans", MAX_SCANS);
    longjmp(guard->escape, 1);
}

static struct jpeg_error_mgr *guard_init(jpeg_guard *guard) {
    jpeg_std_error(&guard->errors);
    guard->errors.error_exit = on_fatal;
    guard->errors.emit_message = on_message;
    guard->errors.output_message = on_output;
    guard->progress.progress_monitor = on_progress;
    return &guard->errors;
}

/* The one place that calls setjmp: false when libjpeg gave up inside `work`. */
static bool guarded(jpeg_guard *guard, void (*work)(void *), void *user) {
    if (setjmp(guard->escape) != 0) return false;
    work(user);
    return true;
}

typedef struct jpeg_decoding {
    jpeg_guard guard;
    struct jpeg_decompress_struct d;
    image_input *in;
    int channels;
    image *out;
    uint8_t *row; /* a CMYK row before conversion */
    ol_status status;
} jpeg_decoding;

/* Adobe writes CMYK inverted; without its marker the samples are taken as ink. */
static void convert_cmyk_row(const jpeg_decoding *j, uint8_t *to) {
    const uint8_t *from = j->row;
    for (int x = 0; x < j->out->width; x++, from += 4) {
        unsigned ink[4];
        for (int k = 0; k < 4; k++) ink[k] = j->d.saw_Adobe_marker ? from[k] : 255u - from[k];
        uint8_t rgb[3];
        for (int k = 0; k < 3; k++) rgb[k] = (uint8_t)(ink[3] - ((255u - ink[k]) * ink[3] >> 8));
        image_row_from_rgb(to + (size_t)x * (size_t)j->channels, j->channels, rgb, 3, 1);
    }
}

static bool choose_output(jpeg_decoding *j, bool *cmyk) {
    const J_COLOR_SPACE space = j->d.jpeg_color_space;
    *cmyk = space == JCS_CMYK || space == JCS_YCCK;
    if (*cmyk)
        j->d.out_color_space = JCS_CMYK;
    else if (space == JCS_GRAYSCALE || space == JCS_YCbCr || space == JCS_RGB)
        j->d.out_color_space = j->channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
    else
        return false;
    return true;
}

static void decode_body(void *user) {
    jpeg_decoding *j = user;
    bool cmyk = false;
    jpeg_create_decompress(&j->d);
    j->d.progress = &j->guard.progress;
    jpeg_mem_src(&j->d, j->in->bytes, j->in->n_bytes);
    jpeg_read_header(&j->d, TRUE);
    if ((j->status = image_check_size(j->in, j->d.image_height, j->d.image_width)) != OL_OK) return;
    if (!choose_output(j, &cmyk)) {
        j->status =
            image_fail(j->in, OL_ERROR_UNSUPPORTED,
                       "a JPEG of %d components is not supported: convert it to colour or grey", j->d.num_components);
        return;
    }
    j->d.dct_method = JDCT_ISLOW;
    j->d.do_fancy_upsampling = TRUE;
    j->status = image_reserve(j->in->ctx, j->out, (int)j->d.image_height, (int)j->d.image_width, j->channels);
    if (j->status != OL_OK) return;
    if (cmyk && (j->row = mem_alloc(j->in->ctx, j->d.image_width, 4)) == NULL) {
        j->status = OL_ERROR_MEMORY;
        return;
    }
    jpeg_start_decompress(&j->d);
    const size_t row_bytes = (size_t)j->out->width * (size_t)j->channels;
    while (j->d.output_scanline < j->d.output_height) {
        uint8_t *to = j->out->pixels + row_bytes * j->d.output_scanline;
        JSAMPROW row = cmyk ? j->row : to;
        jpeg_read_scanlines(&j->d, &row, 1);
        if (cmyk) convert_cmyk_row(j, to);
        if (j->guard.cut) return; /* the rest would be grey */
    }
    jpeg_finish_decompress(&j->d); /* reads on to the end marker: a file without it is cut too */
}

/* Every 8x8 block takes at least one bit of Huffman code: a header that promises more than the file can hold is cut,
 * and found out before memory is spent on it. */
static bool can_hold(const image_input *in, const jpeg_header *header) {
    if (header->frame_marker > 0xC2) return true;
    const uint64_t blocks = (((uint64_t)header->height + 7) / 8) * (((uint64_t)header->width + 7) / 8);
    return (uint64_t)in->n_bytes * 8 >= blocks;
}

ol_status image_jpeg_decode(image_input *in, int channels, image *out, int *orientation) {
    jpeg_header header = {0};
    ol_status status = read_header(in, &header);
    if (status != OL_OK) return status;
    if (!can_hold(in, &header)) return image_fail_truncated(in, "fewer bytes than the picture has blocks");
    jpeg_decoding *j = mem_alloc0(in->ctx, 1, sizeof *j);
    if (j == NULL) return OL_ERROR_MEMORY;
    j->in = in;
    j->channels = channels;
    j->out = out;
    j->d.err = guard_init(&j->guard);
    const bool finished = guarded(&j->guard, decode_body, j);
    status = j->status;
    if (status == OL_OK && j->guard.cut)
        status = image_fail_truncated(in, "the JPEG stream ends without its end marker");
    else if (status == OL_OK && !finished)
        status = image_fail(in, OL_ERROR_FORMAT, "damaged JPEG (%s): restore or remove the file", j->guard.message);
    jpeg_destroy_decompress(&j->d);
    mem_free(in->ctx, j->row);
    mem_free(in->ctx, j);
    *orientation = header.orientation;
    return status;
}

typedef struct jpeg_encoding {
    jpeg_guard guard;
    struct jpeg_compress_struct c;
    struct jpeg_destination_mgr target; /* grows `buffer`, which stays ours when libjpeg gives up */
    ol_context *ctx;
    const image *im;
    int quality;
    bool full_chroma;
    uint8_t *buffer;
    size_t n_buffer, capacity;
} jpeg_encoding;

static void target_begin(j_compress_ptr c) {
    jpeg_encoding *j = c->client_data;
    j->target.next_output_byte = j->buffer;
    j->target.free_in_buffer = j->capacity;
}

static boolean target_full(j_compress_ptr c) {
    jpeg_encoding *j = c->client_data;
    const size_t used = j->capacity;
    uint8_t *grown = mem_resize(j->ctx, j->buffer, used * 2, 1);
    if (grown == NULL) longjmp(j->guard.escape, 1);
    j->buffer = grown;
    j->capacity = used * 2;
    j->target.next_output_byte = j->buffer + used;
    j->target.free_in_buffer = used;
    return TRUE;
}

static void target_end(j_compress_ptr c) {
    jpeg_encoding *j = c->client_data;
    j->n_buffer = j->capacity - j->target.free_in_buffer;
}

static void encode_body(void *user) {
    jpeg_encoding *j = user;
    const image *im = j->im;
    jpeg_create_compress(&j->c);
    j->target = (struct jpeg_destination_mgr){
        .init_destination = target_begin, .empty_output_buffer = target_full, .term_destination = target_end};
    j->c.dest = &j->target;
    j->c.client_data = j;
    j->c.image_width = (JDIMENSION)im->width;
    j->c.image_height = (JDIMENSION)im->height;
    j->c.input_components = im->channels;
    j->c.in_color_space = im->channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
    jpeg_set_defaults(&j->c);
    jpeg_set_quality(&j->c, j->quality, TRUE);
    if (j->full_chroma && im->channels == 3)
        for (int k = 0; k < 3; k++) j->c.comp_info[k].h_samp_factor = j->c.comp_info[k].v_samp_factor = 1;
    jpeg_start_compress(&j->c, TRUE);
    while (j->c.next_scanline < j->c.image_height) {
        JSAMPROW row = im->pixels + (size_t)j->c.next_scanline * (size_t)im->width * (size_t)im->channels;
        jpeg_write_scanlines(&j->c, &row, 1);
    }
    jpeg_finish_compress(&j->c);
}

ol_status image_encode_jpeg(ol_context *ctx, const image *im, const image_jpeg_options *options, uint8_t **bytes,
                            size_t *n_bytes) {
    const image_jpeg_options o = options != NULL ? *options : (image_jpeg_options){0};
    ol_status status = OL_OK;
    if (o.quality < 0 || o.quality > 100)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "JPEG quality is %d: give 1 to 100", o.quality);
    if ((im->channels != 1 && im->channels != 3) || im->height > JPEG_MAX_DIMENSION || im->width > JPEG_MAX_DIMENSION)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "a picture of %d x %d pixels and %d channels cannot be written as JPEG",
                        im->height, im->width, im->channels);
    jpeg_encoding *j = mem_alloc0(ctx, 1, sizeof *j);
    if (j == NULL) return OL_ERROR_MEMORY;
    j->ctx = ctx;
    j->im = im;
    j->quality = o.quality > 0 ? o.quality : 95;
    j->full_chroma = o.full_chroma;
    j->c.err = guard_init(&j->guard);
    j->capacity = 16 * 1024 + image_bytes(im) / 4;
    j->buffer = mem_alloc(ctx, j->capacity, 1);
    if (j->buffer == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    if (!guarded(&j->guard, encode_body, j)) {
        status = ctx_fail(ctx, OL_ERROR_INTERNAL, "JPEG encoding failed: %s", j->guard.message);
        goto fail;
    }
    *bytes = j->buffer;
    *n_bytes = j->n_buffer;
    j->buffer = NULL;
fail:
    jpeg_destroy_compress(&j->c);
    mem_free(ctx, j->buffer);
    mem_free(ctx, j);
    return status;
}
