/* The pickle machine: a stack of nodes, marks and a memo. One row an opcode; an opcode that is not in the table ends
 * the reading. Bounds: every count is checked against the bytes that are left, the memo against the length of the
 * pickle, memory by the arena. */
#include "formats/pickle.h"

#include <string.h>

#define MAX_MARKS 4096

typedef struct machine {
    arena *a;
    const char *name;
    const unsigned char *bytes;
    size_t length, at, opcode_at;
    pickle_node **stack;
    size_t depth, capacity;
    size_t marks[MAX_MARKS];
    size_t n_marks;
    pickle_node **memo;
    size_t memo_count, memo_capacity;
    pickle_node *none, *booleans[2]; /* one of each serves all uses */
    bool stopped;
} machine;

static ol_status bad(machine *m, const char *what) {
    ctx_fail(m->a->ctx, OL_ERROR_FORMAT,
             "%s: the pickle is damaged at byte %zu: %s; get the file again or save it anew", m->name, m->opcode_at,
             what);
    return OL_ERROR_FORMAT;
}

static ol_status take(machine *m, size_t n, const unsigned char **out) {
    if (n > m->length - m->at) return bad(m, "it ends too early");
    *out = m->bytes + m->at;
    m->at += n;
    return OL_OK;
}

/* Little-endian unsigned of n bytes. */
static ol_status take_uint(machine *m, size_t n, uint64_t *out) {
    const unsigned char *p = NULL;
    const ol_status status = take(m, n, &p);
    if (status != OL_OK) return status;
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
    *out = x;
    return OL_OK;
}

static ol_status push(machine *m, pickle_node *node) {
    void *block = m->stack;
    const ol_status status = mem_grow(m->a->ctx, &block, &m->capacity, m->depth + 1, sizeof *m->stack);
    m->stack = block;
    if (status == OL_OK) m->stack[m->depth++] = node;
    return status;
}

static size_t stack_floor(const machine *m) {
    return m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
}

static ol_status pop(machine *m, pickle_node **out) {
    if (m->depth <= stack_floor(m)) return bad(m, "an operand is missing");
    *out = m->stack[--m->depth];
    return OL_OK;
}

static ol_status top(machine *m, pickle_node **out) {
    if (m->depth <= stack_floor(m)) return bad(m, "an operand is missing");
    *out = m->stack[m->depth - 1];
    return OL_OK;
}

/* Takes everything above the last mark off the stack; *items stays valid until the next push. */
static ol_status pop_mark(machine *m, pickle_node ***items, size_t *count) {
    if (m->n_marks == 0) return bad(m, "a mark is missing");
    const size_t mark = m->marks[--m->n_marks];
    *items = m->stack + mark;
    *count = m->depth - mark;
    m->depth = mark;
    return OL_OK;
}

static pickle_node *node_new(machine *m, pickle_kind kind) {
    pickle_node *node = arena_alloc(m->a, 1, sizeof *node);
    if (node != NULL) node->kind = kind;
    return node;
}

static ol_status seq_extend(machine *m, pickle_node *node, pickle_node *const *items, size_t count) {
    const size_t have = node->as.seq.count;
    if (count > node->as.seq.capacity - have) {
        const size_t room = have + count > 2 * have ? have + count : 2 * have;
        pickle_node **grown = arena_alloc(m->a, room, sizeof *grown);
        if (grown == NULL) return OL_ERROR_FORMAT;
        if (have > 0) memcpy(grown, node->as.seq.items, have * sizeof *grown);
        node->as.seq.items = grown;
        node->as.seq.capacity = room;
    }
    if (count > 0) memcpy(node->as.seq.items + have, items, count * sizeof *items);
    node->as.seq.count = have + count;
    return OL_OK;
}

static ol_status push_seq(machine *m, pickle_kind kind, pickle_node *const *items, size_t count) {
    pickle_node *node = node_new(m, kind);
    if (node == NULL) return OL_ERROR_FORMAT;
    const ol_status status = seq_extend(m, node, items, count);
    return status == OL_OK ? push(m, node) : status;
}

static ol_status push_text(machine *m, pickle_kind kind, const unsigned char *bytes, size_t length) {
    pickle_node *node = node_new(m, kind);
    char *copy = node != NULL ? arena_strndup(m->a, (const char *)bytes, length) : NULL;
    if (copy == NULL) return OL_ERROR_FORMAT;
    node->as.text.bytes = copy;
    node->as.text.length = length;
    return push(m, node);
}

