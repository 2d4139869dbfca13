/* Writes zip archives of stored entries in one pass: the same content gives the same bytes, and every entry's data
 * starts at a multiple of 64, so that readers can map tensors. (libzip can do neither: it stamps times and decides
 * offsets itself.) Up to 4 GiB and 65,535 entries; no compression. */
#ifndef FORMATS_ZIP_WRITER_H
#define FORMATS_ZIP_WRITER_H

#include "base/context.h"

typedef struct zip_writer zip_writer;

/* Creates or replaces the file `path` (callers pass a temporary name, base/file.h). */
ol_status zip_writer_create(ol_context *ctx, const char *path, zip_writer **out);
ol_status zip_writer_add(zip_writer *w, const char *name, const void *bytes, size_t n_bytes);
/* Writes the directory and closes the file. After this, or after any failure, only destroy may be called. */
ol_status zip_writer_finish(zip_writer *w);
void zip_writer_destroy(zip_writer *w);

#endif
