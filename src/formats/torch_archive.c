#include "formats/torch_archive.h"

#include "base/file.h"
#include "formats/zip_reader.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_PICKLE_BYTES ((size_t)256 << 20)
#define MAX_TREE_BYTES   ((size_t)1 << 30)

typedef struct storage {
    char *bytes;
    size_t n_bytes;
} storage;

struct torch_archive {
    ol_context *ctx;
    arena a;
    const char *name;
    zip_reader *zip;
    const char *top; /* folder of data.pkl with its slash */
    pickle_node *root;
    storage *storages; /* one an entry, read on first use */
    size_t budget;     /* bytes that storages and tensors may still take: a small file must not fill the memory */
};

/* --- what a file is, from its first bytes --- */

static const struct {
    const char *magic;
    size_t length;
    const char *what;
} foreign_files[] = {
    {"\x80\x02\x8a\x0a", 4, "is in the torch format from before version 1.6; load it there once and save it again"},
    {"\x80", 1, "is a bare pickle, not a checkpoint; save the model with the training package"},
    {"version https://git-lfs", 23, "is a Git LFS pointer, not the file itself; run `git lfs pull`"},
    {"<", 1, "is a web page, not a checkpoint; download the file itself"},
    {"\x89HDF", 4, "is an HDF5 file; only .pt and .safetensors are read"},
    {"PK\x03\x04", 4, NULL},
};

static ol_status check_magic(ol_context *ctx, const char *name, const char *head, size_t n) {
    if (n == 0) return ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' is empty; get the file again", name);
    for (size_t i = 0; i < sizeof foreign_files / sizeof *foreign_files; i++) {
        if (n < foreign_files[i].length || memcmp(head, foreign_files[i].magic, foreign_files[i].length) != 0) continue;
        return foreign_files[i].what == NULL ? OL_OK
                                             : ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' %s", name, foreign_files[i].what);
    }
    return ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' is not a .pt checkpoint; give a .pt or .safetensors file", name);
}

/* --- opening --- */

static ol_status find_top(torch_archive *t) {
    static const char suffix[] = "/data.pkl";
    const size_t n_suffix = sizeof suffix - 1;
    for (int64_t i = 0; i < zip_reader_count(t->zip); i++) {
        const char *entry = zip_reader_name(t->zip, i);
        const size_t n = entry != NULL ? strlen(entry) : 0;
        if (n <= n_suffix || strcmp(entry + n - n_suffix, suffix) != 0 || strchr(entry, '/') != entry + n - n_suffix)
            continue;
        t->top = arena_strndup(&t->a, entry, n - n_suffix + 1);
        return t->top != NULL ? OL_OK : OL_ERROR_MEMORY;
    }
    return ctx_fail(t->ctx, OL_ERROR_FORMAT,
                    "'%s' is a zip archive without a data.pkl, not a checkpoint; give a .pt file", t->name);
}

static int64_t find_entry(torch_archive *t, const char *name) {
    char path[512];
    const int n = snprintf(path, sizeof path, "%s%s", t->top, name);
    return n > 0 && (size_t)n < sizeof path ? zip_reader_find(t->zip, path) : -1;
}

static ol_status check_kind(torch_archive *t) {
    if (find_entry(t, "constants.pkl") >= 0)
        return ctx_fail(
            t->ctx, OL_ERROR_FORMAT,
            "'%s' is a TorchScript export, which has lost the model description; give the .pt it was made from",
            t->name);
    const int64_t order = find_entry(t, "byteorder");
    if (order < 0) return OL_OK;
    char *bytes;
    size_t n;
    const ol_status status = zip_reader_read(t->zip, order, 64, &bytes, &n);
    if (status != OL_OK) return status;
    const bool little = n >= 6 && memcmp(bytes, "little", 6) == 0;
    mem_free(t->ctx, bytes);
    return little ? OL_OK
                  : ctx_fail(t->ctx, OL_ERROR_UNSUPPORTED,
                             "'%s' was saved on a big-endian machine; save it on a little-endian one", t->name);
}

static ol_status read_pickle(torch_archive *t) {
    char *bytes = NULL;
    size_t n;
    ol_status status = zip_reader_read(t->zip, find_entry(t, "data.pkl"), MAX_PICKLE_BYTES, &bytes, &n);
    if (status == OL_OK) status = pickle_parse(&t->a, t->name, bytes, n, &t->root);
    mem_free(t->ctx, bytes);
    return status;
}

