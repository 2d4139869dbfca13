#include "draw/font.h"

#include "base/file.h"

#include <dlfcn.h>
#include <ft2build.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include FT_FREETYPE_H
#include FT_OUTLINE_H

struct font {
    ol_context *ctx;
    FT_Library library;
    FT_Face face;
};

static const char file_name[] = "DejaVuSans.ttf";
static const char *const folders[] = {
    "/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/dejavu-sans-fonts", "/usr/share/fonts/TTF",
    "/usr/share/fonts/dejavu",          "/usr/share/fonts/ttf-dejavu",        "/usr/local/share/fonts"};

/* The folder that this library (or the program it is part of) was loaded from. */
static bool library_folder(char *out, size_t n_bytes) {
    Dl_info info;
    if (!dladdr(file_name, &info) || !info.dli_fname) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    return slash && snprintf(out, n_bytes, "%.*s", (int)(slash - info.dli_fname), info.dli_fname) < (int)n_bytes;
}

static bool try_file(font *f, const char *path) {
    if (!file_exists(path) || FT_New_Face(f->library, path, 0, &f->face)) return false;
    if (FT_IS_SCALABLE(f->face)) return true;
    FT_Done_Face(f->face);
    return false;
}

static bool find_face(font *f) {
    char folder[1024], path[1200];
    const char *named = getenv("ONELOOK_FONT");
    if (named && !strcmp(named, "none")) return false;
    if (named && try_file(f, named)) return true;
    if (library_folder(folder, sizeof folder)) {
        static const char *const beside[] = {"", "/../share/onelook", "/../share/fonts"};
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
            snprintf(path, sizeof path, "%s%s/%s", folder, beside[i], file_name);
            if (try_file(f, path)) return true;
        }
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], file_name);
        if (try_file(f, path)) return true;
    }
    return false;
}

font *font_open(ol_context *ctx) {
    font *f = mem_alloc0(ctx, 1, sizeof *f);
    if (!f) {
        ctx_clear(ctx);
        return NULL;
    }
    f->ctx = ctx;
    if (!FT_Init_FreeType(&f->library)) {
        if (find_face(f)) return f;
        FT_Done_FreeType(f->library);
    }
    mem_free(ctx, f);
    return NULL;
}

void font_close(font *f) {
    if (!f) return;
    FT_Done_Face(f->face);
    FT_Done_FreeType(f->library);
    mem_free(f->ctx, f);
}

/* The next code point of well-formed UTF-8. */
static FT_ULong next_point(const char **text) {
    const unsigned char *s = (const unsigned char *)*text;
    int more = s[0] < 0x80 ? 0 : s[0] < 0xE0 ? 1 : s[0] < 0xF0 ? 2 : 3;
    FT_ULong point = more == 0 ? s[0] : s[0] & (0x3Fu >> more);
    for (int i = 1; i <= more; i++) point = point << 6 | (s[i] & 0x3Fu);
    *text += more + 1;
    return point;
}

/* Loads the next glyph in font units and steps over its text. */
static bool next_glyph(const font *f, const char **text) {
    return !FT_Load_Glyph(f->face, FT_Get_Char_Index(f->face, next_point(text)),
                          FT_LOAD_NO_SCALE | FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP);
}

double font_width(const font *f, const char *text, double size_px) {
    double width = 0;
    while (*text) {
        if (next_glyph(f, &text)) width += (double)f->face->glyph->advance.x;
    }
    return width * size_px / f->face->units_per_EM;
}

typedef struct pen {
    cairo_t *cr;
    double x, y, scale;
    FT_Vector at;
} pen;

static double pen_x(const pen *p, FT_Pos x) {
    return p->x + (double)x * p->scale;
}
static double pen_y(const pen *p, FT_Pos y) {
    return p->y - (double)y * p->scale;
}

static int move_to(const FT_Vector *to, void *user) {
    pen *p = user;
    cairo_close_path(p->cr);
    cairo_move_to(p->cr, pen_x(p, to->x), pen_y(p, to->y));
    p->at = *to;
    return 0;
}

static int line_to(const FT_Vector *to, void *user) {
    pen *p = user;
    cairo_line_to(p->cr, pen_x(p, to->x), pen_y(p, to->y));
    p->at = *to;
    return 0;
}

static int cubic_to(const FT_Vector *a, const FT_Vector *b, const FT_Vector *to, void *user) {
    pen *p = user;
    cairo_curve_to(p->cr, pen_x(p, a->x), pen_y(p, a->y), pen_x(p, b->x), pen_y(p, b->y), pen_x(p, to->x),
                   pen_y(p, to->y));
    p->at = *to;
    return 0;
}

/* A quadratic curve is the cubic whose control points lie two thirds of the way to its own. */
static int conic_to(const FT_Vector *control, const FT_Vector *to, void *user) {
    pen *p = user;
    double x0 = pen_x(p, p->at.x), y0 = pen_y(p, p->at.y), xc = pen_x(p, control->x), yc = pen_y(p, control->y);
    double x1 = pen_x(p, to->x), y1 = pen_y(p, to->y);
    cairo_curve_to(p->cr, x0 + (xc - x0) * 2 / 3, y0 + (yc - y0) * 2 / 3, x1 + (xc - x1) * 2 / 3,
                   y1 + (yc - y1) * 2 / 3, x1, y1);
    p->at = *to;
    return 0;
}

void font_path(const font *f, cairo_t *cr, const char *text, double size_px, double x, double y) {
    static const FT_Outline_Funcs steps = {
        .move_to = move_to, .line_to = line_to, .conic_to = conic_to, .cubic_to = cubic_to};
    pen p = {.cr = cr, .x = x, .y = y, .scale = size_px / f->face->units_per_EM};
    while (*text) {
        if (!next_glyph(f, &text)) continue;
        FT_GlyphSlot glyph = f->face->glyph;
        if (glyph->format == FT_GLYPH_FORMAT_OUTLINE) FT_Outline_Decompose(&glyph->outline, &steps, &p);
        cairo_close_path(cr);
        p.x += (double)glyph->advance.x * p.scale;
    }
}
