/* Colours of classes, the text colours that can be read on them, and the scale of blues of matrices. Pure functions. */
#ifndef DRAW_PALETTE_H
#define DRAW_PALETTE_H

#include "draw/canvas.h"

/* Twenty colours, by class id modulo 20 (data document, section 4.6). */
colour class_colour(int class_id);
colour class_text_colour(int class_id);
/* The same for lines on white: pale ones darkened. */
colour class_line_colour(int class_id);
/* White to dark blue for t = 0 … 1. */
colour blues(double t);

#endif
