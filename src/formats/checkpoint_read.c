/* From the tree of a .pt file to a checkpoint: model document, section 9. */
#include "formats/checkpoint.h"

#include "base/file.h"
#include "formats/module_reader.h"
#include "formats/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_VALUE_NODES   ((size_t)200000)
#define MAX_TEXT_BYTES    ((size_t)128 << 20)
#define MAX_GROUPS        ((size_t)64)
#define MAX_STATE_ENTRIES ((size_t)32)
#define MAX_OPTIMIZED     ((int64_t)200000)

typedef struct reader {
    ol_context *ctx;
    const char *name;
    torch_archive *t;
    const pickle_node *root, *model; /* top-level dict; the module that is read, NULL for a plain state dict */
    const pickle_node *dict;         /* that state dict */
    checkpoint *c;
} reader;

/* --- plain entries --- */

/* NULL stays NULL: absent, or none. */
static ol_status read_value(reader *r, const pickle_node *node, const value **out) {
    if (node == NULL || node->kind == PICKLE_NONE) return OL_OK;
    if (node->kind == PICKLE_OBJECT && node->as.object.state != NULL) node = node->as.object.state; /* a namespace */
    return pickle_to_value(&r->c->arena, node, MAX_VALUE_NODES, out);
}

static ol_status read_map(reader *r, const pickle_node *node, const value **out) {
    const value *v = NULL;
    const ol_status status = read_value(r, node, &v);
    if (status == OL_OK && v != NULL && v->kind == VALUE_MAP) *out = v;
    return status;
}

static ol_status read_text(reader *r, const pickle_node *node, const char **out) {
    const char *text = pickle_as_string(node);
    if (text == NULL) return OL_OK;
    *out = arena_strdup(&r->c->arena, text);
    return *out != NULL ? OL_OK : OL_ERROR_MEMORY;
}

/* A list, or a map from int to str, becomes a map from int to str. */
static ol_status read_names(reader *r, const pickle_node *node) {
    const value *v = NULL;
    ol_status status = read_value(r, node, &v);
    if (status != OL_OK || v == NULL || v->kind == VALUE_MAP) {
        if (status == OL_OK) r->c->names = v;
        return status;
    }
    value *map = v->kind == VALUE_LIST ? value_map(&r->c->arena) : NULL;
    for (size_t i = 0; status == OL_OK && map != NULL && i < v->as.list.count; i++)
        status = value_set_key(&r->c->arena, map, value_int(&r->c->arena, (int64_t)i), v->as.list.items[i]);
    if (status == OL_OK) r->c->names = map;
    return status;
}

static ol_status read_strides(reader *r, const pickle_node *node) {
    tensor_list list;
    if (!torch_is_tensor(node)) return OL_OK;
    tensor_list_init(&list, r->ctx);
    const ol_status status = torch_tensor_read(r->t, node, &list, "stride");
    if (status == OL_OK && list.items[0].t.type == DTYPE_F32) {
        const int64_t n = shape_elements(&list.items[0].t.shape);
        r->c->n_strides = n < CHECKPOINT_MAX_STRIDES ? (int)n : CHECKPOINT_MAX_STRIDES;
        memcpy(r->c->strides, list.items[0].t.data, (size_t)r->c->n_strides * sizeof(float));
    }
    tensor_list_deinit(&list);
    return status;
}

/* --- the model --- */

static const struct {
    const char *head, *task;
} head_tasks[] = {
    {"Detect", "detect"},
    {"v10Detect", "detect"},
    {"RTDETRDecoder", "detect"},
    {"WorldDetect", "detect"},
    {"Segment", "segment"},
    {"Pose", "pose"},
    {"OBB", "obb"},
    {"Classify", "classify"},
    {"YOLOEDetect", "detect"},
    {"SemanticSegment", "semantic"},
    {"Depth", "depth"},
    {"YOLOESegment", "segment"},
};

/* Heads of a generation carry its number: "Segment26". */
static const char *task_of_head(const char *head) {
    for (size_t i = 0; i < sizeof head_tasks / sizeof *head_tasks; i++) {
        const size_t n = strlen(head_tasks[i].head);
        if (strncmp(head, head_tasks[i].head, n) == 0 && strspn(head + n, "0123456789") == strlen(head + n))
            return head_tasks[i].task;
    }
    return NULL;
}

static ol_status read_head(reader *r) {
    const pickle_node *layers = module_child_node(r->model, "model");
    const pickle_node *head = layers != NULL ? module_last_child(layers) : NULL;
    if (head == NULL) return OL_OK;
    r->c->head = arena_strdup(&r->c->arena, module_class_name(head));
    if (r->c->head == NULL) return OL_ERROR_MEMORY;
    if (r->c->task == NULL) r->c->task = task_of_head(r->c->head);
    return OL_OK;
}

