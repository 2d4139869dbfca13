#include "formats/zip_writer.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define ALIGNMENT         64
#define LOCAL_BYTES       30
#define PADDING_ID        0x4246 /* "FB", the extra field that torch pads with */
#define UTF8_NAMES        0x800
#define VERSION           20
#define DATE_1980_01_01   0x21
#define MAX_ENTRIES       65535
#define MAX_ARCHIVE_BYTES ((uint64_t)UINT32_MAX)

struct zip_writer {
    ol_context *ctx;
    char *path;
    FILE *file;
    uint64_t at;
    text directory; /* central records so far */
    int n_entries;
};

ol_status zip_writer_create(ol_context *ctx, const char *path, zip_writer **out) {
    zip_writer *w = mem_alloc0(ctx, 1, sizeof *w);
    if (w == NULL) return OL_ERROR_MEMORY;
    w->ctx = ctx;
    text_init(&w->directory, ctx);
    w->path = mem_strdup(ctx, path);
    if (w->path == NULL) {
        zip_writer_destroy(w);
        return OL_ERROR_MEMORY;
    }
    w->file = fopen(path, "wb");
    if (w->file == NULL) {
        const ol_status status = file_write_failed(ctx, path);
        zip_writer_destroy(w);
        return status;
    }
    *out = w;
    return OL_OK;
}

void zip_writer_destroy(zip_writer *w) {
    if (w == NULL) return;
    if (w->file != NULL) fclose(w->file);
    text_deinit(&w->directory);
    mem_free(w->ctx, w->path);
    mem_free(w->ctx, w);
}

static ol_status put(zip_writer *w, const void *bytes, size_t n) {
    if (n > 0 && fwrite(bytes, 1, n, w->file) != n) return file_write_failed(w->ctx, w->path);
    w->at += n;
    return OL_OK;
}

typedef struct record {
    unsigned char bytes[64];
    size_t n;
} record;

static void put_uint(record *r, uint32_t x, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++) r->bytes[r->n++] = (unsigned char)(x >> (8 * i));
}

/* What local and central records have in common. */
static void put_common(record *r, uint32_t crc, uint32_t size, size_t name_bytes, size_t extra_bytes) {
    put_uint(r, VERSION, 2);
    put_uint(r, UTF8_NAMES, 2);
    put_uint(r, 0, 2); /* stored */
    put_uint(r, 0, 2); /* time */
    put_uint(r, DATE_1980_01_01, 2);
    put_uint(r, crc, 4);
    put_uint(r, size, 4);
    put_uint(r, size, 4);
    put_uint(r, (uint32_t)name_bytes, 2);
    put_uint(r, (uint32_t)extra_bytes, 2);
}

static uint32_t checksum(const void *bytes, size_t n_bytes) {
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, n_bytes);
}

ol_status zip_writer_add(zip_writer *w, const char *name, const void *bytes, size_t n_bytes) {
    static const unsigned char zeros[ALIGNMENT + 4];
    const size_t name_bytes = strlen(name);
    const uint32_t crc = checksum(bytes, n_bytes);
    if (w->n_entries == MAX_ENTRIES || n_bytes > MAX_ARCHIVE_BYTES ||
        w->at + n_bytes + w->directory.length + 4096 > MAX_ARCHIVE_BYTES)
        return ctx_fail(w->ctx, OL_ERROR_UNSUPPORTED, "'%s' would need more than 4 GiB; store it in half precision",
                        w->path);
    /* The extra field (4 bytes of header and the padding) ends where the data must start. */
    const size_t unpadded = (size_t)(w->at % ALIGNMENT) + LOCAL_BYTES + name_bytes + 4;
    const size_t extra_bytes = 4 + (ALIGNMENT - unpadded % ALIGNMENT) % ALIGNMENT;
    record local = {.n = 0}, central = {.n = 0}, extra = {.n = 0};
    put_uint(&local, 0x04034b50, 4);
    put_common(&local, crc, (uint32_t)n_bytes, name_bytes, extra_bytes);
    put_uint(&extra, PADDING_ID, 2);
    put_uint(&extra, (uint32_t)extra_bytes - 4, 2);
    put_uint(&central, 0x02014b50, 4);
    put_uint(&central, VERSION, 2);
    put_common(&central, crc, (uint32_t)n_bytes, name_bytes, 0);
    put_uint(&central, 0, 2); /* comment */
    put_uint(&central, 0, 2); /* disk */
    put_uint(&central, 0, 2); /* internal attributes */
    put_uint(&central, 0, 4); /* external attributes */
    put_uint(&central, (uint32_t)w->at, 4);
    text_append(&w->directory, (const char *)central.bytes, central.n);
    text_append(&w->directory, name, name_bytes);
    if (w->directory.failed) return OL_ERROR_MEMORY;
    ol_status status = put(w, local.bytes, local.n);
    if (status == OL_OK) status = put(w, name, name_bytes);
    if (status == OL_OK) status = put(w, extra.bytes, extra.n);
    if (status == OL_OK) status = put(w, zeros, extra_bytes - 4);
    if (status == OL_OK) status = put(w, bytes, n_bytes);
    w->n_entries++;
    return status;
}

ol_status zip_writer_finish(zip_writer *w) {
    record end = {.n = 0};
    const uint64_t start = w->at;
    put_uint(&end, 0x06054b50, 4);
    put_uint(&end, 0, 4); /* disks */
    put_uint(&end, (uint32_t)w->n_entries, 2);
    put_uint(&end, (uint32_t)w->n_entries, 2);
    put_uint(&end, (uint32_t)w->directory.length, 4);
    put_uint(&end, (uint32_t)start, 4);
    put_uint(&end, 0, 2);
    ol_status status = put(w, w->directory.bytes, w->directory.length);
    if (status == OL_OK) status = put(w, end.bytes, end.n);
    FILE *file = w->file;
    w->file = NULL;
    if (fclose(file) != 0 && status == OL_OK) status = file_write_failed(w->ctx, w->path);
    return status;
}