static ol_status push_int(machine *m, int64_t x) {
    pickle_node *node = node_new(m, PICKLE_INT);
    if (node == NULL) return OL_ERROR_FORMAT;
    node->as.integer = x;
    return push(m, node);
}

/* --- opcodes: `arg` is the row's parameter --- */

static ol_status op_proto(machine *m, int arg) {
    uint64_t protocol = 0;
    (void)arg;
    const ol_status status = take_uint(m, 1, &protocol);
    if (status != OL_OK) return status;
    return protocol >= 2 && protocol <= 5 ? OL_OK : bad(m, "its protocol is not one of 2 to 5");
}

static ol_status op_frame(machine *m, int arg) {
    uint64_t ignored = 0;
    return take_uint(m, (size_t)arg, &ignored); /* a buffering hint */
}

static ol_status op_mark(machine *m, int arg) {
    (void)arg;
    if (m->n_marks == MAX_MARKS) return bad(m, "it is nested too deep");
    m->marks[m->n_marks++] = m->depth;
    return OL_OK;
}

static ol_status op_stop(machine *m, int arg) {
    (void)arg;
    m->stopped = true;
    return OL_OK;
}

static ol_status op_pop(machine *m, int arg) {
    pickle_node *ignored = NULL;
    (void)arg;
    if (m->n_marks > 0 && m->depth == stack_floor(m)) {
        m->n_marks--;
        return OL_OK;
    }
    return pop(m, &ignored);
}

static ol_status op_pop_mark(machine *m, int arg) {
    pickle_node **items = NULL;
    size_t count = 0;
    (void)arg;
    return pop_mark(m, &items, &count);
}

static ol_status op_dup(machine *m, int arg) {
    pickle_node *node = NULL;
    (void)arg;
    const ol_status status = top(m, &node);
    return status == OL_OK ? push(m, node) : status;
}

static ol_status op_none(machine *m, int arg) {
    (void)arg;
    return push(m, m->none);
}

static ol_status op_bool(machine *m, int arg) {
    return push(m, m->booleans[arg]);
}

static ol_status op_uint(machine *m, int arg) {
    uint64_t x = 0;
    const ol_status status = take_uint(m, (size_t)arg, &x);
    return status == OL_OK ? push_int(m, (int64_t)x) : status;
}

static ol_status op_int32(machine *m, int arg) {
    uint64_t x = 0;
    (void)arg;
    const ol_status status = take_uint(m, 4, &x);
    return status == OL_OK ? push_int(m, (int32_t)(uint32_t)x) : status;
}

/* LONG1 and LONG4: `arg` bytes of length, then two's complement. Longer than 64 bits: kept as its bytes. */
static ol_status op_long(machine *m, int arg) {
    uint64_t n = 0, x = 0;
    const unsigned char *p = NULL;
    ol_status status = take_uint(m, (size_t)arg, &n);
    if (status != OL_OK) return status;
    if (n > 8) {
        status = take(m, (size_t)n, &p);
        return status == OL_OK ? push_text(m, PICKLE_BYTES, p, (size_t)n) : status;
    }
    status = take_uint(m, (size_t)n, &x);
    if (status != OL_OK) return status;
    if (n > 0 && n < 8 && (x >> (8 * n - 1) & 1u) != 0) x |= UINT64_MAX << (8 * n);
    return push_int(m, (int64_t)x);
}

static ol_status op_float(machine *m, int arg) {
    const unsigned char *p = NULL;
    (void)arg;
    const ol_status status = take(m, 8, &p);
    if (status != OL_OK) return status;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | p[i];
    pickle_node *node = node_new(m, PICKLE_FLOAT);
    if (node == NULL) return OL_ERROR_FORMAT;
    memcpy(&node->as.real, &bits, sizeof bits);
    return push(m, node);
}

static ol_status take_text(machine *m, size_t length_bytes, pickle_kind kind) {
    uint64_t n = 0;
    const unsigned char *p = NULL;
    ol_status status = take_uint(m, length_bytes, &n);
    if (status == OL_OK && n > m->length - m->at) status = bad(m, "a text is longer than the rest of the file");
    if (status == OL_OK) status = take(m, (size_t)n, &p);
    return status == OL_OK ? push_text(m, kind, p, (size_t)n) : status;
}

