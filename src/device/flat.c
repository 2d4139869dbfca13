#include "device/flat.h"

#include "device/device.h"

ol_status flat_sum_squares(device *dev, flat x, size_t n, double *sum) {
    return dev->api->flat_sum_squares(dev, x, n, sum);
}

ol_status flat_scale(device *dev, flat x, size_t n, float factor) {
    return dev->api->flat_scale(dev, x, n, factor);
}

ol_status flat_clear(device *dev, flat x, size_t n) {
    return dev->api->flat_clear(dev, x, n);
}

ol_status flat_optim(device *dev, optimizer_kind kind, const optim_step *step, flat p, flat g, flat a, flat b,
                     size_t n) {
    return n > 0 ? dev->api->flat_optim(dev, kind, step, p, g, a, b, n) : OL_OK;
}

ol_status flat_ema(device *dev, double decay, flat x, flat ema, size_t n) {
    return dev->api->flat_ema(dev, decay, x, ema, n);
}

ol_status flat_muon_momentum(device *dev, double mu, flat g, flat m, flat u, size_t n) {
    return n > 0 ? dev->api->flat_muon_momentum(dev, mu, g, m, u, n) : OL_OK;
}

ol_status flat_muon_create(device *dev, const flat_matrix *list, int n, flat_muon **out) {
    return dev->api->flat_muon_create(dev, list, n, out);
}

void flat_muon_destroy(device *dev, flat_muon *m) {
    if (m != NULL) dev->api->flat_muon_destroy(dev, m);
}

ol_status flat_muon_apply(device *dev, flat_muon *m, flat u, flat values, const double *lr) {
    return dev->api->flat_muon_apply(dev, m, u, values, lr);
}
