#include "formats/checkpoint.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

void checkpoint_init(checkpoint *c, ol_context *ctx) {
    *c = (checkpoint){.ctx = ctx, .nc = -1, .epoch = -1, .best_fitness = NAN, .updates = -1};
    arena_init(&c->arena, ctx, 0);
    tensor_list_init(&c->weights, ctx);
    tensor_list_init(&c->live, ctx);
    tensor_list_init(&c->optimizer.state, ctx);
}

void checkpoint_deinit(checkpoint *c) {
    tensor_list_deinit(&c->weights);
    tensor_list_deinit(&c->live);
    tensor_list_deinit(&c->optimizer.state);
    arena_deinit(&c->arena);
}

void checkpoint_note_form(checkpoint *c) {
    c->fused = true;
    c->has_one2many = c->has_one2one = false;
    for (size_t i = 0; i < c->weights.count; i++) {
        const char *name = c->weights.items[i].name;
        if (strstr(name, ".running_mean") != NULL) c->fused = false;
        if (strstr(name, ".one2one_cv2.") != NULL) c->has_one2one = true;
        if (strstr(name, ".cv2.0.2.weight") != NULL) c->has_one2many = true; /* the plain conv that ends a box branch */
    }
}

ol_status checkpoint_model_source(arena *a, const checkpoint *c, const char *name, model_source *out) {
    model_source source = {
        .name = name, .yaml = c->yaml, .state = &c->weights, .scale = c->scale != NULL ? c->scale[0] : '\0'};
    if (c->yaml == NULL) { /* a plain state dict: the file's name has to say which model it is for */
        const char letter = scale_letter(path_name(name));
        source.name = letter != '\0' ? arena_printf(a, "yolo26%c.yaml", letter) : name;
        if (source.name == NULL) return OL_ERROR_MEMORY;
        if (letter == '\0')
            return ctx_fail(c->ctx, OL_ERROR_FORMAT,
                            "'%s' holds weights without a model description; name it like yolo26n-mine.pt, or give a "
                            "whole checkpoint",
                            name);
        ctx_log(c->ctx, OL_LOG_WARNING, "'%s' holds a plain state dict: taken for %s by its name", name, source.name);
    }
    const size_t n = c->names != NULL && c->names->kind == VALUE_MAP ? c->names->as.map.count : 0;
    const char **names = arena_alloc(a, n, sizeof *names);
    if (names == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        int64_t at;
        const value *key = c->names->as.map.keys[i], *item = c->names->as.map.items[i];
        if (!value_as_int(key, &at) || at < 0 || (uint64_t)at >= n || item->kind != VALUE_STRING || names[at] != NULL)
            return ctx_fail(c->ctx, OL_ERROR_FORMAT,
                            "'%s': the class names are not numbered 0 to %zu; get the file again", name, n - 1);
        names[at] = item->as.string;
    }
    source.names = n > 0 ? names : NULL;
    source.n_names = (int)n;
    *out = source;
    return OL_OK;
}
