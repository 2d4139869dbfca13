/* The loops of simd.h for machines with AVX2. */
#include "device/cpu/simd.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDTH      8
#define SIMD_NAME  "AVX2"
#define SIMD_TABLE cpu_simd_avx2

/* What has no operator. */
#define V_MAX(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define V_MIN(a, b) ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define V_ROUND(x)  ((vf)_mm256_round_ps((__m256)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include "device/cpu/simd_body.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
