#include "data/affine.h"

#include <math.h>
#include <string.h>

static void multiply(const float a[9], const float b[9], float out[9]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

void affine_matrix(const affine_draws *d, int src_height, int src_width, int out_height, int out_width, float m[9]) {
    const double degree = 3.14159265358979323846 / 180.0, angle = d->angle * degree;
    const float along = (float)(d->scale * cos(angle)), across = (float)(d->scale * sin(angle));
    const float centre[9] = {1, 0, -(float)src_width / 2, 0, 1, -(float)src_height / 2, 0, 0, 1};
    const float tilt[9] = {1, 0, 0, 0, 1, 0, (float)d->perspective_x, (float)d->perspective_y, 1};
    const float turn[9] = {along, across, 0, -across, along, 0, 0, 0, 1};
    const float shear[9] = {1, (float)tan(d->shear_x * degree), 0, (float)tan(d->shear_y * degree), 1, 0, 0, 0, 1};
    const float shift[9] = {1, 0, (float)(d->translate_x * out_width), 0, 1, (float)(d->translate_y * out_height), 0,
                            0, 1};
    float a[9], b[9];
    multiply(shift, shear, a);
    multiply(a, turn, b);
    multiply(b, tilt, a);
    multiply(a, centre, m);
}

void affine_invert(const float m[9], double inverse[9]) {
    const double a = m[0], b = m[1], c = m[2], d = m[3], e = m[4], f = m[5], g = m[6], h = m[7], i = m[8];
    const double determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
    const double r = determinant != 0.0 ? 1.0 / determinant : 0.0;
    const double adjugate[9] = {e * i - f * h, c * h - b * i, b * f - c * e, f * g - d * i, a * i - c * g,
                                c * d - a * f, d * h - e * g, b * g - a * h, a * e - b * d};
    for (int k = 0; k < 9; k++) inverse[k] = adjugate[k] * r;
}

void affine_point(const float m[9], bool perspective, float x, float y, float *to_x, float *to_y) {
    const float px = m[0] * x + m[1] * y + m[2], py = m[3] * x + m[4] * y + m[5];
    const float w = perspective ? m[6] * x + m[7] * y + m[8] : 1.0f;
    *to_x = px / w;
    *to_y = py / w;
}

static box hull_start(void) {
    return (box){INFINITY, INFINITY, -INFINITY, -INFINITY};
}

static void hull_add(box *b, float x, float y) {
    b->x1 = fminf(b->x1, x);
    b->y1 = fminf(b->y1, y);
    b->x2 = fmaxf(b->x2, x);
    b->y2 = fmaxf(b->y2, y);
}

box affine_box(const float m[9], bool perspective, box b) {
    const float corners[4][2] = {{b.x1, b.y1}, {b.x2, b.y2}, {b.x1, b.y2}, {b.x2, b.y1}};
    box hull = hull_start();
    for (int k = 0; k < 4; k++) {
        float x, y;
        affine_point(m, perspective, corners[k][0], corners[k][1], &x, &y);
        hull_add(&hull, x, y);
    }
    return hull;
}

static float clampf(float x, float high) {
    return fminf(fmaxf(x, 0.0f), high);
}

box box_clip(box b, float width, float height) {
    return (box){clampf(b.x1, width), clampf(b.y1, height), clampf(b.x2, width), clampf(b.y2, height)};
}

bool box_survives(box before, box after, float least_area) {
    const float tiny = 1e-16f, w1 = before.x2 - before.x1, h1 = before.y2 - before.y1;
    const float w2 = after.x2 - after.x1, h2 = after.y2 - after.y1;
    const float aspect = fmaxf(w2 / (h2 + tiny), h2 / (w2 + tiny));
    return w2 > 2.0f && h2 > 2.0f && w2 * h2 / (w1 * h1 + tiny) > least_area && aspect < 100.0f;
}

static bool outline_contains(const float *points, size_t n, float x, float y) {
    bool inside = false;
    for (size_t i = 0, j = n - 1; i < n; j = i++) {
        const float xi = points[2 * i], yi = points[2 * i + 1], xj = points[2 * j], yj = points[2 * j + 1];
        if ((yi > y) != (yj > y) && x < (xj - xi) * (y - yi) / (yj - yi) + xi) inside = !inside;
    }
    return inside;
}

/* Adds where the edge from p to q meets the border of the canvas. */
static void add_crossings(box *hull, const float *p, const float *q, const float size[2]) {
    for (int axis = 0; axis < 2; axis++) {
        for (int side = 0; side < 2; side++) {
            const float border = side == 0 ? 0.0f : size[axis], from = p[axis] - border, to = q[axis] - border;
            if ((from < 0.0f) == (to < 0.0f)) continue;
            const float other = p[1 - axis] + (q[1 - axis] - p[1 - axis]) * (from / (from - to));
            if (other < 0.0f || other > size[1 - axis]) continue;
            if (axis == 0)
                hull_add(hull, border, other);
            else
                hull_add(hull, other, border);
        }
    }
}

box outline_box(const float *points, size_t n_points, float width, float height) {
    const float size[2] = {width, height};
    box hull = hull_start(), all = hull_start();
    if (n_points == 0) return (box){0};
    for (size_t i = 0; i < n_points; i++) {
        const float x = points[2 * i], y = points[2 * i + 1];
        hull_add(&all, x, y);
        if (x >= 0.0f && x <= width && y >= 0.0f && y <= height) hull_add(&hull, x, y);
    }
    if (all.x1 >= 0.0f && all.y1 >= 0.0f && all.x2 <= width && all.y2 <= height) return all;
    if (all.x2 < 0.0f || all.y2 < 0.0f || all.x1 > width || all.y1 > height) return (box){0};
    for (size_t i = 0, j = n_points - 1; i < n_points; j = i++)
        add_crossings(&hull, points + 2 * j, points + 2 * i, size);
    for (int corner = 0; corner < 4; corner++) {
        const float x = corner & 1 ? width : 0.0f, y = corner & 2 ? height : 0.0f;
        if (outline_contains(points, n_points, x, y)) hull_add(&hull, x, y);
    }
    return hull.x2 >= hull.x1 ? hull : (box){0};
}
