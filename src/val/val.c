#include "val/val.h"

#include "base/file.h"
#include "base/progress.h"
#include "draw/grid.h"
#include "val/files.h"
#include "val/plots.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_CONF 0.001
#define N_GRIDS      3

/* Everything one run needs beside the report it fills. */
typedef struct validation {
    ol_context *ctx;
    const val_options *o;
    const dataset *d;
    val_report *report;
    match_stats stats;
    confusion matrix;
    bool count_confusion;
    nms_options nms;
    text json;
    bool coco;
    char *label_folder;
    size_t root_bytes; /* of the folder that all pictures share */
    int nc;
    const char *const *names;
    detection_list *rows; /* one list a picture of the batch */
    int n_rows;
    detection *mapped; /* one picture's rows in source pixels */
    size_t mapped_capacity;
    float *label_boxes;
    int32_t *label_classes;
    uint8_t *hits;
    size_t hit_capacity;
    int64_t n_unknown_labels;
    double seconds[VAL_N_STAGES], loss[3];
    int n_batches;
} validation;

static const char *const single_class_names[] = {"item"};

/* max_det, raised when a picture has more labels than it allows (data document, section 3.1). */
static int effective_max_det(validation *v) {
    const settings *s = v->o->s;
    if (v->d->max_labels <= s->max_det) return s->max_det;
    bool raise = !s->given[SETTING_ID_max_det];
    if (!v->o->quiet)
        ctx_log(v->ctx, OL_LOG_WARNING, "a picture has %d labels, more than max_det=%d: %s", v->d->max_labels,
                s->max_det, raise ? "max_det is raised to that" : "recall is limited; raise max_det");
    return raise ? v->d->max_labels : s->max_det;
}

static ol_status validation_init(validation *v, loader *l) {
    ol_context *ctx = v->ctx;
    const settings *s = v->o->s;
    arena *a = &v->report->arena;
    v->nc = s->single_cls ? 1 : v->o->nc;
    v->names = s->single_cls ? single_class_names : v->o->names;
    v->nms = (nms_options){.conf = (float)(isnan(s->conf) ? DEFAULT_CONF : s->conf),
                           .iou = (float)s->iou,
                           .max_det = effective_max_det(v),
                           .multi_label = v->o->nc > 1,
                           .agnostic = s->agnostic_nms || s->single_cls};
    int *classes = NULL;
    size_t n_classes = 0;
    ol_status status = settings_ints(a, s->classes, &classes, &n_classes);
    if (status) return status;
    v->nms.classes = classes;
    v->nms.n_classes = (int)n_classes;
    status = match_stats_init(&v->stats, ctx, v->nc);
    v->count_confusion = v->o->plots || !v->o->in_training;
    if (!status && v->count_confusion) status = confusion_init(&v->matrix, ctx, v->nc);
    if (status) return status;
    int max_targets = loader_max_targets(l);
    v->label_boxes = arena_alloc(a, (size_t)max_targets + 1, 4 * sizeof(float));
    v->label_classes = arena_alloc(a, (size_t)max_targets + 1, sizeof(int32_t));
    v->report->images = arena_alloc(a, (size_t)v->d->n + 1, sizeof *v->report->images);
    if (!v->label_boxes || !v->label_classes || !v->report->images) return OL_ERROR_MEMORY;
    v->coco = v->o->split_path && coco_list(v->o->split_path);
    if (!v->o->save_dir || !s->save_txt) return OL_OK;
    v->label_folder = path_join(a, v->o->save_dir, "labels");
    if (!v->label_folder) return OL_ERROR_MEMORY;
    v->root_bytes = v->d->n ? strlen(v->d->items[0].path) : 0;
    for (int i = 0; i < v->d->n; i++)
        v->root_bytes = common_folder(v->d->items[0].path, v->root_bytes, v->d->items[i].path);
    return folder_create(ctx, v->label_folder);
}

static void validation_deinit(validation *v) {
    for (int i = 0; i < v->n_rows; i++) mem_free(v->ctx, v->rows[i].items);
    mem_free(v->ctx, v->rows);
    mem_free(v->ctx, v->mapped);
    mem_free(v->ctx, v->hits);
    match_stats_deinit(&v->stats);
    confusion_deinit(&v->matrix);
    text_deinit(&v->json);
}