static ol_status prepare(torch_archive *t, uint64_t file_bytes) {
    t->budget = ((size_t)256 << 20) + 16 * (size_t)file_bytes;
    ol_status status = find_top(t);
    if (status == OL_OK) status = check_kind(t);
    if (status == OL_OK) status = read_pickle(t);
    if (status != OL_OK) return status;
    t->storages = mem_alloc0(t->ctx, (size_t)zip_reader_count(t->zip), sizeof *t->storages);
    return t->storages != NULL ? OL_OK : OL_ERROR_MEMORY;
}

static ol_status create(ol_context *ctx, const char *name, torch_archive **out) {
    torch_archive *t = mem_alloc0(ctx, 1, sizeof *t);
    if (t == NULL) return OL_ERROR_MEMORY;
    t->ctx = ctx;
    arena_init(&t->a, ctx, MAX_TREE_BYTES);
    t->name = arena_strdup(&t->a, name);
    if (t->name == NULL) {
        torch_archive_close(t);
        return OL_ERROR_MEMORY;
    }
    *out = t;
    return OL_OK;
}

ol_status torch_archive_open_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                    torch_archive **out) {
    torch_archive *t = NULL;
    ol_status status = check_magic(ctx, name, bytes, n_bytes);
    if (status == OL_OK) status = create(ctx, name, &t);
    if (status == OL_OK) status = zip_reader_open_memory(ctx, name, bytes, n_bytes, &t->zip);
    if (status == OL_OK) status = prepare(t, n_bytes);
    if (status == OL_OK)
        *out = t;
    else
        torch_archive_close(t);
    return status;
}

static ol_status read_head(ol_context *ctx, const char *path, char *head, size_t *n, uint64_t *file_bytes) {
    struct stat st;
    if (file_is_folder(path)) return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'%s' is a folder; give a .pt file", path);
    const ol_status status = file_check_regular(ctx, path);
    if (status != OL_OK) return status;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return ctx_fail(ctx, file_exists(path) ? OL_ERROR_IO : OL_ERROR_NOT_FOUND,
                        file_exists(path) ? "'%s' cannot be opened; check its permissions"
                                          : "'%s' does not exist; check the path",
                        path);
    *file_bytes = fstat(fileno(file), &st) == 0 ? (uint64_t)st.st_size : 0;
    *n = fread(head, 1, *n, file);
    fclose(file);
    return OL_OK;
}

ol_status torch_archive_open(ol_context *ctx, const char *path, torch_archive **out) {
    torch_archive *t = NULL;
    char head[64];
    size_t n = sizeof head;
    uint64_t file_bytes = 0;
    ol_status status = read_head(ctx, path, head, &n, &file_bytes);
    if (status == OL_OK) status = check_magic(ctx, path, head, n);
    if (status == OL_OK) status = create(ctx, path, &t);
    if (status == OL_OK) status = zip_reader_open(ctx, path, &t->zip);
    if (status == OL_OK) status = prepare(t, file_bytes);
    if (status == OL_OK)
        *out = t;
    else
        torch_archive_close(t);
    return status;
}

void torch_archive_close(torch_archive *t) {
    if (t == NULL) return;
    for (int64_t i = 0; t->storages != NULL && i < zip_reader_count(t->zip); i++)
        mem_free(t->ctx, t->storages[i].bytes);
    mem_free(t->ctx, t->storages);
    zip_reader_close(t->zip);
    arena_deinit(&t->a);
    mem_free(t->ctx, t);
}

const pickle_node *torch_archive_root(const torch_archive *t) {
    return t->root;
}

/* --- tensors --- */

static const struct {
    const char *name;
    dtype type;
} storage_types[] = {
    {"HalfStorage", DTYPE_F16},   {"FloatStorage", DTYPE_F32}, {"BFloat16Storage", DTYPE_BF16},
    {"DoubleStorage", DTYPE_F64}, {"LongStorage", DTYPE_I64},  {"IntStorage", DTYPE_I32},
    {"ShortStorage", DTYPE_I16},  {"CharStorage", DTYPE_I8},   {"ByteStorage", DTYPE_U8},
    {"BoolStorage", DTYPE_BOOL},
};

