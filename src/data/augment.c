#include "data/augment_parts.h"

#include "base/simd.h"
#include "data/mosaic.h"

#include <math.h>
#include <string.h>

augment_settings augment_defaults(int imgsz) {
    return (augment_settings){.out_height = imgsz,
                              .out_width = imgsz,
                              .imgsz = imgsz,
                              .mosaic = 1.0,
                              .translate = 0.1,
                              .scale_low = 0.5,
                              .scale_high = 1.5,
                              .hsv_h = 0.015,
                              .hsv_s = 0.7,
                              .hsv_v = 0.4,
                              .fliplr = 0.5};
}

void augment_close_mosaic(augment_settings *s) {
    s->mosaic = s->copy_paste = s->mixup = s->cutmix = 0.0;
}

ol_status augmenter_create(ol_context *ctx, augmenter **out) {
    augmenter *a = mem_alloc0(ctx, 1, sizeof *a);
    if (a == NULL) return OL_ERROR_MEMORY;
    a->ctx = ctx;
    *out = a;
    return OL_OK;
}

void augmenter_destroy(augmenter *a) {
    if (a == NULL) return;
    ol_context *ctx = a->ctx;
    for (int i = 0; i < GATHER_MAX_TILES; i++) image_deinit(ctx, &a->storage[i]);
    gather_deinit(ctx, &a->gather);
    objects_deinit(ctx, &a->found);
    objects_deinit(ctx, &a->sample);
    objects_deinit(ctx, &a->scratch);
    image_deinit(ctx, &a->canvas);
    image_deinit(ctx, &a->mirrored);
    mem_free(ctx, a->base);
    mem_free(ctx, a->line);
    mem_free(ctx, a->colours);
    mem_free(ctx, a->rows);
    mem_free(ctx, a);
}

static bool chance(rng *r, double probability) {
    return probability > 0.0 && rng_uniform(r) < probability;
}

/* Fetches a picture and puts it on the plane: whole, or as tile `i` of a mosaic. */
static ol_status place(augment_job *job, uint32_t index, int i, const int centre[2], int *height, int *width) {
    augmenter *a = job->a;
    augment_picture picture = {0};
    ol_status status = job->source->fetch(job->source->user, a->ctx, index, &a->storage[i], &picture);
    if (status != OL_OK) return status;
    const image *im = picture.pixels;
    if (im->channels != job->channels) {
        if (job->channels != 0)
            return ctx_fail(a->ctx, OL_ERROR_ARGUMENT, "pictures of %d and %d channels in one sample: check `channels`",
                            job->channels, im->channels);
        job->channels = im->channels;
        gather_reset(&a->gather, job->channels, job->s->out_height, job->s->out_width);
    }
    mosaic_tile t = {0, 0, im->width, im->height, 0, 0};
    if (centre != NULL) t = mosaic_place(i, im->height, im->width, centre[0], centre[1], job->s->imgsz);
    const size_t c = (size_t)im->channels, row_bytes = (size_t)im->width * c;
    gather_add(&a->gather, &(gather_tile){.pixels = im->pixels + (size_t)t.from_y * row_bytes + (size_t)t.from_x * c,
                                          .row_bytes = row_bytes,
                                          .x1 = t.x1,
                                          .y1 = t.y1,
                                          .x2 = t.x2,
                                          .y2 = t.y2});
    *height = im->height;
    *width = im->width;
    return objects_add_labels(a->ctx, &a->found, &picture.labels, im->height, im->width, t.x1 - t.from_x,
                              t.y1 - t.from_y);
}

static ol_status place_mosaic(augment_job *job, uint32_t index) {
    const int s = job->s->imgsz, low = (s + 1) / 2;
    int centre[2], height, width;
    for (int k = 0; k < 2; k++) centre[k] = (int)rng_range(job->rng, low, 2 * s - low);
    for (int i = 0; i < GATHER_MAX_TILES; i++) {
        const uint32_t which = i == 0 ? index : rng_below(job->rng, job->source->n_pictures);
        const ol_status status = place(job, which, i, centre, &height, &width);
        if (status != OL_OK) return status;
    }
    return objects_clip(job->a->ctx, &job->a->found, (float)(2 * s), (float)(2 * s), &job->a->scratch);
}

