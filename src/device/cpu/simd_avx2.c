/* The loops of simd.h for machines with AVX2. */
#include "device/cpu/simd.h"

#if defined(__x86_64__)

#define WIDTH      8
#define SIMD_NAME  "AVX2"
#define SIMD_TABLE cpu_simd_avx2

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
