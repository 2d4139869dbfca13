/* Picking the largest of many numbers. Allocates nothing; pure functions, any thread. */
#ifndef OPS_TOP_K_H
#define OPS_TOP_K_H

#include <stdint.h>

/* The k largest of n numbers in descending order; equal ones by position, NaN last. `indices` has room for min(k, n)
 * entries. */
void top_k(const float *x, int32_t n, int32_t k, int32_t *indices);

/* Largest score and its class (the lowest on ties) of every anchor; `scores` is (nc, anchors). */
void best_classes(const float *scores, int nc, int anchors, float *best, int32_t *best_class);

#endif
