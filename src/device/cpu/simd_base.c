/* The loops of simd.h for any machine, and the choice between the sets. */
#include "device/cpu/simd.h"

#define WIDTH      8
#define SIMD_NAME  "baseline"
#define SIMD_TABLE cpu_simd_base
#include "device/cpu/simd_body.inc"

const cpu_simd *cpu_simd_choose(simd_level limit) {
    (void)limit;
#if defined(__x86_64__)
    if (limit >= SIMD_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return &cpu_simd_avx512;
    if (limit >= SIMD_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &cpu_simd_avx2;
#endif
    return &cpu_simd_base;
}
