/* Matrix tiles of one thread block: C[BM][BN] += A[BM][BK] * B[BN][BK]^T with A and B in shared memory, k-contiguous
 * rows of ROW elements. Four bodies behind one interface: mma.sync (NVIDIA), MFMA (gfx908, gfx90a, gfx94x, gfx950),
 * WMMA (gfx11, gfx12), and plain multiply-adds for float and for cards without matrix units. Accumulation is always in
 * float. Fragment layouts: measured facts of gpu-dialect, "Matrix tiles". */
#ifndef KERNELS_TILE_H
#define KERNELS_TILE_H

#include "gpu.h"

#if defined(GPU_NVIDIA)
#define TILE_MMA 1
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) ||                      \
    defined(__gfx942__) || defined(__gfx950__)
#define TILE_MFMA 1
#elif defined(__GFX11__)
#define TILE_WMMA       1
#define TILE_WMMA_GFX11 1
#elif defined(__GFX12__)
#define TILE_WMMA       1
#define TILE_WMMA_GFX12 1
#else
#define TILE_PLAIN 1
#endif

/* Rows are padded by 16 bytes so that fragment reads do not fall on one bank; 16-byte alignment is kept. */
template <typename T, int BK> struct tile_row { static constexpr int value = BK + 16 / (int)sizeof(T); };

/* Eight elements of T on their way from global to shared memory. */
template <typename T> struct staged { u32x4 part[sizeof(T) / 2]; };
template <typename T> DEVICE staged<T> stage_load(const T *p, bool valid) {
    staged<T> s;
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) s.part[i] = valid ? ((const u32x4 *)p)[i] : (u32x4)0u;
    return s;
}
template <typename T> DEVICE void stage_store(T *p, const staged<T> &s) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) ((u32x4 *)p)[i] = s.part[i];
}

/* Copies that go to shared memory without passing registers, where a card has them: loads of coming steps stay under
 * way in numbers. An invalid piece becomes zeros; its address must be readable all the same. */
#if defined(GPU_NVIDIA)
#define TILE_ASYNC  1
#define TILE_STAGES 3
template <typename T> DEVICE void copy_async(T *to, const T *from, bool valid) {
    const u32 at = (u32)(u64)(__attribute__((address_space(3))) const void *)to, bytes = valid ? 16 : 0;
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(at + 16 * (u32)i), "l"((const char *)from + 16 * i), "r"(bytes)
                     : "memory");
}
DEVICE void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most LEFT of this thread's committed groups are under way. */
template <int LEFT> DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}
#else
#define TILE_STAGES 2
#endif

#if !defined(TILE_PLAIN)

#if defined(TILE_MMA)
template <typename T> struct fragment { u32 r[4]; };
#define TILE_ACC 8
#elif defined(TILE_MFMA)
template <typename T> struct fragment {
    typedef T vec __attribute__((ext_vector_type(4)));
    vec v;
};
#define TILE_ACC 4
#elif defined(TILE_WMMA_GFX11)
template <typename T> struct fragment {
    typedef T vec __attribute__((ext_vector_type(16)));
    vec v;
};
#define TILE_ACC 8
#else
template <typename T> struct fragment {
    typedef T vec __attribute__((ext_vector_type(8)));
    vec v;
};
#define TILE_ACC 8
#endif

/* Row and column, inside a 16x16 tile, of accumulator element i of this lane. */
DEVICE i32 acc_row(i32 lane, i32 i) {
#if defined(TILE_MMA)
    return lane / 4 + 8 * ((i / 2) % 2);
#elif defined(TILE_MFMA)
    return 4 * (lane / 16) + i;
#elif defined(TILE_WMMA_GFX11)
    return 2 * i + lane / 16;
#else
    return 8 * (lane / 16) + i;
#endif
}
DEVICE i32 acc_column(i32 lane, i32 i) {
#if defined(TILE_MMA)
    return 2 * (lane % 4) + i % 2 + 8 * (i / 4);
#else
    (void)i;
    return lane % 16;
#endif
}