typedef struct tensor_view_spec {
    dtype type;
    shape shape;
    int64_t stride[SHAPE_MAX_RANK], offset; /* in elements */
    int64_t entry;                          /* of the zip */
    int64_t last;                           /* highest element touched, -1 when there is none */
} tensor_view_spec;

/* The _rebuild_tensor_v2 call inside a parameter or the tensor itself; NULL for anything else. */
static const pickle_node *rebuild_call(const pickle_node *node) {
    for (int i = 0; i < 4 && node != NULL && node->kind == PICKLE_OBJECT; i++) {
        const pickle_node *callable = node->as.object.callable, *args = node->as.object.args;
        if (callable->kind != PICKLE_GLOBAL || strcmp(callable->as.global.module, "torch._utils") != 0) return NULL;
        if (args->kind != PICKLE_TUPLE || args->as.seq.count == 0) return NULL;
        if (strcmp(callable->as.global.name, "_rebuild_tensor_v2") == 0) return node;
        if (strncmp(callable->as.global.name, "_rebuild_parameter", 18) != 0) return NULL;
        node = args->as.seq.items[0];
    }
    return NULL;
}

bool torch_is_tensor(const pickle_node *node) {
    return rebuild_call(node) != NULL;
}

static ol_status bad_tensor(const torch_archive *t, const char *tensor, const char *what) {
    ctx_fail(t->ctx, OL_ERROR_FORMAT, "'%s': the tensor '%s' %s; get the file again", t->name, tensor, what);
    return OL_ERROR_FORMAT;
}

static ol_status find_storage(torch_archive *t, const char *tensor, const pickle_node *node, tensor_view_spec *v) {
    const pickle_node *id = node->kind == PICKLE_PERSISTENT ? node->as.persistent : NULL;
    if (id == NULL || id->kind != PICKLE_TUPLE || id->as.seq.count < 5)
        return bad_tensor(t, tensor, "names no storage");
    const pickle_node *type = id->as.seq.items[1];
    const char *key = pickle_as_string(id->as.seq.items[2]);
    const size_t n_types = sizeof storage_types / sizeof *storage_types;
    size_t i = n_types;
    if (type->kind == PICKLE_GLOBAL)
        for (i = 0; i < n_types && strcmp(type->as.global.name, storage_types[i].name) != 0; i++) {
        }
    if (i == n_types) return bad_tensor(t, tensor, "is of an element type that is not read");
    v->type = storage_types[i].type;
    char entry[300];
    if (key == NULL || strlen(key) > 255) return bad_tensor(t, tensor, "names no storage");
    snprintf(entry, sizeof entry, "data/%s", key);
    v->entry = find_entry(t, entry);
    return v->entry >= 0 ? OL_OK : bad_tensor(t, tensor, "has no data in the file");
}

static bool read_dims(const pickle_node *node, int64_t *dims, int *rank) {
    if (node->kind != PICKLE_TUPLE && node->kind != PICKLE_LIST) return false;
    if (node->as.seq.count > SHAPE_MAX_RANK) return false;
    for (size_t i = 0; i < node->as.seq.count; i++)
        if (!pickle_as_int(node->as.seq.items[i], &dims[i]) || dims[i] < 0) return false;
    *rank = (int)node->as.seq.count;
    return true;
}

static bool last_element(tensor_view_spec *v) {
    int64_t last = v->offset;
    for (int i = 0; i < v->shape.rank; i++) {
        int64_t span;
        if (v->shape.dim[i] == 0) {
            v->last = -1;
            return true;
        }
        if (__builtin_mul_overflow(v->shape.dim[i] - 1, v->stride[i], &span) ||
            __builtin_add_overflow(last, span, &last))
            return false;
    }
    v->last = last;
    return true;
}

