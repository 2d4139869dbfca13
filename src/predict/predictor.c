#include "predict/predictor.h"

#include "base/progress.h"
#include "data/letterbox.h"

#include <math.h>
#include <string.h>

#define DEFAULT_CONF   0.25
#define DEFAULT_STRIDE 32
#define SCALED_SHARE   4 /* pictures of up to this many times the network's bytes are copied sooner than scaled */

struct predictor {
    ol_context *ctx;
    runner *r;
    predictor_options o;
    arena arena;
    int height, width; /* of the network's input before minimal padding */
    bool rect;
    nms_options select;
    uint8_t *planes; /* (n,channels,H,W) */
    size_t planes_bytes;
    uint8_t *sources; /* pictures for the device to scale, one after the other; page-locked */
    size_t sources_bytes;
    letterbox_recipe *recipes; /* n_slots each */
    image *scratch;
    detection_list *rows;
    int n_slots;
};

static void choose_size(predictor *p) {
    int hw[2];
    settings_image_size(p->o.s, hw);
    int raised[2];
    for (int i = 0; i < 2; i++) raised[i] = (hw[i] + p->o.stride - 1) / p->o.stride * p->o.stride;
    if (raised[0] != hw[0] || raised[1] != hw[1])
        ctx_log(p->ctx, OL_LOG_WARNING, "imgsz=[%d, %d] must be multiple of max stride %d, updating to [%d, %d]", hw[0],
                hw[1], p->o.stride, raised[0], raised[1]);
    p->height = raised[0];
    p->width = raised[1];
}

ol_status predictor_create(ol_context *ctx, runner *r, const predictor_options *options, predictor **out) {
    predictor *p = mem_alloc0(ctx, 1, sizeof *p);
    if (!p) return OL_ERROR_MEMORY;
    p->ctx = ctx;
    p->r = r;
    p->o = *options;
    if (!p->o.stride) p->o.stride = DEFAULT_STRIDE;
    if (!p->o.channels) p->o.channels = 3;
    arena_init(&p->arena, ctx, 0);
    const settings *s = options->s;
    p->rect = s->rect || !s->given[SETTING_ID_rect];
    int *classes = NULL;
    size_t n_classes = 0;
    choose_size(p);
    ol_status status = settings_ints(&p->arena, s->classes, &classes, &n_classes);
    if (status) {
        predictor_destroy(p);
        return status;
    }
    for (size_t i = 0; i < n_classes; i++)
        if (classes[i] >= options->nc)
            ctx_log(ctx, OL_LOG_WARNING, "classes: the model has no class %d, its classes are 0-%d", classes[i],
                    options->nc - 1);
    p->select = (nms_options){.conf = (float)(isnan(s->conf) ? DEFAULT_CONF : s->conf),
                              .iou = (float)s->iou,
                              .max_det = s->max_det,
                              .agnostic = s->agnostic_nms,
                              .classes = classes,
                              .n_classes = (int)n_classes};
    *out = p;
    return OL_OK;
}

void predictor_destroy(predictor *p) {
    if (!p) return;
    for (int i = 0; i < p->n_slots; i++) {
        image_deinit(p->ctx, &p->scratch[i]);
        mem_free(p->ctx, p->rows[i].items);
    }
    runner_host_destroy(p->r, p->sources);
    mem_free(p->ctx, p->recipes);
    mem_free(p->ctx, p->scratch);
    mem_free(p->ctx, p->rows);
    mem_free_aligned(p->ctx, p->planes);
    arena_deinit(&p->arena);
    mem_free(p->ctx, p);
}

static ol_status reserve_slots(predictor *p, int n) {
    if (n <= p->n_slots) return OL_OK;
    image *scratch = mem_resize(p->ctx, p->scratch, (size_t)n, sizeof *scratch);
    if (!scratch) return OL_ERROR_MEMORY;
    p->scratch = scratch;
    letterbox_recipe *recipes = mem_resize(p->ctx, p->recipes, (size_t)n, sizeof *recipes);
    if (!recipes) return OL_ERROR_MEMORY;
    p->recipes = recipes;
    detection_list *rows = mem_resize(p->ctx, p->rows, (size_t)n, sizeof *rows);
    if (!rows) return OL_ERROR_MEMORY;
    p->rows = rows;
    for (int i = p->n_slots; i < n; i++) {
        p->scratch[i] = (image){0};
        p->rows[i] = (detection_list){0};
    }
    p->n_slots = n;
    return OL_OK;
}

static ol_status reserve_planes(predictor *p, int n, int height, int width) {
    size_t bytes;
    if (!size_mul((size_t)height * (size_t)width, (size_t)n * (size_t)p->o.channels, &bytes))
        return ctx_fail(p->ctx, OL_ERROR_MEMORY, "a batch of %d pictures of %dx%d is too large", n, height, width);
    if (bytes <= p->planes_bytes) return OL_OK;
    uint8_t *planes = mem_alloc_aligned(p->ctx, bytes, 1);
    if (!planes) return OL_ERROR_MEMORY;
    mem_free_aligned(p->ctx, p->planes);
    p->planes = planes;
    p->planes_bytes = bytes;
    return OL_OK;
}

