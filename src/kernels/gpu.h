/* The dialect of the device code: one source for NVIDIA (PTX) and AMD (code objects), compiled by clang alone, without
 * a toolkit's headers. Everything that differs between the vendors is here and in tile.h. Included by *.gpu.c only.
 *
 * Rules for kernels: the wave width is WAVE (32 or 64), never a number; grid and block sizes arrive as arguments or
 * constants, never from hidden arguments; sums across blocks go through partials in a fixed order; loops that index
 * registers carry
 * `#pragma unroll`; 16-byte accesses are written through vec types. */
#ifndef KERNELS_GPU_H
#define KERNELS_GPU_H

#define DEVICE        static __attribute__((device)) inline __attribute__((always_inline))
#define DEVICE_MEMBER __attribute__((device)) inline __attribute__((always_inline))
#define SHARED        __attribute__((shared))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef _Float16 f16;
typedef __bf16 bf16;

typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x16 __attribute__((ext_vector_type(16)));

#define INFINITY_F __builtin_inff()

#if defined(__HIP__)
#define GPU_AMD 1
#else
#define GPU_NVIDIA 1
#endif

#if defined(GPU_AMD)
/* clang ignores launch_bounds on AMD and would compile for 1024 threads, that is, for few registers */
#define KERNEL(threads)                                                                                                \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void
#define KERNEL_RESIDENT(threads, blocks) KERNEL(threads)
#if defined(__GFX9__)
#define WAVE 64
#else
#define WAVE 32
#endif
DEVICE u32 thread_x() {
    return __builtin_amdgcn_workitem_id_x();
}
DEVICE u32 block_x() {
    return __builtin_amdgcn_workgroup_id_x();
}
DEVICE u32 block_y() {
    return __builtin_amdgcn_workgroup_id_y();
}
DEVICE u32 block_z() {
    return __builtin_amdgcn_workgroup_id_z();
}
DEVICE u32 lane_id() {
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)) & (WAVE - 1);
}
/* Orders LDS only: data that waves of a block exchange through global memory needs barrier_global. */
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
DEVICE void barrier_global() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* Keeps the compiler from taking work of what follows into what is before, where that would cost too many registers. */
DEVICE void keep_order() {
    __builtin_amdgcn_sched_barrier(0);
}
DEVICE i32 shuffle_bits(i32 v, i32 lane) {
    return __builtin_amdgcn_ds_bpermute(lane << 2, v);
}
DEVICE float shuffle_xor(float v, i32 mask) {
    return __builtin_bit_cast(float, shuffle_bits(__builtin_bit_cast(i32, v), (i32)lane_id() ^ mask));
}
DEVICE u32 shuffle_xor_u32(u32 v, i32 mask) {
    return (u32)shuffle_bits((i32)v, (i32)lane_id() ^ mask);
}
DEVICE float exp2_fast(float x) {
    return __builtin_amdgcn_exp2f(x);
}
DEVICE float log2_fast(float x) {
    return __builtin_amdgcn_logf(x);
}
DEVICE float rcp_fast(float x) {
    return __builtin_amdgcn_rcpf(x);
}
DEVICE float rsqrt_fast(float x) {
    return __builtin_amdgcn_rsqf(x);
}
DEVICE float sqrt_exact(float x) {
    return __builtin_sqrtf(x);
}
#else
#define KERNEL(threads) extern "C" __attribute__((global)) __attribute__((launch_bounds(threads))) void
/* Registers are held down so that this many blocks fit on a multiprocessor (on AMD, where register files are larger,
 * the compiler's own choice). */
#define KERNEL_RESIDENT(threads, blocks)                                                                               \
    extern "C" __attribute__((global)) __attribute__((launch_bounds(threads, blocks))) void
