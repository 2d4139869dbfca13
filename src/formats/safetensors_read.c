#include "formats/safetensors.h"

#include "base/file.h"

#include <cjson/cJSON.h>

#include <string.h>

#define MAX_HEADER_BYTES   ((size_t)4 << 20)
#define MAX_METADATA_BYTES ((size_t)256 << 10)
#define MAX_FILE_BYTES     ((size_t)16 << 30)

typedef struct reader {
    ol_context *ctx;
    const char *name;
    const char *data; /* after the header */
    size_t n_data, n_used;
    checkpoint *c;
} reader;

static const struct {
    const char *name;
    dtype type;
} types[] = {
    {"F32", DTYPE_F32}, {"F16", DTYPE_F16}, {"BF16", DTYPE_BF16}, {"F64", DTYPE_F64}, {"I64", DTYPE_I64},
    {"I32", DTYPE_I32}, {"I16", DTYPE_I16}, {"I8", DTYPE_I8},     {"U8", DTYPE_U8},   {"BOOL", DTYPE_BOOL},
};

static ol_status bad(reader *r, const char *entry, const char *what) {
    return ctx_fail(r->ctx, OL_ERROR_FORMAT, "'%s': %s %s; get the file again", r->name, entry, what);
}

/* A number that is a whole one from 0 up to 2^53. */
static bool as_count(const cJSON *item, uint64_t *x) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53)) return false;
    *x = (uint64_t)item->valuedouble;
    return (double)*x == item->valuedouble;
}

static bool read_shape(const cJSON *list, shape *s) {
    if (!cJSON_IsArray(list)) return false;
    s->rank = 0;
    for (const cJSON *item = list->child; item != NULL; item = item->next) {
        uint64_t n;
        if (s->rank == SHAPE_MAX_RANK || !as_count(item, &n)) return false;
        s->dim[s->rank++] = (int64_t)n;
    }
    return true;
}

static bool read_range(const cJSON *list, uint64_t *begin, uint64_t *end) {
    if (!cJSON_IsArray(list) || list->child == NULL || list->child->next == NULL) return false;
    return as_count(list->child, begin) && as_count(list->child->next, end);
}

static ol_status read_tensor(reader *r, const cJSON *entry) {
    const char *type_name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    const size_t n_types = sizeof types / sizeof *types;
    size_t i = 0, n_bytes;
    shape s;
    int64_t count;
    uint64_t begin, end;
    while (i < n_types && (type_name == NULL || strcmp(types[i].name, type_name) != 0)) i++;
    if (i == n_types) return bad(r, entry->string, "is of an element type that is not read");
    if (!read_shape(cJSON_GetObjectItemCaseSensitive(entry, "shape"), &s) || !shape_count(&s, &count) ||
        !read_range(cJSON_GetObjectItemCaseSensitive(entry, "data_offsets"), &begin, &end))
        return bad(r, entry->string, "has no shape or place in the file");
    if (!size_mul((size_t)count, dtype_bytes(types[i].type), &n_bytes) || begin > end || end > r->n_data ||
        end - begin != n_bytes)
        return bad(r, entry->string, "reaches past the end of the file");
    r->n_used += n_bytes; /* tensors do not overlap: together they are no larger than the file */
    if (r->n_used > r->n_data) return bad(r, entry->string, "overlaps another tensor");
    tensor *t;
    const dtype type = types[i].type == DTYPE_I64 ? DTYPE_I64 : DTYPE_F32;
    const ol_status status = tensor_list_add(&r->c->weights, entry->string, type, s, &t);
    if (status != OL_OK || count == 0) return status;
    void *aligned = mem_alloc(r->ctx, n_bytes, 1); /* offsets need not suit the element type */
    if (aligned == NULL) return OL_ERROR_MEMORY;
    memcpy(aligned, r->data + begin, n_bytes);
    if (type == DTYPE_I64)
        memcpy(t->data, aligned, n_bytes);
    else
        convert_to_f32(types[i].type, aligned, t->data, (size_t)count);
    mem_free(r->ctx, aligned);
    return OL_OK;
}

/* --- metadata --- */

static ol_status read_json(reader *r, const cJSON *metadata, const char *key, const value **out) {
    const char *json = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
    if (json == NULL) return OL_OK;
    const size_t n = strlen(json);
    if (n > MAX_METADATA_BYTES) return bad(r, key, "in the metadata is larger than its use allows");
    return json_parse(&r->c->arena, r->name, json, n, out);
}

