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
    bool silent;               /* it is there, but could not be selected */
    uint64_t reaches;          /* bit N: kernels can use the memory of the driver's device N (peer access) */
} device_entry;

/* What one driver library said. */
typedef struct devices_driver {
    bool found;         /* the library is on the machine */
    int n_devices;      /* of the list that are its own */
    char message[1024]; /* why there is none, or what is wrong with some; "" */
} devices_driver;

typedef struct devices_survey {
    device_entry list[DEVICES_MAX]; /* in the order of preference */
    size_t n;
    devices_driver cuda, hip;
    char no_code[256]; /* why this build has no device code at all; "" */
} devices_survey;

/* Asks both drivers. Never fails. The struct is large: not for small stacks. Free memory and `reaches` are told by
 * devices that were started, which takes a fraction of a second each: without `in_full` they stay 0. */
void devices_look(ol_context *ctx, bool in_full, devices_survey *out);

/* GPUs in the order of preference: discrete before integrated, those with code first, else as the drivers number them.
 * `absent` (may be NULL) receives a line for each driver that is missing, shows no device or one that
 * does not answer. Never fails. */
size_t devices_list(ol_context *ctx, bool in_full, device_entry list[DEVICES_MAX], text *absent);

#endif
