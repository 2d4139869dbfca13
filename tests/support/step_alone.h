/* The optimizer's step without a plan that takes it along. Buffers: gradients, values, averages, state. */
#ifndef TESTS_STEP_ALONE_H
#define TESTS_STEP_ALONE_H

#include "device/device.h"

enum { STEP_ALONE_BUFFERS = 4 };

/* One run of a step whose orders were given; its losses are absent. */
ol_status step_alone_run(device_step *step);
/* Makes a step by SGD over the first n floats of the buffers, takes it once and waits for what came of it. *step is
 * destroyed by the caller, also after an error. */
ol_status step_alone_take(device *dev, device_buffer *const buffers[STEP_ALONE_BUFFERS], size_t n, device_step **step,
                          step_outcome *outcome);

#endif
