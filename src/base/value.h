/* A tree of null, bool, int, float, string, list and map: what YAML, JSON and command-line literals are read into.
 * Nodes live in the arena they were built in and are read-only for everyone but the reader that builds them. */
#ifndef BASE_VALUE_H
#define BASE_VALUE_H

#include "base/arena.h"
#include "base/text.h"

typedef enum value_kind {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_MAP
} value_kind;

typedef struct value value;
struct value {
    value_kind kind;
    int line; /* 1-based line in the source text; 0 when unknown */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string; /* NUL-terminated */
        struct {
            const value **items;
            size_t count;
        } list;
        struct {
            const value **keys; /* any scalar; order of the source */
            const value **items;
            size_t count;
        } map;
    } as;
};

extern const value value_null;

value *value_bool(arena *a, bool x);
value *value_int(arena *a, int64_t x);
value *value_float(arena *a, double x);
value *value_string(arena *a, const char *text);
value *value_list(arena *a);
value *value_map(arena *a);
ol_status value_append(arena *a, value *list, const value *item);
/* Replaces an entry with an equal string key. */
ol_status value_set(arena *a, value *map, const char *key, const value *item);
ol_status value_set_key(arena *a, value *map, const value *key, const value *item);

/* The entry, or NULL when `map` is not a map or has no such string key. */
const value *value_get(const value *map, const char *key);
/* "null", "bool", "int", "float", "str", "list", "map": for messages. */
const char *value_kind_name(const value *v);
bool value_is_number(const value *v);          /* int or float */
double value_as_double(const value *v);        /* of a number; 0 otherwise */
bool value_as_int(const value *v, int64_t *x); /* an int, or a float that is integral and fits */

/* YAML 1.1-style scalars as the field's files use them (null/None/~, true/false, ints, floats, else text); anchors and
 * aliases are resolved within a count limit. `name` is for messages ("data.yaml:12: …"). */
ol_status yaml_parse(arena *a, const char *name, const char *text, size_t length, const value **out);
ol_status yaml_read(arena *a, const char *path, const value **out);
/* Block style; strings are quoted when they would read back as something else. */
ol_status yaml_write(text *out, const value *v);

ol_status json_parse(arena *a, const char *name, const char *text, size_t length, const value **out);
/* Compact, no spaces; floats with up to 17 significant digits, non-finite ones as null. */
ol_status json_write(text *out, const value *v);

/* A literal as typed on the command line: none/true/false in any case, number, 'text', [list], (tuple), {map}; anything
 * else is plain text. Never fails but for memory. */
ol_status literal_parse(arena *a, const char *text, const value **out);
/* The Python spelling: None, True, 'text', [1, 2], {0: 'a'}. */
ol_status literal_write(text *out, const value *v);

#endif
