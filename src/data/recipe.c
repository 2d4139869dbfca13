#include "data/recipe.h"

#include <math.h>
#include <string.h>

typedef struct seen {
    double x1, y1, x2, y2; /* of the plane, inclusive */
} seen;

void recipe_begin(recipe_writer *w) {
    w->recipe->n_layers = 0;
    w->full = false;
}

/* What the output's pixels see of the plane: an affine map takes corners to corners. */
static seen find_seen(const gather *g) {
    if (g->perspective) return (seen){-INFINITY, -INFINITY, INFINITY, INFINITY};
    seen s = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (int corner = 0; corner < 4; corner++) {
        const double x = corner & 1 ? g->out_width - 1 : 0, y = corner & 2 ? g->out_height - 1 : 0;
        const double px = g->inverse[0] * x + g->inverse[1] * y + g->inverse[2];
        const double py = g->inverse[3] * x + g->inverse[4] * y + g->inverse[5];
        s.x1 = fmin(s.x1, px);
        s.y1 = fmin(s.y1, py);
        s.x2 = fmax(s.x2, px);
        s.y2 = fmax(s.y2, py);
    }
    return s;
}

/* The part of [from, to) between `low` and `high`, with a pixel of room for rounding and one for the second tap. */
static void trim(int *from, int *to, double low, double high) {
    if (low - 2 > *from) *from = low - 2 < *to ? (int)floor(low - 2) : *to;
    if (high + 3 < *to) *to = high + 3 > *from ? (int)ceil(high + 3) : *from;
}

/* Claims room for the trimmed tile and copies it; false when there is none. */
static bool tile_copy(recipe_writer *w, const gather_tile *from, const seen *s, int channels, picture_tile *to) {
    int x1 = from->x1, y1 = from->y1, x2 = from->x2, y2 = from->y2;
    trim(&x1, &x2, s->x1, s->x2);
    trim(&y1, &y2, s->y1, s->y2);
    if (x1 >= x2 || y1 >= y2) x2 = x1, y2 = y1;
    const size_t row = (size_t)(x2 - x1) * (size_t)channels, bytes = row * (size_t)(y2 - y1);
    const size_t at = atomic_fetch_add(&w->pixels->used, bytes);
    if (at > w->pixels->capacity || bytes > w->pixels->capacity - at) return false;
    *to = (picture_tile){.offset = at, .row_bytes = (int)row, .x1 = x1, .y1 = y1, .x2 = x2, .y2 = y2};
    const uint8_t *pixel =
        from->pixels + (size_t)(y1 - from->y1) * from->row_bytes + (size_t)(x1 - from->x1) * (size_t)channels;
    for (int y = y1; y < y2; y++, pixel += from->row_bytes)
        memcpy(w->pixels->bytes + at + (size_t)(y - y1) * row, pixel, row);
    return true;
}

picture_layer *recipe_add(recipe_writer *w, const gather *g, int kind) {
    if (w->full || w->recipe->n_layers == PICTURE_MAX_LAYERS) {
        w->full = true;
        return NULL;
    }
    picture_layer *l = &w->recipe->layers[w->recipe->n_layers];
    *l = (picture_layer){.n_tiles = g->n_tiles,
                         .perspective = g->perspective,
                         .separable = g->separable,
                         .kind = kind,
                         .x1 = g->x1,
                         .y1 = g->y1,
                         .x2 = g->x2,
                         .y2 = g->y2};
    memcpy(l->inverse, g->inverse, sizeof l->inverse);
    const seen s = find_seen(g);
    for (int i = 0; i < g->n_tiles && !w->full; i++)
        w->full = !tile_copy(w, &g->tiles[i], &s, g->channels, &l->tiles[i]);
    if (w->full) return NULL;
    w->recipe->n_layers++;
    return l;
}

void recipe_finish(recipe_writer *w, const hsv_tables *jitter, bool flip_columns, bool flip_rows, bool keep_bgr) {
    picture_recipe *r = w->recipe;
    r->jitter = jitter != NULL;
    r->flip_columns = flip_columns;
    r->flip_rows = flip_rows;
    r->keep_bgr = keep_bgr;
    if (jitter == NULL) return;
    memcpy(r->tables[0], jitter->h, sizeof r->tables[0]);
    memcpy(r->tables[1], jitter->s, sizeof r->tables[1]);
    memcpy(r->tables[2], jitter->v, sizeof r->tables[2]);
}