static affine_draws draw_affine(const augment_settings *s, rng *r) {
    affine_draws d;
    d.perspective_x = rng_range(r, -s->perspective, s->perspective);
    d.perspective_y = rng_range(r, -s->perspective, s->perspective);
    d.angle = rng_range(r, -s->degrees, s->degrees);
    d.scale = rng_range(r, s->scale_low, s->scale_high);
    d.shear_x = rng_range(r, -s->shear, s->shear);
    d.shear_y = rng_range(r, -s->shear, s->shear);
    d.translate_x = rng_range(r, 0.5 - s->translate, 0.5 + s->translate);
    d.translate_y = rng_range(r, 0.5 - s->translate, 0.5 + s->translate);
    return d;
}

ol_status augment_lay_out(augment_job *job, uint32_t index) {
    const augment_settings *s = job->s;
    augmenter *a = job->a;
    int height = 2 * s->imgsz, width = 2 * s->imgsz;
    float m[9];
    objects_clear(&a->found);
    gather_reset(&a->gather, job->channels, s->out_height, s->out_width);
    ol_status status =
        chance(job->rng, s->mosaic) ? place_mosaic(job, index) : place(job, index, 0, NULL, &height, &width);
    if (status == OL_OK && s->copy_paste > 0.0 && !s->copy_paste_mixup && a->found.n > 0 && a->found.outlined)
        status = augment_paste_mirrored(job, height, width);
    if (status != OL_OK) return status;
    const affine_draws d = draw_affine(s, job->rng);
    const bool perspective = s->perspective != 0.0;
    affine_matrix(&d, height, width, s->out_height, s->out_width, m);
    objects_warp(&a->found, m, perspective, (float)d.scale, (float)s->out_height, (float)s->out_width);
    return gather_begin(a->ctx, &a->gather, m, perspective);
}

static ol_status reserve(augmenter *a, const augment_settings *s, bool mixes) {
    const size_t width = (size_t)s->out_width, pixels = width * (size_t)s->out_height;
    void *line = a->line, *base = a->base, *colours = a->colours;
    ol_status status = mem_grow(a->ctx, &line, &a->line_capacity, 3 * width, 1);
    if (status == OL_OK)
        status = mem_grow(a->ctx, &colours, &a->colours_capacity, HSV_SCRATCH(width), sizeof *a->colours);
    if (status == OL_OK && mixes) status = mem_grow(a->ctx, &base, &a->base_capacity, 3 * pixels, 1);
    a->line = line;
    a->colours = colours;
    a->base = base;
    return status;
}

/* The sample as planes in a->base, so that others can be mixed into it. */
static void gather_all(augmenter *a, const augment_settings *s) {
    const size_t width = (size_t)s->out_width, pixels = width * (size_t)s->out_height;
    for (int y = 0; y < s->out_height; y++) {
        uint8_t *row = a->base + (size_t)y * width;
        gather_row(&a->gather, y, row, row + pixels, row + 2 * pixels);
    }
}

typedef struct finish {
    bool from_base, jitter, flip_columns, flip_rows, keep_bgr;
    hsv_tables tables;
} finish;

static finish draw_finish(const augment_settings *s, rng *r, bool from_base, int channels) {
    finish f = {.from_base = from_base};
    const double rh = rng_range(r, -1.0, 1.0) * s->hsv_h, rs = rng_range(r, -1.0, 1.0) * s->hsv_s;
    const double rv = rng_range(r, -1.0, 1.0) * s->hsv_v;
    f.jitter = channels == 3 && (s->hsv_h != 0.0 || s->hsv_s != 0.0 || s->hsv_v != 0.0);
    if (f.jitter) hsv_tables_init(&f.tables, rh, rs, rv);
    f.flip_rows = chance(r, s->flipud);
    f.flip_columns = chance(r, s->fliplr);
    f.keep_bgr = chance(r, s->bgr);
    return f;
}

SIMD_CLONES static void copy_reversed(const uint8_t *restrict from, int n, uint8_t *restrict to) {
    for (int i = 0; i < n; i++) to[i] = from[n - 1 - i];
}

