/* A kernel of ours that goes on where its memory ends, on purpose: what a checker of accesses (compute-sanitizer, the
 * AMD interpreter) must report. ONELOOK_TEST_DEVICE names the device. Exit code 1: the run time itself reports it. */
#include "device/device.h"
#include "golden.h"
#include "step_alone.h"

#include <stdio.h>

enum { THERE = 1000, TOLD = 1500 };

/* A step over more gradients than there are. */
static ol_status overrun(device *dev, device_buffer *buffers[STEP_ALONE_BUFFERS]) {
    step_outcome outcome;
    device_step *step = NULL;
    ol_status status = OL_OK;
    for (int i = 0; i < STEP_ALONE_BUFFERS && status == OL_OK; i++)
        status = device_buffer_create(dev, (i == 0 ? THERE : TOLD) * sizeof(float), &buffers[i]);
    if (status == OL_OK) status = step_alone_take(dev, buffers, TOLD, &step, &outcome);
    device_step_destroy(step);
    return status;
}

int main(void) {
    ol_context *ctx = test_context();
    device *dev = NULL;
    device_buffer *buffers[STEP_ALONE_BUFFERS] = {NULL};
    ol_status status = device_open(ctx, test_device_name(), &dev);
    if (status == OL_OK) status = overrun(dev, buffers);
    if (status != OL_OK) printf("%s\n", ol_context_message(ctx));
    for (int i = 0; i < STEP_ALONE_BUFFERS; i++) device_buffer_destroy(buffers[i]);
    device_close(dev);
    ol_context_destroy(ctx);
    return status != OL_OK;
}
