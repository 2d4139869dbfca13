#include "formats/safetensors.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 8 /* of the data, by spaces at the end of the header */
#define MAX_HALF  65504.0f

static dtype stored_type(const tensor *t, bool half) {
    return t->type == DTYPE_I64 ? DTYPE_I64 : half ? DTYPE_F16 : DTYPE_F32;
}

static const char *type_name(dtype type) {
    return type == DTYPE_I64 ? "I64" : type == DTYPE_F16 ? "F16" : "F32";
}

/* "key":"<v as JSON text, quoted>" */
static ol_status put_metadata(text *out, arena *a, const char *key, const value *v, bool first) {
    text json;
    text_init(&json, out->ctx);
    ol_status status = v != NULL ? json_write(&json, v) : OL_ERROR_MEMORY;
    if (status == OL_OK) {
        const value *quoted = value_string(a, text_c(&json));
        text_printf(out, "%s\"%s\":", first ? "" : ",", key);
        status = quoted != NULL ? json_write(out, quoted) : OL_ERROR_MEMORY;
    }
    text_deinit(&json);
    return status;
}

/* The description without what a source file may have added to it. */
static const value *own_yaml(arena *a, const value *yaml) {
    static const char *const kept[] = {"nc",       "end2end",   "reg_max",  "scales", "scale",
                                       "channels", "yaml_file", "backbone", "head"};
    value *map = value_map(a);
    for (size_t i = 0; map != NULL && i < sizeof kept / sizeof *kept; i++)
        if (value_get(yaml, kept[i]) != NULL && value_set(a, map, kept[i], value_get(yaml, kept[i])) != OL_OK)
            return NULL;
    return map;
}

static ol_status put_all_metadata(text *out, arena *a, const model *m) {
    value *names = value_list(a), *stride = value_list(a);
    if (names == NULL || stride == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    for (int i = 0; status == OL_OK && i < m->desc.nc; i++)
        status = value_append(a, names, value_string(a, m->names[i]));
    for (int i = 0; status == OL_OK && i < m->n_levels; i++)
        status = value_append(a, stride, value_int(a, m->strides[i]));
    text_printf(out, "\"__metadata__\":{");
    if (status == OL_OK) status = put_metadata(out, a, "yaml", own_yaml(a, m->desc.yaml), true);
    if (status == OL_OK) status = put_metadata(out, a, "names", names, false);
    if (status == OL_OK) status = put_metadata(out, a, "nc", value_int(a, m->desc.nc), false);
    if (status == OL_OK) status = put_metadata(out, a, "stride", stride, false);
    if (status == OL_OK) status = put_metadata(out, a, "task", value_string(a, "detect"), false);
    text_printf(out, "}");
    return status;
}

static ol_status put_header(text *out, arena *a, const checkpoint *c, const model *m, bool half) {
    uint64_t at = 0;
    text_printf(out, "{");
    ol_status status = put_all_metadata(out, a, m);
    for (size_t i = 0; status == OL_OK && i < c->weights.count; i++) {
        const named_tensor *item = &c->weights.items[i];
        const dtype type = stored_type(&item->t, half);
        const uint64_t n = (uint64_t)shape_elements(&item->t.shape) * dtype_bytes(type);
        const value *name = value_string(a, item->name);
        if (name == NULL) return OL_ERROR_MEMORY;
        text_printf(out, ",");
        status = json_write(out, name);
        text_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", type_name(type));
        for (int k = 0; k < item->t.shape.rank; k++)
            text_printf(out, k > 0 ? ",%lld" : "%lld", (long long)item->t.shape.dim[k]);
        text_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)at + n);
        at += n;
    }
    text_printf(out, "}");
    while (out->length % ALIGNMENT != 0 && !out->failed) text_append(out, " ", 1);
    return status == OL_OK && out->failed ? OL_ERROR_MEMORY : status;
}

static bool put_tensor(FILE *file, const tensor *t, bool half) {
    const size_t n = (size_t)shape_elements(&t->shape);
    const dtype type = stored_type(t, half);
    if (type != DTYPE_F16) return fwrite(t->data, dtype_bytes(type), n, file) == n;
    for (size_t i = 0; i < n; i++) {
        const float x = tensor_f32(t)[i];
        const uint16_t bits = float_to_half(x > MAX_HALF ? MAX_HALF : x < -MAX_HALF ? -MAX_HALF : x);
        if (fwrite(&bits, sizeof bits, 1, file) != 1) return false;
    }
    return true;
}

static ol_status write_file(ol_context *ctx, const char *path, const text *header, const checkpoint *c, bool half) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    FILE *file = fopen(path, "wb");
    bool written = file != NULL && fwrite(length, 1, 8, file) == 8 &&
                   fwrite(header->bytes, 1, header->length, file) == header->length;
    for (size_t i = 0; written && i < c->weights.count; i++) written = put_tensor(file, &c->weights.items[i].t, half);
    if (file != NULL && fclose(file) != 0) written = false;
    return written ? OL_OK : file_write_failed(ctx, path);
}

ol_status safetensors_write(ol_context *ctx, const char *path, const checkpoint *c, const model *m, bool half) {
    arena a;
    text header;
    char *temporary = NULL;
    arena_init(&a, ctx, 0);
    text_init(&header, ctx);
    ol_status status = put_header(&header, &a, c, m, half);
    if (status == OL_OK) status = file_atomic_begin(&a, path, &temporary);
    if (status == OL_OK) {
        status = write_file(ctx, temporary, &header, c, half);
        if (status == OL_OK)
            status = file_atomic_commit(ctx, temporary, path);
        else
            file_atomic_abandon(temporary, path);
    }
    text_deinit(&header);
    arena_deinit(&a);
    return status;
}
