#include "draw/canvas.h"

#include "base/file.h"
#include "draw/font.h"

#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct canvas {
    ol_context *ctx;
    cairo_surface_t *surface;
    cairo_t *cr;
    font *font; /* opened with the first text; NULL: the library's own strokes */
    bool font_tried;
    int width, height;
};

ol_status canvas_create(ol_context *ctx, int width, int height, canvas **out) {
    if (width < 1 || height < 1 || width > 32767 || height > 32767)
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "cannot draw on %dx%d pixels: sides of 1 to 32767 are possible",
                        width, height);
    canvas *c = mem_alloc0(ctx, 1, sizeof *c);
    if (!c) return OL_ERROR_MEMORY;
    c->ctx = ctx;
    c->width = width;
    c->height = height;
    c->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    c->cr = cairo_create(c->surface);
    if (cairo_status(c->cr) != CAIRO_STATUS_SUCCESS) {
        canvas_destroy(c);
        return ctx_fail(ctx, OL_ERROR_MEMORY, "no memory for a drawing of %dx%d pixels", width, height);
    }
    canvas_fill(c, 0, 0, width, height, COLOUR_WHITE, 1);
    *out = c;
    return OL_OK;
}

static void copy_in(const image *im, uint8_t *pixels, size_t stride) {
    for (int y = 0; y < im->height; y++) {
        const uint8_t *from = im->pixels + (size_t)y * (size_t)im->width * (size_t)im->channels;
        uint32_t *to = (uint32_t *)(void *)(pixels + (size_t)y * stride);
        if (im->channels == 3) {
            for (int x = 0; x < im->width; x++, from += 3)
                to[x] = (uint32_t)from[2] << 16 | (uint32_t)from[1] << 8 | from[0];
        } else {
            for (int x = 0; x < im->width; x++, from += im->channels) to[x] = from[0] * 0x010101u;
        }
    }
}

ol_status canvas_create_from_image(ol_context *ctx, const image *im, canvas **out) {
    ol_status status = canvas_create(ctx, im->width, im->height, out);
    if (status) return status;
    canvas *c = *out;
    cairo_surface_flush(c->surface);
    copy_in(im, cairo_image_surface_get_data(c->surface), (size_t)cairo_image_surface_get_stride(c->surface));
    cairo_surface_mark_dirty(c->surface);
    return OL_OK;
}

void canvas_destroy(canvas *c) {
    if (!c) return;
    font_close(c->font);
    cairo_destroy(c->cr);
    cairo_surface_destroy(c->surface);
    mem_free(c->ctx, c);
}

int canvas_width(const canvas *c) {
    return c->width;
}
int canvas_height(const canvas *c) {
    return c->height;
}

static ol_status canvas_check(canvas *c) {
    cairo_status_t status = cairo_status(c->cr);
    if (status == CAIRO_STATUS_SUCCESS) return OL_OK;
    return ctx_fail(c->ctx, status == CAIRO_STATUS_NO_MEMORY ? OL_ERROR_MEMORY : OL_ERROR_INTERNAL,
                    "drawing failed: %s", cairo_status_to_string(status));
}

ol_status canvas_to_image(canvas *c, image *out) {
    ol_status status = canvas_check(c);
    if (!status) status = image_reserve(c->ctx, out, c->height, c->width, 3);
    if (status) return status;
    cairo_surface_flush(c->surface);
    const uint8_t *pixels = cairo_image_surface_get_data(c->surface);
    size_t stride = (size_t)cairo_image_surface_get_stride(c->surface);
    for (int y = 0; y < c->height; y++) {
        const uint32_t *from = (const uint32_t *)(const void *)(pixels + (size_t)y * stride);
        uint8_t *to = out->pixels + (size_t)y * (size_t)c->width * 3;
        for (int x = 0; x < c->width; x++, to += 3) {
            to[0] = (uint8_t)from[x];
            to[1] = (uint8_t)(from[x] >> 8);
            to[2] = (uint8_t)(from[x] >> 16);
        }
    }
    return OL_OK;
}

ol_status canvas_write_png(canvas *c, const char *path) {
    image im = {0};
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    ol_status status = canvas_to_image(c, &im);
    if (!status) status = image_encode_png(c->ctx, &im, &bytes, &n_bytes);
    if (!status) status = file_write_whole(c->ctx, path, bytes, n_bytes);
    mem_free(c->ctx, bytes);
    image_deinit(c->ctx, &im);
    return status;
}

ol_status canvas_write_jpeg(canvas *c, const char *path, int quality) {
    image im = {0};
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    image_jpeg_options options = {.quality = quality};
    ol_status status = canvas_to_image(c, &im);
    if (!status) status = image_encode_jpeg(c->ctx, &im, &options, &bytes, &n_bytes);
    if (!status) status = file_write_whole(c->ctx, path, bytes, n_bytes);
    mem_free(c->ctx, bytes);
    image_deinit(c->ctx, &im);
    return status;
}

static void set_colour(canvas *c, colour k, double alpha) {
    cairo_set_source_rgba(c->cr, k.r / 255.0, k.g / 255.0, k.b / 255.0, alpha);
}

