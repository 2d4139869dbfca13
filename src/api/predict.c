/* Predict: sources or pictures in memory through a runner, each result handed on as plain data. */
#include "predict/predict.h"
#include "api/model.h"
#include "api/run_folder.h"
#include "base/file.h"
#include "base/numbers.h"

#include <string.h>

/* The callback's end of one call. */
typedef struct delivery {
    ol_context *ctx;
    const settings *settings;
    ol_result_fn result;
    void *user;
    ol_box *boxes; /* grows with the largest result */
    size_t capacity;
} delivery;

static ol_status deliver(void *user, const predict_result *r) {
    delivery *d = user;
    if (d->result == NULL) return OL_OK;
    void *block = d->boxes;
    ol_status status = mem_grow(d->ctx, &block, &d->capacity, r->n_rows + 1, sizeof *d->boxes);
    if (status != OL_OK) return status;
    d->boxes = block;
    for (size_t i = 0; i < r->n_rows; i++) {
        const detection *row = &r->rows[i];
        d->boxes[i] = (ol_box){row->x1, row->y1, row->x2, row->y2, row->score, row->class_id};
    }
    const ol_result shown = {.struct_bytes = sizeof shown,
                             .path = r->path,
                             .pixels = r->picture->pixels,
                             .height = r->height,
                             .width = r->width,
                             .net_height = r->net_height,
                             .net_width = r->net_width,
                             .index = r->index,
                             .count = r->total,
                             .boxes = d->boxes,
                             .n_boxes = r->n_rows,
                             .class_names = r->names,
                             .n_classes = r->nc,
                             .preprocess_ms = r->speed_ms[PREDICT_PREPROCESS],
                             .inference_ms = r->speed_ms[PREDICT_INFERENCE],
                             .postprocess_ms = r->speed_ms[PREDICT_POSTPROCESS],
                             .save_dir = d->settings->save_dir};
    status = d->result(d->user, &shown);
    return status == OL_OK ? OL_OK : ctx_fail(d->ctx, status, "the caller ended the prediction at %s", r->path);
}

static predictor_options predictor_of(const ol_model *m, const settings *s) {
    return (predictor_options){.s = s,
                               .names = m->model->names,
                               .nc = m->model->desc.nc,
                               .channels = m->model->desc.channels,
                               .stride = model_stride(m->model)};
}

/* A run folder when anything is to be saved. */
static ol_status prepare_folder(settings *s, int *n_created) {
    if (!s->save && !s->save_txt && !s->save_crop) return OL_OK;
    ol_status status = run_folder_choose(s, "predict");
    return status == OL_OK ? run_folder_create(s, "predict", n_created) : status;
}

static ol_status batch_of(ol_context *ctx, const settings *s, int *batch) {
    if (s->batch < 1.0)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'batch=%g' is for training; predict takes an int of at least 1",
                        s->batch);
    if (s->batch > 4096.0)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'batch=%.15g' is too large; predict takes at most 4096", s->batch);
    *batch = (int)s->batch;
    return OL_OK;
}

ol_status ol_predict(ol_model *m, const ol_options *options, ol_result_fn result, void *user) {
    NUMBERS_WITH_POINT();
    ol_context *ctx = m->ctx;
    ctx_clear(ctx);
    settings s;
    ol_status status = mode_settings(m, options, "predict", &s);
    if (status != OL_OK) return status;
    source_list sources = {0};
    bool have_sources = false;
    runner *r = NULL;
    int n_created = 0;
    delivery d = {.ctx = ctx, .settings = &s, .result = result, .user = user};
    predict_options o = {.on_result = deliver, .user = &d, .quiet = !s.verbose, .save_pictures = s.save};
    if (s.source == NULL) {
        status =
            ctx_fail(ctx, OL_ERROR_ARGUMENT,
                     "'source' is missing; name a picture, a folder, a glob or a list file, i.e. 'source=bus.jpg'");
        goto fail;
    }
    status = batch_of(ctx, &s, &o.batch);
    if (status != OL_OK) goto fail;
    status = source_list_open(ctx, s.source, &sources);
    if (status != OL_OK) goto fail;
    have_sources = true;
    status = model_runner(m, &s, &r);
    if (status == OL_OK) status = prepare_folder(&s, &n_created);
    if (status != OL_OK) goto fail;
    o.model = predictor_of(m, &s);
    o.save_dir = s.save_dir;
    if (s.verbose) ctx_log(ctx, OL_LOG_INFO, "%s", "");
    status = predict_run(ctx, r, &sources, &o, NULL);
fail:
    if (status != OL_OK) run_folder_abandon(&s, n_created);
    mem_free(ctx, d.boxes);
    if (have_sources) source_list_deinit(&sources);
    settings_deinit(&s);
    return end_call(ctx, status);
}

