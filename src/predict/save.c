#include "predict/save.h"

#include "base/file.h"
#include "draw/boxes.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define JPEG_QUALITY 95

ol_status result_saver_init(result_saver *v, ol_context *ctx, const settings *s, const char *folder,
                            bool save_pictures) {
    *v = (result_saver){.ctx = ctx, .s = s, .folder = folder, .save_pictures = save_pictures};
    if (!s->save_txt) return OL_OK;
    arena a;
    arena_init(&a, ctx, 0);
    char *labels = path_join(&a, folder, "labels");
    ol_status status = labels ? folder_create(ctx, labels) : OL_ERROR_MEMORY;
    arena_deinit(&a);
    return status;
}

void result_saver_deinit(result_saver *v) {
    for (size_t i = 0; i < v->stem_capacity; i++) mem_free(v->ctx, v->stems[i]);
    mem_free(v->ctx, v->stems);
    *v = (result_saver){0};
}

static size_t stem_slot(char *const *stems, size_t capacity, const char *stem) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = stem; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    size_t at = (size_t)hash & (capacity - 1);
    while (stems[at] && strcmp(stems[at], stem) != 0) at = (at + 1) & (capacity - 1);
    return at;
}

static ol_status stems_grow(result_saver *v) {
    size_t capacity = v->stem_capacity ? 2 * v->stem_capacity : 64;
    char **stems = mem_alloc0(v->ctx, capacity, sizeof *stems);
    if (!stems) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < v->stem_capacity; i++) {
        if (v->stems[i]) stems[stem_slot(stems, capacity, v->stems[i])] = v->stems[i];
    }
    mem_free(v->ctx, v->stems);
    v->stems = stems;
    v->stem_capacity = capacity;
    return OL_OK;
}

/* stem, stem-2, stem-3 …: the first that this run has not used. */
static ol_status unique_stem(result_saver *v, arena *a, const char *path, const char **out) {
    const char *stem = path_stem(a, path), *candidate = stem;
    if (2 * (v->n_stems + 1) > v->stem_capacity) {
        ol_status status = stems_grow(v);
        if (status) return status;
    }
    for (int k = 2; candidate && v->stems[stem_slot(v->stems, v->stem_capacity, candidate)]; k++)
        candidate = arena_printf(a, "%s-%d", stem, k);
    char *copy = candidate ? mem_strdup(v->ctx, candidate) : NULL;
    if (!copy) return OL_ERROR_MEMORY;
    v->stems[stem_slot(v->stems, v->stem_capacity, copy)] = copy;
    v->n_stems++;
    *out = candidate;
    return OL_OK;
}

ol_status result_draw(ol_context *ctx, const settings *s, const predict_result *r, image *out) {
    canvas *c;
    ol_status status = canvas_create_from_image(ctx, r->picture, &c);
    if (status) return status;
    box_style style = {.line_width = s->line_width == SETTING_UNSET ? 0 : s->line_width,
                       .hide_boxes = !s->show_boxes,
                       .hide_names = !s->show_labels,
                       .hide_scores = !s->show_conf,
                       .score_digits = 2,
                       .names = r->names,
                       .nc = r->nc};
    draw_boxes(c, r->rows, r->n_rows, &style);
    status = canvas_to_image(c, out);
    canvas_destroy(c);
    return status;
}

void result_print_labels(text *out, const predict_result *r, bool scores) {
    for (size_t i = 0; i < r->n_rows; i++) {
        const detection *d = &r->rows[i];
        double w = r->width, h = r->height;
        text_printf(out, "%d %g %g %g %g", d->class_id, ((double)d->x1 + (double)d->x2) / 2 / w,
                    ((double)d->y1 + (double)d->y2) / 2 / h, ((double)d->x2 - (double)d->x1) / w,
                    ((double)d->y2 - (double)d->y1) / h);
        if (scores) text_printf(out, " %g", (double)d->score);
        text_printf(out, "\n");
    }
}

bool crop_rectangle(const detection *d, int height, int width, int *left, int *top, int *right, int *bottom) {
    double cx = ((double)d->x1 + (double)d->x2) / 2, cy = ((double)d->y1 + (double)d->y2) / 2;
    double w = ((double)d->x2 - (double)d->x1) * 1.02 + 10, h = ((double)d->y2 - (double)d->y1) * 1.02 + 10;
    if (!isfinite(cx) || !isfinite(cy) || !(w > 0) || !(h > 0)) return false;
    *left = (int)fmin(fmax(cx - w / 2, 0), width);
    *top = (int)fmin(fmax(cy - h / 2, 0), height);
    *right = (int)fmin(fmax(cx + w / 2, 0), width);
    *bottom = (int)fmin(fmax(cy + h / 2, 0), height);
    return *right > *left && *bottom > *top;
}

