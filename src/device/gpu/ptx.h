/* Takes single kernels out of PTX modules: the driver compiles all of a module that it is handed, and a program needs
 * few of them. Reading text only; needs no device. */
#ifndef DEVICE_GPU_PTX_H
#define DEVICE_GPU_PTX_H

#include "base/text.h"

/* True when `image` is PTX and no code object. */
bool ptx_is(const void *image);
/* Appends `module` to `out` without the kernels that `wanted` refuses. What belongs to no kernel stays; a version and
 * target stand once, so modules of one build may follow each other. */
void ptx_append(text *out, const char *module, bool (*wanted)(const void *user, const char *kernel), const void *user);

#endif
