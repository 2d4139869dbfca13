/* Geometry of the random perspective: its matrix from given draws, and what it does to boxes and outlines
 * (data document, sections 2.5 and 2.6). No pixels, no draws. Keeps no state; any thread. */
#ifndef DATA_AFFINE_H
#define DATA_AFFINE_H

#include <stdbool.h>
#include <stddef.h>

/* The eight draws, in the order in which they are drawn. Angles in degrees. */
typedef struct affine_draws {
    double perspective_x, perspective_y, angle, scale, shear_x, shear_y, translate_x, translate_y;
} affine_draws;

/* M = T S R P C, source pixels to target pixels, row-major 3x3 float32. */
void affine_matrix(const affine_draws *d, int src_height, int src_width, int out_height, int out_width, float m[9]);
/* Inverse in double precision. A matrix without one gives zeros. */
void affine_invert(const float m[9], double inverse[9]);

typedef struct box {
    float x1, y1, x2, y2;
} box;

void affine_point(const float m[9], bool perspective, float x, float y, float *to_x, float *to_y);
/* Hull of the four mapped corners. Divides by the third coordinate only if `perspective`. */
box affine_box(const float m[9], bool perspective, box b);
box box_clip(box b, float width, float height);
/* Survival test: sides above 2 pixels, area above `least_area` of what it was, aspect ratio below 100. */
bool box_survives(box before, box after, float least_area);

/* Hull of the part of a closed outline that lies in [0,width] x [0,height]; zeros when there is none. */
box outline_box(const float *points, size_t n_points, float width, float height);

#endif