/* Network output to one list of rows a picture. */
static ol_status select_rows(validation *v, runner *r, int n) {
    if (n > v->n_rows) {
        detection_list *rows = mem_resize(v->ctx, v->rows, (size_t)n, sizeof *rows);
        if (!rows) return OL_ERROR_MEMORY;
        memset(rows + v->n_rows, 0, (size_t)(n - v->n_rows) * sizeof *rows);
        v->rows = rows;
        v->n_rows = n;
    }
    const ol_status status = runner_select(r, &v->nms, v->rows);
    for (int i = 0; i < n && !status && v->o->s->single_cls; i++)
        for (size_t d = 0; d < v->rows[i].count; d++) v->rows[i].items[d].class_id = 0;
    return status;
}

/* Labels of a picture in network pixels; those of classes the model lacks are left out and counted. */
static size_t take_labels(validation *v, const batch *b, int i) {
    size_t n = 0;
    float w = (float)b->w, h = (float)b->h;
    for (int t = 0; t < b->n_targets[i]; t++) {
        const float *row = b->targets + ((size_t)i * (size_t)b->max_targets + (size_t)t) * 5;
        if (row[0] < 0 || row[0] >= (float)v->nc) {
            v->n_unknown_labels++;
            continue;
        }
        float *box = v->label_boxes + 4 * n;
        float cx = row[1] * w, cy = row[2] * h, half_w = row[3] * w / 2, half_h = row[4] * h / 2;
        box[0] = cx - half_w;
        box[1] = cy - half_h;
        box[2] = cx + half_w;
        box[3] = cy + half_h;
        v->label_classes[n++] = (int32_t)row[0];
    }
    return n;
}

static void fill_image(val_image *im, const char *name, const uint8_t *hits, size_t n_detections, size_t n_labels) {
    int64_t tp = 0;
    for (size_t d = 0; d < n_detections; d++) tp += hits[d * VAL_N_IOU];
    *im = (val_image){.name = name, .tp = tp, .fp = (int64_t)n_detections - tp, .fn = (int64_t)n_labels - tp};
    im->precision = n_detections ? (double)tp / (double)n_detections : 0;
    im->recall = n_labels ? (double)tp / (double)n_labels : 0;
    double sum = im->precision + im->recall;
    im->f1 = sum > 0 ? 2 * im->precision * im->recall / sum : 0;
}

/* Writes one picture's rows in source pixels where files were asked for. */
static ol_status save_rows(validation *v, const batch_image *info, const detection_list *rows) {
    const settings *s = v->o->s;
    bool json = v->o->save_dir && s->save_json;
    if (!json && !v->label_folder) return OL_OK;
    ol_status status = mem_grow(v->ctx, (void **)&v->mapped, &v->mapped_capacity, rows->count + 1, sizeof *v->mapped);
    if (status) return status;
    if (rows->count) memcpy(v->mapped, rows->items, rows->count * sizeof *v->mapped);
    scale_boxes_by(v->mapped, rows->count, info->gain_w, info->gain_h, info->pad_left, info->pad_top, info->h0,
                   info->w0);
    if (json) status = predictions_append(&v->json, info->path, v->mapped, rows->count, v->coco);
    if (status || !v->label_folder) return status;
    arena a;
    arena_init(&a, v->ctx, 0);
    const char *stem = label_file_stem(&a, info->path, v->root_bytes);
    char *path = stem ? arena_printf(&a, "%s/%s.txt", v->label_folder, stem) : NULL;
    status = path ? label_file_write(v->ctx, path, v->mapped, rows->count, info->h0, info->w0, s->save_conf)
                  : OL_ERROR_MEMORY;
    arena_deinit(&a);
    return status;
}

