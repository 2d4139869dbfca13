/* One outline font, read from the first of a few usual places; glyphs become paths of the drawing library, so that no
 * cache outlives the font. Used by canvas.c only. One thread at a time per font. */
#ifndef DRAW_FONT_H
#define DRAW_FONT_H

#include "base/context.h"

#include <cairo.h>

typedef struct font font;

/* $ONELOOK_FONT ("none": no font), DejaVu Sans beside the library, the folders of the usual distributions. NULL,
 * without a message, when there is none. */
font *font_open(ol_context *ctx);
void font_close(font *f);
/* Advance width of well-formed UTF-8 in pixels. */
double font_width(const font *f, const char *text, double size_px);
/* Appends the outlines to the current path, from (x, y) of the baseline on. */
void font_path(const font *f, cairo_t *cr, const char *text, double size_px, double x, double y);

#endif
