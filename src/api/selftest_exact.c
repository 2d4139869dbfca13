#include "api/selftest_exact.h"

#include "base/progress.h"
#include "base/rng.h"
#include "data/augment.h"
#include "data/letterbox.h"
#include "device/select.h"

#include <stdio.h>
#include <string.h>

enum { N = 2, NC = 6, ANCHORS = 700, ROWS = 4 + NC, SIDE = 64, N_SOURCES = 4, PICTURE = 3 * SIDE * SIDE };

typedef struct exact_run {
    ol_context *ctx;
    device *dev;
    exact_line line;
    char message[256];
} exact_run;

/* A failure of the device becomes the line's message; want of host memory ends the test. */
static ol_status judge(exact_run *r, ol_status status, bool equal, double started) {
    const double ms = (progress_clock() - started) * 1e3;
    if (status == OL_ERROR_MEMORY) return status;
    r->line.n_cases++;
    r->line.n_wrong += status != OL_OK || !equal;
    if (ms > r->line.milliseconds) r->line.milliseconds = ms;
    if (status == OL_OK) return OL_OK;
    ctx_message(r->ctx, r->message, sizeof r->message);
    ctx_clear(r->ctx);
    return OL_OK;
}

/* --- detections --- */

static const struct {
    bool corners;
    nms_options o;
} selections[] = {{false, {.conf = 0.3F, .iou = 0.5F, .max_det = 300}},
                  {false, {.conf = 0.2F, .iou = 0.6F, .max_det = 300, .multi_label = true, .max_candidates = 1000}},
                  {true, {.conf = 0.3F, .max_det = 300}},
                  {true, {.conf = 0.3F, .max_det = 50, .agnostic = true}}};

/* Crowded boxes, scores of few levels. */
static void decoded_draw(float *pred) {
    rng r = rng_stream(1, RNG_TEST, 0, 0);
    for (int i = 0; i < N * ROWS * ANCHORS; i++) {
        const int row = i / ANCHORS % ROWS;
        pred[i] = row < 2   ? (float)rng_range(&r, 0.0, 300.0)
                  : row < 4 ? (float)rng_range(&r, 5.0, 90.0)
                            : (float)rng_below(&r, 500) / 500.0F;
    }
}

static ol_status selection_compare(exact_run *r, const float *pred, device_buffer *buffer, size_t k,
                                   detection_list lists[N + 1]) {
    const decoded_batch batch = {
        .at = flat_at(buffer, 0), .n = N, .nc = NC, .anchors = ANCHORS, .corners = selections[k].corners};
    const double started = progress_clock();
    const ol_status found = device_select(r->dev, &batch, &selections[k].o, lists);
    bool equal = true;
    for (int i = 0; i < N && found == OL_OK; i++) {
        detection_list *want = &lists[N];
        const ol_status status = detections_select(r->ctx, pred + (size_t)i * ROWS * ANCHORS, NC, ANCHORS,
                                                   selections[k].corners, &selections[k].o, want);
        if (status != OL_OK) return status;
        equal = equal && want->count == lists[i].count && want->count > 0 &&
                memcmp(want->items, lists[i].items, want->count * sizeof *want->items) == 0;
    }
    return judge(r, found, equal, started);
}

static ol_status detections_test(exact_run *r) {
    const size_t bytes = (size_t)N * ROWS * ANCHORS * sizeof(float);
    detection_list lists[N + 1] = {{0}};
    device_buffer *buffer = NULL;
    float *pred = mem_alloc(r->ctx, bytes, 1);
    if (pred == NULL) return OL_ERROR_MEMORY;
    decoded_draw(pred);
    ol_status status = device_buffer_create(r->dev, bytes, &buffer);
    if (status == OL_OK) status = device_buffer_write(buffer, 0, pred, bytes);
    if (status != OL_OK) status = judge(r, status, false, progress_clock());
    for (size_t k = 0; k < sizeof selections / sizeof *selections && status == OL_OK && buffer != NULL; k++)
        status = selection_compare(r, pred, buffer, k, lists);
    for (int i = 0; i <= N; i++) mem_free(r->ctx, lists[i].items);
    device_buffer_destroy(buffer);
    mem_free(r->ctx, pred);
    return status;
}

/* --- pictures --- */

typedef struct sources {
    image images[N_SOURCES];
} sources;

static ol_status lend(void *user, ol_context *ctx, uint32_t index, image *storage, augment_picture *picture) {
    (void)ctx, (void)storage;
    *picture = (augment_picture){.pixels = &((sources *)user)->images[index]};
    return OL_OK;
}

/* Gradients under noise, in sizes of their own. */
static ol_status sources_draw(exact_run *r, sources *s) {
    rng noise = rng_stream(2, RNG_TEST, 0, 0);
    for (int i = 0; i < N_SOURCES; i++) {
        const int h = i % 2 ? SIDE : SIDE - 11 * i - 7, w = i % 2 ? SIDE - 5 * i : SIDE;
        const ol_status status = image_reserve(r->ctx, &s->images[i], h, w, 3);
        if (status != OL_OK) return status;
        for (int k = 0; k < 3 * h * w; k++)
            s->images[i].pixels[k] = (uint8_t)(k % (3 * w) + k / (5 * w) + (int)rng_below(&noise, 40));
    }
    return OL_OK;
}

