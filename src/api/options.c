#include "api/options.h"

#include "base/file.h"
#include "base/numbers.h"

bool ol_argument_at(size_t index, ol_argument *argument) {
    if (index >= SETTING_COUNT) return false;
    const setting_info *info = &setting_infos[index];
    *argument = (ol_argument){.name = info->name,
                              .default_text = info->default_text,
                              .accepts = setting_kind_text(info->kind),
                              .words = info->words,
                              .group = setting_group_name(info->group),
                              .about = info->doc,
                              .is_flag = setting_is_flag((setting_id)index)};
    return true;
}

ol_status ol_options_create(ol_context *ctx, ol_options **options) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    ol_options *o = mem_alloc0(ctx, 1, sizeof *o);
    if (o == NULL) return OL_ERROR_MEMORY;
    o->ctx = ctx;
    text_init(&o->shown, ctx);
    ol_status status = settings_init(&o->settings, ctx);
    if (status != OL_OK) {
        mem_free(ctx, o);
        return status;
    }
    *options = o;
    return OL_OK;
}

void ol_options_destroy(ol_options *options) {
    if (options == NULL) return;
    ol_context *ctx = options->ctx;
    settings_deinit(&options->settings);
    text_deinit(&options->shown);
    mem_free(ctx, options);
}

ol_status ol_options_set(ol_options *options, const char *name, const char *typed) {
    NUMBERS_WITH_POINT();
    ctx_clear(options->ctx);
    return settings_set_text(&options->settings, name, typed);
}

ol_status ol_options_read(ol_options *options, const char *path) {
    NUMBERS_WITH_POINT();
    ctx_clear(options->ctx);
    return settings_read(&options->settings, path);
}

const char *ol_options_get(ol_options *options, const char *name) {
    NUMBERS_WITH_POINT();
    setting_id id;
    if (!setting_find(name, &id)) return NULL;
    const value *v = options->settings.values[id];
    if (v->kind == VALUE_STRING) return v->as.string;
    text_clear(&options->shown);
    literal_write(&options->shown, v);
    return text_c(&options->shown);
}

bool ol_options_is_set(const ol_options *options, const char *name) {
    setting_id id;
    return setting_find(name, &id) && options->settings.given[id];
}

ol_status ol_options_write(ol_options *options, const char *path) {
    NUMBERS_WITH_POINT();
    ctx_clear(options->ctx);
    text yaml;
    text_init(&yaml, options->ctx);
    ol_status status = settings_write(&yaml, &options->settings);
    if (status == OL_OK) status = file_write_atomic(options->ctx, path, text_c(&yaml), yaml.length);
    text_deinit(&yaml);
    return status;
}
