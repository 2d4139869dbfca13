#include "api/model.h"

#include "api/preferences.h"
#include "base/file.h"
#include "base/numbers.h"
#include "formats/safetensors.h"

#include <string.h>
#include <strings.h>

ol_status copy_out(ol_context *ctx, void *to, const void *from, size_t from_bytes) {
    size_t room;
    memcpy(&room, to, sizeof room);
    if (room < 2 * sizeof room)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "struct_bytes of a result is %zu; set it to the size of the struct before the call", room);
    const size_t n = room < from_bytes ? room : from_bytes;
    memcpy((char *)to + sizeof room, (const char *)from + sizeof room, n - sizeof room);
    return OL_OK;
}

static bool is_embedded_yaml(const char *path) {
    const char *const name = "yolo26";
    const size_t n = strlen(name);
    return strncmp(path, name, n) == 0 &&
           (strcmp(path + n, ".yaml") == 0 ||
            (path[n] != '\0' && strchr("nsmlx", path[n]) != NULL && strcmp(path + n + 1, ".yaml") == 0));
}

/* A stem without suffix is meant as weights: "yolo26n" is "yolo26n.pt". */
static ol_status find_file(arena *a, const char *asked, const char **found) {
    ol_context *ctx = a->ctx;
    preferences p;
    ol_status status = preferences_read(a, &p);
    if (status != OL_OK) return status;
    const char *name = *path_suffix(asked) != '\0' || file_exists(asked) ? asked : arena_printf(a, "%s.pt", asked);
    const char *elsewhere = name != NULL ? path_join(a, p.weights_dir, path_name(name)) : NULL;
    if (elsewhere == NULL) return OL_ERROR_MEMORY;
    if (file_is_folder(name))
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'model=%s' is a folder; give a .pt, .safetensors or .yaml file", name);
    const char *candidates[] = {name, elsewhere};
    for (size_t i = 0; i < 2; i++) {
        if (!file_exists(candidates[i])) continue;
        *found = arena_strdup(a, candidates[i]);
        return *found != NULL ? OL_OK : OL_ERROR_MEMORY;
    }
    if (is_embedded_yaml(name)) {
        *found = arena_strdup(a, name);
        return *found != NULL ? OL_OK : OL_ERROR_MEMORY;
    }
    const bool yaml = strcmp(path_suffix(name), ".yaml") == 0 || strcmp(path_suffix(name), ".yml") == 0;
    if (yaml)
        return ctx_fail(ctx, OL_ERROR_NOT_FOUND,
                        "'model=%s' does not exist; yolo26n.yaml, yolo26s.yaml, yolo26m.yaml, yolo26l.yaml and "
                        "yolo26x.yaml are built in",
                        asked);
    return ctx_fail(
        ctx, OL_ERROR_NOT_FOUND,
        "'model=%s' does not exist, nor does %s. Nothing is downloaded: put the file at either place (official weights "
        "carry their owner's licence), or start from an architecture as in 'model=yolo26n.yaml'",
        asked, elsewhere);
}

static ol_status load_yaml(ol_model *m) {
    const model_spec spec = {.name = m->path};
    ol_status status = model_create(m->ctx, &spec, &m->model);
    if (status == OL_OK) model_initialize(m->model, 0);
    return status;
}

static ol_status load_weights(ol_model *m) {
    ol_context *ctx = m->ctx;
    const bool safetensors = strcasecmp(path_suffix(m->path), ".safetensors") == 0;
    ol_status status =
        safetensors ? safetensors_read(ctx, m->path, &m->stored) : checkpoint_read(ctx, m->path, &m->stored);
    if (status != OL_OK) return status;
    m->has_checkpoint = true;
    const checkpoint *c = &m->stored;
    if (c->task != NULL && strcmp(c->task, "detect") != 0)
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "%s: a model of the task '%s'; this version knows 'detect'", m->path,
                        c->task);
    model_source source;
    status = checkpoint_model_source(&m->arena, c, m->path, &source);
    if (status != OL_OK) return status;
    status = model_create_from_source(ctx, &source, &m->model);
    if (status != OL_OK) return strcmp(source.name, m->path) == 0 ? status : ctx_annotate(ctx, status, "%s", m->path);
    if (c->epoch >= 0 && c->has_optimizer) return OL_OK; /* a resumed run starts from the whole checkpoint */
    tensor_list_deinit(&m->stored.weights);              /* the model has them now */
    tensor_list_init(&m->stored.weights, ctx);
    return OL_OK;
}