static ol_status judge_picture(validation *v, const batch *b, int i) {
    const detection_list *rows = &v->rows[i];
    size_t n_labels = take_labels(v, b, i);
    ol_status status = mem_grow(v->ctx, (void **)&v->hits, &v->hit_capacity, rows->count + 1, VAL_N_IOU);
    if (!status)
        status =
            match_stats_add(&v->stats, v->label_boxes, v->label_classes, n_labels, rows->items, rows->count, v->hits);
    if (!status && v->count_confusion)
        status = confusion_add(&v->matrix, v->label_boxes, v->label_classes, n_labels, rows->items, rows->count,
                               v->nms.conf);
    if (status) return status;
    char *name = arena_strdup(&v->report->arena, path_name(b->info[i].path));
    if (!name) return OL_ERROR_MEMORY;
    fill_image(&v->report->images[v->report->n_images++], name, v->hits, rows->count, n_labels);
    return save_rows(v, &b->info[i], rows);
}

static ol_status draw_batch(validation *v, const batch *b, int n) {
    arena a;
    arena_init(&a, v->ctx, 0);
    char *labels = arena_printf(&a, "%s/val_batch%d_labels.jpg", v->o->save_dir, n);
    char *pred = arena_printf(&a, "%s/val_batch%d_pred.jpg", v->o->save_dir, n);
    ol_status status = labels && pred ? OL_OK : OL_ERROR_MEMORY;
    if (!status) status = draw_grid(v->ctx, labels, b, NULL, v->names, v->nc);
    if (!status) status = draw_grid(v->ctx, pred, b, v->rows, v->names, v->nc);
    arena_deinit(&a);
    return status;
}

static ol_status judge_batch(validation *v, runner *r, const batch *b) {
    double start = progress_clock();
    runner_targets targets = {b->targets, b->n_targets, b->max_targets, v->o->loss_gains};
    runner_result out;
    ol_status status = runner_run(r, b->images, b->n, b->h, b->w, v->o->loss_gains ? &targets : NULL, &out);
    if (status) return status;
    double inferred = progress_clock();
    for (int k = 0; k < 3 && v->o->loss_gains; k++) v->loss[k] += (double)out.loss_items[k];
    status = select_rows(v, r, out.n);
    if (status) return status;
    v->seconds[VAL_INFERENCE] += inferred - start;
    v->seconds[VAL_POSTPROCESS] += progress_clock() - inferred;
    for (int i = 0; i < b->n && !status; i++) {
        if (!b->info[i].unreadable && v->report->n_images < v->d->n) status = judge_picture(v, b, i);
    }
    if (!status && v->o->plots && v->o->save_dir && v->n_batches < N_GRIDS) status = draw_batch(v, b, v->n_batches);
    v->n_batches++;
    return status;
}

static void log_bar(validation *v, int total, double start, ol_log_level level) {
    if (v->o->quiet) return;
    text t;
    text_init(&t, v->ctx);
    val_print_header(&t);
    progress_bar(&t, v->n_batches, total, progress_clock() - start);
    ctx_log(v->ctx, level, "%s", text_c(&t));
    text_deinit(&t);
}

static ol_status judge_all(validation *v, runner *r, loader *l) {
    double start = progress_clock();
    int total = loader_n_batches(l);
    ol_status status = loader_start(l, 0);
    while (!status) {
        if (ctx_interrupted(v->ctx)) return ctx_fail(v->ctx, OL_ERROR_INTERRUPTED, "validation was interrupted");
        const batch *b = NULL;
        double asked = progress_clock();
        status = loader_next(l, &b);
        if (status || !b) break;
        v->seconds[VAL_PREPROCESS] += progress_clock() - asked;
        status = judge_batch(v, r, b);
        if (!status) log_bar(v, total, start, OL_LOG_PROGRESS);
    }
    if (!status) log_bar(v, total, start, OL_LOG_INFO);
    return status;
}