/* {"0": "person"} or ["person"] -> {0: "person"}. */
static ol_status read_names(reader *r, const value *v) {
    arena *a = &r->c->arena;
    if (v == NULL || (v->kind != VALUE_MAP && v->kind != VALUE_LIST)) return OL_OK;
    value *names = value_map(a);
    ol_status status = names != NULL ? OL_OK : OL_ERROR_MEMORY;
    const bool is_map = v->kind == VALUE_MAP;
    const size_t n = is_map ? v->as.map.count : v->as.list.count;
    for (size_t i = 0; status == OL_OK && i < n; i++) {
        const value *key = is_map ? v->as.map.keys[i] : NULL;
        if (is_map && key->kind == VALUE_STRING) {
            status = literal_parse(a, key->as.string, &key);
            if (status != OL_OK) break;
        }
        status = value_set_key(a, names, is_map ? key : value_int(a, (int64_t)i),
                               is_map ? v->as.map.items[i] : v->as.list.items[i]);
    }
    if (status == OL_OK) r->c->names = names;
    return status;
}

static void read_strides(reader *r, const value *v) {
    if (v == NULL || v->kind != VALUE_LIST) return;
    for (size_t i = 0; i < v->as.list.count && i < CHECKPOINT_MAX_STRIDES; i++)
        r->c->strides[r->c->n_strides++] = (float)value_as_double(v->as.list.items[i]);
}

static ol_status read_metadata(reader *r, const cJSON *metadata) {
    checkpoint *c = r->c;
    const value *yaml = NULL, *names = NULL, *nc = NULL, *stride = NULL, *task = NULL;
    ol_status status = read_json(r, metadata, "yaml", &yaml);
    if (status == OL_OK) status = read_json(r, metadata, "names", &names);
    if (status == OL_OK) status = read_json(r, metadata, "nc", &nc);
    if (status == OL_OK) status = read_json(r, metadata, "stride", &stride);
    if (status == OL_OK) status = read_json(r, metadata, "task", &task);
    if (status == OL_OK) status = read_names(r, names);
    if (status != OL_OK) return status;
    if (yaml != NULL && yaml->kind == VALUE_MAP) c->yaml = yaml;
    if (nc != NULL) value_as_int(nc, &c->nc);
    if (task != NULL && task->kind == VALUE_STRING) c->task = task->as.string;
    if (c->task != NULL && strcmp(c->task, "detect") == 0) c->head = "Detect";
    const value *scale = value_get(c->yaml, "scale");
    if (scale != NULL && scale->kind == VALUE_STRING && scale->as.string[0] != '\0') c->scale = scale->as.string;
    read_strides(r, stride);
    return OL_OK;
}

static ol_status read_header(reader *r, const cJSON *header) {
    ol_status status = OL_OK;
    if (!cJSON_IsObject(header)) return bad(r, "its header", "is not a JSON object");
    for (const cJSON *entry = header->child; status == OL_OK && entry != NULL; entry = entry->next)
        status = strcmp(entry->string, "__metadata__") == 0 ? read_metadata(r, entry) : read_tensor(r, entry);
    if (status == OL_OK) checkpoint_note_form(r->c);
    return status;
}

ol_status safetensors_read_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                  checkpoint *out) {
    const unsigned char *p = bytes;
    checkpoint c;
    reader r = {.ctx = ctx, .name = name, .c = &c};
    uint64_t n_header = 0;
    for (int i = 7; i >= 0 && n_bytes >= 8; i--) n_header = n_header << 8 | p[i];
    if (n_bytes < 8 || n_header > MAX_HEADER_BYTES || n_header > n_bytes - 8)
        return bad(&r, "the header", "is longer than the file: it is cut short or no .safetensors file");
    cJSON *header = cJSON_ParseWithLength((const char *)bytes + 8, (size_t)n_header);
    if (header == NULL) return bad(&r, "its header", "is not JSON");
    checkpoint_init(&c, ctx);
    r.data = (const char *)bytes + 8 + n_header;
    r.n_data = n_bytes - 8 - (size_t)n_header;
    const ol_status status = read_header(&r, header);
    cJSON_Delete(header);
    if (status == OL_OK)
        *out = c;
    else
        checkpoint_deinit(&c);
    return status;
}

ol_status safetensors_read(ol_context *ctx, const char *path, checkpoint *out) {
    char *bytes;
    size_t n_bytes;
    ol_status status = file_check_regular(ctx, path);
    if (status == OL_OK) status = file_read(ctx, path, MAX_FILE_BYTES, &bytes, &n_bytes);
    if (status != OL_OK) return status;
    status = safetensors_read_memory(ctx, path, bytes, n_bytes, out);
    mem_free(ctx, bytes);
    return status;
}
