/* Questions asked of a parsed pickle. */
#include "formats/pickle.h"

#include <string.h>

#define MAX_VALUE_DEPTH 32
#define MAX_MAP_ENTRIES ((size_t)16384) /* a value map is searched linearly */

pickle_node *pickle_get(const pickle_node *dict, const char *key) {
    if (dict == NULL || dict->kind != PICKLE_DICT) return NULL;
    for (size_t i = dict->as.seq.count; i >= 2; i -= 2) {
        const char *k = pickle_as_string(dict->as.seq.items[i - 2]);
        if (k != NULL && strcmp(k, key) == 0) return dict->as.seq.items[i - 1];
    }
    return NULL;
}

bool pickle_is_global(const pickle_node *node, const char *module, const char *name) {
    return node != NULL && node->kind == PICKLE_GLOBAL && strcmp(node->as.global.module, module) == 0 &&
           strcmp(node->as.global.name, name) == 0;
}

const pickle_node *pickle_class(const pickle_node *object) {
    if (object == NULL || object->kind != PICKLE_OBJECT) return NULL;
    const pickle_node *callable = object->as.object.callable, *args = object->as.object.args;
    const bool reconstructed = pickle_is_global(callable, "copy_reg", "_reconstructor") ||
                               pickle_is_global(callable, "copyreg", "_reconstructor");
    if (reconstructed && args->kind == PICKLE_TUPLE && args->as.seq.count > 0) callable = args->as.seq.items[0];
    return callable->kind == PICKLE_GLOBAL ? callable : NULL;
}

bool pickle_as_int(const pickle_node *node, int64_t *x) {
    if (node == NULL || (node->kind != PICKLE_INT && node->kind != PICKLE_BOOL)) return false;
    *x = node->kind == PICKLE_INT ? node->as.integer : node->as.boolean;
    return true;
}

bool pickle_as_double(const pickle_node *node, double *x) {
    int64_t n;
    if (node != NULL && node->kind == PICKLE_FLOAT) {
        *x = node->as.real;
        return true;
    }
    if (!pickle_as_int(node, &n)) return false;
    *x = (double)n;
    return true;
}

const char *pickle_as_string(const pickle_node *node) {
    if (node == NULL || node->kind != PICKLE_STRING || strlen(node->as.text.bytes) != node->as.text.length) return NULL;
    return node->as.text.bytes;
}

typedef struct conversion {
    arena *a;
    size_t n_left;
} conversion;

static ol_status convert(conversion *c, const pickle_node *node, int depth, const value **out);

static ol_status convert_list(conversion *c, const pickle_node *node, int depth, const value **out) {
    value *list = value_list(c->a);
    ol_status status = list != NULL ? OL_OK : OL_ERROR_MEMORY;
    for (size_t i = 0; status == OL_OK && i < node->as.seq.count; i++) {
        const value *item = NULL;
        status = convert(c, node->as.seq.items[i], depth + 1, &item);
        if (status == OL_OK) status = value_append(c->a, list, item);
    }
    if (status == OL_OK) *out = list;
    return status;
}

static ol_status convert_dict(conversion *c, const pickle_node *node, int depth, const value **out) {
    if (node->as.seq.count / 2 > MAX_MAP_ENTRIES)
        return ctx_fail(c->a->ctx, OL_ERROR_FORMAT, "a table holds more than %zu entries", MAX_MAP_ENTRIES);
    value *map = value_map(c->a);
    ol_status status = map != NULL ? OL_OK : OL_ERROR_MEMORY;
    for (size_t i = 0; status == OL_OK && i + 1 < node->as.seq.count; i += 2) {
        const value *key = &value_null, *item = &value_null;
        status = convert(c, node->as.seq.items[i], depth + 1, &key);
        if (status == OL_OK) status = convert(c, node->as.seq.items[i + 1], depth + 1, &item);
        if (status != OL_OK) break;
        if (key->kind != VALUE_LIST && key->kind != VALUE_MAP) status = value_set_key(c->a, map, key, item);
    }
    if (status == OL_OK) *out = map;
    return status;
}

static ol_status convert(conversion *c, const pickle_node *node, int depth, const value **out) {
    if (depth > MAX_VALUE_DEPTH)
        return ctx_fail(c->a->ctx, OL_ERROR_FORMAT, "data is nested more than %d levels deep", MAX_VALUE_DEPTH);
    if (c->n_left == 0) return ctx_fail(c->a->ctx, OL_ERROR_FORMAT, "a table holds more entries than any honest file");
    c->n_left--;
    const value *v = &value_null;
    switch (node->kind) {
    case PICKLE_BOOL:
        v = value_bool(c->a, node->as.boolean);
        break;
    case PICKLE_INT:
        v = value_int(c->a, node->as.integer);
        break;
    case PICKLE_FLOAT:
        v = value_float(c->a, node->as.real);
        break;
    case PICKLE_STRING:
        v = value_string(c->a, node->as.text.bytes);
        break;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_SET:
        return convert_list(c, node, depth, out);
    case PICKLE_DICT:
        return convert_dict(c, node, depth, out);
    default:
        break;
    }
    if (v == NULL) return OL_ERROR_MEMORY;
    *out = v;
    return OL_OK;
}

ol_status pickle_to_value(arena *a, const pickle_node *node, size_t max_nodes, const value **out) {
    conversion c = {a, max_nodes};
    return convert(&c, node, 0, out);
}
