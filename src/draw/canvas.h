/* A surface to draw on: lines, boxes, text, pictures. Keeps the drawing library (cairo) out of the rest of the program.
 * Text is set in DejaVu Sans, or in the library's built-in strokes where no font is found. One thread at a time per
 * canvas; errors stick and come out of the functions that return a status. */
#ifndef DRAW_CANVAS_H
#define DRAW_CANVAS_H

#include "data/image.h"

typedef struct canvas canvas;

typedef struct colour {
    uint8_t r, g, b;
} colour;

typedef struct point {
    double x, y;
} point;

#define COLOUR_WHITE ((colour){255, 255, 255})
#define COLOUR_BLACK ((colour){0, 0, 0})

/* White, width x height pixels. */
ol_status canvas_create(ol_context *ctx, int width, int height, canvas **out);
/* A copy of a picture (B,G,R or grey). */
ol_status canvas_create_from_image(ol_context *ctx, const image *im, canvas **out);
void canvas_destroy(canvas *c);
int canvas_width(const canvas *c);
int canvas_height(const canvas *c);

/* The drawn pixels as B,G,R. */
ol_status canvas_to_image(canvas *c, image *out);
/* Whole or not at all; the message names the path. */
ol_status canvas_write_png(canvas *c, const char *path);
ol_status canvas_write_jpeg(canvas *c, const char *path, int quality);

void canvas_fill(canvas *c, double x, double y, double w, double h, colour k, double alpha);
void canvas_frame(canvas *c, double x, double y, double w, double h, colour k, double line_width);
/* A polyline; `dash` 0 is solid, else the length of dashes and gaps in pixels. */
void canvas_line(canvas *c, const point *points, size_t n, colour k, double alpha, double line_width, double dash);
void canvas_disc(canvas *c, double x, double y, double radius, colour k, double alpha);
/* Draws the picture into the rectangle (scaled smoothly). */
void canvas_image(canvas *c, const image *im, double x, double y, double w, double h);
/* Later drawing stays inside the rectangle until canvas_unclip. */
void canvas_clip(canvas *c, double x, double y, double w, double h);
void canvas_unclip(canvas *c);

typedef enum text_anchor { TEXT_LEFT, TEXT_CENTRE, TEXT_RIGHT } text_anchor;
typedef struct text_style {
    double size_px; /* of the em square */
    text_anchor anchor;
    bool upwards; /* turned 90 degrees to the left around its anchor */
    colour k;
} text_style;
/* UTF-8; (x, y) is a point of the baseline. Invalid UTF-8 is shown with '?' in place of the bad bytes. */
void canvas_text(canvas *c, double x, double y, const char *text, const text_style *style);
/* Advance width in pixels. */
double canvas_text_width(canvas *c, const char *text, double size_px);

#endif
