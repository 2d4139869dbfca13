/* Functions compiled twice, for the baseline and for AVX2; the dynamic loader picks one at the program's start. Both
 * must give the same bits: no sums whose order the compiler may change. */
#ifndef BASE_SIMD_H
#define BASE_SIMD_H

/* The picking functions run before the sanitizers are ready, so there is one version in such builds. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define SIMD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SIMD_CLONES
#endif

#endif
