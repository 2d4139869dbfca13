/* Train: data, start weights, loaders and the trainer, with val as its validation. */
#include "train/trainer.h"

#include "api/batch_choice.h"
#include "api/device_choice.h"
#include "api/precision.h"
#include "api/preferences.h"
#include "api/run_folder.h"
#include "api/val.h"
#include "base/file.h"
#include "base/numbers.h"
#include "draw/grid.h"
#include "draw/history.h"
#include "draw/labels_plot.h"
#include "model/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything one run holds. */
typedef struct training {
    ol_model *handle;
    ol_context *ctx;
    settings s;
    bool has_settings, resumes;
    data_config config;
    bool has_config;
    dataset *train_set, *val_set;
    loader *train_loader, *val_loader;
    model *model;   /* what is trained */
    runner *runner; /* validates it */
    int batch, imgsz, stride;
    dtype compute; /* of activations in the run and its validation */
    bool has_precision;
    int nc;
    const char *const *names;
    train_outcome outcome;
} training;

static const char *const single_class_name[] = {"item"};

static void training_deinit(training *t) {
    if (t->runner != NULL) runner_destroy(t->runner);
    if (t->train_loader != NULL) loader_destroy(t->train_loader);
    if (t->val_loader != NULL) loader_destroy(t->val_loader);
    if (t->train_set != NULL) dataset_destroy(t->train_set);
    if (t->val_set != NULL) dataset_destroy(t->val_set);
    if (t->model != NULL) model_destroy(t->model);
    if (t->has_config) data_config_deinit(&t->config);
    if (t->has_settings) settings_deinit(&t->s);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(setting_infos[*(const int *)a].name, setting_infos[*(const int *)b].name);
}

/* "engine/trainer: agnostic_nms=False, amp=True, …": all arguments by name. */
static void log_arguments(ol_context *ctx, const settings *s) {
    int order[SETTING_COUNT];
    for (int i = 0; i < SETTING_COUNT; i++) order[i] = i;
    qsort(order, SETTING_COUNT, sizeof *order, compare_names);
    text line;
    text_init(&line, ctx);
    for (int i = 0; i < SETTING_COUNT; i++) {
        const value *v = s->values[order[i]];
        text_printf(&line, "%s%s=", i > 0 ? ", " : "", setting_infos[order[i]].name);
        if (v->kind == VALUE_STRING)
            text_printf(&line, "%s", v->as.string);
        else
            literal_write(&line, v);
    }
    if (s->save_dir != NULL) text_printf(&line, ", save_dir=%s", s->save_dir);
    ctx_log(ctx, OL_LOG_INFO, "engine/trainer: %s", text_c(&line));
    text_deinit(&line);
}

/* The settings of the run: the options, or on resume those of the checkpoint. */
static ol_status decide_settings(training *t, const ol_options *options) {
    ol_model *m = t->handle;
    ol_status status = mode_settings(m, options, "train", &t->s);
    if (status != OL_OK) return status;
    t->has_settings = true;
    if (!settings_switch_on(t->s.resume)) return OL_OK;
    const char *path = settings_switch_text(t->s.resume);
    if (path != NULL && strcmp(path, m->path) != 0) status = model_replace(m, path);
    if (status == OL_OK && !m->has_checkpoint)
        status = ctx_fail(
            t->ctx, OL_ERROR_ARGUMENT,
            "'resume=True' continues an interrupted run: give its last.pt as model=…/weights/last.pt, not %s", m->path);
    if (status != OL_OK) return status;
    settings resumed;
    status = settings_init(&resumed, t->ctx);
    if (status != OL_OK) return status;
    status = train_resume_settings(&m->stored, m->path, &options->settings, &resumed);
    if (status != OL_OK) {
        settings_deinit(&resumed);
        return status;
    }
    settings_deinit(&t->s);
    t->s = resumed;
    t->resumes = true;
    if (t->s.save_dir != NULL) return OL_OK;
    arena a; /* <run>/weights/last.pt */
    arena_init(&a, t->ctx, 0);
    const char *whole = path_absolute(&a, m->path), *weights = whole != NULL ? path_parent(&a, whole) : NULL,
               *run = weights != NULL ? path_parent(&a, weights) : NULL;
    status = run != NULL ? settings_set_save_dir(&t->s, run) : OL_ERROR_MEMORY;
    arena_deinit(&a);
    return status;
}

