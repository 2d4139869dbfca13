#include "data/objects.h"

#include <math.h>
#include <string.h>

/* Share of a box that must be left, without and with outlines (data document, section 2.5). */
#define LEAST_AREA          0.1f
#define LEAST_AREA_OUTLINED 0.01f
#define MAX_CROSSINGS       4 /* of one edge with the four border lines */

void objects_deinit(ol_context *ctx, objects *o) {
    mem_free(ctx, o->cls);
    mem_free(ctx, o->boxes);
    mem_free(ctx, o->first);
    mem_free(ctx, o->points);
    *o = (objects){0};
}

void objects_clear(objects *o) {
    o->n = 0;
    o->outlined = true;
}

static size_t n_points(const objects *o) {
    return o->n > 0 && o->outlined ? o->first[o->n] : 0;
}

static ol_status make_room(ol_context *ctx, objects *o, int more, size_t more_points) {
    const size_t n = (size_t)o->n + (size_t)more, floats = 2 * (n_points(o) + more_points);
    void *cls = o->cls, *boxes = o->boxes, *first = o->first, *points = o->points;
    ol_status status = mem_grow(ctx, &cls, &o->cls_capacity, n, sizeof *o->cls);
    if (status == OL_OK) status = mem_grow(ctx, &boxes, &o->boxes_capacity, n, sizeof *o->boxes);
    if (status == OL_OK) status = mem_grow(ctx, &first, &o->first_capacity, n + 1, sizeof *o->first);
    if (status == OL_OK) status = mem_grow(ctx, &points, &o->points_capacity, floats, sizeof *o->points);
    o->cls = cls;
    o->boxes = boxes;
    o->first = first;
    o->points = points;
    if (status == OL_OK && o->n == 0) o->first[0] = 0;
    return status;
}

ol_status objects_add_labels(ol_context *ctx, objects *o, const label_rows *labels, int height, int width, int dx,
                             int dy) {
    if (labels->n == 0) return OL_OK;
    if (labels->first_point == NULL) o->outlined = false;
    const int32_t *first = labels->first_point;
    const bool outlined = o->outlined;
    const size_t more = outlined ? (size_t)(first[labels->n] - first[0]) : 0, at = n_points(o);
    const ol_status status = make_room(ctx, o, labels->n, more);
    if (status != OL_OK) return status;
    const float w = (float)width, h = (float)height, x = (float)dx, y = (float)dy;
    for (int i = 0; i < labels->n; i++) {
        const float *row = labels->rows + 5 * i;
        const float half_w = row[3] / 2, half_h = row[4] / 2;
        o->cls[o->n + i] = row[0];
        o->boxes[o->n + i] = (box){(row[1] - half_w) * w + x, (row[2] - half_h) * h + y, (row[1] + half_w) * w + x,
                                   (row[2] + half_h) * h + y};
        if (outlined) o->first[o->n + i + 1] = at + (size_t)(first[i + 1] - first[0]);
    }
    for (size_t k = 0; k < more; k++) {
        const float *p = labels->points + 2 * ((size_t)first[0] + k);
        o->points[2 * (at + k)] = p[0] * w + x;
        o->points[2 * (at + k) + 1] = p[1] * h + y;
    }
    o->n += labels->n;
    return OL_OK;
}

ol_status objects_add(ol_context *ctx, objects *o, const objects *from, int i) {
    if (!from->outlined) o->outlined = false;
    const size_t more = o->outlined ? from->first[i + 1] - from->first[i] : 0, at = n_points(o);
    const ol_status status = make_room(ctx, o, 1, more);
    if (status != OL_OK) return status;
    o->cls[o->n] = from->cls[i];
    o->boxes[o->n] = from->boxes[i];
    if (more > 0) memcpy(o->points + 2 * at, from->points + 2 * from->first[i], 2 * more * sizeof(float));
    o->first[o->n + 1] = at + more;
    o->n++;
    return OL_OK;
}

ol_status objects_add_all(ol_context *ctx, objects *o, const objects *from) {
    ol_status status = OL_OK;
    for (int i = 0; i < from->n && status == OL_OK; i++) status = objects_add(ctx, o, from, i);
    return status;
}

/* Where along the edge p-q (0 … 1, ascending) it crosses the border lines of the canvas. */
static int find_crossings(const float *p, const float *q, const float size[2], float at[MAX_CROSSINGS]) {
    int n = 0;
    for (int axis = 0; axis < 2; axis++) {
        for (int side = 0; side < 2; side++) {
            const float border = side == 0 ? 0.0f : size[axis], from = p[axis] - border, to = q[axis] - border;
            if (!((from < 0.0f && to > 0.0f) || (from > 0.0f && to < 0.0f))) continue;
            const float t = from / (from - to);
            int k = n++;
            for (; k > 0 && at[k - 1] > t; k--) at[k] = at[k - 1];
            at[k] = t;
        }
    }
    return n;
}

