/* The loops of simd.h for machines with AVX-512. */
#include "device/cpu/simd.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDTH      16
#define SIMD_NAME  "AVX-512"
#define SIMD_TABLE cpu_simd_avx512

/* What has no operator. */
#define V_MAX(a, b)   ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define V_MIN(a, b)   ((vf)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define V_ROUND(x)    ((vf)_mm512_roundscale_ps((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define V_SCALE(x, n) ((vf)_mm512_scalef_ps((__m512)(x), (__m512)(n)))

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))),                   \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif
#include "device/cpu/simd_body.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