static ol_status read_data(training *t) {
    arena a;
    arena_init(&a, t->ctx, 0);
    preferences p;
    ol_status status = preferences_read(&a, &p);
    const char *data = t->s.data;
    if (data == NULL) {
        data = "coco8.yaml";
        ctx_log(t->ctx, OL_LOG_WARNING, "'data' is missing, using 'data=%s'", data);
    }
    if (status == OL_OK) status = data_config_read(t->ctx, data, p.datasets_dir, DATA_SPLIT_TRAIN, &t->config);
    if (status == OL_OK) {
        t->has_config = true;
        t->nc = t->s.single_cls ? 1 : t->config.nc;
        t->names = t->s.single_cls ? single_class_name : t->config.names;
    }
    arena_deinit(&a);
    return status;
}

/* The first thing on disk. */
static ol_status write_arguments(training *t) {
    int n_created;
    ol_status status = t->resumes ? OL_OK : run_folder_create(&t->s, "train", &n_created);
    if (status != OL_OK) return status;
    arena a;
    arena_init(&a, t->ctx, 0);
    text yaml;
    text_init(&yaml, t->ctx);
    const char *weights = path_join(&a, t->s.save_dir, "weights"), *path = path_join(&a, t->s.save_dir, "args.yaml");
    status = weights != NULL && path != NULL ? folder_create(t->ctx, weights) : OL_ERROR_MEMORY;
    if (status == OL_OK) status = settings_write(&yaml, &t->s);
    if (status == OL_OK) status = file_write_atomic(t->ctx, path, text_c(&yaml), yaml.length);
    text_deinit(&yaml);
    arena_deinit(&a);
    return status;
}

/* The model to train: on resume the stored one; else a new one for the data's classes, from the weights that `model`
 * and `pretrained` name (model document, section 3.2). */
static ol_status make_model(training *t) {
    ol_model *m = t->handle;
    const model_desc *desc = &m->model->desc;
    model_source source = model_as_source(m);
    if (t->resumes) return model_create_from_source(t->ctx, &source, &t->model);
    const char *pretrained = settings_switch_text(t->s.pretrained);
    const bool from_yaml = !m->has_checkpoint;
    const model_spec spec = {.name = from_yaml ? m->path : NULL,
                             .yaml = from_yaml ? NULL : desc->yaml,
                             .scale = desc->scale,
                             .nc = t->nc,
                             .channels = t->config.channels};
    ol_model *other = NULL;
    ol_status status = OL_OK;
    if (pretrained != NULL) {
        status = model_open(t->ctx, pretrained, &other);
        if (status != OL_OK) return ctx_annotate(t->ctx, status, "pretrained");
        source = model_as_source(other);
    }
    if (pretrained != NULL || (!from_yaml && settings_switch_on(t->s.pretrained))) {
        transfer_report report;
        status = model_create_transferred(t->ctx, &spec, t->names, &source, t->s.cls_remap, (uint64_t)t->s.seed,
                                          &t->model, &report);
    } else {
        status = model_create(t->ctx, &spec, &t->model);
        if (status == OL_OK) model_initialize(t->model, (uint64_t)t->s.seed);
        if (status == OL_OK) status = model_set_names(t->model, t->names, t->nc);
    }
    ol_model_destroy(other);
    return status;
}