/* From counts to the record. */
static ol_status fill_report(validation *v) {
    val_report *r = v->report;
    arena *a = &r->arena;
    ol_status status = metrics_compute(a, &v->stats, &r->box);
    if (status) return status;
    size_t nc = (size_t)v->nc;
    int64_t *images = arena_alloc(a, nc + 1, sizeof *images), *instances = arena_alloc(a, nc + 1, sizeof *instances);
    const char **names = arena_alloc(a, nc + 1, sizeof *names);
    if (!images || !instances || !names) return OL_ERROR_MEMORY;
    memcpy(images, v->stats.images_per_class, nc * sizeof *images);
    memcpy(instances, v->stats.instances_per_class, nc * sizeof *instances);
    for (size_t k = 0; k < nc; k++) {
        names[k] = arena_strdup(a, v->names[k]);
        if (!names[k]) return OL_ERROR_MEMORY;
    }
    r->nc = v->nc;
    r->names = names;
    r->images_per_class = images;
    r->instances_per_class = instances;
    r->n_instances = v->stats.n_instances;
    if (v->count_confusion) {
        size_t cells = (nc + 1) * (nc + 1);
        int64_t *copy = arena_alloc(a, cells, sizeof *copy);
        if (!copy) return OL_ERROR_MEMORY;
        memcpy(copy, v->matrix.cells, cells * sizeof *copy);
        r->confusion = copy;
    }
    for (int i = 0; i < VAL_N_STAGES && r->n_images; i++) r->speed_ms[i] = v->seconds[i] * 1e3 / (double)r->n_images;
    r->has_loss = v->o->loss_gains != NULL;
    for (int k = 0; k < 3 && v->n_batches; k++) {
        r->loss[k] = v->loss[k] / v->n_batches;
        r->loss_sum += r->loss[k];
    }
    if (v->o->save_dir) {
        r->save_dir = arena_strdup(a, v->o->save_dir);
        if (!r->save_dir) return OL_ERROR_MEMORY;
    }
    return OL_OK;
}

static void log_line(validation *v, void (*print)(text *, const val_report *)) {
    text t;
    text_init(&t, v->ctx);
    print(&t, v->report);
    ctx_log(v->ctx, OL_LOG_INFO, "%s", text_c(&t));
    text_deinit(&t);
}

static void log_report(validation *v) {
    if (v->o->quiet) return;
    const val_report *r = v->report;
    log_line(v, val_print_all);
    if (v->n_unknown_labels)
        ctx_log(v->ctx, OL_LOG_WARNING, "%lld labels of classes that the model does not have (it has %d) were left out",
                (long long)v->n_unknown_labels, v->nc);
    if (!r->n_instances)
        ctx_log(v->ctx, OL_LOG_WARNING, "no labels found in detect set, cannot compute metrics without labels");
    if (v->o->in_training) return;
    for (int k = 0; k < r->box.n && v->o->s->verbose && v->nc > 1; k++) {
        text t;
        text_init(&t, v->ctx);
        val_print_class(&t, r, k);
        ctx_log(v->ctx, OL_LOG_INFO, "%s", text_c(&t));
        text_deinit(&t);
    }
    log_line(v, val_print_speed);
}

static ol_status write_files(validation *v) {
    const val_options *o = v->o;
    if (!o->save_dir) return OL_OK;
    ol_status status = o->plots ? val_draw_plots(v->ctx, v->report, o->save_dir) : OL_OK;
    if (!status && o->s->save_json) {
        arena a;
        arena_init(&a, v->ctx, 0);
        char *path = path_join(&a, o->save_dir, "predictions.json");
        status = path ? predictions_write(v->ctx, path, &v->json) : OL_ERROR_MEMORY;
        if (!status && v->json.length && !o->quiet) ctx_log(v->ctx, OL_LOG_INFO, "Saving %s...", path);
        arena_deinit(&a);
    }
    if (!status && (o->plots || o->s->save_json) && !o->quiet && !o->in_training)
        ctx_log(v->ctx, OL_LOG_INFO, "Results saved to %s", o->save_dir);
    return status;
}

ol_status val_run(ol_context *ctx, runner *r, loader *l, const dataset *d, const val_options *options,
                  val_report *out) {
    val_report report = {0};
    arena_init(&report.arena, ctx, 0);
    validation v = {.ctx = ctx, .o = options, .d = d, .report = &report};
    text_init(&v.json, ctx);
    ol_status status = validation_init(&v, l);
    if (!status) status = judge_all(&v, r, l);
    if (!status) status = fill_report(&v);
    if (!status) {
        log_report(&v);
        status = write_files(&v);
    }
    validation_deinit(&v);
    if (status)
        val_report_deinit(&report);
    else
        *out = report;
    return status;
}
