/* Pickles (protocols 2 to 5) read as a tree of plain data. Nothing named in a pickle is ever looked up or called:
 * classes and functions stay names, their uses opaque objects. Everything lives in the caller's arena, whose limit
 * bounds the memory. No tensors here (torch_archive.h); thread rule of the arena. */
#ifndef FORMATS_PICKLE_H
#define FORMATS_PICKLE_H

#include "base/arena.h"
#include "base/value.h"

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_STRING,
    PICKLE_BYTES,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_SET,
    PICKLE_DICT,      /* also OrderedDict */
    PICKLE_GLOBAL,    /* "module", "name" of a class or function */
    PICKLE_OBJECT,    /* what calling a global would have made */
    PICKLE_PERSISTENT /* a reference to something outside the pickle */
} pickle_kind;

typedef struct pickle_node pickle_node;
struct pickle_node {
    pickle_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *bytes; /* NUL-terminated copy */
            size_t length;
        } text;
        struct { /* LIST, TUPLE, SET: items; DICT: key, value, key, value … */
            pickle_node **items;
            size_t count, capacity;
        } seq;
        struct {
            const char *module, *name;
        } global;
        struct {
            pickle_node *callable, *args; /* args: usually a tuple */
            pickle_node *state;           /* of BUILD; NULL when none */
            pickle_node *items;           /* LIST or DICT set on it; NULL when none */
        } object;
        pickle_node *persistent;
    } as;
};

/* Reads one pickle. `name` is for messages. OL_ERROR_FORMAT names the offset and what was wrong there. The result may
 * share nodes and, in a hostile file, contain itself: walkers bound depth and count. */
ol_status pickle_parse(arena *a, const char *name, const void *bytes, size_t n_bytes, pickle_node **out);

/* The entry of a DICT with this string key, NULL when absent or not a dict. The last one wins. */
pickle_node *pickle_get(const pickle_node *dict, const char *key);
bool pickle_is_global(const pickle_node *node, const char *module, const char *name);
/* The class or function whose call made this object; NULL for anything else. */
const pickle_node *pickle_class(const pickle_node *object);
bool pickle_as_int(const pickle_node *node, int64_t *x);   /* int or bool */
bool pickle_as_double(const pickle_node *node, double *x); /* int, float or bool */
const char *pickle_as_string(const pickle_node *node);     /* NULL unless a string without NUL bytes */

/* Plain data (none, numbers, texts, lists, tuples, sets, dicts with scalar keys) as a value; anything else becomes
 * null. Fails beyond `max_nodes` nodes or 32 levels. */
ol_status pickle_to_value(arena *a, const pickle_node *node, size_t max_nodes, const value **out);

#endif