static ol_status read_model(reader *r) {
    checkpoint *c = r->c;
    ol_status status = module_state_read(r->t, r->model, &c->weights);
    if (status == OL_OK) status = read_map(r, module_attribute(r->model, "yaml"), &c->yaml);
    if (status == OL_OK) status = read_names(r, module_attribute(r->model, "names"));
    if (status == OL_OK) status = read_strides(r, module_attribute(r->model, "stride"));
    if (status == OL_OK) status = read_text(r, module_attribute(r->model, "task"), &c->task);
    if (status == OL_OK) status = read_head(r);
    if (status != OL_OK) return status;
    const value *nc = value_get(c->yaml, "nc"), *scale = value_get(c->yaml, "scale");
    if (!pickle_as_int(module_attribute(r->model, "nc"), &c->nc) && nc != NULL) value_as_int(nc, &c->nc);
    if (scale != NULL && scale->kind == VALUE_STRING && scale->as.string[0] != '\0') c->scale = scale->as.string;
    return OL_OK;
}

static bool is_state_dict(const pickle_node *node) {
    if (node == NULL || node->kind != PICKLE_DICT || node->as.seq.count == 0) return false;
    for (size_t i = 0; i + 1 < node->as.seq.count; i += 2)
        if (!torch_is_tensor(node->as.seq.items[i + 1])) return false;
    return true;
}

static ol_status read_dict(reader *r, const pickle_node *dict, tensor_list *list) {
    ol_status status = OL_OK;
    for (size_t i = 0; status == OL_OK && i + 1 < dict->as.seq.count; i += 2) {
        const char *name = pickle_as_string(dict->as.seq.items[i]);
        if (name != NULL) status = torch_tensor_read(r->t, dict->as.seq.items[i + 1], list, name);
    }
    return status;
}

static ol_status choose_model(reader *r) {
    const pickle_node *ema = pickle_get(r->root, "ema"), *model = pickle_get(r->root, "model");
    r->model = module_is(ema) ? ema : module_is(model) ? model : module_is(r->root) ? r->root : NULL;
    r->dict = is_state_dict(ema) ? ema : is_state_dict(model) ? model : is_state_dict(r->root) ? r->root : NULL;
    if (r->model != NULL && module_child_node(r->model, "model") == NULL)
        return ctx_fail(r->ctx, OL_ERROR_FORMAT,
                        "'%s' holds a module of the class '%s', not a model of this family; give another file", r->name,
                        module_class_name(r->model));
    if (r->model != NULL) return OL_OK;
    if (r->dict == NULL)
        return ctx_fail(r->ctx, OL_ERROR_FORMAT,
                        "'%s' is a torch file without a model in it; give a checkpoint such as best.pt or last.pt",
                        r->name);
    return OL_OK;
}

/* --- training state --- */

static ol_status read_state_entry(reader *r, int64_t index, const pickle_node *key, const pickle_node *item) {
    const char *text = pickle_as_string(key);
    char name[160];
    double number;
    tensor *t;
    if (text == NULL || strlen(text) > 100) return OL_OK;
    snprintf(name, sizeof name, "%lld/%s", (long long)index, text);
    if (torch_is_tensor(item)) return torch_tensor_read(r->t, item, &r->c->optimizer.state, name);
    if (!pickle_as_double(item, &number)) return OL_OK;
    const ol_status status = tensor_list_add(&r->c->optimizer.state, name, DTYPE_F32, (shape){0}, &t);
    if (status == OL_OK) *tensor_f32(t) = (float)number;
    return status;
}

static ol_status optimizer_damaged(reader *r) {
    return ctx_fail(r->ctx, OL_ERROR_FORMAT, "the optimizer's state is damaged; train anew from these weights");
}

static ol_status read_optimizer_state(reader *r, const pickle_node *dict) {
    ol_status status = OL_OK;
    for (size_t i = 0; status == OL_OK && i + 1 < dict->as.seq.count; i += 2) {
        int64_t index;
        const pickle_node *entries = dict->as.seq.items[i + 1];
        if (!pickle_as_int(dict->as.seq.items[i], &index) || index < 0 || index > MAX_OPTIMIZED ||
            entries->kind != PICKLE_DICT || entries->as.seq.count > 2 * MAX_STATE_ENTRIES)
            return optimizer_damaged(r);
        for (size_t k = 0; status == OL_OK && k + 1 < entries->as.seq.count; k += 2)
            status = read_state_entry(r, index, entries->as.seq.items[k], entries->as.seq.items[k + 1]);
    }
    return status;
}

