#include "device/step.h"

#include "device/device.h"

ol_status device_step_create(device *dev, const step_layout *layout, device_step **out) {
    return dev->api->step_create(dev, layout, out);
}

void device_step_destroy(device_step *s) {
    if (s != NULL) s->dev->api->step_destroy(s);
}

ol_status device_step_load(device_step *s, const step_numbers *numbers) {
    return s->dev->api->step_load(s, numbers);
}

/* Outcomes have a place each, which the next run would take. */
static ol_status room_check(const device_step *s) {
    if (s->n_run - s->n_read < STEP_AHEAD) return OL_OK;
    return ctx_fail(s->dev->ctx, OL_ERROR_INTERNAL, "outcomes of %d batches wait to be read", STEP_AHEAD);
}

ol_status device_step_order(device_step *s, const step_orders *orders) {
    const ol_status status = room_check(s);
    return status == OL_OK ? s->dev->api->step_order(s, orders) : status;
}

ol_status device_step_collect(device_step *s) {
    ol_status status = room_check(s);
    if (status == OL_OK) status = s->dev->api->step_collect(s);
    if (status == OL_OK) s->n_run++;
    return status;
}

ol_status device_step_outcome(device_step *s, step_outcome *out) {
    if (s->n_read == s->n_run) return ctx_fail(s->dev->ctx, OL_ERROR_INTERNAL, "no batch is under way");
    const ol_status status = s->dev->api->step_outcome(s, out);
    s->n_read++;
    return status;
}
