#include "ops/loss_scaler.h"

void loss_scaler_init(loss_scaler *s, dtype maps) {
    const bool on = maps == DTYPE_F16;
    *s = (loss_scaler){.on = on, .skips = maps != DTYPE_F32, .scale = on ? LOSS_SCALE_START : 1.0};
}

void loss_scaler_grow(loss_scaler *s) {
    s->n_skipped = 0;
    if (!s->on || ++s->n_good < LOSS_SCALE_INTERVAL) return;
    s->scale *= LOSS_SCALE_GROWTH;
    s->n_good = 0;
}

bool loss_scaler_back_off(loss_scaler *s) {
    if (!s->skips || ++s->n_skipped >= LOSS_SCALE_MAX_SKIPS) return false;
    if (s->on) s->scale *= LOSS_SCALE_BACKOFF;
    s->n_good = 0;
    return true;
}