static void finish_row(augmenter *a, const augment_settings *s, const finish *f, int channels, int y, uint8_t *planes) {
    const size_t width = (size_t)s->out_width, pixels = width * (size_t)s->out_height;
    uint8_t *b = a->line, *g = b + width, *r = g + width, *from[3] = {b, g, r};
    const int n_planes = channels == 1 ? 1 : 3; /* pictures have no other number of channels */
    if (f->from_base)
        for (int k = 0; k < n_planes; k++) memcpy(from[k], a->base + (size_t)k * pixels + (size_t)y * width, width);
    else
        gather_row(&a->gather, y, b, g, r);
    if (f->jitter) hsv_jitter_row(&f->tables, b, g, r, s->out_width, a->colours);
    const size_t row = (size_t)(f->flip_rows ? s->out_height - 1 - y : y) * width;
    for (int k = 0; k < n_planes; k++) {
        const int plane = n_planes == 3 && !f->keep_bgr ? 2 - k : k;
        uint8_t *to = planes + (size_t)plane * pixels + row;
        if (f->flip_columns)
            copy_reversed(from[k], s->out_width, to);
        else
            memcpy(to, from[k], width);
    }
}

static ol_status mix(augment_job *job, bool mixup, bool cutmix) {
    augmenter *a = job->a;
    const uint32_t n = job->source->n_pictures;
    ol_status status = OL_OK;
    if (job->recipe == NULL) gather_all(a, job->s);
    if (job->s->copy_paste > 0.0 && job->s->copy_paste_mixup) status = augment_paste_other(job, rng_below(job->rng, n));
    if (status == OL_OK && mixup) status = augment_mixup(job, rng_below(job->rng, n));
    if (status == OL_OK && cutmix) status = augment_cutmix(job);
    return status;
}

/* `planes` receives the picture; NULL with job->recipe, which does then. */
static ol_status make_sample(augment_job *job, uint32_t index, uint8_t *planes, const float **rows, int *n_rows) {
    augmenter *a = job->a;
    const augment_settings *s = job->s;
    ol_status status = augment_lay_out(job, index);
    if (status != OL_OK) return status;
    if (job->recipe != NULL) recipe_add(job->recipe, &a->gather, PICTURE_BASE);
    const bool mixup = chance(job->rng, s->mixup), cutmix = chance(job->rng, s->cutmix);
    const bool mixes = mixup || cutmix || (s->copy_paste > 0.0 && s->copy_paste_mixup);
    objects_clear(&a->sample);
    status = objects_add_all(a->ctx, &a->sample, &a->found);
    if (status == OL_OK) status = reserve(a, s, mixes && job->recipe == NULL);
    if (status == OL_OK && mixes) status = mix(job, mixup, cutmix);
    if (status != OL_OK) return status;
    const finish f = draw_finish(s, job->rng, mixes, job->channels);
    if (job->recipe != NULL)
        recipe_finish(job->recipe, f.jitter ? &f.tables : NULL, f.flip_columns, f.flip_rows, f.keep_bgr);
    for (int y = 0; y < s->out_height && planes != NULL; y++) finish_row(a, s, &f, job->channels, y, planes);
    void *block = a->rows;
    status = mem_grow(a->ctx, &block, &a->rows_capacity, 5 * (size_t)a->sample.n, sizeof *a->rows);
    a->rows = block;
    if (status != OL_OK) return status;
    objects_write_rows(&a->sample, (float)s->out_height, (float)s->out_width, f.flip_columns, f.flip_rows, a->rows);
    *rows = a->rows;
    *n_rows = a->sample.n;
    return OL_OK;
}

ol_status augment_sample(augmenter *a, const augment_settings *s, const augment_source *source, uint64_t seed,
                         uint32_t epoch, uint32_t index, uint8_t *planes, const float **rows, int *n_rows) {
    rng stream = rng_stream(seed, RNG_AUGMENT, epoch, index);
    augment_job job = {.a = a, .s = s, .source = source, .rng = &stream};
    return make_sample(&job, index, planes, rows, n_rows);
}

bool augment_has_recipe(const augment_settings *s) {
    return !(s->copy_paste > 0.0 && s->copy_paste_mixup);
}

ol_status augment_write_recipe(augmenter *a, const augment_settings *s, const augment_source *source, uint64_t seed,
                               uint32_t epoch, uint32_t index, recipe_writer *writer, const float **rows, int *n_rows) {
    rng stream = rng_stream(seed, RNG_AUGMENT, epoch, index);
    augment_job job = {.a = a, .s = s, .source = source, .rng = &stream, .recipe = writer};
    recipe_begin(writer);
    return make_sample(&job, index, NULL, rows, n_rows);
}