#if defined(TILE_MMA)
DEVICE void ldmatrix(u32 r[4], const void *p) {
    const u32 at = (u32)(u64)(__attribute__((address_space(3))) const void *)p;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
DEVICE void ldmatrix_trans(u32 r[4], const void *p) {
    const u32 at = (u32)(u64)(__attribute__((address_space(3))) const void *)p;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
DEVICE void mma_16816(float *c, const u32 a[4], u32 b0, u32 b1, f16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void mma_16816(float *c, const u32 a[4], u32 b0, u32 b1, bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <typename T> DEVICE void load_a(fragment<T> &f, const T *rows, i32 row, i32 lane) {
    ldmatrix(f.r, rows + (lane % 16) * row + (lane / 16) * 8);
}
template <typename T> DEVICE void load_b(fragment<T> &f, const T *rows, i32 row, i32 lane) {
    ldmatrix(f.r, rows + (lane % 8 + (lane / 16) * 8) * row + ((lane / 8) % 2) * 8);
}
template <typename T> DEVICE void tile_mma(float *c, const fragment<T> &a, const fragment<T> &b) {
    mma_16816(c, a.r, b.r[0], b.r[1], (T)0);
    mma_16816(c + 4, a.r, b.r[2], b.r[3], (T)0);
}
#elif defined(TILE_MFMA)
typedef float acc4 __attribute__((ext_vector_type(4)));
template <typename T> DEVICE void load_a(fragment<T> &f, const T *rows, i32 row, i32 lane) {
    const u32x2 b = *(const u32x2 *)(rows + (lane % 16) * row + (lane / 16) * 4);
    f.v = __builtin_bit_cast(typename fragment<T>::vec, b);
}
template <typename T> DEVICE void load_b(fragment<T> &f, const T *rows, i32 row, i32 lane) {
    load_a(f, rows, row, lane);
}
DEVICE void tile_mma(float *c, const fragment<f16> &a, const fragment<f16> &b) {
    acc4 v = *(acc4 *)c;
    v = __builtin_amdgcn_mfma_f32_16x16x16f16(a.v, b.v, v, 0, 0, 0);
    *(acc4 *)c = v;
}
#if !defined(__gfx908__)
DEVICE void tile_mma(float *c, const fragment<bf16> &a, const fragment<bf16> &b) {
    typedef short s16x4 __attribute__((ext_vector_type(4)));
    acc4 v = *(acc4 *)c;
    v = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(s16x4, a.v), __builtin_bit_cast(s16x4, b.v), v, 0,
                                                  0, 0);
    *(acc4 *)c = v;
}
#else
/* gfx908 multiplies bf16 eight deep, two elements a lane; lane group g holds k 2g, 2g+1 of each half. */
DEVICE void tile_mma(float *c, const fragment<bf16> &a, const fragment<bf16> &b) {
    typedef short s16x2 __attribute__((ext_vector_type(2)));
    acc4 v = *(acc4 *)c;
    const u32x2 x = __builtin_bit_cast(u32x2, a.v), y = __builtin_bit_cast(u32x2, b.v);
    /* any pairing of k is a valid sum as long as A and B use the same */
    v = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(s16x2, x[0]), __builtin_bit_cast(s16x2, y[0]), v, 0, 0,
                                              0);
    v = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(s16x2, x[1]), __builtin_bit_cast(s16x2, y[1]), v, 0, 0,
                                              0);
    *(acc4 *)c = v;
}
#endif
#else /* WMMA */
typedef float acc8 __attribute__((ext_vector_type(8)));
template <typename T> DEVICE void load_a(fragment<T> &f, const T *rows, i32 row, i32 lane) {
#if defined(TILE_WMMA_GFX11)
    struct two {
        u32x4 low, high;
    } b;
    b.low = *(const u32x4 *)(rows + (lane % 16) * row);
    b.high = *(const u32x4 *)(rows + (lane % 16) * row + 8);
    f.v = __builtin_bit_cast(typename fragment<T>::vec, b);
#else
    const u32x4 b = *(const u32x4 *)(rows + (lane % 16) * row + (lane / 16) * 8);
    f.v = __builtin_bit_cast(typename fragment<T>::vec, b);
#endif
}
template <typename T> DEVICE void load_b(fragment<T> &f, const T *rows, i32 row, i32 lane) {
    load_a(f, rows, row, lane);
}
#if defined(TILE_WMMA_GFX11)
typedef short s16x16 __attribute__((ext_vector_type(16)));
DEVICE acc8 wmma(const fragment<f16> &a, const fragment<f16> &b, acc8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a.v, b.v, c);
}
DEVICE acc8 wmma(const fragment<bf16> &a, const fragment<bf16> &b, acc8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(s16x16, a.v), __builtin_bit_cast(s16x16, b.v),
                                                       c);
}
#else
typedef short s16x8 __attribute__((ext_vector_type(8)));
DEVICE acc8 wmma(const fragment<f16> &a, const fragment<f16> &b, acc8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a.v, b.v, c);
}
DEVICE acc8 wmma(const fragment<bf16> &a, const fragment<bf16> &b, acc8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(s16x8, a.v),
                                                             __builtin_bit_cast(s16x8, b.v), c);
}
#endif
template <typename T> DEVICE void tile_mma(float *c, const fragment<T> &a, const fragment<T> &b) {
    *(acc8 *)c = wmma(a, b, *(acc8 *)c);
}
#endif
#endif /* !TILE_PLAIN */

/* ---- operands that lie with the reduction as their slow index ---- */

