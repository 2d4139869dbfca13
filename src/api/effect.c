#include "api/effect.h"

#include "base/text.h"

#include <string.h>

enum {
    TRAIN = 1,
    VAL = 2,
    PREDICT = 4,
    EXPORT = 8,
    EVERY = TRAIN | VAL | PREDICT | EXPORT,
    RUNS = TRAIN | VAL | PREDICT
};

static const char later[] = "comes in a later version and is left out";

/* Where the arguments of a group count, unless a row below says otherwise. */
static const unsigned group_modes[SETTING_GROUP_COUNT] = {
    [SETTING_GROUP_GENERAL] = EVERY, [SETTING_GROUP_TRAIN] = TRAIN,   [SETTING_GROUP_VAL] = TRAIN | VAL,
    [SETTING_GROUP_PREDICT] = RUNS,  [SETTING_GROUP_EXPORT] = EXPORT, [SETTING_GROUP_HYPER] = TRAIN};

/* `why` completes a line that starts with the argument; for those that count in no mode. */
static const struct row {
    setting_id id;
    unsigned modes;
    const char *why;
} rows[] = {
    {SETTING_ID_data, TRAIN | VAL | EXPORT, NULL}, /* an export shows it in its metadata */
    {SETTING_ID_workers, TRAIN | VAL, NULL},
    {SETTING_ID_project, RUNS, NULL},
    {SETTING_ID_name, RUNS, NULL},
    {SETTING_ID_exist_ok, RUNS, NULL},
    {SETTING_ID_save, TRAIN | PREDICT, NULL},
    {SETTING_ID_single_cls, TRAIN | VAL, NULL},
    {SETTING_ID_rect, RUNS, NULL},
    {SETTING_ID_plots, TRAIN | VAL, NULL},
    {SETTING_ID_cache, TRAIN | VAL, NULL},
    {SETTING_ID_seed, TRAIN, NULL},
    {SETTING_ID_fraction, TRAIN | VAL | EXPORT, NULL}, /* the same */
    {SETTING_ID_split, VAL, NULL},
    {SETTING_ID_conf, EVERY, NULL},
    {SETTING_ID_iou, EVERY, NULL},
    {SETTING_ID_max_det, EVERY, NULL},
    {SETTING_ID_nms, EVERY, NULL},
    {SETTING_ID_quantize, VAL | PREDICT | EXPORT, NULL},
    {SETTING_ID_source, PREDICT, NULL},
    {SETTING_ID_save_crop, PREDICT, NULL},
    {SETTING_ID_show_labels, PREDICT, NULL},
    {SETTING_ID_show_conf, PREDICT, NULL},
    {SETTING_ID_show_boxes, PREDICT, NULL},
    {SETTING_ID_line_width, PREDICT, NULL},
    {SETTING_ID_distill_model, TRAIN, NULL}, /* refused there */
    {SETTING_ID_cfg, EVERY, NULL},

    {SETTING_ID_deterministic, 0, "changes nothing: every run gives the same bits again"},
    {SETTING_ID_compile, 0, "changes nothing: there is nothing to compile"},
    {SETTING_ID_channels_last, 0, "changes nothing: the device chooses the memory layout"},
    {SETTING_ID_simplify, 0, "changes nothing: the graph is written in its simple form"},
    {SETTING_ID_dis, 0, "belongs to 'distill_model', which is not supported yet"},
    {SETTING_ID_profile, 0, later},
    {SETTING_ID_dnn, 0, later},
    {SETTING_ID_vid_stride, 0, later},
    {SETTING_ID_stream_buffer, 0, later},
    {SETTING_ID_visualize, 0, later},
    {SETTING_ID_augment, 0, later},
    {SETTING_ID_embed, 0, later},
    {SETTING_ID_show, 0, later},
    {SETTING_ID_save_frames, 0, later},
    {SETTING_ID_tracker, 0, later},
    {SETTING_ID_overlap_mask, 0, "is for segment models and changes nothing here"},
    {SETTING_ID_mask_ratio, 0, "is for segment models and changes nothing here"},
    {SETTING_ID_retina_masks, 0, "is for segment models and changes nothing here"},
    {SETTING_ID_dropout, 0, "is for classify models and changes nothing here"},
    {SETTING_ID_auto_augment, 0, "is for classify models and changes nothing here"},
    {SETTING_ID_erasing, 0, "is for classify models and changes nothing here"},
    {SETTING_ID_pose, 0, "is for pose models and changes nothing here"},
    {SETTING_ID_kobj, 0, "is for pose models and changes nothing here"},
    {SETTING_ID_rle, 0, "is for pose models and changes nothing here"},
    {SETTING_ID_angle, 0, "is for obb models and changes nothing here"},
    {SETTING_ID_dlog, 0, "is for depth models and changes nothing here"},
    {SETTING_ID_dgrad, 0, "is for depth models and changes nothing here"},
    {SETTING_ID_dlam, 0, "is for depth models and changes nothing here"},
};

static const struct row *row_of(setting_id id) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].id == id) return &rows[i];
    }
    return NULL;
}

static unsigned mode_bit(const char *mode) {
    static const char *const names[] = {"train", "val", "predict", "export"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], mode) == 0) return 1u << i;
    }
    return EVERY;
}

/* Numbers by value, the rest by the text that args.yaml would show. */
static bool is_default(text *scratch, const value *v, const value *standard) {
    if (value_is_number(v) && value_is_number(standard)) return value_as_double(v) == value_as_double(standard);
    text_clear(scratch);
    literal_write(scratch, v);
    const size_t n = scratch->length;
    literal_write(scratch, standard);
    return !scratch->failed && scratch->length == 2 * n && memcmp(scratch->bytes, scratch->bytes + n, n) == 0;
}

ol_status effect_warn(ol_context *ctx, const settings *s, const char *mode) {
    settings defaults;
    text scratch;
    ol_status status = settings_init(&defaults, ctx);
    if (status != OL_OK) return status;
    text_init(&scratch, ctx);
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct row *row = row_of((setting_id)i);
        const unsigned modes = row != NULL ? row->modes : group_modes[setting_infos[i].group];
        if ((modes & mode_bit(mode)) != 0 || (modes != 0 && !s->given[i])) continue;
        if (is_default(&scratch, s->values[i], defaults.values[i])) continue;
        if (row != NULL && modes == 0)
            ctx_log(ctx, OL_LOG_WARNING, "'%s' %s", setting_infos[i].name, row->why);
        else
            ctx_log(ctx, OL_LOG_WARNING, "'%s' changes nothing in mode '%s'", setting_infos[i].name, mode);
    }
    if (s->save_conf && !s->save_txt && (mode_bit(mode) & (VAL | PREDICT)) != 0)
        ctx_log(ctx, OL_LOG_WARNING, "'save_conf' changes nothing without 'save_txt'");
    status = scratch.failed ? OL_ERROR_MEMORY : OL_OK;
    text_deinit(&scratch);
    settings_deinit(&defaults);
    return status;
}
