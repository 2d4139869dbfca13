/* The loops of simd.h for machines with AVX-512. */
#include "device/cpu/simd.h"

#if defined(__x86_64__)

#define WIDTH      16
#define SIMD_NAME  "AVX-512"
#define SIMD_TABLE cpu_simd_avx512

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
