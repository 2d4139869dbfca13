/* Detections and labels drawn on a picture: frames, name plates, colours by class (data document, section 4.6). */
#ifndef DRAW_BOXES_H
#define DRAW_BOXES_H

#include "draw/canvas.h"
#include "model/postprocess.h"

typedef struct box_style {
    int line_width;  /* pixels; 0: max(round((h + w + 3) / 2 * 0.003), 2) */
    bool hide_boxes; /* nothing is drawn */
    bool hide_names, hide_scores;
    int score_digits;         /* decimals of a score */
    const char *const *names; /* nc of them; a class outside shows its id */
    int nc;
} box_style;

int box_line_width(int height, int width, int line_width);
/* Rows are score-descending and in canvas pixels; the best is drawn last. Corners may be in any order and beyond the
 * canvas; rows that are not finite are passed over. */
void draw_boxes(canvas *c, const detection *rows, size_t n, const box_style *style);
/* One box with its plate; `text` may be "". `text_px` is the size of the font. */
void draw_box(canvas *c, const detection *row, const char *text, double line_width, double text_px);

#endif
