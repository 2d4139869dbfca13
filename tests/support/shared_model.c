#include "shared_model.h"

#include "golden.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

shared_model shared_model_open(ol_context *ctx, const char *name) {
    shared_model m = {0};
    arena a;
    arena_init(&a, ctx, 0);
    const char *path = path_join(&a, shared_folder(), name);
    if (checkpoint_read(ctx, path, &m.file)) fail_msg("%s", ol_context_message(ctx));
    const value *names = m.file.names;
    const char **texts = arena_alloc(&a, names->as.map.count + 1, sizeof *texts);
    for (size_t i = 0; i < names->as.map.count; i++) texts[i] = names->as.map.items[i]->as.string;
    model_source source = {.name = path,
                           .yaml = m.file.yaml,
                           .scale = m.file.scale ? m.file.scale[0] : 0,
                           .state = &m.file.weights,
                           .names = texts,
                           .n_names = (int)names->as.map.count};
    if (model_create_from_source(ctx, &source, &m.model)) fail_msg("%s", ol_context_message(ctx));
    if (device_open(ctx, test_device_name(), &m.dev)) fail_msg("%s", ol_context_message(ctx));
    arena_deinit(&a);
    return m;
}

void shared_model_close(shared_model *m) {
    model_destroy(m->model);
    device_close(m->dev);
    checkpoint_deinit(&m->file);
}