static ol_status op_string(machine *m, int arg) {
    return take_text(m, (size_t)arg, PICKLE_STRING);
}

static ol_status op_bytes(machine *m, int arg) {
    return take_text(m, (size_t)arg, PICKLE_BYTES);
}

static ol_status op_empty(machine *m, int arg) {
    return push_seq(m, (pickle_kind)arg, NULL, 0);
}

static ol_status op_tuple_n(machine *m, int arg) {
    const size_t n = (size_t)arg;
    if (m->depth - stack_floor(m) < n) return bad(m, "an operand is missing");
    m->depth -= n;
    return push_seq(m, PICKLE_TUPLE, m->stack + m->depth, n);
}

static ol_status op_seq_mark(machine *m, int arg) {
    pickle_node **items = NULL;
    size_t count = 0;
    const ol_status status = pop_mark(m, &items, &count);
    if (status != OL_OK) return status;
    if (arg == PICKLE_DICT && count % 2 != 0) return bad(m, "a key has no value");
    return push_seq(m, (pickle_kind)arg, items, count);
}

/* The list, set or dict that APPEND(S), ADDITEMS and SETITEM(S) add to: the node itself or an object's items. */
static pickle_node *container_of(machine *m, pickle_node *node, pickle_kind kind) {
    if (node->kind == kind) return node;
    if (node->kind != PICKLE_OBJECT) return NULL;
    if (node->as.object.items == NULL) node->as.object.items = node_new(m, kind);
    pickle_node *items = node->as.object.items;
    return items != NULL && items->kind == kind ? items : NULL;
}

static ol_status add_items(machine *m, pickle_kind kind, pickle_node *const *items, size_t count) {
    pickle_node *target = NULL;
    const ol_status status = top(m, &target);
    if (status != OL_OK) return status;
    if (kind == PICKLE_DICT && count % 2 != 0) return bad(m, "a key has no value");
    pickle_node *container = container_of(m, target, kind);
    if (container == NULL) return bad(m, "items are added to something that holds none");
    return seq_extend(m, container, items, count);
}

/* APPEND and SETITEM: `arg` is the kind of the container. */
static ol_status op_add_one(machine *m, int arg) {
    const size_t n = arg == PICKLE_DICT ? 2 : 1;
    if (m->depth - stack_floor(m) < n + 1) return bad(m, "an operand is missing");
    m->depth -= n;
    return add_items(m, (pickle_kind)arg, m->stack + m->depth, n);
}

static ol_status op_add_mark(machine *m, int arg) {
    pickle_node **items = NULL;
    size_t count = 0;
    const ol_status status = pop_mark(m, &items, &count);
    return status == OL_OK ? add_items(m, (pickle_kind)arg, items, count) : status;
}

static ol_status take_line(machine *m, const char **out) {
    const unsigned char *start = m->bytes + m->at, *end = memchr(start, '\n', m->length - m->at);
    if (end == NULL) return bad(m, "a name has no end");
    char *copy = arena_strndup(m->a, (const char *)start, (size_t)(end - start));
    if (copy == NULL) return OL_ERROR_FORMAT;
    m->at += (size_t)(end - start) + 1;
    *out = copy;
    return OL_OK;
}

static ol_status push_global(machine *m, const char *module, const char *name) {
    pickle_node *node = node_new(m, PICKLE_GLOBAL);
    if (node == NULL) return OL_ERROR_FORMAT;
    node->as.global.module = module;
    node->as.global.name = name;
    return push(m, node);
}

static ol_status op_global(machine *m, int arg) {
    const char *module = NULL, *name = NULL;
    (void)arg;
    ol_status status = take_line(m, &module);
    if (status == OL_OK) status = take_line(m, &name);
    return status == OL_OK ? push_global(m, module, name) : status;
}

static ol_status op_stack_global(machine *m, int arg) {
    pickle_node *name = NULL, *module = NULL;
    (void)arg;
    ol_status status = pop(m, &name);
    if (status == OL_OK) status = pop(m, &module);
    if (status != OL_OK) return status;
    if (pickle_as_string(name) == NULL || pickle_as_string(module) == NULL)
        return bad(m, "a class is named by something else than text");
    return push_global(m, module->as.text.bytes, name->as.text.bytes);
}

static ol_status push_object(machine *m, pickle_node *callable, pickle_node *args) {
    pickle_node *node = node_new(m, PICKLE_OBJECT);
    if (node == NULL) return OL_ERROR_FORMAT;
    node->as.object.callable = callable;
    node->as.object.args = args;
    return push(m, node);
}

