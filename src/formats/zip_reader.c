#include "formats/zip_reader.h"

#include <string.h>
#include <zip.h>

#define MAX_ENTRIES 1000000

struct zip_reader {
    ol_context *ctx;
    char *name;
    zip_t *zip;
};

static ol_status open_failed(ol_context *ctx, const char *name, zip_error_t *error) {
    const ol_status status =
        ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' is not a whole zip archive (%s); it may be cut short: get it again", name,
                 zip_error_strerror(error));
    zip_error_fini(error);
    return status;
}

static ol_status wrap(ol_context *ctx, const char *name, zip_t *zip, zip_reader **out) {
    zip_reader *r = mem_alloc0(ctx, 1, sizeof *r);
    char *copy = r != NULL ? mem_strdup(ctx, name) : NULL;
    if (copy == NULL) {
        mem_free(ctx, r);
        zip_discard(zip);
        return OL_ERROR_MEMORY;
    }
    *r = (zip_reader){ctx, copy, zip};
    if (zip_get_num_entries(zip, 0) > MAX_ENTRIES) {
        zip_reader_close(r);
        return ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' holds more than %d entries: not a file of ours", name, MAX_ENTRIES);
    }
    *out = r;
    return OL_OK;
}

ol_status zip_reader_open(ol_context *ctx, const char *path, zip_reader **out) {
    int code = 0;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
    if (zip == NULL) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        return open_failed(ctx, path, &error);
    }
    return wrap(ctx, path, zip, out);
}

ol_status zip_reader_open_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                 zip_reader **out) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(bytes, n_bytes, 0, &error);
    zip_t *zip = source != NULL ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    if (zip == NULL) {
        if (source != NULL) zip_source_free(source);
        return open_failed(ctx, name, &error);
    }
    zip_error_fini(&error);
    return wrap(ctx, name, zip, out);
}

void zip_reader_close(zip_reader *r) {
    if (r == NULL) return;
    zip_discard(r->zip);
    mem_free(r->ctx, r->name);
    mem_free(r->ctx, r);
}

int64_t zip_reader_count(const zip_reader *r) {
    return zip_get_num_entries(r->zip, 0);
}

const char *zip_reader_name(const zip_reader *r, int64_t index) {
    return index >= 0 && index < zip_reader_count(r) ? zip_get_name(r->zip, (zip_uint64_t)index, ZIP_FL_ENC_RAW) : NULL;
}

int64_t zip_reader_find(const zip_reader *r, const char *name) {
    return zip_name_locate(r->zip, name, ZIP_FL_ENC_RAW);
}

static ol_status entry_failed(const zip_reader *r, int64_t index, const char *what) {
    const char *entry = zip_reader_name(r, index);
    return ctx_fail(r->ctx, OL_ERROR_FORMAT, "'%s': the entry '%s' %s; get the file again", r->name,
                    entry != NULL ? entry : "?", what);
}

ol_status zip_reader_size(const zip_reader *r, int64_t index, uint64_t *bytes) {
    zip_stat_t st;
    if (index < 0 || zip_stat_index(r->zip, (zip_uint64_t)index, 0, &st) != 0 || (st.valid & ZIP_STAT_SIZE) == 0)
        return entry_failed(r, index, "has no size");
    *bytes = st.size;
    return OL_OK;
}

ol_status zip_reader_read(const zip_reader *r, int64_t index, size_t limit_bytes, char **bytes, size_t *n_bytes) {
    uint64_t size = 0;
    char *buffer = NULL, extra;
    zip_file_t *file = NULL;
    ol_status status = zip_reader_size(r, index, &size);
    if (status != OL_OK) return status;
    if (size > limit_bytes) return entry_failed(r, index, "is larger than its use allows");
    file = zip_fopen_index(r->zip, (zip_uint64_t)index, 0);
    if (file == NULL) return entry_failed(r, index, zip_strerror(r->zip));
    /* A stated size is not trusted with memory: it is given as the data arrives. */
    size_t have = 0, room = 0;
    const size_t step = (size_t)16 << 20;
    while (have < size) {
        if (have == room) {
            room = room + step + room / 2 > size ? (size_t)size : room + step + room / 2;
            char *grown = mem_resize(r->ctx, buffer, room + 1, 1);
            if (grown == NULL) {
                status = OL_ERROR_MEMORY;
                goto fail;
            }
            buffer = grown;
        }
        const zip_int64_t got = zip_fread(file, buffer + have, room - have);
        if (got <= 0) {
            status = entry_failed(r, index, got < 0 ? zip_file_strerror(file) : "is shorter than stated");
            goto fail;
        }
        have += (size_t)got;
    }
    if (buffer == NULL && (buffer = mem_alloc(r->ctx, 1, 1)) == NULL) {
        status = OL_ERROR_MEMORY;
        goto fail;
    }
    if (zip_fread(file, &extra, 1) != 0) { /* the checksum is verified at the end */
        status = entry_failed(r, index, "is damaged (its checksum or length differs)");
        goto fail;
    }
    zip_fclose(file);
    buffer[have] = '\0';
    *bytes = buffer;
    *n_bytes = have;
    return OL_OK;
fail:
    zip_fclose(file);
    mem_free(r->ctx, buffer);
    return status;
}
