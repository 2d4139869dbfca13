#include "device/select.h"

#include "device/device.h"

ol_status device_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows) {
    const ol_status status = select_check(dev->ctx, batch->nc, batch->anchors, batch->corners, options);
    if (status != OL_OK) return status;
    for (int i = 0; i < batch->n; i++) rows[i].count = 0;
    if (batch->n < 1 || batch->nc < 1 || batch->anchors < 1 || options->max_det < 1) return OL_OK;
    return dev->api->select(dev, batch, options, rows);
}
