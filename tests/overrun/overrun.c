/* A kernel of ours that goes on where its memory ends, on purpose: what a checker of accesses (compute-sanitizer, the
 * AMD interpreter) must report. ONELOOK_TEST_DEVICE names the device. Exit code 1: the run time itself reports it. */
#include "device/device.h"
#include "golden.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    enum { THERE = 1000, TOLD = 1500 };
    ol_context *ctx = test_context();
    device *dev = NULL;
    device_buffer *buffer = NULL;
    ol_status status = device_open(ctx, test_device_name(), &dev);
    if (status == OL_OK) status = device_buffer_create(dev, THERE * sizeof(float), &buffer);
    if (status == OL_OK) status = flat_scale(dev, flat_at(buffer, 0), TOLD, 0.5f);
    float first = 0.0f;
    if (status == OL_OK) status = device_buffer_read(buffer, 0, &first, sizeof first); /* waits */
    if (status != OL_OK) printf("%s\n", ol_context_message(ctx));
    device_buffer_destroy(buffer);
    device_close(dev);
    ol_context_destroy(ctx);
    return status != OL_OK;
}
