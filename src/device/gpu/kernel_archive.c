#include "device/gpu/kernel_archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

extern const unsigned char gpu_kernel_archive[], gpu_kernel_archive_end[];

/* As tools/pack_kernels.c writes them. */
typedef struct archive_entry {
    char target[16], module[16];
    uint32_t frame, reserved;
    uint64_t offset, bytes;
} archive_entry;

typedef struct archive_frame {
    uint64_t offset, packed_bytes, bytes;
} archive_frame;

#define HEADER_BYTES 16

static archive_entry entry_at(const kernel_archive *a, size_t i) {
    archive_entry e;
    memcpy(&e, a->bytes + HEADER_BYTES + i * sizeof e, sizeof e);
    return e;
}

static const char *target_at(const kernel_archive *a, size_t i) {
    return (const char *)a->bytes + HEADER_BYTES + i * sizeof(archive_entry);
}

ol_status kernel_archive_init(kernel_archive *a, ol_context *ctx) {
    uint32_t counts[2] = {0, 0};
    const size_t n = (size_t)(gpu_kernel_archive_end - gpu_kernel_archive);
    if (n >= HEADER_BYTES) memcpy(counts, gpu_kernel_archive + 8, sizeof counts);
    if (counts[0] == 0)
        return ctx_fail(
            ctx, OL_ERROR_UNSUPPORTED,
            "this build carries no GPU code; build it with clang-19 and lld-19 installed, or use device=cpu");
    *a = (kernel_archive){
        .ctx = ctx, .bytes = gpu_kernel_archive, .n_bytes = n, .n_entries = counts[0], .n_frames = counts[1]};
    if (a->n_frames > KERNEL_ARCHIVE_MAX_FRAMES)
        return ctx_fail(ctx, OL_ERROR_INTERNAL, "the archive of device code has too many frames");
    return OL_OK;
}

void kernel_archive_deinit(kernel_archive *a) {
    for (size_t i = 0; i < a->n_frames; i++) mem_free(a->ctx, a->frames[i]);
    *a = (kernel_archive){0};
}

/* "sm_89" is 89: NVIDIA's numbers are ten times the major version plus the minor one. */
static long sm_number(const char *arch) {
    return strncmp(arch, "sm_", 3) == 0 ? strtol(arch + 3, NULL, 10) : 0;
}

static const char *target_named(const kernel_archive *a, const char *name) {
    for (size_t i = 0; i < a->n_entries; i++)
        if (strcmp(target_at(a, i), name) == 0) return target_at(a, i);
    return NULL;
}

const char *kernel_archive_target(const kernel_archive *a, const char *arch) {
    const long wanted = sm_number(arch);
    const char *best = NULL;
    if (strncmp(arch, "sm_", 3) != 0) return target_named(a, arch);
    for (size_t i = 0; i < a->n_entries; i++) {
        const long has = sm_number(target_at(a, i));
        if (has / 10 == wanted / 10 && has <= wanted && (best == NULL || has > sm_number(best))) best = target_at(a, i);
    }
    return best != NULL ? best : wanted >= 80 ? kernel_archive_portable(a) : NULL;
}

const char *kernel_archive_portable(const kernel_archive *a) {
    return target_named(a, "ptx");
}

static ol_status frame_unpack(kernel_archive *a, uint32_t index) {
    archive_frame f;
    memcpy(&f, a->bytes + HEADER_BYTES + a->n_entries * sizeof(archive_entry) + index * sizeof f, sizeof f);
    unsigned char *unpacked = mem_alloc(a->ctx, f.bytes, 1);
    if (unpacked == NULL) return OL_ERROR_MEMORY;
    if (ZSTD_decompress(unpacked, f.bytes, a->bytes + f.offset, f.packed_bytes) != f.bytes) {
        mem_free(a->ctx, unpacked);
        return ctx_fail(a->ctx, OL_ERROR_INTERNAL, "the device code in this binary is damaged");
    }
    a->frames[index] = unpacked;
    return OL_OK;
}

ol_status kernel_archive_object(kernel_archive *a, const char *target, const char *module, const void **image) {
    for (size_t i = 0; i < a->n_entries; i++) {
        const archive_entry e = entry_at(a, i);
        if (strcmp(e.target, target) != 0 || strcmp(e.module, module) != 0) continue;
        if (a->frames[e.frame] == NULL) {
            const ol_status status = frame_unpack(a, e.frame);
            if (status != OL_OK) return status;
        }
        *image = a->frames[e.frame] + e.offset;
        return OL_OK;
    }
    return ctx_fail(a->ctx, OL_ERROR_INTERNAL, "no device code '%s' for %s in this binary", module, target);
}

/* The AMD architecture most like this one; NULL when the build has none. */
static const char *nearest(const kernel_archive *a, const char *arch) {
    const char *best = NULL;
    double best_score = -1.0;
    for (size_t i = 0; i < a->n_entries; i++) {
        if (strncmp(target_at(a, i), "gfx", 3) != 0) continue;
        size_t same = 0;
        while (arch[same] != '\0' && arch[same] == target_at(a, i)[same]) same++;
        const double score = (double)same + text_similarity(arch, target_at(a, i));
        if (score > best_score) {
            best_score = score;
            best = target_at(a, i);
        }
    }
    return best;
}

void kernel_archive_remedy(const kernel_archive *a, const char *arch, char *out, size_t bytes) {
    const bool nvidia = strncmp(arch, "sm_", 3) == 0;
    const char *like = nearest(a, arch);
    if (nvidia ? kernel_archive_target(a, "sm_80") == NULL : like == NULL)
        snprintf(out, bytes,
                 "this build was made without code for %s cards: take a released binary, or build without "
                 "ONELOOK_GPU_TARGETS",
                 nvidia ? "NVIDIA" : "AMD");
    else if (nvidia)
        snprintf(out, bytes, "NVIDIA cards from sm_80 (Ampere) on can be used; use device=cpu");
    else
        snprintf(out, bytes,
                 "use device=cpu and report the card (docs/hardware-report.md); the nearest architecture with code is "
                 "%s",
                 like);
}
