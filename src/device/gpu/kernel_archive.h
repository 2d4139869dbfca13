/* The device code that travels in the library: one compressed archive with an object per (target, module), made by
 * tools/pack_kernels.c. Reading needs no device. An archive object caches unpacked frames; one thread at a time. */
#ifndef DEVICE_GPU_KERNEL_ARCHIVE_H
#define DEVICE_GPU_KERNEL_ARCHIVE_H

#include "base/text.h"

#define KERNEL_ARCHIVE_MAX_FRAMES 16

typedef struct kernel_archive {
    ol_context *ctx;
    const unsigned char *bytes;
    size_t n_bytes, n_entries, n_frames;
    unsigned char *frames[KERNEL_ARCHIVE_MAX_FRAMES]; /* unpacked, NULL until needed */
} kernel_archive;

/* OL_ERROR_UNSUPPORTED when this build carries no device code. */
ol_status kernel_archive_init(kernel_archive *a, ol_context *ctx);
void kernel_archive_deinit(kernel_archive *a);
/* The target that serves an architecture name as the driver reports it: the gfx name itself; for sm_ names machine code
 * of the same major version and no higher minor one, else "ptx" for sm_80 and later. NULL when the archive has none. */
const char *kernel_archive_target(const kernel_archive *a, const char *arch);
/* What the driver compiles for cards of NVIDIA without machine code here; NULL when the archive has none. */
const char *kernel_archive_portable(const kernel_archive *a);
/* The object (NUL-terminated), valid until deinit. */
ol_status kernel_archive_object(kernel_archive *a, const char *target, const char *module, const void **image);
/* What the owner of a card without code can do, as part of a sentence. */
void kernel_archive_remedy(const kernel_archive *a, const char *arch, char *out, size_t bytes);

#endif
