#include "ops/loss_scaler.h"

void loss_scaler_init(loss_scaler *s, bool on) {
    *s = (loss_scaler){.on = on, .scale = on ? LOSS_SCALE_START : 1.0};
}

void loss_scaler_grow(loss_scaler *s) {
    s->n_skipped = 0;
    if (!s->on || ++s->n_good < LOSS_SCALE_INTERVAL) return;
    s->scale *= LOSS_SCALE_GROWTH;
    s->n_good = 0;
}

bool loss_scaler_back_off(loss_scaler *s) {
    if (!s->on || ++s->n_skipped >= LOSS_SCALE_MAX_SKIPS) return false;
    s->scale *= LOSS_SCALE_BACKOFF;
    s->n_good = 0;
    return true;
}
