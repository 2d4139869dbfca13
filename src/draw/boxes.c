#include "draw/boxes.h"

#include "draw/palette.h"

#include <math.h>
#include <stdio.h>

/* Size of a font whose capitals are about as high as the field's stroke font at scale line_width/3. */
#define TEXT_PX_A_LINE_WIDTH 8.5

int box_line_width(int height, int width, int line_width) {
    if (line_width > 0) return line_width;
    double w = rint((height + width + 3) / 2.0 * 0.003);
    return w < 2 ? 2 : (int)w;
}

/* Integer corners in ascending order, kept near the canvas; false for rows that cannot be drawn. */
static bool corners(const canvas *c, const detection *row, double out[4]) {
    const double in[4] = {row->x1, row->y1, row->x2, row->y2};
    for (int i = 0; i < 4; i++) {
        if (!isfinite(in[i])) return false;
        double limit = i % 2 ? canvas_height(c) : canvas_width(c);
        out[i] = trunc(fmin(fmax(in[i], -limit), 2 * limit));
    }
    for (int i = 0; i < 2; i++) {
        if (out[i] > out[i + 2]) {
            double t = out[i];
            out[i] = out[i + 2];
            out[i + 2] = t;
        }
    }
    return true;
}

void draw_box(canvas *c, const detection *row, const char *text, double line_width, double text_px) {
    double b[4];
    if (!corners(c, row, b)) return;
    colour k = class_colour(row->class_id);
    canvas_frame(c, b[0] + 0.5, b[1] + 0.5, b[2] - b[0], b[3] - b[1], k, line_width);
    if (!text[0]) return;
    double pad = fmax(2, text_px * 0.14), width = ceil(canvas_text_width(c, text, text_px) + 2 * pad);
    double height = ceil(text_px * 1.2), x = b[0] + 0.5 - line_width / 2;
    if (x + width > canvas_width(c)) x = canvas_width(c) - width;
    if (x < 0) x = 0;
    bool outside = b[1] >= height;
    double top = outside ? b[1] - height : b[1];
    canvas_fill(c, x, top, width, height, k, 1);
    text_style style = {.size_px = text_px, .k = class_text_colour(row->class_id)};
    canvas_text(c, x + pad, top + height - text_px * 0.29, text, &style);
}

static void plate_text(const detection *row, const box_style *style, char *out, size_t n_bytes) {
    char name[160];
    if (style->names && row->class_id >= 0 && row->class_id < style->nc)
        snprintf(name, sizeof name, "%s", style->names[row->class_id]);
    else
        snprintf(name, sizeof name, "%d", row->class_id);
    bool score = !style->hide_scores;
    if (style->hide_names) name[0] = 0;
    if (score)
        snprintf(out, n_bytes, "%s%s%.*f", name, name[0] ? " " : "", style->score_digits, (double)row->score);
    else
        snprintf(out, n_bytes, "%s", name);
}

void draw_boxes(canvas *c, const detection *rows, size_t n, const box_style *style) {
    if (style->hide_boxes) return;
    int line_width = box_line_width(canvas_height(c), canvas_width(c), style->line_width);
    double text_px = fmax(11, line_width * TEXT_PX_A_LINE_WIDTH);
    for (size_t i = n; i-- > 0;) {
        char text[200];
        plate_text(&rows[i], style, text, sizeof text);
        draw_box(c, &rows[i], text, line_width, text_px);
    }
}
