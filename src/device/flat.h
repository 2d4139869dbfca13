/* Operations over flat f32 ranges of device buffers: what an optimizer does with the numbers of a model, wherever they
 * live. Launches are asynchronous on devices that have queues, in the order of the calls and of plan runs; only
 * flat_sum_squares waits. One thread at a time a device. */
#ifndef DEVICE_FLAT_H
#define DEVICE_FLAT_H

#include "graph/plan.h"
#include "ops/optim.h"

typedef struct flat {
    device_buffer *buffer;
    size_t offset; /* floats */
} flat;
static inline flat flat_at(device_buffer *buffer, size_t offset) {
    return (flat){buffer, offset};
}

/* Sum of squares in double, in a fixed order. */
ol_status flat_sum_squares(device *dev, flat x, size_t n, double *sum);
ol_status flat_scale(device *dev, flat x, size_t n, float factor);
ol_status flat_clear(device *dev, flat x, size_t n);
/* optim_update on ranges; a and b are the states of optimizer_info (buffer NULL: none). For MuSGD: the SGD rule on b.
 */
ol_status flat_optim(device *dev, optimizer_kind kind, const optim_step *step, flat p, flat g, flat a, flat b,
                     size_t n);
/* ema <- ema + (1-decay)*(x-ema) */
ol_status flat_ema(device *dev, double decay, flat x, flat ema, size_t n);
/* m <- mu*m + (1-mu)*g; u = mu*m + (1-mu)*g */
ol_status flat_muon_momentum(device *dev, double mu, flat g, flat m, flat u, size_t n);

/* A matrix of MuSGD: rows x cols floats at `offset` of both u and the values; `scale` as section 5.3 gives it. */
typedef struct flat_matrix {
    size_t offset;
    int rows, cols, group;
    float scale;
} flat_matrix;
typedef struct flat_muon flat_muon; /* prepared for a list of matrices on one device */
ol_status flat_muon_create(device *dev, const flat_matrix *list, int n, flat_muon **out);
void flat_muon_destroy(device *dev, flat_muon *m);
/* Orthogonalises u (Newton-Schulz, section 5.3) and moves the values: p <- p - lr[group]*0.2*scale*o. `u` may be
 * overwritten. */
ol_status flat_muon_apply(device *dev, flat_muon *m, flat u, flat values, const double *lr);

#endif