#define WAVE 32
DEVICE u32 thread_x() {
    return (u32)__nvvm_read_ptx_sreg_tid_x();
}
DEVICE u32 block_x() {
    return (u32)__nvvm_read_ptx_sreg_ctaid_x();
}
DEVICE u32 block_y() {
    return (u32)__nvvm_read_ptx_sreg_ctaid_y();
}
DEVICE u32 block_z() {
    return (u32)__nvvm_read_ptx_sreg_ctaid_z();
}
DEVICE u32 lane_id() {
    return thread_x() & 31u;
}
DEVICE void barrier() {
    __syncthreads();
}
DEVICE void barrier_global() {
    __syncthreads();
}
DEVICE void keep_order() {}
DEVICE float shuffle_xor(float v, i32 mask) {
    return __builtin_bit_cast(float, __nvvm_shfl_sync_bfly_i32(~0u, __builtin_bit_cast(i32, v), mask, 31));
}
DEVICE u32 shuffle_xor_u32(u32 v, i32 mask) {
    return (u32)__nvvm_shfl_sync_bfly_i32(~0u, (i32)v, mask, 31);
}
DEVICE float exp2_fast(float x) {
    return __nvvm_ex2_approx_f(x);
}
DEVICE float log2_fast(float x) {
    return __nvvm_lg2_approx_f(x);
}
DEVICE float rcp_fast(float x) {
    return __nvvm_rcp_approx_ftz_f(x);
}
DEVICE float rsqrt_fast(float x) {
    return __nvvm_rsqrt_approx_f(x);
}
DEVICE float sqrt_exact(float x) {
    return __nvvm_sqrt_rn_f(x);
}
#endif

/* ---- arithmetic, the same on both ---- */

