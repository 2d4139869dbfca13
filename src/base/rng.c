#include "base/rng.h"

#include <math.h>

static void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

rng rng_stream(uint64_t seed, rng_purpose purpose, uint32_t epoch, uint32_t index) {
    return (rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .counter = {0, (uint32_t)purpose, epoch, index}};
}

uint32_t rng_u32(rng *r) {
    if (r->n_buffered == 0) {
        philox_block(r->counter, r->key, r->buffer);
        r->counter[0]++;
        r->n_buffered = 4;
    }
    return r->buffer[4 - r->n_buffered--];
}

double rng_uniform(rng *r) {
    const uint64_t high = rng_u32(r) >> 5, low = rng_u32(r) >> 6;
    return (double)((high << 26) | low) * 0x1p-53;
}

double rng_range(rng *r, double low, double high) {
    return low + (high - low) * rng_uniform(r);
}

uint32_t rng_below(rng *r, uint32_t n) {
    const uint32_t limit = UINT32_MAX - UINT32_MAX % n;
    uint32_t x;
    do x = rng_u32(r);
    while (x >= limit);
    return x % n;
}

double rng_normal(rng *r) {
    const double u = 1.0 - rng_uniform(r), v = rng_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static double gamma_draw(rng *r, double shape) {
    if (shape < 1.0) {
        const double u = 1.0 - rng_uniform(r);
        return gamma_draw(r, shape + 1.0) * pow(u, 1.0 / shape);
    }
    const double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        const double x = rng_normal(r), t = 1.0 + c * x;
        if (t <= 0.0) continue;
        const double v = t * t * t, u = 1.0 - rng_uniform(r);
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v)) return d * v;
    }
}

double rng_beta(rng *r, double a, double b) {
    const double x = gamma_draw(r, a), y = gamma_draw(r, b);
    return x / (x + y);
}
