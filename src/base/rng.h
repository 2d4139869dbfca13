/* Counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011). The same key gives the same stream whatever
 * the thread, rank or device. No state but the struct. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

typedef struct rng {
    uint32_t key[2];
    uint32_t counter[4]; /* counter[0] advances; the others name the stream */
    uint32_t buffer[4];
    int n_buffered;
} rng;

/* A stream for (seed, purpose, epoch, index), e.g. (seed, RNG_AUGMENT, epoch, sample). */
typedef enum rng_purpose { RNG_WEIGHTS = 1, RNG_SHUFFLE, RNG_AUGMENT, RNG_SCALE, RNG_SHAPES, RNG_TEST } rng_purpose;
rng rng_stream(uint64_t seed, rng_purpose purpose, uint32_t epoch, uint32_t index);

uint32_t rng_u32(rng *r);
/* [0, 1), 53 bits. */
double rng_uniform(rng *r);
double rng_range(rng *r, double low, double high);
/* Uniform in [0, n), n > 0, without bias. */
uint32_t rng_below(rng *r, uint32_t n);
double rng_normal(rng *r);
/* Beta(a, b) for a, b > 0 (from two gammas, Marsaglia and Tsang 2000). */
double rng_beta(rng *r, double a, double b);

#endif
