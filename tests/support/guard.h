/* Holds a device's kernels to their operands, where the device is the AMD interpreter (tools/amd): during a launch only
 * the bytes of the op's own tensors and its scratch may be touched, although all lie in one arena. On other devices
 * nothing is done. One guarded device at a time. */
#ifndef TESTS_SUPPORT_GUARD_H
#define TESTS_SUPPORT_GUARD_H

#include "device/device.h"

/* Between tensors that lie side by side, so that the end of one is not the start of the next. */
#define GUARD_BYTES 256

/* Right after device_open. */
void guard_device(device *dev);
/* Whether the device is watched; then `bytes` at the end of every operand are forbidden too, for tests of the guard. */
bool guard_shrink(device *dev, size_t bytes);

#endif
