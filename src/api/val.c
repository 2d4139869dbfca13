/* Val: a data set's split through a runner, measured; and the same with given weights for the validation inside
 * training. */
#include "api/val.h"

#include "api/preferences.h"
#include "api/run_folder.h"
#include "base/file.h"
#include "base/numbers.h"

#include <string.h>

ol_status split_open(ol_context *ctx, const settings *s, const char *data, data_split split, int channels,
                     val_split *out) {
    memset(out, 0, sizeof *out);
    arena a;
    arena_init(&a, ctx, 0);
    preferences p;
    int *classes = NULL;
    size_t n_classes = 0;
    double share;
    int64_t count;
    ol_status status = preferences_read(&a, &p);
    if (status == OL_OK) status = settings_ints(&a, s->classes, &classes, &n_classes);
    if (status == OL_OK) status = data_config_read(ctx, data, p.datasets_dir, split, &out->config);
    if (status != OL_OK) goto fail;
    out->has_config = true;
    out->config.channels = channels;
    settings_fraction(s, split == DATA_SPLIT_TRAIN ? 0 : split == DATA_SPLIT_VAL ? 1 : 2, &share, &count);
    const dataset_options options = {.split = split,
                                     .single_cls = s->single_cls,
                                     .classes = classes,
                                     .n_classes = (int)n_classes,
                                     .fraction = count > 0 ? (double)count : share};
    status = dataset_open(ctx, &out->config, &options, &out->dataset);
fail:
    arena_deinit(&a);
    if (status != OL_OK) split_close(out);
    return status;
}

void split_close(val_split *v) {
    if (v->loader != NULL) loader_destroy(v->loader);
    if (v->dataset != NULL) dataset_destroy(v->dataset);
    if (v->has_config) data_config_deinit(&v->config);
    memset(v, 0, sizeof *v);
}

int square_size(ol_context *ctx, const settings *s, int stride) {
    int hw[2];
    settings_image_size(s, hw);
    const int asked = hw[0] > hw[1] ? hw[0] : hw[1], step = stride > 32 ? stride : 32;
    const int size = (asked + step - 1) / step * step;
    if (hw[0] != hw[1])
        ctx_log(ctx, OL_LOG_WARNING, "train and val use square pictures: 'imgsz=[%d,%d]' is taken as imgsz=%d", hw[0],
                hw[1], size);
    else if (size != asked)
        ctx_log(ctx, OL_LOG_WARNING, "imgsz=[%d] must be multiple of max stride %d, updating to [%d]", asked, step,
                size);
    return size;
}

static const char *split_path(const data_config *config, data_split split) {
    return config->split[split].count > 0 ? config->split[split].items[0] : NULL;
}

/* The public struct from a report; arrays live in the model's results arena. */
static ol_status fill_metrics(ol_model *m, const val_report *report, const char *save_dir, ol_metrics *out) {
    const metrics *box = &report->box;
    ol_class_metrics *classes = arena_alloc(&m->results, (size_t)box->n + 1, sizeof *classes);
    if (classes == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < box->n; i++) {
        const int id = box->classes[i];
        double sum = 0.0;
        for (int k = 0; k < VAL_N_IOU; k++) sum += box->ap[i * VAL_N_IOU + k];
        classes[i] = (ol_class_metrics){.class_id = id,
                                        .name = arena_strdup(&m->results, report->names[id]),
                                        .n_images = report->images_per_class[id],
                                        .n_instances = report->instances_per_class[id],
                                        .precision = box->p[i],
                                        .recall = box->r[i],
                                        .map50 = box->ap[i * VAL_N_IOU],
                                        .map50_95 = sum / VAL_N_IOU};
        if (classes[i].name == NULL) return OL_ERROR_MEMORY;
    }
    *out = (ol_metrics){.precision = box->mp,
                        .recall = box->mr,
                        .map50 = box->map50,
                        .map75 = box->map75,
                        .map50_95 = box->map,
                        .fitness = val_fitness(report),
                        .n_images = report->n_images,
                        .n_instances = report->n_instances,
                        .classes = classes,
                        .n_classes = (size_t)box->n,
                        .preprocess_ms = report->speed_ms[VAL_PREPROCESS],
                        .inference_ms = report->speed_ms[VAL_INFERENCE],
                        .loss_ms = report->speed_ms[VAL_LOSS],
                        .postprocess_ms = report->speed_ms[VAL_POSTPROCESS],
                        .save_dir = save_dir != NULL ? arena_strdup(&m->results, save_dir) : NULL};
    return OL_OK;
}