DEVICE float max_f(float a, float b) {
    return __builtin_fmaxf(a, b);
}
DEVICE float min_f(float a, float b) {
    return __builtin_fminf(a, b);
}
DEVICE float abs_f(float a) {
    return __builtin_fabsf(a);
}
DEVICE float fma_f(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
/* n / d for a divisor that the host has prepared. */
template <typename D> DEVICE u32 divide(u32 n, const D &d) {
    return ((u32)((u64)n * d.multiplier >> 32) + n) >> d.shift;
}
DEVICE u32 min_u(u32 a, u32 b) {
    return a < b ? a : b;
}

/* e^x to about one unit in the last place: x = n ln2 + r with |r| <= ln2/2, and a polynomial for e^r. The hardware's
 * exp2 alone is four times less exact, which small batch statistics then amplify. */
DEVICE float exp_f(float x) {
    x = max_f(min_f(x, 89.0f), -104.0f);
    const float n = __builtin_rintf(x * 1.44269504f);
    const float r = fma_f(n, -1.42860677e-6f, fma_f(n, -0.693145752f, x));
    float p = 1.38248e-3f;
    p = fma_f(p, r, 8.37157e-3f);
    p = fma_f(p, r, 4.166824e-2f);
    p = fma_f(p, r, 0.1666646f);
    p = fma_f(p, r, 0.49999993f);
    p = fma_f(p, r, 1.0f);
    p = fma_f(p, r, 1.0f);
    /* in two factors, so that results near the ends of the range are right too */
    const i32 half = (i32)n / 2, rest = (i32)n - half;
    return p * __builtin_bit_cast(float, (u32)(half + 127) << 23) * __builtin_bit_cast(float, (u32)(rest + 127) << 23);
}
DEVICE float log_f(float x) {
    return log2_fast(x) * 0.693147182f;
}
/* ln(1+x) for x >= 0, exact for small x. */
DEVICE float log1p_f(float x) {
    const float u = 1.0f + x;
    return u == 1.0f ? x : log_f(u) * x / (u - 1.0f);
}
DEVICE float sigmoid_f(float x) {
    return 1.0f / (1.0f + exp_f(-x));
}

/* Activation codes of graph.h. */
enum { GPU_ACT_NONE = 0, GPU_ACT_SILU, GPU_ACT_RELU, GPU_ACT_SIGMOID };
DEVICE float activate(float x, i32 act) {
    if (act == GPU_ACT_NONE) return x;
    if (act == GPU_ACT_RELU) return max_f(x, 0.0f);
    const float s = sigmoid_f(x); /* once: it is most of the code */
    return act == GPU_ACT_SILU ? x * s : s;
}
/* d act(x) / dx. */
DEVICE float activate_slope(float x, i32 act) {
    if (act == GPU_ACT_NONE) return 1.0f;
    if (act == GPU_ACT_RELU) return x > 0.0f ? 1.0f : 0.0f;
    const float s = sigmoid_f(x);
    return act == GPU_ACT_SILU ? s * (1.0f + x * (1.0f - s)) : s * (1.0f - s);
}

/* The same with the activation known to the compiler (-1: as `act` says), and for maps in half precision, whose results
 * are rounded to 11 bits, by the hardware's exponential and reciprocal: they are 1e-6 exact. */
template <typename T> DEVICE float sigmoid_as(float x) {
    if constexpr (sizeof(T) == 4) return sigmoid_f(x);
    return rcp_fast(1.0f + exp2_fast(x * -1.44269504f));
}
template <typename T, int ACT> DEVICE float activate_as(float x, i32 act) {
    if constexpr (ACT == GPU_ACT_NONE) return x;
    if constexpr (ACT == GPU_ACT_SILU) return x * sigmoid_as<T>(x);
    if (act == GPU_ACT_NONE) return x;
    if (act == GPU_ACT_RELU) return max_f(x, 0.0f);
    const float s = sigmoid_as<T>(x);
    return act == GPU_ACT_SILU ? x * s : s;
}
template <typename T, int ACT> DEVICE float activate_slope_as(float x, i32 act) {
    if constexpr (ACT == GPU_ACT_NONE) return 1.0f;
    if constexpr (ACT == GPU_ACT_SILU) {
        const float s = sigmoid_as<T>(x);
        return s * (1.0f + x * (1.0f - s));
    }
    return activate_slope(x, act);
}

/* ---- element types: kernels are templates over float, f16 and bf16 ---- */

DEVICE float bf16_bits_to_float(u16 b) {
    return __builtin_bit_cast(float, (u32)b << 16);
}
DEVICE float to_float(float x) {
    return x;
}
DEVICE float to_float(f16 x) {
    return (float)x;
}
DEVICE float to_float(bf16 x) {
    return bf16_bits_to_float(__builtin_bit_cast(u16, x));
}

/* Eight neighbouring elements: 16 bytes of a half type, 32 of float; `p` is 16-byte aligned. */
template <typename T> DEVICE void load8_half(const T *p, float v[8]) {
    const u32x4 b = *(const u32x4 *)p;
#pragma unroll
    for (i32 i = 0; i < 4; i++) {
        v[2 * i] = to_float(__builtin_bit_cast(T, (u16)(b[i] & 0xFFFFu)));
        v[2 * i + 1] = to_float(__builtin_bit_cast(T, (u16)(b[i] >> 16)));
    }
}
template <typename T> DEVICE void store8_half(T *p, const float v[8]) {
    u32x4 b;
#pragma unroll
    for (i32 i = 0; i < 4; i++)
        b[i] = (u32) __builtin_bit_cast(u16, (T)v[2 * i]) | (u32) __builtin_bit_cast(u16, (T)v[2 * i + 1]) << 16;
    *(u32x4 *)p = b;
}
DEVICE void load8(const f16 *p, float v[8]) {
    load8_half(p, v);
}
DEVICE void load8(const bf16 *p, float v[8]) {
    load8_half(p, v);
}
DEVICE void load8(const float *p, float v[8]) {
    const f32x4 a = *(const f32x4 *)p, b = *(const f32x4 *)(p + 4);
#pragma unroll
    for (i32 i = 0; i < 4; i++) {
        v[i] = a[i];
        v[4 + i] = b[i];
    }
}
DEVICE void store8(f16 *p, const float v[8]) {
    store8_half(p, v);
}
DEVICE void store8(bf16 *p, const float v[8]) {
    store8_half(p, v);
}
DEVICE void store8(float *p, const float v[8]) {
    f32x4 a, b;
#pragma unroll
    for (i32 i = 0; i < 4; i++) {
        a[i] = v[i];
        b[i] = v[4 + i];
    }
    *(f32x4 *)p = a;
    *(f32x4 *)(p + 4) = b;
}
DEVICE void load4(const float *p, float v[4]) {
    *(f32x4 *)v = *(const f32x4 *)p;
}
template <typename T> DEVICE void load4(const T *p, float v[4]) {
    const u32x2 b = *(const u32x2 *)p;
#pragma unroll
    for (i32 i = 0; i < 2; i++) {
        v[2 * i] = to_float(__builtin_bit_cast(T, (u16)(b[i] & 0xFFFFu)));
        v[2 * i + 1] = to_float(__builtin_bit_cast(T, (u16)(b[i] >> 16)));
    }
}
/* Four elements as they lie in memory: several are fetched before the first is worked on. */
template <typename T> struct packed4 {
    u32x2 b;
    DEVICE_MEMBER void fetch(const T *p) { b = *(const u32x2 *)p; }
    DEVICE_MEMBER void unpack(float v[4]) const {
#pragma unroll
        for (i32 i = 0; i < 4; i++) v[i] = to_float(__builtin_bit_cast(T, (u16)(b[i / 2] >> (i % 2 * 16) & 0xFFFFu)));
    }
};
template <> struct packed4<float> {
    f32x4 b;
    DEVICE_MEMBER void fetch(const float *p) { b = *(const f32x4 *)p; }
    DEVICE_MEMBER void unpack(float v[4]) const {
#pragma unroll
        for (i32 i = 0; i < 4; i++) v[i] = b[i];
    }
};
DEVICE void store4(float *p, const float v[4]) {
    *(f32x4 *)p = (f32x4){v[0], v[1], v[2], v[3]};
}
template <typename T> DEVICE void store4(T *p, const float v[4]) {
    u32x2 b;
#pragma unroll
    for (i32 i = 0; i < 2; i++)
        b[i] = (u32) __builtin_bit_cast(u16, (T)v[2 * i]) | (u32) __builtin_bit_cast(u16, (T)v[2 * i + 1]) << 16;
    *(u32x2 *)p = b;
}
DEVICE void zero4(float v[4]) {
#pragma unroll
    for (i32 i = 0; i < 4; i++) v[i] = 0.0f;
}
DEVICE void zero8(float v[8]) {
#pragma unroll
    for (i32 i = 0; i < 8; i++) v[i] = 0.0f;
}

/* Makes one kernel per element type from a template body: KERNEL_TYPES(256, name, (args_t a), (a)) defines name_f32, …
 */
#define KERNEL_TYPES(threads, name, body, args_t)                                                                      \
    KERNEL(threads) name##_f32(args_t a) {                                                                             \
        body<float>(a);                                                                                                \
    }                                                                                                                  \
    KERNEL(threads) name##_f16(args_t a) {                                                                             \
        body<f16>(a);                                                                                                  \
    }                                                                                                                  \
    KERNEL(threads) name##_bf16(args_t a) {                                                                            \
        body<bf16>(a);                                                                                                 \
    }

#define KERNEL_TYPES_RESIDENT(threads, blocks, name, body, args_t)                                                     \
    KERNEL_RESIDENT(threads, blocks) name##_f32(args_t a) {                                                            \
        body<float>(a);                                                                                                \
    }                                                                                                                  \
    KERNEL_RESIDENT(threads, blocks) name##_f16(args_t a) {                                                            \
        body<f16>(a);                                                                                                  \
    }                                                                                                                  \
    KERNEL_RESIDENT(threads, blocks) name##_bf16(args_t a) {                                                           \
        body<bf16>(a);                                                                                                 \
    }

/* ---- reductions ---- */

DEVICE float wave_sum(float v) {
#pragma unroll
    for (i32 m = WAVE / 2; m > 0; m >>= 1) v += shuffle_xor(v, m);
    return v;
}
DEVICE float wave_max(float v) {
#pragma unroll
    for (i32 m = WAVE / 2; m > 0; m >>= 1) v = max_f(v, shuffle_xor(v, m));
    return v;
}

#endif
