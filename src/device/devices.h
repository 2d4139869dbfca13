/* What devices this machine has, and why it has no more. Opens driver libraries to look; keeps nothing open. */
#ifndef DEVICE_DEVICES_H
#define DEVICE_DEVICES_H

#include "base/text.h"

#define DEVICES_MAX 64

typedef struct device_entry {
    char name[16];   /* "cuda:0", "hip:1": what device_open takes */
    char title[128]; /* "NVIDIA H200" */
    char arch[32];   /* "sm_90", "gfx1100" */
    char driver[64]; /* "CUDA driver 13.0" */
    uint64_t memory_bytes, free_bytes;
    bool integrated, has_code; /* this build has kernels for the architecture */
} device_entry;

/* GPUs in the order of preference: discrete before integrated, those with code first, else as the drivers number them.
 * `absent` (may be NULL) receives a line for each driver that is missing or shows no device. Never fails. */
size_t devices_list(ol_context *ctx, device_entry list[DEVICES_MAX], text *absent);

#endif