void canvas_fill(canvas *c, double x, double y, double w, double h, colour k, double alpha) {
    set_colour(c, k, alpha);
    cairo_rectangle(c->cr, x, y, w, h);
    cairo_fill(c->cr);
}

void canvas_frame(canvas *c, double x, double y, double w, double h, colour k, double line_width) {
    set_colour(c, k, 1);
    cairo_set_line_width(c->cr, line_width);
    cairo_set_line_join(c->cr, CAIRO_LINE_JOIN_MITER);
    cairo_rectangle(c->cr, x, y, w, h);
    cairo_stroke(c->cr);
}

void canvas_line(canvas *c, const point *points, size_t n, colour k, double alpha, double line_width, double dash) {
    if (n < 2) return;
    set_colour(c, k, alpha);
    cairo_set_line_width(c->cr, line_width);
    cairo_set_line_join(c->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(c->cr, &dash, dash > 0, 0);
    cairo_move_to(c->cr, points[0].x, points[0].y);
    for (size_t i = 1; i < n; i++) cairo_line_to(c->cr, points[i].x, points[i].y);
    cairo_stroke(c->cr);
    cairo_set_dash(c->cr, NULL, 0, 0);
}

void canvas_disc(canvas *c, double x, double y, double radius, colour k, double alpha) {
    set_colour(c, k, alpha);
    cairo_arc(c->cr, x, y, radius, 0, 2 * 3.14159265358979323846);
    cairo_fill(c->cr);
}

void canvas_image(canvas *c, const image *im, double x, double y, double w, double h) {
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, im->width, im->height);
    if (cairo_surface_status(s) == CAIRO_STATUS_SUCCESS) {
        cairo_surface_flush(s);
        copy_in(im, cairo_image_surface_get_data(s), (size_t)cairo_image_surface_get_stride(s));
        cairo_surface_mark_dirty(s);
        cairo_save(c->cr);
        cairo_translate(c->cr, x, y);
        cairo_scale(c->cr, w / im->width, h / im->height);
        cairo_set_source_surface(c->cr, s, 0, 0);
        cairo_pattern_set_filter(cairo_get_source(c->cr), CAIRO_FILTER_GOOD);
        cairo_pattern_set_extend(cairo_get_source(c->cr), CAIRO_EXTEND_PAD);
        cairo_rectangle(c->cr, 0, 0, im->width, im->height);
        cairo_fill(c->cr);
        cairo_restore(c->cr);
    }
    cairo_surface_destroy(s);
}

void canvas_clip(canvas *c, double x, double y, double w, double h) {
    cairo_rectangle(c->cr, x, y, w, h);
    cairo_clip(c->cr);
}

void canvas_unclip(canvas *c) {
    cairo_reset_clip(c->cr);
}

/* Length of the UTF-8 sequence at `s`, 0 when it is not well-formed. */
static size_t utf8_length(const unsigned char *s) {
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
               : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
               : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    if (n == 3 && ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] >= 0xA0))) return 0;
    if (n == 4 && ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] >= 0x90))) return 0;
    return n;
}

#define TEXT_MAX_BYTES 256

/* The library refuses malformed text for good, so it only ever sees a repaired copy (cut at TEXT_MAX_BYTES). */
static void repair_text(const char *text, char *out) {
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t length = utf8_length(s);
        if (n + (length ? length : 1) >= TEXT_MAX_BYTES) break;
        if (length && *s >= 0x20) {
            memcpy(out + n, s, length);
            n += length;
        } else {
            out[n++] = '?';
        }
        s += length ? length : 1;
    }
    out[n] = 0;
}

/* The built-in face of the drawing library needs no file and no search. */
static bool choose_font(canvas *c, double size_px) {
    if (!c->font_tried) c->font = font_open(c->ctx);
    c->font_tried = true;
    if (c->font) return true;
    cairo_select_font_face(c->cr, "@cairo:", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c->cr, size_px);
    return false;
}

double canvas_text_width(canvas *c, const char *text, double size_px) {
    char repaired[TEXT_MAX_BYTES];
    repair_text(text, repaired);
    if (choose_font(c, size_px)) return font_width(c->font, repaired, size_px);
    cairo_text_extents_t e = {0};
    cairo_text_extents(c->cr, repaired, &e);
    return e.x_advance;
}

void canvas_text(canvas *c, double x, double y, const char *text, const text_style *style) {
    char repaired[TEXT_MAX_BYTES];
    repair_text(text, repaired);
    double width = style->anchor == TEXT_LEFT ? 0 : canvas_text_width(c, text, style->size_px);
    double back = style->anchor == TEXT_RIGHT ? width : width / 2;
    set_colour(c, style->k, 1);
    cairo_save(c->cr);
    cairo_translate(c->cr, x, y);
    if (style->upwards) cairo_rotate(c->cr, -3.14159265358979323846 / 2);
    if (choose_font(c, style->size_px)) {
        font_path(c->font, c->cr, repaired, style->size_px, -back, 0);
        cairo_fill(c->cr);
    } else {
        cairo_move_to(c->cr, -back, 0);
        cairo_show_text(c->cr, repaired);
    }
    cairo_new_path(c->cr);
    cairo_restore(c->cr);
}
