#include "base/value.h"

#include <string.h>

const value value_null = {.kind = VALUE_NULL};

static value *node(arena *a, value_kind kind) {
    value *v = arena_alloc(a, 1, sizeof *v);
    if (v != NULL) v->kind = kind;
    return v;
}

value *value_bool(arena *a, bool x) {
    value *v = node(a, VALUE_BOOL);
    if (v != NULL) v->as.boolean = x;
    return v;
}

value *value_int(arena *a, int64_t x) {
    value *v = node(a, VALUE_INT);
    if (v != NULL) v->as.integer = x;
    return v;
}

value *value_float(arena *a, double x) {
    value *v = node(a, VALUE_FLOAT);
    if (v != NULL) v->as.real = x;
    return v;
}

value *value_string(arena *a, const char *text) {
    char *copy = arena_strdup(a, text);
    value *v = copy != NULL ? node(a, VALUE_STRING) : NULL;
    if (v != NULL) v->as.string = copy;
    return v;
}

value *value_list(arena *a) {
    return node(a, VALUE_LIST);
}

value *value_map(arena *a) {
    return node(a, VALUE_MAP);
}

/* Lists and maps grow by doubling: room is 0, 4, 8, 16 …, so it follows from the count. */
static bool is_full(size_t count) {
    return count == 0 || (count >= 4 && (count & (count - 1)) == 0);
}

static const value **grown(arena *a, const value **items, size_t count) {
    if (!is_full(count)) return items;
    const value **room = arena_alloc(a, count > 0 ? count * 2 : 4, sizeof *room);
    if (room != NULL && count > 0) memcpy(room, items, count * sizeof *room);
    return room;
}

ol_status value_append(arena *a, value *list, const value *item) {
    if (item == NULL) return OL_ERROR_MEMORY;
    const value **items = grown(a, list->as.list.items, list->as.list.count);
    if (items == NULL) return OL_ERROR_MEMORY;
    list->as.list.items = items;
    items[list->as.list.count++] = item;
    return OL_OK;
}

ol_status value_set_key(arena *a, value *map, const value *key, const value *item) {
    if (key == NULL || item == NULL) return OL_ERROR_MEMORY;
    const size_t n = map->as.map.count;
    for (size_t i = 0; i < n; i++) {
        const value *k = map->as.map.keys[i];
        if (k->kind == key->kind && ((k->kind == VALUE_STRING && strcmp(k->as.string, key->as.string) == 0) ||
                                     (k->kind == VALUE_INT && k->as.integer == key->as.integer))) {
            map->as.map.items[i] = item;
            return OL_OK;
        }
    }
    const value **keys = grown(a, map->as.map.keys, n), **items = grown(a, map->as.map.items, n);
    if (keys == NULL || items == NULL) return OL_ERROR_MEMORY;
    map->as.map.keys = keys;
    map->as.map.items = items;
    keys[n] = key;
    items[n] = item;
    map->as.map.count++;
    return OL_OK;
}

ol_status value_set(arena *a, value *map, const char *key, const value *item) {
    return value_set_key(a, map, value_string(a, key), item);
}

const value *value_get(const value *map, const char *key) {
    if (map == NULL || map->kind != VALUE_MAP) return NULL;
    for (size_t i = 0; i < map->as.map.count; i++) {
        const value *k = map->as.map.keys[i];
        if (k->kind == VALUE_STRING && strcmp(k->as.string, key) == 0) return map->as.map.items[i];
    }
    return NULL;
}

const char *value_kind_name(const value *v) {
    static const char *const names[] = {"null", "bool", "int", "float", "str", "list", "map"};
    return names[v->kind];
}

bool value_is_number(const value *v) {
    return v->kind == VALUE_INT || v->kind == VALUE_FLOAT;
}

double value_as_double(const value *v) {
    if (v->kind == VALUE_INT) return (double)v->as.integer;
    return v->kind == VALUE_FLOAT ? v->as.real : 0.0;
}

bool value_as_int(const value *v, int64_t *x) {
    if (v->kind == VALUE_INT) {
        *x = v->as.integer;
        return true;
    }
    if (v->kind != VALUE_FLOAT || !(v->as.real >= -0x1p62 && v->as.real <= 0x1p62)) return false;
    const int64_t n = (int64_t)v->as.real;
    if ((double)n != v->as.real) return false;
    *x = n;
    return true;
}