/* One shape for all pictures: minimal padding when they have equal sizes and rect is on. */
static letterbox_options choose_shape(const predictor *p, const image *const *pictures, int n, int *height,
                                      int *width) {
    bool equal = true;
    for (int i = 1; i < n; i++)
        equal &= pictures[i]->height == pictures[0]->height && pictures[i]->width == pictures[0]->width;
    const letterbox_options options = {
        .height = p->height, .width = p->width, .stride = p->o.stride, .minimal = equal && p->rect};
    const letterbox_geometry first = letterbox_plan(pictures[0]->height, pictures[0]->width, &options);
    *height = first.out_height;
    *width = first.out_width;
    return options;
}

/* Letterboxes all pictures. */
static ol_status preprocess(predictor *p, const image *const *pictures, int n, const letterbox_options *options,
                            int height, int width) {
    ol_status failed = reserve_planes(p, n, height, width);
    if (failed) return failed;
    size_t picture_bytes = (size_t)p->o.channels * (size_t)height * (size_t)width;
#pragma omp parallel for schedule(static) num_threads(ctx_threads(p->ctx)) if (n > 1)
    for (int i = 0; i < n; i++) {
        letterbox_geometry g = letterbox_plan(pictures[i]->height, pictures[i]->width, options);
        ol_status status =
            letterbox_planes(p->ctx, pictures[i], &g, &p->scratch[i], p->planes + (size_t)i * picture_bytes);
        if (status) {
#pragma omp critical
            failed = status;
        }
    }
    return failed;
}

/* Are the pictures better scaled where the network runs? */
static bool device_scales(const predictor *p, const image *const *pictures, int n, int height, int width) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += image_bytes(pictures[i]);
    return runner_scales_pictures(p->r) &&
           bytes <= SCALED_SHARE * (size_t)n * (size_t)p->o.channels * (size_t)height * (size_t)width;
}

/* Packs the pictures as they are. */
static ol_status pack(predictor *p, const image *const *pictures, int n, const letterbox_options *options, int height,
                      int width, picture_batch *batch) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        const letterbox_geometry g = letterbox_plan(pictures[i]->height, pictures[i]->width, options);
        p->recipes[i] = letterbox_recipe_of(&g, pictures[i]->height, pictures[i]->width, bytes);
        bytes += image_bytes(pictures[i]);
    }
    if (bytes > p->sources_bytes) {
        void *sources = NULL;
        const ol_status status = runner_host_create(p->r, bytes, &sources);
        if (status) return status;
        runner_host_destroy(p->r, p->sources);
        p->sources = sources;
        p->sources_bytes = bytes;
    }
#pragma omp parallel for schedule(static) num_threads(ctx_threads(p->ctx)) if (n > 1)
    for (int i = 0; i < n; i++)
        memcpy(p->sources + p->recipes[i].offset, pictures[i]->pixels, image_bytes(pictures[i]));
    *batch = (picture_batch){.kind = PICTURES_LETTERBOXED,
                             .n = n,
                             .channels = p->o.channels,
                             .h = height,
                             .w = width,
                             .recipes = p->recipes,
                             .pixels = p->sources,
                             .pixel_bytes = bytes,
                             .most_pixel_bytes = p->sources_bytes};
    return OL_OK;
}

/* Boxes that nothing can be drawn or cropped from are dropped; not-a-number compares false and goes too. */
static void drop_empty(detection_list *rows) {
    size_t n = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const detection *d = &rows->items[i];
        if (d->x2 > d->x1 && d->y2 > d->y1) rows->items[n++] = *d;
    }
    rows->count = n;
}

ol_status predictor_run(predictor *p, const image *const *pictures, int n, predict_result *results) {
    if (n < 1) return OL_OK;
    for (int i = 0; i < n; i++) {
        if (pictures[i]->channels != p->o.channels)
            return ctx_fail(p->ctx, OL_ERROR_ARGUMENT, "picture %d has %d channels, the model takes %d", i,
                            pictures[i]->channels, p->o.channels);
    }
    int height, width;
    double start = progress_clock();
    ol_status status = reserve_slots(p, n);
    if (status) return status;
    const letterbox_options shape = choose_shape(p, pictures, n, &height, &width);
    const bool packed = device_scales(p, pictures, n, height, width);
    picture_batch batch;
    status = packed ? pack(p, pictures, n, &shape, height, width, &batch)
                    : preprocess(p, pictures, n, &shape, height, width);
    if (status) return status;
    double prepared = progress_clock();
    runner_result out;
    status =
        packed ? runner_run_pictures(p->r, &batch, &out) : runner_run(p->r, p->planes, n, height, width, NULL, &out);
    if (status) return status;
    double inferred = progress_clock();
    status = runner_select(p->r, &p->select, p->rows);
    if (status) return status;
    for (int i = 0; i < n; i++) {
        scale_boxes(p->rows[i].items, p->rows[i].count, height, width, pictures[i]->height, pictures[i]->width);
        drop_empty(&p->rows[i]);
    }
    double done = progress_clock();
    for (int i = 0; i < n; i++) {
        predict_result *r = &results[i];
        *r = (predict_result){.picture = pictures[i],
                              .height = pictures[i]->height,
                              .width = pictures[i]->width,
                              .net_height = height,
                              .net_width = width,
                              .rows = p->rows[i].items,
                              .n_rows = p->rows[i].count,
                              .names = p->o.names,
                              .nc = p->o.nc};
        r->speed_ms[PREDICT_PREPROCESS] = (prepared - start) * 1e3 / n;
        r->speed_ms[PREDICT_INFERENCE] = (inferred - prepared) * 1e3 / n;
        r->speed_ms[PREDICT_POSTPROCESS] = (done - inferred) * 1e3 / n;
    }
    return OL_OK;
}
