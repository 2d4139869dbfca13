/* A kernel of ours that goes on where its memory ends, on purpose: what a checker of accesses (compute-sanitizer, the
 * AMD interpreter) must report. ONELOOK_TEST_DEVICE names the device. Exit code 1: the run time itself reports it. */
#include "device/device.h"
#include "golden.h"

#include <stdio.h>
#include <string.h>

enum { THERE = 1000, TOLD = 1500, BUFFERS = 4 };

/* A step over more gradients than there are. */
static ol_status overrun(device *dev, device_buffer *buffers[BUFFERS]) {
    const step_numbers numbers = {.scaler = {.scale = 1.0}};
    const step_orders orders = {.take = true};
    step_outcome outcome;
    device_step *step = NULL;
    ol_status status = OL_OK;
    for (int i = 0; i < BUFFERS && status == OL_OK; i++)
        status = device_buffer_create(dev, (i == 0 ? THERE : TOLD) * sizeof(float), &buffers[i]);
    const step_layout layout = {.kind = OPTIMIZER_SGD,
                                .clip_norm = 1.0,
                                .grads = buffers[0],
                                .values = buffers[1],
                                .ema = buffers[2],
                                .states = {buffers[3]},
                                .n_trained = TOLD,
                                .n_values = TOLD,
                                .n_groups = 1,
                                .groups = {{0, TOLD, false}}};
    if (status == OL_OK) status = device_step_create(dev, &layout, &step);
    if (status == OL_OK) status = device_step_load(step, &numbers);
    if (status == OL_OK) status = device_step_order(step, &orders);
    if (status == OL_OK) status = device_step_run(step);
    if (status == OL_OK) status = device_step_outcome(step, &outcome); /* waits */
    device_step_destroy(step);
    return status;
}

int main(void) {
    ol_context *ctx = test_context();
    device *dev = NULL;
    device_buffer *buffers[BUFFERS] = {NULL};
    ol_status status = device_open(ctx, test_device_name(), &dev);
    if (status == OL_OK) status = overrun(dev, buffers);
    if (status != OL_OK) printf("%s\n", ol_context_message(ctx));
    for (int i = 0; i < BUFFERS; i++) device_buffer_destroy(buffers[i]);
    device_close(dev);
    ol_context_destroy(ctx);
    return status != OL_OK;
}