/* A handle without a file yet; NULL when memory is out. */
static ol_model *handle_create(ol_context *ctx) {
    ol_model *m = mem_alloc0(ctx, 1, sizeof *m);
    if (m == NULL) return NULL;
    m->ctx = ctx;
    arena_init(&m->arena, ctx, 0);
    arena_init(&m->results, ctx, 0);
    return m;
}

ol_status model_open(ol_context *ctx, const char *path, ol_model **out) {
    ol_model *m = handle_create(ctx);
    if (m == NULL) return OL_ERROR_MEMORY;
    ol_status status = find_file(&m->arena, path, &m->path);
    if (status != OL_OK) goto fail;
    const char *suffix = path_suffix(m->path);
    if (strcasecmp(suffix, ".yaml") == 0 || strcasecmp(suffix, ".yml") == 0)
        status = load_yaml(m);
    else if (strcasecmp(suffix, ".onnx") == 0 || strcasecmp(suffix, ".engine") == 0 ||
             strcasecmp(suffix, ".torchscript") == 0)
        status =
            ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                     "%s: running exported models is not supported yet; give the .pt file it was made from", m->path);
    else
        status = load_weights(m);
    if (status != OL_OK) goto fail;
    *out = m;
    return OL_OK;
fail:
    ol_model_destroy(m);
    return status;
}

ol_status ol_model_load(ol_context *ctx, const char *path, ol_model **out) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    return model_open(ctx, path, out);
}

ol_status model_replace(ol_model *m, const char *path) {
    ol_model *fresh = NULL;
    ol_status status = model_open(m->ctx, path, &fresh);
    if (status != OL_OK) return status;
    const arena results = m->results;
    device *const dev = m->device;
    model_forget_runner(m);
    ol_model old = *m;
    *m = *fresh;
    *fresh = old;
    /* the results and the device stay with the handle that the caller has */
    fresh->results = m->results;
    fresh->device = m->device;
    m->results = results;
    m->device = dev;
    memcpy(m->device_name, fresh->device_name, sizeof m->device_name); /* `fresh` holds the old handle now */
    m->announced = true;
    ol_model_destroy(fresh);
    return OL_OK;
}

void ol_model_destroy(ol_model *m) {
    if (m == NULL) return;
    ol_context *ctx = m->ctx;
    model_forget_runner(m);
    if (m->device != NULL) device_close(m->device);
    if (m->model != NULL) model_destroy(m->model);
    if (m->has_checkpoint) checkpoint_deinit(&m->stored);
    arena_deinit(&m->results);
    arena_deinit(&m->arena);
    mem_free(ctx, m);
}

model_source model_as_source(const ol_model *m) {
    return (model_source){.name = m->path,
                          .yaml = m->model->desc.yaml,
                          .scale = m->model->desc.scale,
                          .state = &m->model->state,
                          .names = m->model->names,
                          .n_names = m->model->desc.nc};
}

ol_status ol_model_get_info(const ol_model *m, ol_model_info *info) {
    ctx_clear(m->ctx);
    const ol_model_info filled = {.path = m->path,
                                  .task = "detect",
                                  .class_names = m->model->names,
                                  .n_classes = m->model->desc.nc,
                                  .channels = m->model->desc.channels,
                                  .stride = model_stride(m->model),
                                  .n_parameters = model_parameter_count(m->model)};
    return copy_out(m->ctx, info, &filled, sizeof filled);
}