static ol_status check_pictures(ol_context *ctx, const ol_model *m, const ol_picture *pictures, size_t n) {
    if (m->model->desc.channels != 3)
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s takes pictures of %d channels; pictures in memory have 3",
                        m->path, m->model->desc.channels);
    for (size_t i = 0; i < n; i++) {
        if (pictures[i].pixels != NULL && pictures[i].height > 0 && pictures[i].width > 0 &&
            pictures[i].height <= IMAGE_MAX_SIDE && pictures[i].width <= IMAGE_MAX_SIDE)
            continue;
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "picture %zu has the size %dx%d; sides must be from 1 to %d and pixels not NULL", i,
                        pictures[i].height, pictures[i].width, IMAGE_MAX_SIDE);
    }
    return OL_OK;
}

/* Runs and hands on the pictures [first, first + n). */
static ol_status predict_batch(predictor *p, const ol_picture *pictures, size_t first, int n, size_t total, arena *a,
                               result_saver *saver, delivery *d) {
    image *images = arena_alloc(a, (size_t)n, sizeof *images);
    const image **views = arena_alloc(a, (size_t)n, sizeof *views);
    predict_result *results = arena_alloc(a, (size_t)n, sizeof *results);
    if (images == NULL || views == NULL || results == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        const ol_picture *picture = &pictures[first + (size_t)i];
        images[i] = image_view(picture->pixels, picture->height, picture->width, 3);
        views[i] = &images[i];
    }
    ol_status status = predictor_run(p, views, n, results);
    for (int i = 0; status == OL_OK && i < n; i++) {
        const char *name = pictures[first + (size_t)i].name;
        results[i].path = name != NULL ? name : arena_printf(a, "image%zu.jpg", first + (size_t)i);
        if (results[i].path == NULL) return OL_ERROR_MEMORY;
        results[i].index = first + (size_t)i;
        results[i].total = total;
        if (saver != NULL) status = result_save(saver, &results[i]);
        if (status == OL_OK) status = deliver(d, &results[i]);
    }
    return status;
}

ol_status ol_predict_pictures(ol_model *m, const ol_options *options, const ol_picture *pictures, size_t n_pictures,
                              ol_result_fn result, void *user) {
    NUMBERS_WITH_POINT();
    ol_context *ctx = m->ctx;
    ctx_clear(ctx);
    settings s;
    ol_status status = mode_settings(m, options, "predict", &s);
    if (status != OL_OK) return status;
    arena scratch;
    arena_init(&scratch, ctx, 0);
    runner *r = NULL;
    int n_created = 0;
    predictor *p = NULL;
    result_saver saver = {0};
    bool saves = false;
    int batch = 1;
    delivery d = {.ctx = ctx, .settings = &s, .result = result, .user = user};
    status = check_pictures(ctx, m, pictures, n_pictures);
    if (status == OL_OK) status = batch_of(ctx, &s, &batch);
    if (status == OL_OK) status = model_runner(m, &s, &r);
    if (status == OL_OK) status = prepare_folder(&s, &n_created);
    if (status != OL_OK) goto fail;
    const predictor_options o = predictor_of(m, &s);
    status = predictor_create(ctx, r, &o, &p);
    if (status == OL_OK && s.save_dir != NULL) {
        status = result_saver_init(&saver, ctx, &s, s.save_dir, s.save);
        saves = status == OL_OK;
    }
    for (size_t at = 0; status == OL_OK && at < n_pictures; at += (size_t)batch) {
        const size_t rest = n_pictures - at;
        if (ctx_interrupted(ctx))
            status = ctx_fail(ctx, OL_ERROR_INTERRUPTED, "prediction was interrupted");
        else
            status = predict_batch(p, pictures, at, rest < (size_t)batch ? (int)rest : batch, n_pictures, &scratch,
                                   saves ? &saver : NULL, &d);
    }
fail:
    if (status != OL_OK) run_folder_abandon(&s, n_created);
    if (saves) result_saver_deinit(&saver);
    predictor_destroy(p);
    mem_free(ctx, d.boxes);
    arena_deinit(&scratch);
    settings_deinit(&s);
    return end_call(ctx, status);
}