static bool is_builtin(const pickle_node *node, const char *name) {
    return pickle_is_global(node, "builtins", name) || pickle_is_global(node, "__builtin__", name);
}

static ol_status op_reduce(machine *m, int arg) {
    pickle_node *args = NULL, *callable = NULL;
    (void)arg;
    ol_status status = pop(m, &args);
    if (status == OL_OK) status = pop(m, &callable);
    if (status != OL_OK) return status;
    const size_t n = args->kind == PICKLE_TUPLE ? args->as.seq.count : 0;
    pickle_node *first = n == 1 ? args->as.seq.items[0] : NULL;
    const bool first_is_seq =
        first != NULL && (first->kind == PICKLE_LIST || first->kind == PICKLE_TUPLE || first->kind == PICKLE_SET);
    if (pickle_is_global(callable, "collections", "OrderedDict") && n == 0) return push_seq(m, PICKLE_DICT, NULL, 0);
    if (is_builtin(callable, "set") && first_is_seq)
        return push_seq(m, PICKLE_SET, first->as.seq.items, first->as.seq.count);
    if (pickle_is_global(callable, "torch", "Size") && first_is_seq)
        return push_seq(m, PICKLE_TUPLE, first->as.seq.items, first->as.seq.count);
    return push_object(m, callable, args);
}

/* NEWOBJ (arg 1: positional arguments only) and NEWOBJ_EX (arg 2: keyword arguments too, which are dropped). */
static ol_status op_newobj(machine *m, int arg) {
    pickle_node *ignored = NULL, *args = NULL, *class = NULL;
    ol_status status = arg == 2 ? pop(m, &ignored) : OL_OK;
    if (status == OL_OK) status = pop(m, &args);
    if (status == OL_OK) status = pop(m, &class);
    if (status != OL_OK) return status;
    if (pickle_is_global(class, "collections", "OrderedDict")) return push_seq(m, PICKLE_DICT, NULL, 0);
    return push_object(m, class, args);
}

static ol_status op_build(machine *m, int arg) {
    pickle_node *state = NULL, *object = NULL;
    (void)arg;
    ol_status status = pop(m, &state);
    if (status == OL_OK) status = top(m, &object);
    if (status != OL_OK) return status;
    if (object->kind == PICKLE_OBJECT) object->as.object.state = state;
    return OL_OK; /* attributes of an OrderedDict and the like are of no use */
}

static ol_status op_persistent(machine *m, int arg) {
    pickle_node *id = NULL;
    (void)arg;
    const ol_status status = pop(m, &id);
    if (status != OL_OK) return status;
    pickle_node *node = node_new(m, PICKLE_PERSISTENT);
    if (node == NULL) return OL_ERROR_FORMAT;
    node->as.persistent = id;
    return push(m, node);
}

static ol_status memo_set(machine *m, uint64_t index) {
    pickle_node *node = NULL;
    ol_status status = top(m, &node);
    if (status != OL_OK) return status;
    if (index >= m->length) return bad(m, "a memo number is absurd"); /* every entry takes a byte or more to write */
    void *block = m->memo;
    const size_t before = m->memo_capacity;
    status = mem_grow(m->a->ctx, &block, &m->memo_capacity, (size_t)index + 1, sizeof *m->memo);
    m->memo = block;
    if (status != OL_OK) return status;
    if (m->memo_capacity > before) memset(m->memo + before, 0, (m->memo_capacity - before) * sizeof *m->memo);
    m->memo[index] = node;
    m->memo_count++;
    return OL_OK;
}

static ol_status op_put(machine *m, int arg) {
    uint64_t index = 0;
    const ol_status status = take_uint(m, (size_t)arg, &index);
    return status == OL_OK ? memo_set(m, index) : status;
}

static ol_status op_memoize(machine *m, int arg) {
    (void)arg;
    return memo_set(m, m->memo_count);
}

static ol_status op_get(machine *m, int arg) {
    uint64_t index = 0;
    const ol_status status = take_uint(m, (size_t)arg, &index);
    if (status != OL_OK) return status;
    if (index >= m->memo_capacity || m->memo[index] == NULL) return bad(m, "it refers to something that was not read");
    return push(m, m->memo[index]);
}

typedef struct opcode {
    ol_status (*run)(machine *, int);
    int arg;
} opcode;