/* The data argument, or what the checkpoint was trained on (inherited by mode_settings). */
static ol_status data_of(ol_model *m, const settings *s, const char **data) {
    if (s->data == NULL)
        return ctx_fail(m->ctx, OL_ERROR_ARGUMENT,
                        "'data' is missing and %s does not say what it was trained on; give a data-set yaml, i.e. "
                        "'data=coco8.yaml'",
                        m->path);
    *data = s->data;
    return OL_OK;
}

static ol_status batch_of(ol_context *ctx, const settings *s, int *batch) {
    if (s->batch < 1.0 || s->batch > 4096.0)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'batch=%g' cannot be used for val; give an int from 1 to 4096",
                        s->batch);
    *batch = (int)s->batch;
    return OL_OK;
}

ol_status ol_val(ol_model *m, const ol_options *options, ol_metrics *metrics_out) {
    NUMBERS_WITH_POINT();
    ol_context *ctx = m->ctx;
    ctx_clear(ctx);
    settings s;
    ol_status status = mode_settings(m, options, "val", &s);
    if (status != OL_OK) return status;
    val_split v = {0};
    val_report report = {0};
    bool have_report = false;
    runner *r = NULL;
    int n_created = 0;
    const char *data = NULL;
    int batch = 0;
    const data_split split = data_split_by_name(s.split);
    if (s.given[SETTING_ID_fraction] && s.fraction->kind != VALUE_LIST && split != DATA_SPLIT_TRAIN)
        ctx_log(ctx, OL_LOG_WARNING,
                "'fraction' with one number is about the train split; [train, val, test] gives one for each");
    status = data_of(m, &s, &data);
    if (status == OL_OK) status = batch_of(ctx, &s, &batch);
    if (status == OL_OK) status = model_runner(m, &s, &r);
    if (status == OL_OK) status = split_open(ctx, &s, data, split, m->model->desc.channels, &v);
    if (status != OL_OK) goto fail;
    const int stride = model_stride(m->model);
    loader_options loading = loader_options_val(&s, batch, square_size(ctx, &s, stride), stride);
    loading.maker = m->device;
    status = loader_create(ctx, v.dataset, &loading, &v.loader);
    if (status == OL_OK) status = run_folder_choose(&s, "val");
    if (status == OL_OK) status = run_folder_create(&s, "val", &n_created);
    if (status != OL_OK) goto fail;
    const val_options o = {.s = &s,
                           .names = m->model->names,
                           .nc = m->model->desc.nc,
                           .save_dir = s.save_dir,
                           .split_path = split_path(&v.config, split),
                           .plots = s.plots,
                           .quiet = !s.verbose};
    status = val_run(ctx, r, v.loader, v.dataset, &o, &report);
    if (status != OL_OK) goto fail;
    have_report = true;
    if (metrics_out != NULL) {
        ol_metrics filled;
        arena_deinit(&m->results);
        arena_init(&m->results, ctx, 0);
        status = fill_metrics(m, &report, s.save_dir, &filled);
        if (status == OL_OK) status = copy_out(ctx, metrics_out, &filled, sizeof filled);
    }
fail:
    run_folder_abandon(&s, n_created); /* also when nothing was to be written */
    if (have_report) val_report_deinit(&report);
    split_close(&v);
    settings_deinit(&s);
    return end_call(ctx, status);
}