static ol_status open_set(training *t, data_split split, dataset **out) {
    arena a;
    arena_init(&a, t->ctx, 0);
    int *classes = NULL;
    size_t n_classes = 0;
    double share;
    int64_t count;
    ol_status status = settings_ints(&a, t->s.classes, &classes, &n_classes);
    settings_fraction(&t->s, split == DATA_SPLIT_TRAIN ? 0 : 1, &share, &count);
    const dataset_options options = {.split = split,
                                     .training = split == DATA_SPLIT_TRAIN,
                                     .single_cls = t->s.single_cls,
                                     .classes = classes,
                                     .n_classes = (int)n_classes,
                                     .fraction = count > 0 ? (double)count : share};
    if (status == OL_OK) status = dataset_open(t->ctx, &t->config, &options, out);
    arena_deinit(&a);
    return status;
}

enum {
    FIT_TARGETS = 256
}; /* rows a picture in the estimate: a set's own number is known later, and is small beside maps */

static loader_options training_options(const training *t) {
    loader_options o = loader_options_train(&t->s, t->batch, t->imgsz, t->stride);
    const int threads = ctx_threads(t->ctx);
    if (o.workers > threads) o.workers = threads; /* on a CPU the loader shares the cores with the computation */
    o.maker = t->handle->device;
    return o;
}

static train_fit fit_of(const training *t, const loader_options *loader) {
    const double growth = isnan(t->s.multi_scale) ? 0.0 : t->s.multi_scale;
    const int largest = ((int)((double)t->imgsz * (1.0 + growth) + t->stride) - 1) / t->stride * t->stride;
    return (train_fit){.ctx = t->ctx,
                       .dev = t->handle->device,
                       .model = t->model,
                       .compute = t->compute,
                       .size = largest > t->imgsz ? largest : t->imgsz,
                       .n_images = t->train_set->n,
                       .n_validation = t->val_set->n,
                       .stride = t->stride,
                       .max_targets = FIT_TARGETS,
                       .loader = loader,
                       .settings = &t->s};
}

/* The number type is settled before: half the bytes are twice the pictures. args.yaml and checkpoints get the number,
 * so that a resumed run has the same batches. */
static ol_status choose_batch(training *t) {
    const bool is_open = t->s.batch < 1.0;
    device_description d;
    device_describe(t->handle->device, &d);
    ol_status status = OL_OK;
    if (is_open && d.is_gpu) {
        status = precision_of_training(t->ctx, t->handle->device, t->model, &t->s, 2, t->imgsz, &t->compute);
        t->has_precision = status == OL_OK;
    }
    const loader_options loader = training_options(t);
    const train_fit fit = fit_of(t, &loader);
    if (status == OL_OK) status = batch_choose(&fit, &t->s, &t->batch);
    if (status != OL_OK || !is_open || !d.is_gpu) return status;
    arena a;
    arena_init(&a, t->ctx, 0);
    const value *v = value_int(&a, t->batch);
    status = v != NULL ? settings_set_quietly(&t->s, SETTING_ID_batch, v) : OL_ERROR_MEMORY;
    arena_deinit(&a);
    return status;
}

/* A run that ran out of the device's memory: what it had is given back, then the message gets numbers. */
static ol_status explain_memory(training *t) {
    device_description d;
    device_describe(t->handle->device, &d);
    if (!d.is_gpu || t->train_set == NULL || t->batch == 0) return OL_ERROR_MEMORY;
    if (t->runner != NULL) runner_destroy(t->runner);
    t->runner = NULL;
    device_pictures_release(t->handle->device);
    const loader_options loader = training_options(t);
    const train_fit fit = fit_of(t, &loader);
    return batch_explain(&fit, t->batch);
}

