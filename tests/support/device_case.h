/* A group's device: that of ONELOOK_TEST_DEVICE, opened before each test and closed behind it. */
#ifndef TESTS_DEVICE_CASE_H
#define TESTS_DEVICE_CASE_H

#include "device/device.h"

typedef struct device_case {
    ol_context *ctx; /* its own */
    device *dev;
} device_case;

/* cmocka's set-up and teardown; the state is the device_case. */
int device_case_open(void **state);
int device_case_close(void **state);

#endif
