/* Which pictures in which order and in which batch shapes. Pure arithmetic over sizes; no pixels, no threads. */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include "base/context.h"

/* A permutation of 0..n-1 (Fisher-Yates on stream (seed, RNG_SHUFFLE, epoch, 0)): a function of its arguments alone. */
void sampler_shuffle(uint64_t seed, uint32_t epoch, int32_t *order, int n);

/* Rectangular batches (data document, section 2.15): `order` gets the pictures sorted by h/w (stable), batch b takes
 * order[b*batch …] and has the shape shapes[b] = {h, w}. `sizes` is (n,2) h,w; shapes has ceil(n/batch) rows. */
ol_status sampler_rect(ol_context *ctx, const int32_t *sizes, int n, int batch, int imgsz, int stride, double pad,
                       int32_t *order, int32_t *shapes);

/* Size of a multi-scale batch (section 2.11): drawn from (seed, RNG_SCALE, epoch, batch number). */
int sampler_multi_scale(uint64_t seed, uint32_t epoch, uint32_t batch, int imgsz, int stride, double range);

#endif
