#include "draw/grid.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>

#define GRID_MAX_PX   1920
#define GRID_MIN_CONF 0.25f

/* One picture of the batch as B,G,R rows. */
static ol_status interleave(ol_context *ctx, const batch *b, int i, image *out) {
    ol_status status = image_reserve(ctx, out, b->h, b->w, 3);
    if (status) return status;
    size_t plane = (size_t)b->h * (size_t)b->w;
    const uint8_t *from = b->images + (size_t)i * (size_t)b->channels * plane;
    for (size_t k = 0; k < plane; k++) {
        for (size_t ch = 0; ch < 3; ch++)
            out->pixels[3 * k + ch] = b->channels == 3 ? from[(2 - ch) * plane + k] : from[k];
    }
    return OL_OK;
}

typedef struct tile {
    double x, y, w, h, scale, text_px;
} tile;

static void draw_row(canvas *c, const tile *t, const detection *row, const char *name, bool score) {
    char text[200];
    if (score)
        snprintf(text, sizeof text, "%s %.1f", name, (double)row->score);
    else
        snprintf(text, sizeof text, "%s", name);
    detection moved = *row;
    moved.x1 = (float)(t->x + row->x1 * t->scale);
    moved.x2 = (float)(t->x + row->x2 * t->scale);
    moved.y1 = (float)(t->y + row->y1 * t->scale);
    moved.y2 = (float)(t->y + row->y2 * t->scale);
    draw_box(c, &moved, text, fmax(1, t->text_px / 7), t->text_px);
}

static void draw_tile(canvas *c, const tile *t, const batch *b, int i, const image *im, const detection_list *rows,
                      const char *const *names, int nc) {
    canvas_image(c, im, t->x, t->y, t->w, t->h);
    canvas_clip(c, t->x, t->y, t->w, t->h);
    char id[16];
    int n = rows ? (int)rows[i].count : (int)b->n_targets[i];
    for (int k = n; k-- > 0;) {
        detection row;
        if (rows) {
            row = rows[i].items[k];
            if (!(row.score > GRID_MIN_CONF)) continue;
        } else {
            const float *v = b->targets + ((size_t)i * (size_t)b->max_targets + (size_t)k) * 5;
            float w = (float)b->w, h = (float)b->h;
            row = (detection){.x1 = (v[1] - v[3] / 2) * w,
                              .y1 = (v[2] - v[4] / 2) * h,
                              .x2 = (v[1] + v[3] / 2) * w,
                              .y2 = (v[2] + v[4] / 2) * h,
                              .class_id = (int32_t)v[0]};
        }
        snprintf(id, sizeof id, "%d", row.class_id);
        draw_row(c, t, &row, row.class_id >= 0 && row.class_id < nc ? names[row.class_id] : id, rows != NULL);
    }
    text_style style = {.size_px = t->text_px, .k = {220, 220, 220}};
    if (b->info && b->info[i].path) canvas_text(c, t->x + 5, t->y + t->text_px + 2, path_name(b->info[i].path), &style);
    canvas_frame(c, t->x, t->y, t->w, t->h, COLOUR_WHITE, 2);
    canvas_unclip(c);
}

ol_status draw_grid(ol_context *ctx, const char *path, const batch *b, const detection_list *rows,
                    const char *const *names, int nc) {
    int n = b->n < GRID_MAX_IMAGES ? b->n : GRID_MAX_IMAGES;
    if (n < 1) return OL_OK;
    int side = (int)ceil(sqrt(n)), longest = b->h > b->w ? b->h : b->w;
    double scale = fmin(1, (double)GRID_MAX_PX / side / longest);
    tile t = {.w = ceil(b->w * scale), .h = ceil(b->h * scale), .scale = scale};
    t.text_px = fmax(9, (t.w + t.h) * side * 0.0085);
    image im = {0};
    canvas *c;
    ol_status status = canvas_create(ctx, side * (int)t.w, side * (int)t.h, &c);
    if (status) return status;
    for (int i = 0; i < n && !status; i++) {
        const int column = i / side, row = i % side;
        t.x = column * t.w;
        t.y = row * t.h;
        status = interleave(ctx, b, i, &im);
        if (!status) draw_tile(c, &t, b, i, &im, rows, names, nc);
    }
    if (!status) status = canvas_write_jpeg(c, path, 95);
    image_deinit(ctx, &im);
    canvas_destroy(c);
    return status;
}

ol_status draw_first_batches(ol_context *ctx, loader *l, int epoch, int n, const char *folder, const char *const *names,
                             int nc) {
    arena a;
    arena_init(&a, ctx, 0);
    loader_give_recipes(l, false); /* to look at, not to train on */
    ol_status status = loader_start(l, epoch);
    for (int i = 0; i < n && !status; i++) {
        const batch *b = NULL;
        status = loader_next(l, &b);
        if (status || !b) break;
        const char *path = arena_printf(&a, "%s/train_batch%d.jpg", folder, i);
        status = path ? draw_grid(ctx, path, b, NULL, names, nc) : OL_ERROR_MEMORY;
    }
    arena_deinit(&a);
    return status;
}