static ol_status describe(torch_archive *t, const char *tensor, const pickle_node *call, tensor_view_spec *v) {
    const pickle_node *args = call->as.object.args;
    int stride_rank;
    int64_t count;
    if (args->as.seq.count < 4) return bad_tensor(t, tensor, "is incomplete");
    const ol_status status = find_storage(t, tensor, args->as.seq.items[0], v);
    if (status != OL_OK) return status;
    if (!pickle_as_int(args->as.seq.items[1], &v->offset) || v->offset < 0 ||
        !read_dims(args->as.seq.items[2], v->shape.dim, &v->shape.rank) ||
        !read_dims(args->as.seq.items[3], v->stride, &stride_rank) || stride_rank != v->shape.rank ||
        !shape_count(&v->shape, &count) || !last_element(v))
        return bad_tensor(t, tensor, "has an impossible shape");
    return OL_OK;
}

static ol_status spend(torch_archive *t, const char *tensor, size_t count, size_t size) {
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > t->budget)
        return bad_tensor(t, tensor, "would make the content far larger than the file");
    t->budget -= bytes;
    return OL_OK;
}

static ol_status load_storage(torch_archive *t, const char *tensor, const tensor_view_spec *v, const storage **out) {
    storage *s = &t->storages[v->entry];
    if (s->bytes == NULL) {
        uint64_t size;
        ol_status status = zip_reader_size(t->zip, v->entry, &size);
        if (status == OL_OK) status = spend(t, tensor, (size_t)size, 1);
        if (status == OL_OK) status = zip_reader_read(t->zip, v->entry, (size_t)size, &s->bytes, &s->n_bytes);
        if (status != OL_OK) return status;
    }
    if (v->last >= 0 && (uint64_t)v->last >= s->n_bytes / dtype_bytes(v->type))
        return bad_tensor(t, tensor, "reaches past the end of its data");
    *out = s;
    return OL_OK;
}

/* Read again should another tensor share it. */
static void release_storage(torch_archive *t, const tensor_view_spec *v) {
    mem_free(t->ctx, t->storages[v->entry].bytes);
    t->storages[v->entry] = (storage){0};
}

static bool is_dense(const tensor_view_spec *v) {
    int64_t expected = 1;
    for (int i = v->shape.rank - 1; i >= 0; i--) {
        if (v->shape.dim[i] != 1 && v->stride[i] != expected) return false;
        expected *= v->shape.dim[i];
    }
    return true;
}

/* Copies element by element in row-major order of the shape; `raw` points at element 0 of the storage. */
static void gather(const tensor_view_spec *v, const char *raw, char *to, int64_t count) {
    const size_t size = dtype_bytes(v->type);
    int64_t index[SHAPE_MAX_RANK] = {0}, from = v->offset;
    for (int64_t n = 0; n < count; n++, to += size) {
        memcpy(to, raw + (size_t)from * size, size);
        for (int i = v->shape.rank - 1; i >= 0; i--) {
            from += v->stride[i];
            if (++index[i] < v->shape.dim[i]) break;
            from -= v->stride[i] * v->shape.dim[i];
            index[i] = 0;
        }
    }
}

ol_status torch_tensor_read(torch_archive *t, const pickle_node *node, tensor_list *list, const char *name) {
    const pickle_node *call = rebuild_call(node);
    tensor_view_spec v = {0};
    const storage *s = NULL;
    tensor *dst = NULL;
    char *dense = NULL;
    if (call == NULL) return bad_tensor(t, name, "is not a tensor");
    ol_status status = describe(t, name, call, &v);
    const size_t count = (size_t)shape_elements(&v.shape), size = dtype_bytes(v.type);
    const dtype type = v.type == DTYPE_I64 ? DTYPE_I64 : DTYPE_F32;
    if (status == OL_OK) status = load_storage(t, name, &v, &s);
    if (status == OL_OK) status = spend(t, name, count, dtype_bytes(type));
    if (status == OL_OK) status = tensor_list_add(list, name, type, v.shape, &dst);
    if (status != OL_OK || count == 0) return status;
    const char *from = s->bytes + (size_t)v.offset * size;
    if (!is_dense(&v)) {
        dense = mem_alloc(t->ctx, count, size);
        if (dense == NULL) return OL_ERROR_MEMORY;
        gather(&v, s->bytes, dense, (int64_t)count);
        from = dense;
    }
    if (type == DTYPE_I64)
        memcpy(dst->data, from, count * size);
    else
        convert_to_f32(v.type, from, dst->data, count);
    mem_free(t->ctx, dense);
    if (count * size == s->n_bytes) release_storage(t, &v); /* most tensors own their storage */
    return OL_OK;
}