static ol_status read_group(reader *r, const pickle_node *node, checkpoint_group *group) {
    arena *a = &r->c->arena;
    const pickle_node *params = pickle_get(node, "params");
    if (params == NULL || params->kind != PICKLE_LIST || node->as.seq.count > 2 * MAX_STATE_ENTRIES * 2)
        return optimizer_damaged(r);
    group->n_params = params->as.seq.count;
    group->params = arena_alloc(a, group->n_params, sizeof *group->params);
    value *options = value_map(a);
    if (group->params == NULL || options == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < group->n_params; i++)
        if (!pickle_as_int(params->as.seq.items[i], &group->params[i]) || group->params[i] < 0)
            return optimizer_damaged(r);
    ol_status status = OL_OK;
    for (size_t i = 0; status == OL_OK && i + 1 < node->as.seq.count; i += 2) {
        const char *key = pickle_as_string(node->as.seq.items[i]);
        const value *v = NULL;
        if (key == NULL || strcmp(key, "params") == 0) continue;
        status = pickle_to_value(a, node->as.seq.items[i + 1], MAX_VALUE_NODES, &v);
        if (status == OL_OK) status = value_set(a, options, key, v);
    }
    group->options = options;
    return status;
}

static ol_status read_optimizer(reader *r, const pickle_node *node) {
    const pickle_node *state = pickle_get(node, "state"), *groups = pickle_get(node, "param_groups");
    checkpoint_optimizer *o = &r->c->optimizer;
    if (node == NULL || node->kind == PICKLE_NONE) return OL_OK;
    if (state == NULL || state->kind != PICKLE_DICT || groups == NULL || groups->kind != PICKLE_LIST ||
        groups->as.seq.count > MAX_GROUPS)
        return optimizer_damaged(r);
    o->n_groups = groups->as.seq.count;
    o->groups = arena_alloc(&r->c->arena, o->n_groups, sizeof *o->groups);
    ol_status status = o->groups != NULL ? read_optimizer_state(r, state) : OL_ERROR_MEMORY;
    for (size_t i = 0; status == OL_OK && i < o->n_groups; i++)
        status = read_group(r, groups->as.seq.items[i], &o->groups[i]);
    r->c->has_optimizer = status == OL_OK;
    return status;
}

static ol_status read_training(reader *r) {
    const pickle_node *root = r->root, *own = pickle_get(root, "onelook");
    checkpoint *c = r->c;
    pickle_as_int(pickle_get(root, "epoch"), &c->epoch);
    pickle_as_int(pickle_get(root, "updates"), &c->updates);
    pickle_as_double(pickle_get(root, "best_fitness"), &c->best_fitness);
    ol_status status = read_map(r, pickle_get(root, "train_args"), &c->train_args);
    if (status == OL_OK && c->train_args == NULL)
        status = read_map(r, module_attribute(r->model, "args"), &c->train_args);
    if (status == OL_OK) status = read_map(r, pickle_get(root, "train_metrics"), &c->train_metrics);
    if (status == OL_OK) status = read_map(r, pickle_get(root, "train_results"), &c->train_results);
    if (status == OL_OK) status = read_map(r, pickle_get(root, "stopper"), &c->stopper);
    if (status == OL_OK) status = read_map(r, pickle_get(root, "scaler"), &c->scaler);
    if (status == OL_OK) status = read_text(r, pickle_get(root, "date"), &c->date);
    if (status == OL_OK) status = read_text(r, pickle_get(root, "version"), &c->version);
    if (status == OL_OK) status = read_optimizer(r, pickle_get(root, "optimizer"));
    if (status == OL_OK)
        status = is_state_dict(pickle_get(own, "model")) ? read_dict(r, pickle_get(own, "model"), &r->c->live) : OL_OK;
    if (status == OL_OK) status = read_map(r, pickle_get(own, "state"), &c->extra);
    return status;
}

static ol_status read_from(ol_context *ctx, const char *name, torch_archive *t, checkpoint *out) {
    checkpoint c;
    reader r = {.ctx = ctx, .name = name, .t = t, .root = torch_archive_root(t), .c = &c};
    checkpoint_init(&c, ctx);
    c.arena.limit_bytes = MAX_TEXT_BYTES;
    ol_status status = choose_model(&r);
    if (status == OL_OK) {
        status = r.dict != NULL && r.model == NULL ? read_dict(&r, r.dict, &c.weights) : read_model(&r);
        if (status == OL_OK) checkpoint_note_form(&c);
        if (status == OL_OK) status = read_training(&r);
        if (status != OL_OK) ctx_annotate(ctx, status, "'%s'", name);
    }
    c.arena.limit_bytes = 0; /* writers of training state add to it later */
    if (status == OL_OK)
        *out = c;
    else
        checkpoint_deinit(&c);
    return status;
}

ol_status checkpoint_read(ol_context *ctx, const char *path, checkpoint *out) {
    torch_archive *t = NULL;
    if (strcasecmp(path_suffix(path), ".safetensors") == 0) return safetensors_read(ctx, path, out);
    ol_status status = torch_archive_open(ctx, path, &t);
    if (status == OL_OK) status = read_from(ctx, path, t, out);
    torch_archive_close(t);
    return status;
}

ol_status checkpoint_read_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                 checkpoint *out) {
    torch_archive *t = NULL;
    ol_status status = torch_archive_open_memory(ctx, name, bytes, n_bytes, &t);
    if (status == OL_OK) status = read_from(ctx, name, t, out);
    torch_archive_close(t);
    return status;
}