static ol_status write_jpeg(ol_context *ctx, const char *path, const image *im, bool full_chroma) {
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    image_jpeg_options options = {.quality = JPEG_QUALITY, .full_chroma = full_chroma};
    ol_status status = image_encode_jpeg(ctx, im, &options, &bytes, &n_bytes);
    if (!status) status = file_write_whole(ctx, path, bytes, n_bytes);
    mem_free(ctx, bytes);
    return status;
}

static ol_status save_picture(result_saver *v, arena *a, const predict_result *r, const char *stem) {
    char *path = arena_printf(a, "%s/%s.jpg", v->folder, stem);
    image drawn = {0};
    ol_status status = path ? result_draw(v->ctx, v->s, r, &drawn) : OL_ERROR_MEMORY;
    if (!status) status = write_jpeg(v->ctx, path, &drawn, false);
    image_deinit(v->ctx, &drawn);
    if (status != OL_ERROR_UNSUPPORTED) return status;
    char message[256]; /* a picture too large to draw on must not end the run */
    ctx_message(v->ctx, message, sizeof message);
    ctx_clear(v->ctx);
    ctx_log(v->ctx, OL_LOG_WARNING, "%s: no annotated picture is saved: %s", r->path, message);
    return OL_OK;
}

static ol_status save_labels(result_saver *v, arena *a, const predict_result *r, const char *stem) {
    char *path = arena_printf(a, "%s/labels/%s.txt", v->folder, stem);
    if (!path) return OL_ERROR_MEMORY;
    unlink(path);
    if (!r->n_rows) return OL_OK;
    text t;
    text_init(&t, v->ctx);
    result_print_labels(&t, r, v->s->save_conf);
    ol_status status = t.failed ? OL_ERROR_MEMORY : file_write_whole(v->ctx, path, t.bytes, t.length);
    text_deinit(&t);
    if (!status) v->n_labels++;
    return status;
}

/* Class names come from model files: as folder names they must not lead elsewhere. */
static char *class_folder(arena *a, const predict_result *r, int class_id) {
    char buffer[16];
    char *name = arena_strdup(a, result_class_name(r, class_id, buffer));
    for (char *c = name; c && *c; c++) {
        if (*c == '/' || *c == '\\' || (unsigned char)*c < 32) *c = '_';
    }
    bool usable = name && name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strlen(name) < 200;
    return usable ? name : arena_printf(a, "class%d", class_id);
}

static ol_status save_crop(result_saver *v, arena *a, const predict_result *r, const detection *d, const char *stem) {
    int left, top, right, bottom;
    if (!crop_rectangle(d, r->height, r->width, &left, &top, &right, &bottom)) return OL_OK;
    const char *name = class_folder(a, r, d->class_id);
    char *folder = name ? arena_printf(a, "%s/crops/%s", v->folder, name) : NULL;
    char *path = folder ? arena_printf(a, "%s/%s.jpg", folder, stem) : NULL;
    if (!path) return OL_ERROR_MEMORY;
    ol_status status = folder_create(v->ctx, folder);
    for (int k = 2; path && file_exists(path); k++) path = arena_printf(a, "%s/%s-%d.jpg", folder, stem, k);
    if (!path) return OL_ERROR_MEMORY;
    image crop = {0};
    size_t channels = (size_t)r->picture->channels, row_bytes = (size_t)(right - left) * channels;
    if (!status) status = image_reserve(v->ctx, &crop, bottom - top, right - left, r->picture->channels);
    for (int y = top; y < bottom && !status; y++) {
        const uint8_t *from = r->picture->pixels + ((size_t)y * (size_t)r->width + (size_t)left) * channels;
        memcpy(crop.pixels + (size_t)(y - top) * row_bytes, from, row_bytes);
    }
    if (!status) status = write_jpeg(v->ctx, path, &crop, true);
    image_deinit(v->ctx, &crop);
    return status;
}

ol_status result_save(result_saver *v, const predict_result *r) {
    arena a;
    arena_init(&a, v->ctx, 0);
    const char *stem;
    ol_status status = unique_stem(v, &a, r->path, &stem);
    if (!status && v->save_pictures) status = save_picture(v, &a, r, stem);
    if (!status && v->s->save_txt) status = save_labels(v, &a, r, stem);
    for (size_t i = 0; i < r->n_rows && v->s->save_crop && !status; i++)
        status = save_crop(v, &a, r, &r->rows[i], stem);
    arena_deinit(&a);
    return status;
}
