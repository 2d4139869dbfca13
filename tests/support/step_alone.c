#include "step_alone.h"

ol_status step_alone_run(device_step *step) {
    const step_places none = {0};
    ol_status status = step->dev->api->step_begin(step, &none);
    if (status == OL_OK) status = step->dev->api->step_end(step, &none);
    return status == OL_OK ? device_step_collect(step) : status;
}

ol_status step_alone_take(device *dev, device_buffer *const buffers[STEP_ALONE_BUFFERS], size_t n, device_step **step,
                          step_outcome *outcome) {
    const step_layout layout = {.kind = OPTIMIZER_SGD,
                                .clip_norm = 1.0,
                                .grads = buffers[0],
                                .values = buffers[1],
                                .ema = buffers[2],
                                .states = {buffers[3]},
                                .n_trained = n,
                                .n_values = n,
                                .n_groups = 1,
                                .groups = {{0, n, false}}};
    const step_numbers numbers = {.scaler = {.scale = 1.0}};
    const step_orders orders = {.take = true};
    ol_status status = device_step_create(dev, &layout, step);
    if (status == OL_OK) status = device_step_load(*step, &numbers);
    if (status == OL_OK) status = device_step_order(*step, &orders);
    if (status == OL_OK) status = step_alone_run(*step);
    return status == OL_OK ? device_step_outcome(*step, outcome) : status;
}
