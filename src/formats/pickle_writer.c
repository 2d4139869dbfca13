#include "formats/pickle_writer.h"

#include "base/file.h"
#include "formats/zip_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MEMO_ROOM   4096u /* a checkpoint has some 600 texts; those that find no room are written out again */
#define MEMO_PROBES 64u
#define MAX_HALF    65504.0f

/* Open addressing from text to memo number + 1. */
typedef struct pickle_memo {
    arena texts;
    uint32_t count;
    struct {
        const char *text;
        uint32_t number;
    } slots[MEMO_ROOM];
} pickle_memo;

void pickle_writer_init(pickle_writer *w, ol_context *ctx) {
    *w = (pickle_writer){.ctx = ctx};
    text_init(&w->out, ctx);
    w->memo = mem_alloc0(ctx, 1, sizeof *w->memo);
    if (w->memo != NULL)
        arena_init(&w->memo->texts, ctx, 0);
    else
        w->status = OL_ERROR_MEMORY;
    pickle_op(w, '\x80');
    pickle_op(w, 2);
}

void pickle_writer_deinit(pickle_writer *w) {
    if (w->memo != NULL) arena_deinit(&w->memo->texts);
    mem_free(w->ctx, w->memo);
    mem_free(w->ctx, w->storages);
    text_deinit(&w->out);
}

/* --- bytes --- */

void pickle_op(pickle_writer *w, char opcode) {
    text_append(&w->out, &opcode, 1);
}

static void put_uint(pickle_writer *w, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) pickle_op(w, (char)(unsigned char)(x >> (8 * i)));
}

/* The slot of a text: its own, or a free one; NULL when the neighbourhood is full. */
static uint32_t *memo_slot(pickle_memo *memo, const char *text) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = text; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (uint32_t i = 0; i < MEMO_PROBES; i++) {
        const uint32_t at = (hash + i) % MEMO_ROOM;
        if (memo->slots[at].text == NULL) {
            memo->slots[at].text = arena_strdup(&memo->texts, text);
            return memo->slots[at].text != NULL ? &memo->slots[at].number : NULL;
        }
        if (strcmp(memo->slots[at].text, text) == 0) return &memo->slots[at].number;
    }
    return NULL;
}

/* True when a reference to an earlier writing was emitted. Otherwise *number is where to note this one (NULL: nowhere).
 */
static bool memo_get(pickle_writer *w, const char *text, uint32_t **number) {
    *number = w->memo != NULL ? memo_slot(w->memo, text) : NULL;
    if (*number == NULL || **number == 0) return false;
    const uint32_t n = **number - 1;
    pickle_op(w, n < 256 ? 'h' : 'j');
    put_uint(w, n, n < 256 ? 1 : 4);
    return true;
}

static void memo_put(pickle_writer *w, uint32_t *number) {
    if (number == NULL) return;
    const uint32_t n = w->memo->count++;
    *number = n + 1;
    pickle_op(w, n < 256 ? 'q' : 'r');
    put_uint(w, n, n < 256 ? 1 : 4);
}

bool pickle_reuse(pickle_writer *w, const char *key) {
    uint32_t *number = NULL;
    return memo_get(w, key, &number);
}

void pickle_keep(pickle_writer *w, const char *key) {
    memo_put(w, w->memo != NULL ? memo_slot(w->memo, key) : NULL);
}

/* --- data --- */

void pickle_none(pickle_writer *w) {
    pickle_op(w, 'N');
}

void pickle_bool(pickle_writer *w, bool x) {
    pickle_op(w, x ? '\x88' : '\x89');
}

void pickle_int(pickle_writer *w, int64_t x) {
    if (x >= INT32_MIN && x <= INT32_MAX) {
        pickle_op(w, 'J');
        put_uint(w, (uint64_t)x, 4);
    } else { /* LONG1 */
        pickle_op(w, '\x8a');
        put_uint(w, 8, 1);
        put_uint(w, (uint64_t)x, 8);
    }
}

void pickle_float(pickle_writer *w, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    pickle_op(w, 'G');
    for (int i = 7; i >= 0; i--) pickle_op(w, (char)(unsigned char)(bits >> (8 * i)));
}

void pickle_string(pickle_writer *w, const char *text) {
    uint32_t *number = NULL;
    if (memo_get(w, text, &number)) return;
    const size_t n = strlen(text);
    pickle_op(w, 'X');
    put_uint(w, n, 4);
    text_append(&w->out, text, n);
    memo_put(w, number);
}

