/* Read-only access to zip archives by name, with sizes bounded by the caller. Wraps libzip; no writing (zip_writer.h).
 */
#ifndef FORMATS_ZIP_READER_H
#define FORMATS_ZIP_READER_H

#include "base/context.h"

typedef struct zip_reader zip_reader;

/* `name` is for messages. The bytes must outlive the reader. */
ol_status zip_reader_open(ol_context *ctx, const char *path, zip_reader **out);
ol_status zip_reader_open_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                 zip_reader **out);
void zip_reader_close(zip_reader *r);

int64_t zip_reader_count(const zip_reader *r);
/* NULL when out of range. */
const char *zip_reader_name(const zip_reader *r, int64_t index);
/* Position of the entry or -1. */
int64_t zip_reader_find(const zip_reader *r, const char *name);
/* Uncompressed size as the directory states it. */
ol_status zip_reader_size(const zip_reader *r, int64_t index, uint64_t *bytes);
/* The whole entry, NUL-terminated (not counted), checksum verified; freed with mem_free. Entries over `limit_bytes`,
 * encrypted or damaged ones are OL_ERROR_FORMAT. */
ol_status zip_reader_read(const zip_reader *r, int64_t index, size_t limit_bytes, char **bytes, size_t *n_bytes);

#endif