/* A fragment of a 16 x 16 x 16 product from rows that are not side by side: row k of the reduction starts `at` elements
 * after `base`. A lane reads COLUMN_ROWS of the 16 rows; which ones, row_of_a and row_of_b say. */
#if defined(TILE_MMA)
#define COLUMN_ROWS 1
DEVICE i32 row_of_a(i32 lane, i32) {
    return lane % 8 + lane / 16 * 8;
}
DEVICE i32 row_of_b(i32 lane, i32) {
    return lane % 16;
}
template <typename T> DEVICE void load_columns_a(fragment<T> &f, const T *base, const i32 at[1], i32 lane) {
    ldmatrix_trans(f.r, base + at[0] + lane / 8 % 2 * 8);
}
template <typename T> DEVICE void load_columns_b(fragment<T> &f, const T *base, const i32 at[1], i32 lane) {
    ldmatrix_trans(f.r, base + at[0] + lane / 16 * 8);
}
#else
#if defined(TILE_MFMA)
#define COLUMN_ROWS 4
DEVICE i32 row_of_a(i32 lane, i32 i) {
    return lane / 16 * 4 + i;
}
#elif defined(TILE_WMMA_GFX12)
#define COLUMN_ROWS 8
DEVICE i32 row_of_a(i32 lane, i32 i) {
    return lane / 16 * 8 + i;
}
#else
#define COLUMN_ROWS 16
DEVICE i32 row_of_a(i32, i32 i) {
    return i;
}
#endif
DEVICE i32 row_of_b(i32 lane, i32 i) {
    return row_of_a(lane, i);
}
#if defined(TILE_PLAIN)
#define TILE_ACC (256 / WAVE)
DEVICE i32 acc_row(i32 lane, i32 i) {
    return lane / 16 * TILE_ACC + i;
}
DEVICE i32 acc_column(i32 lane, i32) {
    return lane % 16;
}
template <typename T> struct fragment { const T *row[16]; };
template <typename T> DEVICE void load_columns_a(fragment<T> &f, const T *base, const i32 at[16], i32) {
#pragma unroll
    for (int i = 0; i < 16; i++) f.row[i] = base + at[i];
}
template <typename T> DEVICE void tile_mma(float *c, const fragment<T> &a, const fragment<T> &b) {
    const i32 lane = (i32)lane_id();
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const float v = to_float(b.row[k][acc_column(lane, 0)]);
#pragma unroll
        for (int e = 0; e < TILE_ACC; e++) c[e] = fma_f(to_float(a.row[k][acc_row(lane, e)]), v, c[e]);
        keep_order();
    }
}
#else
template <typename T> DEVICE void load_columns_a(fragment<T> &f, const T *base, const i32 at[COLUMN_ROWS], i32 lane) {
#pragma unroll
    for (int i = 0; i < COLUMN_ROWS; i++) f.v[i] = base[at[i] + lane % 16];
}
#endif
template <typename T> DEVICE void load_columns_b(fragment<T> &f, const T *base, const i32 at[COLUMN_ROWS], i32 lane) {
    load_columns_a(f, base, at, lane);
}
#endif

/* The accumulators of a block of 256 threads. `each` visits this thread's elements as f(row, column, value&). */
template <typename T, int BM, int BN, int BK> struct block_plain {
    /* thread (ty, tx) of 16x16 owns rows ty + 16*i and columns tx + 16*j */
    static constexpr int RM = BM / 16, RN = BN / 16, ROW = tile_row<T, BK>::value;
    float c[RM][RN];
    i32 ty, tx;
    DEVICE_MEMBER void clear(u32 thread) {
        ty = (i32)(thread / 16);
        tx = (i32)(thread % 16);
#pragma unroll
        for (int i = 0; i < RM; i++)
#pragma unroll
            for (int j = 0; j < RN; j++) c[i][j] = 0.0f;
    }
    DEVICE_MEMBER void multiply(const T *a, const T *b) {
#pragma unroll 1
        for (int k = 0; k < BK; k += 4) {
            float x[RM][4], y[RN][4];
#pragma unroll
            for (int i = 0; i < RM; i++) load4(a + (ty + 16 * i) * ROW + k, x[i]);
#pragma unroll
            for (int j = 0; j < RN; j++) load4(b + (tx + 16 * j) * ROW + k, y[j]);
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int i = 0; i < RM; i++)
#pragma unroll
                    for (int j = 0; j < RN; j++) c[i][j] = fma_f(x[i][q], y[j][q], c[i][j]);
        }
    }
    template <typename F> DEVICE_MEMBER void each(F f) {
#pragma unroll
        for (int i = 0; i < RM; i++)
#pragma unroll
            for (int j = 0; j < RN; j++) f(ty + 16 * i, tx + 16 * j, c[i][j]);
    }
};

