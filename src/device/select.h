/* Rows of a batch from its decoded outputs, wherever these lie: ops/select.h is the reference, every device gives the
 * same rows in the same order. Only rows come to the host. One thread at a time a device. */
#ifndef DEVICE_SELECT_H
#define DEVICE_SELECT_H

#include "device/flat.h"
#include "ops/select.h"

/* A decoded batch (n, 4+nc, anchors), f32, dense. */
typedef struct decoded_batch {
    flat at;
    int n, nc, anchors;
    bool corners; /* of the one-to-one head: corner boxes, top-k selection; else centres, suppression */
} decoded_batch;

/* Replaces the content of the n lists at `rows`. Waits for the device. */
ol_status device_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows);

#endif