/* Batch norm over one value a channel is undefined: refused before the run instead of failing in it. */
static ol_status check_last_batch(const training *t) {
    const int n = t->train_set->n, batch = t->batch < n ? t->batch : n, last = n % batch == 0 ? batch : n % batch;
    if (last > 1 || t->imgsz > t->stride) return OL_OK;
    return ctx_fail(
        t->ctx, OL_ERROR_ARGUMENT,
        "imgsz=%d leaves one value a channel for a batch of one picture, of which no batch statistics can be taken; "
        "use imgsz=%d or more, or another batch size (%d pictures, batch=%d)",
        t->imgsz, 2 * t->stride, n, t->batch);
}

static ol_status make_loaders(training *t) {
    if (t->s.time <= 0.0) /* NAN: none was given */
        return ctx_fail(t->ctx, OL_ERROR_ARGUMENT, "'time=%g' is an invalid value: give hours above 0, or leave it out",
                        t->s.time);
    ol_status status = open_set(t, DATA_SPLIT_TRAIN, &t->train_set);
    if (status == OL_OK && t->config.split[DATA_SPLIT_VAL].count == 0)
        status = ctx_fail(t->ctx, OL_ERROR_ARGUMENT,
                          "%s: 'val:' is missing; training validates after each epoch, so name a folder or list there",
                          t->config.file);
    if (status == OL_OK) status = open_set(t, DATA_SPLIT_VAL, &t->val_set);
    if (status != OL_OK) return status;
    if (t->s.copy_paste > 0.0 && !t->train_set->polygons)
        ctx_log(t->ctx, OL_LOG_WARNING,
                "'copy_paste' cuts objects out along outlines, which %s does not have: it is off", t->config.file);
    t->stride = model_stride(t->model);
    t->imgsz = square_size(t->ctx, &t->s, t->stride);
    status = choose_batch(t);
    if (status == OL_OK) status = check_last_batch(t);
    if (status != OL_OK) return status;
    const loader_options train_options = training_options(t);
    loader_options val_options =
        loader_options_val(&t->s, t->batch < t->train_set->n ? 2 * t->batch : 2 * t->train_set->n, t->imgsz, t->stride);
    val_options.rect = true; /* whatever the training batches are */
    if (val_options.workers > train_options.workers) val_options.workers = train_options.workers;
    val_options.maker = t->handle->device;
    status = loader_create(t->ctx, t->train_set, &train_options, &t->train_loader);
    if (status == OL_OK) status = loader_create(t->ctx, t->val_set, &val_options, &t->val_loader);
    if (status == OL_OK)
        ctx_log(t->ctx, OL_LOG_INFO, "Using %d train, %d val images at imgsz=%d, %d dataloader workers",
                t->train_set->n, t->val_set->n, t->imgsz, train_options.workers);
    return status;
}

#define N_BATCH_PLOTS 3

static ol_status plot_labels(training *t) {
    if (!t->s.plots || t->resumes) return OL_OK;
    arena a;
    arena_init(&a, t->ctx, 0);
    const dataset *d = t->train_set;
    float *rows = arena_alloc(&a, (size_t)d->n_labels + 1, 5 * sizeof *rows);
    const char *path = path_join(&a, t->s.save_dir, "labels.jpg");
    size_t n = 0;
    for (int i = 0; rows != NULL && i < d->n; i++) {
        const label_rows *l = &d->items[i].labels;
        if (l->n > 0 && n + (size_t)l->n <= (size_t)d->n_labels)
            memcpy(rows + 5 * n, l->rows, (size_t)l->n * 5 * sizeof *rows);
        n += (size_t)l->n;
    }
    ol_status status =
        rows == NULL || path == NULL ? OL_ERROR_MEMORY : draw_labels_plot(t->ctx, path, rows, n, t->nc, t->names);
    if (status == OL_OK)
        status = draw_first_batches(t->ctx, t->train_loader, 0, N_BATCH_PLOTS, t->s.save_dir, t->names, t->nc);
    arena_deinit(&a);
    return status;
}