/* The device's planes against `want`. */
static ol_status planes_compare(exact_run *r, const picture_batch *b, device_buffer *buffer, const uint8_t *want,
                                uint8_t *got) {
    const double started = progress_clock();
    ol_status status = device_make_pictures(r->dev, b, NULL, buffer, 0);
    if (status == OL_OK) status = device_buffer_read(buffer, 0, got, (size_t)b->n * PICTURE);
    return judge(r, status, status == OL_OK && memcmp(got, want, (size_t)b->n * PICTURE) == 0, started);
}

typedef struct picture_work {
    uint8_t *want, *got, *pixels;
    picture_recipe *recipes;
    augmenter *augmenter;
    image scratch;
    device_buffer *buffer;
} picture_work;

static ol_status samples_test(exact_run *r, sources *s, const picture_work *w, bool turned) {
    augment_settings settings = augment_defaults(SIDE);
    const augment_source source = {lend, s, N_SOURCES};
    recipe_pixels pixels = {.bytes = w->pixels, .capacity = (size_t)N * 5 * PICTURE};
    if (turned) settings.degrees = 20, settings.shear = 5, settings.mixup = 1;
    for (int i = 0; i < N; i++) {
        const float *rows;
        int n;
        recipe_writer writer = {.recipe = &w->recipes[i], .pixels = &pixels};
        ol_status status = augment_sample(w->augmenter, &settings, &source, 1, 0, (uint32_t)i,
                                          w->want + (size_t)i * PICTURE, &rows, &n);
        if (status == OL_OK)
            status = augment_write_recipe(w->augmenter, &settings, &source, 1, 0, (uint32_t)i, &writer, &rows, &n);
        if (status != OL_OK) return status;
        if (writer.full) w->recipes[i].n_layers = 0;
    }
    const size_t used = atomic_load(&pixels.used);
    const picture_batch b = {.n = N,
                             .channels = 3,
                             .h = SIDE,
                             .w = SIDE,
                             .recipes = w->recipes,
                             .pixels = pixels.bytes,
                             .pixel_bytes = used < pixels.capacity ? used : pixels.capacity,
                             .most_pixel_bytes = pixels.capacity,
                             .planes = w->want};
    return planes_compare(r, &b, w->buffer, w->want, w->got);
}

static ol_status letterbox_test(exact_run *r, const sources *s, picture_work *w) {
    for (int i = 0; i < N_SOURCES; i++) {
        const image *src = &s->images[i];
        const letterbox_options options = {.height = SIDE, .width = SIDE};
        const letterbox_geometry g = letterbox_plan(src->height, src->width, &options);
        const letterbox_recipe recipe = letterbox_recipe_of(&g, src->height, src->width, 0);
        ol_status status = letterbox_planes(r->ctx, src, &g, &w->scratch, w->want);
        if (status != OL_OK) return status;
        const picture_batch b = {.kind = PICTURES_LETTERBOXED,
                                 .n = 1,
                                 .channels = 3,
                                 .h = SIDE,
                                 .w = SIDE,
                                 .recipes = &recipe,
                                 .pixels = src->pixels,
                                 .pixel_bytes = image_bytes(src),
                                 .most_pixel_bytes = image_bytes(src)};
        status = planes_compare(r, &b, w->buffer, w->want, w->got);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static ol_status pictures_test(exact_run *r) {
    if (!device_makes_pictures(r->dev)) return OL_OK;
    sources s = {0};
    picture_work w = {.want = mem_alloc(r->ctx, N, PICTURE),
                      .got = mem_alloc(r->ctx, N, PICTURE),
                      .pixels = mem_alloc(r->ctx, N * 5, PICTURE),
                      .recipes = mem_alloc0(r->ctx, N, sizeof(picture_recipe))};
    const bool all = w.want != NULL && w.got != NULL && w.pixels != NULL && w.recipes != NULL;
    ol_status status = all ? augmenter_create(r->ctx, &w.augmenter) : OL_ERROR_MEMORY;
    if (status == OL_OK) status = sources_draw(r, &s);
    if (status != OL_OK) goto fail;
    status = device_buffer_create(r->dev, (size_t)N * PICTURE, &w.buffer);
    if (status != OL_OK) {
        status = judge(r, status, false, progress_clock());
        goto fail;
    }
    status = samples_test(r, &s, &w, false);
    if (status == OL_OK) status = samples_test(r, &s, &w, true);
    if (status == OL_OK) status = letterbox_test(r, &s, &w);
fail:
    device_buffer_destroy(w.buffer);
    augmenter_destroy(w.augmenter);
    for (int i = 0; i < N_SOURCES; i++) image_deinit(r->ctx, &s.images[i]);
    image_deinit(r->ctx, &w.scratch);
    mem_free(r->ctx, w.want);
    mem_free(r->ctx, w.got);
    mem_free(r->ctx, w.pixels);
    mem_free(r->ctx, w.recipes);
    return status;
}

ol_status selftest_exact(ol_context *ctx, device *dev, exact_line_fn line, void *user) {
    static const struct {
        const char *name;
        ol_status (*run)(exact_run *r);
    } parts[] = {{"detections", detections_test}, {"pictures", pictures_test}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        exact_run r = {.ctx = ctx, .dev = dev, .line = {.name = parts[i].name}};
        r.line.message = r.message;
        const ol_status status = parts[i].run(&r);
        if (status != OL_OK) return status;
        if (r.line.n_cases > 0) line(user, &r.line);
    }
    return OL_OK;
}
