#include "data/augment_parts.h"

#include <math.h>
#include <string.h>

#define PASTE_MAX_OVERLAP 0.3f /* share of an instance that may lie under any existing box */
#define MAX_SPAN_ENDS     256  /* crossings of one outline with one row; the rest is left out */

/* Columns of row y inside the outline (even-odd rule at pixel centres), as pairs of sorted crossings. */
static int find_span_ends(const float *points, size_t n, float y, float ends[MAX_SPAN_ENDS]) {
    int count = 0;
    for (size_t i = 0, j = n - 1; i < n && count < MAX_SPAN_ENDS; j = i++) {
        const float yi = points[2 * i + 1], yj = points[2 * j + 1];
        if ((yi > y) == (yj > y)) continue;
        const float x = points[2 * j] + (points[2 * i] - points[2 * j]) * ((y - yj) / (yi - yj));
        int k = count++;
        for (; k > 0 && ends[k - 1] > x; k--) ends[k] = ends[k - 1];
        ends[k] = x;
    }
    return count & ~1;
}

typedef void (*span_fn)(void *user, int y, int x1, int x2);

/* Calls `paint` for every run of pixels [x1, x2) inside outline i. */
static void outline_paint(const objects *o, int i, int height, int width, span_fn paint, void *user) {
    const float *points = o->points + 2 * o->first[i];
    const size_t n = o->first[i + 1] - o->first[i];
    float low = INFINITY, high = -INFINITY, ends[MAX_SPAN_ENDS];
    for (size_t k = 0; k < n; k++) {
        low = fminf(low, points[2 * k + 1]);
        high = fmaxf(high, points[2 * k + 1]);
    }
    const int y1 = low > 0.0f ? (int)low : 0, y2 = high < (float)(height - 1) ? (int)high : height - 1;
    for (int y = y1; y <= y2; y++) {
        const int count = find_span_ends(points, n, (float)y, ends);
        for (int k = 0; k < count; k += 2) {
            const int x1 = ends[k] > 0.0f ? (int)ceilf(ends[k]) : 0;
            const int x2 = ends[k + 1] < (float)(width - 1) ? (int)ends[k + 1] : width - 1;
            if (x1 <= x2) paint(user, y, x1, x2 + 1);
        }
    }
}

/* The largest share of object i of `from` that lies under one object of `under`. */
static float worst_overlap(const objects *under, int n_under, const objects *from, int i) {
    float worst = 0.0f;
    for (int k = 0; k < n_under; k++) worst = fmaxf(worst, box_share(under->boxes[k], from->boxes[i]));
    return worst;
}

/* Adds the first round(p*n) of the n candidates with little overlap, least overlap first, and paints each. */
static ol_status paste_instances(augment_job *job, objects *to, const objects *from, int height, int width,
                                 span_fn paint, void *user) {
    const int n_before = to->n;
    int candidates = 0;
    for (int i = 0; i < from->n; i++) candidates += worst_overlap(to, n_before, from, i) < PASTE_MAX_OVERLAP;
    int left = (int)rint(job->s->copy_paste * candidates), last = -1;
    float reached = -1.0f;
    while (left-- > 0) { /* selection by rank (overlap, index): no memory for a sort */
        float best = PASTE_MAX_OVERLAP;
        int next = -1;
        for (int i = 0; i < from->n; i++) {
            const float overlap = worst_overlap(to, n_before, from, i);
            const bool done = overlap < reached || (overlap == reached && i <= last);
            if (!done && overlap < best) best = overlap, next = i;
        }
        if (next < 0) break;
        reached = best;
        last = next;
        const ol_status status = objects_add(job->a->ctx, to, from, next);
        if (status != OL_OK) return status;
        outline_paint(from, next, height, width, paint, user);
    }
    return OL_OK;
}

static void paint_mirrored(void *user, int y, int x1, int x2) {
    augmenter *a = user;
    const size_t c = (size_t)a->canvas.channels, at = ((size_t)y * (size_t)a->canvas.width + (size_t)x1) * c;
    memcpy(a->canvas.pixels + at, a->mirrored.pixels + at, (size_t)(x2 - x1) * c);
}

/* The plane within height x width as a picture, and its mirror image. */
static ol_status draw_canvas(augmenter *a, int height, int width) {
    const gather *g = &a->gather;
    const size_t c = (size_t)g->channels;
    ol_status status = image_reserve(a->ctx, &a->canvas, height, width, g->channels);
    if (status == OL_OK) status = image_reserve(a->ctx, &a->mirrored, height, width, g->channels);
    if (status != OL_OK) return status;
    image_fill(&a->canvas, GATHER_PAD);
    for (int i = 0; i < g->n_tiles; i++) {
        const gather_tile *t = &g->tiles[i];
        for (int y = t->y1; y < t->y2; y++)
            memcpy(a->canvas.pixels + ((size_t)y * (size_t)width + (size_t)t->x1) * c,
                   t->pixels + (size_t)(y - t->y1) * t->row_bytes, (size_t)(t->x2 - t->x1) * c);
    }
    for (size_t y = 0; y < (size_t)height; y++) {
        const uint8_t *from = a->canvas.pixels + y * (size_t)width * c;
        uint8_t *to = a->mirrored.pixels + (y + 1) * (size_t)width * c;
        for (size_t x = 0; x < (size_t)width; x++, from += c) memcpy(to -= c, from, c);
    }
    return OL_OK;
}

ol_status augment_paste_mirrored(augment_job *job, int height, int width) {
    augmenter *a = job->a;
    ol_status status = draw_canvas(a, height, width);
    if (status != OL_OK) return status;
    objects_clear(&a->scratch);
    status = objects_add_all(a->ctx, &a->scratch, &a->found);
    if (status != OL_OK) return status;
    objects_mirror(&a->scratch, (float)width);
    status = paste_instances(job, &a->found, &a->scratch, height, width, paint_mirrored, a);
    gather_reset(&a->gather, job->channels, job->s->out_height, job->s->out_width);
    gather_add(&a->gather, &(gather_tile){.pixels = a->canvas.pixels,
                                          .row_bytes = (size_t)width * (size_t)job->channels,
                                          .x2 = width,
                                          .y2 = height});
    return status;
}

static void paint_other(void *user, int y, int x1, int x2) {
    augment_job *job = user;
    augmenter *a = job->a;
    const size_t width = (size_t)job->s->out_width, pixels = width * (size_t)job->s->out_height;
    uint8_t *line = a->line;
    gather_row(&a->gather, y, line, line + width, line + 2 * width);
    for (size_t k = 0; k < (size_t)job->channels; k++)
        memcpy(a->base + k * pixels + (size_t)y * width + (size_t)x1, line + k * width + (size_t)x1, (size_t)(x2 - x1));
}

ol_status augment_paste_other(augment_job *job, uint32_t index) {
    augmenter *a = job->a;
    const ol_status status = augment_lay_out(job, index);
    if (status != OL_OK || a->found.n == 0 || !a->found.outlined) return status;
    return paste_instances(job, &a->sample, &a->found, job->s->out_height, job->s->out_width, paint_other, job);
}