/* One validation: inside the run with the averaged weights (gains given), or of the finished best weights. */
static ol_status validate(training *t, const float *gains, val_report *report) {
    const val_options o = {.s = &t->s,
                           .names = t->names,
                           .nc = t->nc,
                           .save_dir = gains == NULL ? t->s.save_dir : NULL,
                           .split_path = t->config.split[DATA_SPLIT_VAL].items[0],
                           .plots = gains == NULL && t->s.plots,
                           .in_training = gains != NULL,
                           .loss_gains = gains,
                           .quiet = !t->s.verbose};
    return val_run(t->ctx, t->runner, t->val_loader, t->val_set, &o, report);
}

static ol_status make_runner(training *t, const model *m, bool loss) {
    if (t->runner != NULL) runner_destroy(t->runner);
    t->runner = NULL;
    const runner_options options = {.decode = t->s.nms == SETTING_FALSE ? MODEL_ONE2ONE : MODEL_ONE2MANY,
                                    .compute = loss ? t->compute : DTYPE_F32,
                                    .loss = loss};
    return runner_create(t->ctx, t->handle->device, m, &options, &t->runner);
}

static ol_status validate_weights(void *user, const tensor_list *weights, const float *gains, train_metrics *out) {
    training *t = user;
    val_report report = {0};
    ol_status status = t->runner == NULL ? make_runner(t, t->model, true) : OL_OK;
    if (status == OL_OK) status = runner_set_weights(t->runner, weights);
    if (status == OL_OK) status = validate(t, gains, &report);
    if (status != OL_OK) return status;
    const bool labelled = report.box.n > 0; /* without labels the means are no numbers; results.csv has zeros then */
    *out = (train_metrics){labelled ? report.box.mp : 0.0,
                           labelled ? report.box.mr : 0.0,
                           labelled ? report.box.map50 : 0.0,
                           val_fitness(&report),
                           {report.loss[0], report.loss[1], report.loss[2]}};
    val_report_deinit(&report);
    return OL_OK;
}

static bool give_back(void *user) {
    training *t = user;
    return t->runner != NULL && runner_drop_plans(t->runner);
}

static ol_status run(training *t) {
    ol_model *m = t->handle;
    arena a;
    arena_init(&a, t->ctx, 0);
    int64_t *counts = arena_alloc(&a, (size_t)t->nc + 1, sizeof *counts);
    if (counts == NULL) return OL_ERROR_MEMORY;
    dataset_class_counts(t->train_set, counts);
    const train_setup setup = {.ctx = t->ctx,
                               .settings = &t->s,
                               .device = m->device,
                               .model = t->model,
                               .loader = t->train_loader,
                               .n_images = t->train_set->n,
                               .class_counts = counts,
                               .batch = t->batch,
                               .compute = t->compute,
                               .resume = t->resumes ? &m->stored : NULL,
                               .validate = validate_weights,
                               .give_back = give_back,
                               .user = t};
    ol_status status = train_run(&setup, &t->outcome);
    arena_deinit(&a);
    return status;
}

