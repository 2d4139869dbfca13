#include "formats/module_reader.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH      24
#define MAX_MODULES    100000
#define MAX_TENSORS    200000
#define MAX_ATTRIBUTES 1024 /* of a module: they are searched linearly */
#define PATH_BYTES     512

static const pickle_node *state_of(const pickle_node *node) {
    if (node == NULL || node->kind != PICKLE_OBJECT) return NULL;
    const pickle_node *state = node->as.object.state;
    return state != NULL && state->kind == PICKLE_DICT && state->as.seq.count <= 2 * MAX_ATTRIBUTES ? state : NULL;
}

const pickle_node *module_attribute(const pickle_node *node, const char *name) {
    return pickle_get(state_of(node), name);
}

bool module_is(const pickle_node *node) {
    const pickle_node *children = module_attribute(node, "_modules");
    return children != NULL && children->kind == PICKLE_DICT && pickle_class(node) != NULL;
}

const char *module_class_name(const pickle_node *node) {
    return module_is(node) ? pickle_class(node)->as.global.name : NULL;
}

const pickle_node *module_child_node(const pickle_node *node, const char *name) {
    const pickle_node *children = module_attribute(node, "_modules");
    const pickle_node *child =
        children != NULL && children->as.seq.count <= 2 * MAX_ATTRIBUTES ? pickle_get(children, name) : NULL;
    return module_is(child) ? child : NULL;
}

const pickle_node *module_last_child(const pickle_node *node) {
    const pickle_node *children = module_attribute(node, "_modules");
    if (children == NULL || children->kind != PICKLE_DICT || children->as.seq.count == 0) return NULL;
    const pickle_node *last = children->as.seq.items[children->as.seq.count - 1];
    return module_is(last) ? last : NULL;
}

typedef struct walk {
    torch_archive *t;
    tensor_list *list;
    size_t n_modules;
    char path[PATH_BYTES];
} walk;

static ol_status too_big(walk *w, const char *what) {
    return ctx_fail(w->list->ctx, OL_ERROR_FORMAT, "the model at '%s' %s; get the file again", w->path, what);
}

/* Appends ".name" to the path; the caller restores its length. */
static ol_status enter(walk *w, size_t length, const pickle_node *name) {
    const char *text = pickle_as_string(name);
    if (text == NULL) return too_big(w, "has a part without a name");
    const int n = snprintf(w->path + length, PATH_BYTES - length, length > 0 ? ".%s" : "%s", text);
    return n >= 0 && (size_t)n < PATH_BYTES - length ? OL_OK : too_big(w, "is nested too deep");
}

static bool set_has(const pickle_node *set, const pickle_node *name) {
    const char *text = pickle_as_string(name);
    if (set == NULL || set->kind != PICKLE_SET || text == NULL || set->as.seq.count > MAX_ATTRIBUTES) return false;
    for (size_t i = 0; i < set->as.seq.count; i++) {
        const char *item = pickle_as_string(set->as.seq.items[i]);
        if (item != NULL && strcmp(item, text) == 0) return true;
    }
    return false;
}

/* Parameters or buffers of one module. */
static ol_status read_tensors(walk *w, size_t length, const pickle_node *dict, const pickle_node *left_out) {
    ol_status status = OL_OK;
    if (dict == NULL || dict->kind != PICKLE_DICT) return OL_OK;
    for (size_t i = 0; status == OL_OK && i + 1 < dict->as.seq.count; i += 2) {
        const pickle_node *name = dict->as.seq.items[i], *tensor = dict->as.seq.items[i + 1];
        if (tensor->kind == PICKLE_NONE || set_has(left_out, name)) continue;
        if (w->list->count >= MAX_TENSORS) return too_big(w, "holds more tensors than any honest file");
        status = enter(w, length, name);
        if (status == OL_OK) status = torch_tensor_read(w->t, tensor, w->list, w->path);
    }
    w->path[length] = '\0';
    return status;
}

static ol_status read_module(walk *w, const pickle_node *node, int depth) {
    const size_t length = strlen(w->path);
    if (depth > MAX_DEPTH || ++w->n_modules > MAX_MODULES) return too_big(w, "is nested too deep");
    ol_status status = read_tensors(w, length, module_attribute(node, "_parameters"), NULL);
    if (status == OL_OK)
        status = read_tensors(w, length, module_attribute(node, "_buffers"),
                              module_attribute(node, "_non_persistent_buffers_set"));
    const pickle_node *children = module_attribute(node, "_modules");
    for (size_t i = 0; status == OL_OK && i + 1 < children->as.seq.count; i += 2) {
        const pickle_node *child = children->as.seq.items[i + 1];
        if (!module_is(child)) continue;
        status = enter(w, length, children->as.seq.items[i]);
        if (status == OL_OK) status = read_module(w, child, depth + 1);
        w->path[length] = '\0';
    }
    return status;
}

ol_status module_state_read(torch_archive *t, const pickle_node *node, tensor_list *list) {
    walk w = {.t = t, .list = list};
    return read_module(&w, node, 0);
}