static const opcode opcodes[256] = {
    [0x80] = {op_proto, 0},
    [0x95] = {op_frame, 8},
    ['('] = {op_mark, 0},
    ['.'] = {op_stop, 0},
    ['0'] = {op_pop, 0},
    ['1'] = {op_pop_mark, 0},
    ['2'] = {op_dup, 0},
    ['N'] = {op_none, 0},
    [0x88] = {op_bool, 1},
    [0x89] = {op_bool, 0},
    ['J'] = {op_int32, 0},
    ['K'] = {op_uint, 1},
    ['M'] = {op_uint, 2},
    [0x8a] = {op_long, 1},
    [0x8b] = {op_long, 4},
    ['G'] = {op_float, 0},
    ['T'] = {op_string, 4},  /* BINSTRING */
    ['U'] = {op_string, 1},  /* SHORT_BINSTRING */
    ['X'] = {op_string, 4},  /* BINUNICODE */
    [0x8c] = {op_string, 1}, /* SHORT_BINUNICODE */
    [0x8d] = {op_string, 8}, /* BINUNICODE8 */
    ['B'] = {op_bytes, 4},
    ['C'] = {op_bytes, 1},
    [0x8e] = {op_bytes, 8},
    [0x96] = {op_bytes, 8}, /* BYTEARRAY8 */
    [']'] = {op_empty, PICKLE_LIST},
    ['}'] = {op_empty, PICKLE_DICT},
    [')'] = {op_empty, PICKLE_TUPLE},
    [0x8f] = {op_empty, PICKLE_SET},
    [0x85] = {op_tuple_n, 1},
    [0x86] = {op_tuple_n, 2},
    [0x87] = {op_tuple_n, 3},
    ['t'] = {op_seq_mark, PICKLE_TUPLE},
    ['l'] = {op_seq_mark, PICKLE_LIST},
    ['d'] = {op_seq_mark, PICKLE_DICT},
    [0x91] = {op_seq_mark, PICKLE_SET}, /* FROZENSET */
    ['a'] = {op_add_one, PICKLE_LIST},
    ['s'] = {op_add_one, PICKLE_DICT},
    ['e'] = {op_add_mark, PICKLE_LIST},
    ['u'] = {op_add_mark, PICKLE_DICT},
    [0x90] = {op_add_mark, PICKLE_SET},
    ['c'] = {op_global, 0},
    [0x93] = {op_stack_global, 0},
    ['R'] = {op_reduce, 0},
    [0x81] = {op_newobj, 1},
    [0x92] = {op_newobj, 2},
    ['b'] = {op_build, 0},
    ['Q'] = {op_persistent, 0},
    ['q'] = {op_put, 1},
    ['r'] = {op_put, 4},
    [0x94] = {op_memoize, 0},
    ['h'] = {op_get, 1},
    ['j'] = {op_get, 4},
};

ol_status pickle_parse(arena *a, const char *name, const void *bytes, size_t n_bytes, pickle_node **out) {
    machine *m = mem_alloc0(a->ctx, 1, sizeof *m);
    if (m == NULL) return OL_ERROR_MEMORY;
    *m = (machine){.a = a, .name = name, .bytes = bytes, .length = n_bytes};
    ol_status status = OL_OK;
    pickle_node *result = NULL;
    m->none = node_new(m, PICKLE_NONE);
    for (int i = 0; i < 2; i++) m->booleans[i] = node_new(m, PICKLE_BOOL);
    m->stack = mem_alloc(a->ctx, 64, sizeof *m->stack);
    m->capacity = m->stack != NULL ? 64 : 0;
    if (m->none == NULL || m->booleans[0] == NULL || m->booleans[1] == NULL || m->stack == NULL)
        status = OL_ERROR_MEMORY;
    else
        m->booleans[1]->as.boolean = true;
    while (status == OL_OK && !m->stopped) {
        m->opcode_at = m->at;
        if (m->at >= n_bytes) {
            status = bad(m, "it ends too early");
            break;
        }
        const opcode *row = &opcodes[m->bytes[m->at++]];
        status = row->run != NULL ? row->run(m, row->arg) : bad(m, "an instruction is unknown");
    }
    if (status == OL_OK) status = pop(m, &result);
    if (status == OL_OK) *out = result;
    mem_free(a->ctx, m->stack);
    mem_free(a->ctx, m->memo);
    mem_free(a->ctx, m);
    return status;
}