#if !defined(TILE_PLAIN)
template <typename T, int BM, int BN, int BK> struct block_matrix {
    static constexpr int WAVES = 256 / WAVE, WN_WISH = BN % 32 == 0 ? 2 : 1;
    static constexpr int WM = WAVES / WN_WISH < BM / 16 ? WAVES / WN_WISH : BM / 16,
                         WN = WAVES / WM; /* waves down and across */
    static constexpr int ROW = tile_row<T, BK>::value;
    static constexpr int TM = BM / 16 / WM, TN = BN / 16 / WN; /* 16x16 tiles a wave */
    static_assert(TM >= 1 && TN >= 1, "the block is too small for its waves");
    __attribute__((aligned(16))) float c[TM][TN][TILE_ACC];
    i32 m0, n0, lane;
    DEVICE_MEMBER void clear(u32 thread) {
        const i32 wave = (i32)(thread / WAVE);
        lane = (i32)(thread % WAVE);
        m0 = (wave / WN) * TM * 16;
        n0 = (wave % WN) * TN * 16;
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int e = 0; e < TILE_ACC; e++) c[i][j][e] = 0.0f;
    }
    DEVICE_MEMBER void multiply(const T *a, const T *b) {
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            fragment<T> x[TM], y[TN];
#pragma unroll
            for (int i = 0; i < TM; i++) load_a(x[i], a + (m0 + 16 * i) * ROW + k, ROW, lane);
#pragma unroll
            for (int j = 0; j < TN; j++) load_b(y[j], b + (n0 + 16 * j) * ROW + k, ROW, lane);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) tile_mma(c[i][j], x[i], y[j]);
        }
    }
    template <typename F> DEVICE_MEMBER void each(F f) {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int e = 0; e < TILE_ACC; e++)
                    f(m0 + 16 * i + acc_row(lane, e), n0 + 16 * j + acc_column(lane, e), c[i][j][e]);
    }
};
template <typename T, int BM, int BN, int BK> struct block_choice { typedef block_matrix<T, BM, BN, BK> type; };
#else
template <typename T, int BM, int BN, int BK> struct block_choice { typedef block_plain<T, BM, BN, BK> type; };
#endif
template <int BM, int BN, int BK> struct block_choice<float, BM, BN, BK> {
    typedef block_plain<float, BM, BN, BK> type;
};

/* One operand: loads a [ROWS][BK] tile, transposing when COLUMNS, and deposits it k-contiguous. */
template <typename T, int ROWS, int BK, bool COLUMNS> struct gemm_operand {
    static constexpr int ROW = tile_row<T, BK>::value, PAIR = sizeof(T) == 4 ? 1 : 2;
    static constexpr int ITEMS = COLUMNS ? ROWS / 8 * (BK / PAIR) : ROWS * (BK / 8), ROUNDS = (ITEMS + 255) / 256;
    staged<T> s[ROUNDS][COLUMNS ? PAIR : 1];

    DEVICE_MEMBER void fetch(const T *p, i32 ld, i32 row0, i32 rows, i32 k0, i32 k_total) {
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            const i32 item = (i32)thread_x() + 256 * i;
            if constexpr (COLUMNS) {
                const i32 r = row0 + item / (BK / PAIR) * 8, k = k0 + item % (BK / PAIR) * PAIR;
                const bool in = item < ITEMS && r < rows;
                s[i][0] = stage_load(p + (in && k < k_total ? (i64)k * ld + r : 0), in && k < k_total);
                if constexpr (PAIR == 2)
                    s[i][1] =
                        stage_load(p + (in && k + 1 < k_total ? (i64)(k + 1) * ld + r : 0), in && k + 1 < k_total);
            } else {
                const i32 r = row0 + item / (BK / 8), k = k0 + item % (BK / 8) * 8;
                const bool in = item < ITEMS && r < rows && k < k_total;
                s[i][0] = stage_load(p + (in ? (i64)r * ld + k : 0), in);
            }
        }
    }
    DEVICE_MEMBER void deposit(T *tile) {
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            const i32 item = (i32)thread_x() + 256 * i;
            if (ITEMS % 256 != 0 && item >= ITEMS) continue;
            if constexpr (!COLUMNS) {
                stage_store(tile + item / (BK / 8) * ROW + item % (BK / 8) * 8, s[i][0]);
            } else {
                T *to = tile + item / (BK / PAIR) * 8 * ROW + item % (BK / PAIR) * PAIR;
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    if constexpr (PAIR == 1) {
                        *(u32 *)(to + e * ROW) = s[i][0].part[e / 4][e % 4];
                    } else {
                        const u32 low = s[i][0].part[0][e / 2], high = s[i][PAIR - 1].part[0][e / 2];
                        *(u32 *)(to + e * ROW) =
                            e % 2 == 0 ? (low & 0xFFFFu) | high << 16 : low >> 16 | (high & 0xFFFF0000u);
                    }
                }
            }
        }
    }
};

#endif