/* The outline with every point moved to the nearest point of the canvas. Edges that cross a border line are cut there
 * first, so that the result is what clamping a densely sampled outline gives. */
static ol_status add_clamped(ol_context *ctx, objects *to, const objects *from, int i, const float size[2]) {
    const size_t begin = from->first[i], n = from->first[i + 1] - begin, at = n_points(to);
    const ol_status status = make_room(ctx, to, 1, n * (1 + MAX_CROSSINGS));
    if (status != OL_OK) return status;
    float *out = to->points + 2 * at;
    for (size_t k = 0; k < n; k++) {
        const float *p = from->points + 2 * (begin + k), *q = from->points + 2 * (begin + (k + 1) % n);
        float cut[MAX_CROSSINGS];
        const int n_cuts = find_crossings(p, q, size, cut);
        for (int c = -1; c < n_cuts; c++) {
            const float t = c < 0 ? 0.0f : cut[c];
            for (int axis = 0; axis < 2; axis++)
                *out++ = fminf(fmaxf(p[axis] + (q[axis] - p[axis]) * t, 0.0f), size[axis]);
        }
    }
    to->first[to->n + 1] = (size_t)(out - to->points) / 2;
    return OL_OK;
}

ol_status objects_clip(ol_context *ctx, objects *o, float height, float width, objects *scratch) {
    const float size[2] = {width, height};
    objects_clear(scratch);
    scratch->outlined = o->outlined;
    for (int i = 0; i < o->n; i++) {
        const box b = box_clip(o->boxes[i], width, height);
        if ((b.x2 - b.x1) * (b.y2 - b.y1) <= 0.0f) continue;
        const ol_status status = o->outlined ? add_clamped(ctx, scratch, o, i, size) : make_room(ctx, scratch, 1, 0);
        if (status != OL_OK) return status;
        scratch->cls[scratch->n] = o->cls[i];
        scratch->boxes[scratch->n++] = b;
    }
    const objects clipped = *scratch;
    *scratch = *o;
    *o = clipped;
    objects_clear(scratch);
    return OL_OK;
}

void objects_warp(objects *o, const float m[9], bool perspective, float scale, float height, float width) {
    int kept = 0;
    size_t kept_points = 0;
    for (int i = 0; i < o->n; i++) {
        const box b = o->boxes[i], before = {b.x1 * scale, b.y1 * scale, b.x2 * scale, b.y2 * scale};
        box after;
        size_t count = 0;
        if (o->outlined) { /* compacting in place: the write position never passes the read position */
            const size_t begin = o->first[i];
            count = o->first[i + 1] - begin;
            float *to = o->points + 2 * kept_points;
            for (size_t k = 0; k < count; k++) {
                const float *p = o->points + 2 * (begin + k);
                affine_point(m, perspective, p[0], p[1], &to[2 * k], &to[2 * k + 1]);
            }
            after = outline_box(to, count, width, height);
        } else {
            after = box_clip(affine_box(m, perspective, b), width, height);
        }
        if (!box_survives(before, after, o->outlined ? LEAST_AREA_OUTLINED : LEAST_AREA)) continue;
        o->cls[kept] = o->cls[i];
        o->boxes[kept] = after;
        kept_points += count;
        if (o->outlined) o->first[kept + 1] = kept_points;
        kept++;
    }
    o->n = kept;
}

void objects_mirror(objects *o, float width) {
    for (int i = 0; i < o->n; i++) {
        const box b = o->boxes[i];
        o->boxes[i] = (box){width - b.x2, b.y1, width - b.x1, b.y2};
    }
    for (size_t k = 0; k < n_points(o); k++) o->points[2 * k] = width - o->points[2 * k];
}

void objects_write_rows(const objects *o, float height, float width, bool flip_columns, bool flip_rows, float *rows) {
    for (int i = 0; i < o->n; i++, rows += 5) {
        const box b = o->boxes[i];
        const float cx = (b.x1 + b.x2) / 2, cy = (b.y1 + b.y2) / 2;
        rows[0] = o->cls[i];
        rows[1] = (flip_columns ? width - cx : cx) / width;
        rows[2] = (flip_rows ? height - cy : cy) / height;
        rows[3] = (b.x2 - b.x1) / width;
        rows[4] = (b.y2 - b.y1) / height;
    }
}

float box_share(box a, box b) {
    const float w = fminf(a.x2, b.x2) - fmaxf(a.x1, b.x1), h = fminf(a.y2, b.y2) - fmaxf(a.y1, b.y1);
    const float area = (b.x2 - b.x1) * (b.y2 - b.y1);
    return w > 0.0f && h > 0.0f && area > 0.0f ? w * h / area : 0.0f;
}