/* results.png, and the best weights validated once more as they will be used: their metrics are the run's result. */
static ol_status conclude(training *t, ol_train_result *filled) {
    ol_model *m = t->handle;
    arena a;
    arena_init(&a, t->ctx, 0);
    const char *csv = path_join(&a, t->s.save_dir, "results.csv"), *png = path_join(&a, t->s.save_dir, "results.png");
    ol_status status = csv == NULL || png == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK && t->s.plots && file_exists(csv)) status = draw_history_csv(t->ctx, csv, png);
    arena_deinit(&a);
    if (status != OL_OK) return status;
    const char *kept = t->outcome.best[0] != '\0' ? t->outcome.best : t->outcome.last;
    if (kept[0] == '\0') return OL_OK;
    status = model_replace(m, kept);
    if (status != OL_OK) return status;
    ctx_log(t->ctx, OL_LOG_INFO, "%s", "");
    ctx_log(t->ctx, OL_LOG_INFO, "Validating %s...", kept);
    if (t->s.verbose) {
        log_device_line(t->ctx, t->handle->device);
        status = model_log_summary(m->model, true, t->s.nms == SETTING_FALSE ? MODEL_ONE2ONE : MODEL_ONE2MANY);
    }
    val_report report = {0};
    if (status == OL_OK) status = make_runner(t, m->model, false);
    if (status == OL_OK) status = validate(t, NULL, &report);
    if (status != OL_OK) return status;
    filled->precision = report.box.mp;
    filled->recall = report.box.mr;
    filled->map50 = report.box.map50;
    filled->map50_95 = report.box.map;
    filled->fitness = val_fitness(&report);
    val_report_deinit(&report);
    if (!t->s.plots && !t->s.save_json) ctx_log(t->ctx, OL_LOG_INFO, "Results saved to %s", t->s.save_dir);
    runner_destroy(t->runner); /* it borrows the handle's model */
    t->runner = NULL;
    return OL_OK;
}

static ol_status prepare(training *t, const ol_options *options) {
    ol_status status = decide_settings(t, options);
    if (status == OL_OK) status = model_device(t->handle, &t->s);
    if (status == OL_OK) status = read_data(t);
    if (status == OL_OK && !t->resumes) status = run_folder_choose(&t->s, "train");
    if (status != OL_OK) return status;
    log_device_line(t->ctx, t->handle->device);
    log_arguments(t->ctx, &t->s);
    status = make_model(t);
    if (status == OL_OK) status = model_freeze(t->model, t->s.freeze->kind == VALUE_NULL ? NULL : t->s.freeze);
    if (status == OL_OK && t->s.verbose) status = model_log_layers(t->model);
    if (status == OL_OK) status = model_log_summary(t->model, false, MODEL_BOTH);
    if (status == OL_OK) status = make_loaders(t);
    if (status == OL_OK && !t->has_precision)
        status = precision_of_training(t->ctx, t->handle->device, t->model, &t->s, t->batch, t->imgsz, &t->compute);
    if (status == OL_OK && t->resumes)
        ctx_log(t->ctx, OL_LOG_INFO, "Resuming training %s from epoch %lld to %d total epochs", t->handle->path,
                (long long)t->handle->stored.epoch + 2, t->s.epochs);
    if (status == OL_OK) status = write_arguments(t); /* the first thing on disk: all that can be refused was */
    if (status == OL_OK) status = plot_labels(t);
    return status;
}

ol_status ol_train(ol_model *m, const ol_options *options, ol_train_result *result) {
    NUMBERS_WITH_POINT();
    ctx_clear(m->ctx);
    training t = {.handle = m, .ctx = m->ctx};
    ol_status status = prepare(&t, options);
    if (status == OL_OK) status = run(&t);
    if (status == OL_ERROR_MEMORY) status = explain_memory(&t);
    ol_train_result filled = {.precision = (double)NAN,
                              .recall = (double)NAN,
                              .map50 = (double)NAN,
                              .map50_95 = (double)NAN,
                              .fitness = (double)NAN};
    if (status == OL_OK) status = conclude(&t, &filled);
    if (status == OL_OK && result != NULL) {
        arena_deinit(&m->results);
        arena_init(&m->results, m->ctx, 0);
        filled.epochs = t.outcome.epochs_done;
        filled.hours = t.outcome.seconds / 3600.0;
        filled.best = arena_strdup(&m->results, t.outcome.best);
        filled.last = arena_strdup(&m->results, t.outcome.last);
        filled.save_dir = arena_strdup(&m->results, t.s.save_dir);
        status = filled.best != NULL && filled.last != NULL && filled.save_dir != NULL
                     ? copy_out(m->ctx, result, &filled, sizeof filled)
                     : OL_ERROR_MEMORY;
    }
    training_deinit(&t);
    return end_call(m->ctx, status);
}
