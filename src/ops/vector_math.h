/* exp and log(1+x) as branch-free float32 polynomials that compilers vectorise: within 2 units in the last place, the
 * same bits on every instruction set (no fused multiply-add is left to the compiler). Pure functions; any thread. */
#ifndef OPS_VECTOR_MATH_H
#define OPS_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

/* One body, compiled for the widest registers of the machine it runs on. ifunc resolvers do not work under the
 * sanitizers. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_CLONES
#endif

/* e^x for x <= 0; values below 2^-126 come out as about 2^-126. NaN stays NaN. */
static inline float vector_exp_negative(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which lies in the low bits */
    const float t = x * 1.44269504f + magic;
    const float n = t - magic;
    const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f; /* ln 2 in two parts */
    float y = 1.0f / 5040.0f;
    y = y * r + 1.0f / 720.0f;
    y = y * r + 1.0f / 120.0f;
    y = y * r + 1.0f / 24.0f;
    y = y * r + 1.0f / 6.0f;
    y = y * r + 0.5f;
    y = (y * r) * r + r;
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits << 23) + 0x3F800000u; /* 2^n */
    float power;
    memcpy(&power, &bits, sizeof power);
    return power + power * y;
}

/* log(1+u) for u in [0,1]: 2*atanh(u/(2+u)) as a series, accurate for tiny u too. */
static inline float vector_log1p(float u) {
    const float s = u / (2.0f + u), q = s * s;
    float y = 1.0f / 15.0f;
    y = y * q + 1.0f / 13.0f;
    y = y * q + 1.0f / 11.0f;
    y = y * q + 1.0f / 9.0f;
    y = y * q + 1.0f / 7.0f;
    y = y * q + 1.0f / 5.0f;
    y = y * q + 1.0f / 3.0f;
    return 2.0f * s + 2.0f * s * (q * y);
}

#endif