void pickle_global(pickle_writer *w, const char *module, const char *name) {
    char both[256];
    uint32_t *number = NULL;
    snprintf(both, sizeof both, "c%s\n%s\n", module, name); /* no text looks like this */
    if (memo_get(w, both, &number)) return;
    text_append(&w->out, both, strlen(both));
    memo_put(w, number);
}

void pickle_global_path(pickle_writer *w, const char *path) {
    char module[200];
    const char *dot = strrchr(path, '.');
    if (dot == NULL || (size_t)(dot - path) >= sizeof module) {
        w->status = ctx_fail(w->ctx, OL_ERROR_INTERNAL, "'%s' is not the name of a class", path);
        return;
    }
    memcpy(module, path, (size_t)(dot - path));
    module[dot - path] = '\0';
    pickle_global(w, module, dot + 1);
}

void pickle_ordered_dict(pickle_writer *w) {
    pickle_global(w, "collections", "OrderedDict");
    pickle_op(w, ')');
    pickle_op(w, 'R');
}

void pickle_int_tuple(pickle_writer *w, const int64_t *x, size_t n) {
    pickle_op(w, '(');
    for (size_t i = 0; i < n; i++) pickle_int(w, x[i]);
    pickle_op(w, 't');
}

void pickle_value(pickle_writer *w, const value *v) {
    switch (v != NULL ? v->kind : VALUE_NULL) {
    case VALUE_NULL:
        pickle_none(w);
        break;
    case VALUE_BOOL:
        pickle_bool(w, v->as.boolean);
        break;
    case VALUE_INT:
        pickle_int(w, v->as.integer);
        break;
    case VALUE_FLOAT:
        pickle_float(w, v->as.real);
        break;
    case VALUE_STRING:
        pickle_string(w, v->as.string);
        break;
    case VALUE_LIST:
        pickle_op(w, ']');
        pickle_op(w, '(');
        for (size_t i = 0; i < v->as.list.count; i++) pickle_value(w, v->as.list.items[i]);
        pickle_op(w, 'e');
        break;
    case VALUE_MAP:
        pickle_op(w, '}');
        pickle_op(w, '(');
        for (size_t i = 0; i < v->as.map.count; i++) {
            pickle_value(w, v->as.map.keys[i]);
            pickle_value(w, v->as.map.items[i]);
        }
        pickle_op(w, 'u');
        break;
    }
}

/* --- tensors --- */

static const char *storage_name(dtype type) {
    return type == DTYPE_F16 ? "HalfStorage" : type == DTYPE_I64 ? "LongStorage" : "FloatStorage";
}

/* The persistent id: ('storage', torch.FloatStorage, '12', 'cpu', elements). */
static void put_storage(pickle_writer *w, const tensor *t, dtype type) {
    char key[24];
    void *block = w->storages;
    const ol_status status = mem_grow(w->ctx, &block, &w->storage_capacity, w->n_storages + 1, sizeof *w->storages);
    w->storages = block;
    if (status != OL_OK) {
        w->status = status;
        return;
    }
    w->storages[w->n_storages] = (pickle_storage){t, type};
    const int n = snprintf(key, sizeof key, "%zu", w->n_storages++);
    pickle_op(w, '(');
    pickle_string(w, "storage");
    pickle_global(w, "torch", storage_name(type));
    pickle_op(w, 'X');
    put_uint(w, (uint64_t)n, 4);
    text_append(&w->out, key, (size_t)n);
    pickle_string(w, "cpu");
    pickle_int(w, shape_elements(&t->shape));
    pickle_op(w, 't');
    pickle_op(w, 'Q');
}

void pickle_tensor(pickle_writer *w, const tensor *t, bool half) {
    int64_t stride[SHAPE_MAX_RANK] = {0}, step = 1;
    if (t->type != DTYPE_F32 && t->type != DTYPE_I64) {
        w->status = ctx_fail(w->ctx, OL_ERROR_INTERNAL, "a tensor of type %s cannot be written", dtype_name(t->type));
        return;
    }
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= t->shape.dim[i];
    }
    pickle_global(w, "torch._utils", "_rebuild_tensor_v2");
    pickle_op(w, '(');
    put_storage(w, t, t->type == DTYPE_I64 ? DTYPE_I64 : half ? DTYPE_F16 : DTYPE_F32);
    pickle_int(w, 0);
    pickle_int_tuple(w, t->shape.dim, (size_t)t->shape.rank);
    pickle_int_tuple(w, stride, (size_t)t->shape.rank);
    pickle_bool(w, false);
    pickle_ordered_dict(w);
    pickle_op(w, 't');
    pickle_op(w, 'R');
}

