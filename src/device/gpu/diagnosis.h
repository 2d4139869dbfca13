/* Why this machine shows no GPU, or fewer than it holds: causes with their remedies, from /sys, /dev, /proc and the
 * environment. Opens no driver: what those said is part of the question. Keeps no state; any thread. */
#ifndef DEVICE_GPU_DIAGNOSIS_H
#define DEVICE_GPU_DIAGNOSIS_H

#include "device/devices.h"

typedef struct gpu_diagnosis_question {
    const char *root;               /* "/"; tests have a folder with sys, dev, proc and etc in it */
    const char *const *environment; /* "NAME=value", NULL at the end; NULL: the process's own */
    const unsigned *groups; /* ids of the user's groups; NULL: ask the system and try to open the device files */
    size_t n_groups;
    devices_survey survey; /* what the drivers showed */
} gpu_diagnosis_question;

/* `id` is a short name that the table in docs/amd.md has too ("amd-no-library"); `what` and `remedy` are one line each,
 * valid during the call. */
typedef void (*gpu_finding_fn)(void *user, const char *id, const char *what, const char *remedy);

/* Calls `found` for each cause that applies, the likeliest first. Never fails: what cannot be read is unknown. */
void gpu_diagnose(ol_context *ctx, const gpu_diagnosis_question *question, gpu_finding_fn found, void *user);

#endif
