#include "train_case.h"
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void check(const train_case *c, ol_status status, const char *what) {
    if (status != OL_OK) fail_msg("%s: %s", what, ol_context_message(c->ctx));
}

static void log_to_stderr(void *user, ol_log_level level, const char *line) {
    (void)user;
    if (level == OL_LOG_WARNING || level == OL_LOG_ERROR) fprintf(stderr, "%s\n", line);
}

static void settings_fill(train_case *c, const train_case_options *o) {
    check(c, settings_init(&c->s, c->ctx), "settings");
    for (size_t i = 0; o->map && i < o->map->as.map.count; i++)
        check(c, settings_set(&c->s, o->map->as.map.keys[i]->as.string, o->map->as.map.items[i]), "settings");
    for (size_t i = 0; o->settings && o->settings[i]; i++) {
        char *name = arena_strdup(&c->arena, o->settings[i]), *equal = strchr(name, '=');
        *equal = '\0';
        check(c, settings_set_text(&c->s, name, equal + 1), name);
    }
    if (!o->resume) return;
    settings given = c->s;
    settings resumed;
    check(c, settings_init(&resumed, c->ctx), "settings");
    check(c, train_resume_settings(o->resume, o->resume_path, &given, &resumed), "resume");
    settings_deinit(&given);
    c->s = resumed;
}

train_case train_case_open(const train_case_options *o) {
    train_case c = {0};
    const ol_context_options options = {.struct_bytes = sizeof options,
                                        .log = o->log ? o->log : log_to_stderr,
                                        .log_user = o->log_user,
                                        .realloc_block = o->realloc_block,
                                        .realloc_user = o->realloc_user,
                                        .n_threads = o->n_threads > 0 ? o->n_threads : 1};
    assert_int_equal(ol_context_create(&options, &c.ctx), OL_OK);
    arena_init(&c.arena, c.ctx, 0);
    settings_fill(&c, o);
    if (o->save_dir) check(&c, settings_set_save_dir(&c.s, o->save_dir), "save_dir");
    check(&c, data_config_read(c.ctx, o->data, NULL, DATA_SPLIT_TRAIN, &c.config), "data");
    const dataset_options set = {.split = DATA_SPLIT_TRAIN,
                                 .training = true,
                                 .single_cls = c.s.single_cls,
                                 .fraction = 1.0,
                                 .n_threads = 1,
                                 .cache_folder = ""};
    check(&c, dataset_open(c.ctx, &c.config, &set, &c.set), "data set");
    int hw[2];
    settings_image_size(&c.s, hw);
    c.setup.batch = train_batch_size(c.ctx, &c.s);
    const loader_options loader = loader_options_train(&c.s, c.setup.batch, hw[0], 32);
    check(&c, loader_create(c.ctx, c.set, &loader, &c.loader), "loader");
    check(&c, device_open(c.ctx, test_device_name(), &c.dev), "device");
    dataset_class_counts(c.set, c.class_counts);
    c.setup.resume = o->resume;
    c.setup.compute = o->compute;
    return c;
}

void train_case_model(train_case *c, model *m) {
    c->model = m;
    if (c->s.freeze && c->s.freeze->kind != VALUE_NULL) check(c, model_freeze(m, c->s.freeze), "freeze");
    c->setup.ctx = c->ctx;
    c->setup.settings = &c->s;
    c->setup.device = c->dev;
    c->setup.model = m;
    c->setup.loader = c->loader;
    c->setup.n_images = c->set->n;
    c->setup.class_counts = c->class_counts;
}

void train_case_close(train_case *c) {
    model_destroy(c->model);
    loader_destroy(c->loader);
    dataset_destroy(c->set);
    data_config_deinit(&c->config);
    device_close(c->dev);
    settings_deinit(&c->s);
    arena_deinit(&c->arena);
    ol_context_destroy(c->ctx);
}