void pickle_parameter(pickle_writer *w, const tensor *t, bool half) {
    pickle_global(w, "torch._utils", "_rebuild_parameter");
    pickle_op(w, '(');
    pickle_tensor(w, t, half);
    pickle_bool(w, false);
    pickle_ordered_dict(w);
    pickle_op(w, 't');
    pickle_op(w, 'R');
}

/* --- dict entries --- */

void pickle_entry_none(pickle_writer *w, const char *key) {
    pickle_string(w, key);
    pickle_none(w);
}

void pickle_entry_bool(pickle_writer *w, const char *key, bool x) {
    pickle_string(w, key);
    pickle_bool(w, x);
}

void pickle_entry_int(pickle_writer *w, const char *key, int64_t x) {
    pickle_string(w, key);
    pickle_int(w, x);
}

void pickle_entry_float(pickle_writer *w, const char *key, double x) {
    pickle_string(w, key);
    pickle_float(w, x);
}

void pickle_entry_string(pickle_writer *w, const char *key, const char *text) {
    pickle_string(w, key);
    pickle_string(w, text);
}

void pickle_entry_value(pickle_writer *w, const char *key, const value *v) {
    pickle_string(w, key);
    pickle_value(w, v);
}

void pickle_entry_ordered_dict(pickle_writer *w, const char *key) {
    pickle_string(w, key);
    pickle_ordered_dict(w);
}

/* --- the file --- */

static uint16_t half_of(float x) {
    return float_to_half(x > MAX_HALF ? MAX_HALF : x < -MAX_HALF ? -MAX_HALF : x);
}

static ol_status add_storage(pickle_writer *w, zip_writer *zip, size_t index, uint16_t **halves, size_t *room) {
    const pickle_storage *s = &w->storages[index];
    const size_t n = (size_t)shape_elements(&s->t->shape);
    char name[48];
    snprintf(name, sizeof name, "archive/data/%zu", index);
    if (s->type != DTYPE_F16) return zip_writer_add(zip, name, s->t->data, n * dtype_bytes(s->type));
    void *block = *halves;
    const ol_status status = mem_grow(w->ctx, &block, room, n, sizeof **halves);
    *halves = block;
    if (status != OL_OK) return status;
    for (size_t i = 0; i < n; i++) (*halves)[i] = half_of(tensor_f32(s->t)[i]);
    return zip_writer_add(zip, name, *halves, n * sizeof **halves);
}

static ol_status write_archive(pickle_writer *w, const char *path) {
    zip_writer *zip = NULL;
    uint16_t *halves = NULL;
    size_t room = 0;
    ol_status status = zip_writer_create(w->ctx, path, &zip);
    if (status == OL_OK) status = zip_writer_add(zip, "archive/data.pkl", w->out.bytes, w->out.length);
    if (status == OL_OK) status = zip_writer_add(zip, "archive/byteorder", "little", 6);
    for (size_t i = 0; status == OL_OK && i < w->n_storages; i++) status = add_storage(w, zip, i, &halves, &room);
    if (status == OL_OK) status = zip_writer_add(zip, "archive/version", "3\n", 2);
    if (status == OL_OK) status = zip_writer_finish(zip);
    zip_writer_destroy(zip);
    mem_free(w->ctx, halves);
    return status;
}

ol_status pickle_writer_save(pickle_writer *w, const char *path) {
    arena a;
    char *temporary = NULL;
    pickle_op(w, '.');
    if (w->status == OL_OK && w->out.failed) w->status = OL_ERROR_MEMORY;
    if (w->status != OL_OK) return w->status;
    arena_init(&a, w->ctx, 0);
    ol_status status = file_atomic_begin(&a, path, &temporary);
    if (status == OL_OK) {
        status = write_archive(w, temporary);
        if (status == OL_OK)
            status = file_atomic_commit(w->ctx, temporary, path);
        else
            file_atomic_abandon(temporary, path);
    }
    arena_deinit(&a);
    return status;
}
