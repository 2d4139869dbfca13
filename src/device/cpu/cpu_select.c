/* Rows of decoded batches on the CPU: the reference, a picture a thread. */
#include "device/cpu/cpu.h"

ol_status cpu_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows) {
    const float *decoded = (const float *)device_buffer_host(batch->at.buffer) + batch->at.offset;
    const size_t picture = (size_t)(4 + batch->nc) * (size_t)batch->anchors;
    ol_status failed = OL_OK;
#pragma omp parallel for schedule(dynamic) num_threads(((cpu_device *)dev)->threads) if (batch->n > 1)
    for (int i = 0; i < batch->n; i++) {
        const ol_status status = detections_select(dev->ctx, decoded + (size_t)i * picture, batch->nc, batch->anchors,
                                                   batch->corners, options, &rows[i]);
        if (status != OL_OK) {
#pragma omp critical
            failed = status;
        }
    }
    return failed;
}
