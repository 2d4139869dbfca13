/* Which settings a resumed run has (model document, section 6.6). */
#include "base/file.h"
#include "train/trainer.h"

static const setting_id may_change[] = {
    SETTING_ID_imgsz,        SETTING_ID_batch,   SETTING_ID_device,        SETTING_ID_close_mosaic,
    SETTING_ID_save_period,  SETTING_ID_workers, SETTING_ID_cache,         SETTING_ID_patience,
    SETTING_ID_time,         SETTING_ID_freeze,  SETTING_ID_val,           SETTING_ID_plots,
    SETTING_ID_hsv_h,        SETTING_ID_hsv_s,   SETTING_ID_hsv_v,         SETTING_ID_degrees,
    SETTING_ID_translate,    SETTING_ID_scale,   SETTING_ID_shear,         SETTING_ID_perspective,
    SETTING_ID_flipud,       SETTING_ID_fliplr,  SETTING_ID_bgr,           SETTING_ID_mosaic,
    SETTING_ID_mixup,        SETTING_ID_cutmix,  SETTING_ID_copy_paste,    SETTING_ID_copy_paste_mode,
    SETTING_ID_auto_augment, SETTING_ID_erasing, SETTING_ID_channels_last, SETTING_ID_distill_model,
};
/* What says that and from where a run is resumed; no news in these. */
static const setting_id part_of_the_call[] = {SETTING_ID_task,   SETTING_ID_mode,   SETTING_ID_model,
                                              SETTING_ID_resume, SETTING_ID_epochs, SETTING_ID_verbose};

static bool is_among(const setting_id *ids, size_t n, setting_id id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

static ol_status epochs_settle(ol_context *ctx, const checkpoint *c, const char *path, const settings *given,
                               settings *out) {
    const long long done = (long long)c->epoch + 1;
    const int before = out->epochs;
    ol_status status = OL_OK;
    if (given->given[SETTING_ID_epochs])
        status = settings_set_quietly(out, SETTING_ID_epochs, given->values[SETTING_ID_epochs]);
    if (status != OL_OK) return status;
    if (out->epochs < done || (out->epochs == done && before > out->epochs))
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "%s has %lld epochs behind it, epochs=%d asks for fewer; give a larger number or leave it out",
                        path, done, out->epochs);
    if (out->epochs != before)
        ctx_log(
            ctx, OL_LOG_WARNING,
            "resuming with epochs=%d instead of %d: the learning-rate schedule is that of the new number from here on",
            out->epochs, before);
    return OL_OK;
}

/* The run folder is where the file lies: <folder>/weights/last.pt. */
static ol_status folder_settle(arena *a, const char *path, settings *out) {
    const char *absolute = path_absolute(a, path), *weights = absolute ? path_parent(a, absolute) : NULL;
    const char *folder = weights ? path_parent(a, weights) : NULL;
    return folder ? settings_set_save_dir(out, folder) : OL_ERROR_MEMORY;
}

ol_status train_resume_settings(const checkpoint *c, const char *path, const settings *given, settings *out) {
    ol_context *ctx = c->ctx;
    if (c->epoch < 0 || !c->has_optimizer)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "%s holds the weights of a finished run and no optimizer, so there is nothing to resume; start "
                        "a new run from it with model=%s and no resume",
                        path, path);
    if (!c->train_args || c->train_args->kind != VALUE_MAP)
        return ctx_fail(ctx, OL_ERROR_FORMAT,
                        "%s does not say with which arguments it was trained; it cannot be resumed", path);
    ol_status status = settings_set_map(out, c->train_args, path, false);
    for (int id = 0; status == OL_OK && id < SETTING_COUNT; id++) {
        if (!given->given[id]) continue;
        if (is_among(may_change, sizeof may_change / sizeof may_change[0], (setting_id)id))
            status = settings_set_quietly(out, (setting_id)id, given->values[id]);
        else if (!is_among(part_of_the_call, sizeof part_of_the_call / sizeof part_of_the_call[0], (setting_id)id))
            ctx_log(ctx, OL_LOG_WARNING, "%s= cannot change when a run is resumed; the value of %s stays",
                    setting_infos[id].name, path);
    }
    if (status == OL_OK) status = epochs_settle(ctx, c, path, given, out);
    if (status != OL_OK) return status;
    arena a;
    arena_init(&a, ctx, 0);
    status = folder_settle(&a, path, out);
    arena_deinit(&a);
    return status;
}
