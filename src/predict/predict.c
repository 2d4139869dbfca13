#include "predict/predict.h"

#include <stdio.h>
#include <string.h>

typedef struct prediction {
    ol_context *ctx;
    const source_list *sources;
    const predict_options *o;
    predictor *p;
    result_saver saver;
    bool saves;
    image *pictures; /* slots of a batch */
    ol_status *read; /* per slot */
    size_t *at;      /* per slot: index of its source */
    const image **views;
    predict_result *results;
    size_t next; /* source to read next */
    predict_summary sum;
    char first_error[512];
} prediction;

/* Reads once more, alone, to have this picture's own message. */
static void warn_unreadable(prediction *v, image *slot, const char *path, int channels) {
    char message[400];
    image_read(v->ctx, path, channels, slot);
    ctx_message(v->ctx, message, sizeof message);
    ctx_clear(v->ctx);
    const bool named = strncmp(message, path, strlen(path)) == 0; /* most of these messages begin with the path */
    ctx_log(v->ctx, OL_LOG_WARNING, "Image Read Error %s%s%s", named ? "" : path, named ? "" : ": ", message);
    if (!v->first_error[0]) snprintf(v->first_error, sizeof v->first_error, "%s", message);
    v->sum.n_unreadable++;
}

/* Reads the next pictures until the batch is full or the list ends; returns how many are there. */
static int read_batch(prediction *v) {
    int batch = v->o->batch, n = 0, channels = v->o->model.channels ? v->o->model.channels : 3;
    while (n < batch && v->next < v->sources->count) {
        int wanted = batch - n;
        if ((size_t)wanted > v->sources->count - v->next) wanted = (int)(v->sources->count - v->next);
        size_t first = v->next;
#pragma omp parallel for schedule(dynamic) num_threads(ctx_threads(v->ctx)) if (wanted > 1)
        for (int i = 0; i < wanted; i++) {
            const char *path = v->sources->paths[first + (size_t)i];
            v->read[n + i] = image_read(v->ctx, path, channels, &v->pictures[n + i]);
        }
        ctx_clear(v->ctx);
        v->next += (size_t)wanted;
        int kept = n;
        for (int i = n; i < n + wanted; i++) {
            if (v->read[i]) {
                warn_unreadable(v, &v->pictures[i], v->sources->paths[first + (size_t)(i - n)], channels);
                continue;
            }
            image t = v->pictures[kept];
            v->pictures[kept] = v->pictures[i];
            v->pictures[i] = t;
            v->at[kept++] = first + (size_t)(i - n);
        }
        n = kept;
    }
    return n;
}

static ol_status hand_on(prediction *v, predict_result *r) {
    if (!v->o->quiet) {
        text t;
        text_init(&t, v->ctx);
        result_print_line(&t, r);
        ctx_log(v->ctx, OL_LOG_INFO, "%s", text_c(&t));
        text_deinit(&t);
    }
    ol_status status = v->saves ? result_save(&v->saver, r) : OL_OK;
    if (!status && v->o->on_result) status = v->o->on_result(v->o->user, r);
    for (int k = 0; k < PREDICT_N_STAGES; k++) v->sum.speed_ms[k] += r->speed_ms[k];
    v->sum.n_pictures++;
    v->sum.n_detections += r->n_rows;
    v->sum.height = r->net_height;
    v->sum.width = r->net_width;
    return status;
}

static ol_status predict_all(prediction *v) {
    for (;;) {
        if (ctx_interrupted(v->ctx)) return ctx_fail(v->ctx, OL_ERROR_INTERRUPTED, "prediction was interrupted");
        int n = read_batch(v);
        if (!n) return OL_OK;
        for (int i = 0; i < n; i++) v->views[i] = &v->pictures[i];
        ol_status status = predictor_run(v->p, v->views, n, v->results);
        for (int i = 0; i < n && !status; i++) {
            v->results[i].path = v->sources->paths[v->at[i]];
            v->results[i].index = v->at[i];
            v->results[i].total = v->sources->count;
            status = hand_on(v, &v->results[i]);
        }
        if (status) return status;
    }
}

static ol_status finish(prediction *v) {
    predict_summary *s = &v->sum;
    if (!s->n_pictures)
        return ctx_fail(v->ctx, OL_ERROR_FORMAT, "none of %zu pictures could be read, first: %s", v->sources->count,
                        v->first_error);
    for (int k = 0; k < PREDICT_N_STAGES; k++) s->speed_ms[k] /= (double)s->n_pictures;
    s->batch = (size_t)v->o->batch < s->n_pictures ? v->o->batch : (int)s->n_pictures;
    s->channels = v->o->model.channels ? v->o->model.channels : 3;
    if (v->o->quiet) return OL_OK;
    ctx_log(v->ctx, OL_LOG_INFO,
            "Speed: %.1fms preprocess, %.1fms inference, %.1fms postprocess per image at shape (%d, %d, %d, %d)",
            s->speed_ms[PREDICT_PREPROCESS], s->speed_ms[PREDICT_INFERENCE], s->speed_ms[PREDICT_POSTPROCESS], s->batch,
            s->channels, s->height, s->width);
    if (!v->saves) return OL_OK;
    ctx_log(v->ctx, OL_LOG_INFO, "Results saved to %s", v->o->save_dir);
    if (v->o->model.s->save_txt)
        ctx_log(v->ctx, OL_LOG_INFO, "%zu label%s saved to %s/labels", v->saver.n_labels,
                v->saver.n_labels == 1 ? "" : "s", v->o->save_dir);
    return OL_OK;
}

static ol_status prediction_init(prediction *v, runner *r) {
    size_t n = (size_t)v->o->batch;
    v->pictures = mem_alloc0(v->ctx, n, sizeof *v->pictures);
    v->read = mem_alloc0(v->ctx, n, sizeof *v->read);
    v->at = mem_alloc0(v->ctx, n, sizeof *v->at);
    v->views = mem_alloc0(v->ctx, n, sizeof *v->views);
    v->results = mem_alloc0(v->ctx, n, sizeof *v->results);
    if (!v->pictures || !v->read || !v->at || !v->views || !v->results) return OL_ERROR_MEMORY;
    const settings *s = v->o->model.s;
    v->saves = v->o->save_dir && (v->o->save_pictures || s->save_txt || s->save_crop);
    ol_status status = predictor_create(v->ctx, r, &v->o->model, &v->p);
    if (!status && v->saves) status = result_saver_init(&v->saver, v->ctx, s, v->o->save_dir, v->o->save_pictures);
    return status;
}

static void prediction_deinit(prediction *v) {
    for (int i = 0; i < v->o->batch && v->pictures; i++) image_deinit(v->ctx, &v->pictures[i]);
    mem_free(v->ctx, v->pictures);
    mem_free(v->ctx, v->read);
    mem_free(v->ctx, v->at);
    mem_free(v->ctx, (void *)v->views);
    mem_free(v->ctx, v->results);
    predictor_destroy(v->p);
    if (v->saver.ctx) result_saver_deinit(&v->saver);
}

ol_status predict_run(ol_context *ctx, runner *r, const source_list *sources, const predict_options *options,
                      predict_summary *summary) {
    if (options->batch < 1)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "batch=%d: predict takes 1 or more", options->batch);
    prediction v = {.ctx = ctx, .sources = sources, .o = options};
    ol_status status = prediction_init(&v, r);
    if (!status) status = predict_all(&v);
    if (!status) status = finish(&v);
    if (!status && summary) *summary = v.sum;
    prediction_deinit(&v);
    return status;
}
