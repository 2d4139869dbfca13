#include "ops/newton_schulz.h"

#include "ops/vector_math.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define NS_STEPS 5
#define NS_LANES 16 /* floats of a vector; columns are padded to it with zeros */
#define NS_ROWS  4  /* rows of a tile; rows are padded to it with zeros */
static const float ns_a = 3.4445f, ns_b = -4.7750f, ns_c = 2.0315f;

typedef float vector __attribute__((vector_size(NS_LANES * sizeof(float))));

static inline float round_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u;
    bits = (bits & 0x7F800000u) == 0x7F800000u ? bits & 0xFFFF0000u : rounded; /* infinities and NaN keep their kind */
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* out (r,r) = factor * x xT + add_factor * add, rounded to bf16 once, for x (r,c), c a multiple of NS_LANES and r of
 * NS_ROWS, and symmetric `add` (NULL: none) laid out like `out`; one triangle is computed and mirrored. */
VECTOR_CLONES
static void symmetric_product(const float *restrict x, size_t r, size_t c, float factor, const float *add,
                              float add_factor, float *restrict out, size_t out_stride) {
    for (size_t i = 0; i < r; i += NS_ROWS)
        for (size_t j = i; j < r; j += NS_ROWS) {
            vector sum[NS_ROWS][NS_ROWS] = {{{0}}};
            for (size_t k = 0; k < c; k += NS_LANES) {
                vector a[NS_ROWS], b[NS_ROWS];
                for (size_t q = 0; q < NS_ROWS; q++) {
                    memcpy(&a[q], x + (i + q) * c + k, sizeof a[q]);
                    memcpy(&b[q], x + (j + q) * c + k, sizeof b[q]);
                }
                for (size_t p = 0; p < NS_ROWS; p++)
                    for (size_t q = 0; q < NS_ROWS; q++) sum[p][q] += a[p] * b[q];
            }
            for (size_t p = 0; p < NS_ROWS; p++)
                for (size_t q = 0; q < NS_ROWS; q++) {
                    float total = 0.0f;
                    for (size_t l = 0; l < NS_LANES; l++) total += sum[p][q][l];
                    const size_t at = (i + p) * out_stride + j + q;
                    total = add ? add_factor * add[at] + factor * total : total;
                    out[at] = out[(j + q) * out_stride + i + p] = round_bf16(total);
                }
        }
}

/* y (r,c) = 3.4445*x + b x for b (r,r) with row stride b_stride, rounded to bf16 once. */
VECTOR_CLONES
static void polynomial_product(const float *restrict b, size_t b_stride, const float *restrict x, size_t r, size_t c,
                               float *restrict y) {
    for (size_t j = 0; j < c; j += NS_LANES)
        for (size_t i = 0; i < r; i += NS_ROWS) {
            vector sum[NS_ROWS] = {{0}};
            for (size_t k = 0; k < r; k++) {
                vector row;
                memcpy(&row, x + k * c + j, sizeof row);
                for (size_t p = 0; p < NS_ROWS; p++) sum[p] += b[(i + p) * b_stride + k] * row;
            }
            for (size_t p = 0; p < NS_ROWS; p++)
                for (size_t l = 0; l < NS_LANES; l++) {
                    const size_t at = (i + p) * c + j + l;
                    y[at] = round_bf16(ns_a * x[at] + sum[p][l]);
                }
        }
}

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

typedef struct ns_sizes {
    size_t small, large; /* rows and columns after the transposition that puts the shorter side first */
    size_t r, c, s;      /* padded: rows, columns, row stride of the (r,r) products */
} ns_sizes;

static ns_sizes sizes_of(const ns_matrix *m) {
    ns_sizes z;
    z.small = (size_t)(m->rows < m->cols ? m->rows : m->cols);
    z.large = (size_t)(m->rows < m->cols ? m->cols : m->rows);
    z.r = round_up(z.small, NS_ROWS);
    z.c = round_up(z.large, NS_LANES);
    z.s = round_up(z.r, NS_LANES);
    return z;
}

static size_t floats_of(const ns_sizes *z) {
    return 2 * z->r * z->c + 2 * z->r * z->s;
}

size_t newton_schulz_scratch_bytes(const ns_matrix *m, int n, int n_threads) {
    size_t largest = 0;
    for (int i = 0; i < n; i++) {
        const ns_sizes z = sizes_of(&m[i]);
        const size_t floats = floats_of(&z);
        if (floats > largest) largest = floats;
    }
    return round_up(largest, NS_LANES) * sizeof(float) * (size_t)(n_threads > 0 ? n_threads : 1);
}

static void load_normalised(const ns_matrix *m, const ns_sizes *z, float *x) {
    const size_t rows = (size_t)m->rows, cols = (size_t)m->cols;
    const int transposed = m->rows > m->cols;
    double square = 0.0;
    for (size_t i = 0; i < rows * cols; i++) {
        const float g = round_bf16(m->u[i]);
        square += (double)g * (double)g;
    }
    const float norm = round_bf16(round_bf16((float)sqrt(square)) + 1e-7f);
    memset(x, 0, z->r * z->c * sizeof *x);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            x[transposed ? j * z->c + i : i * z->c + j] = round_bf16(round_bf16(m->u[i * cols + j]) / norm);
}

static void orthogonalise(const ns_matrix *m, float *scratch) {
    const ns_sizes z = sizes_of(m);
    float *x = scratch, *y = x + z.r * z.c, *a = y + z.r * z.c, *b = a + z.r * z.s;
    load_normalised(m, &z, x);
    memset(a, 0, 2 * z.r * z.s * sizeof *a); /* padding columns stay zero */
    for (int step = 0; step < NS_STEPS; step++) {
        symmetric_product(x, z.r, z.c, 1.0f, NULL, 0.0f, a, z.s);
        symmetric_product(a, z.r, z.s, ns_c, a, ns_b, b, z.s); /* A is symmetric: A A = A AT */
        polynomial_product(b, z.s, x, z.r, z.c, y);
        float *swap = x;
        x = y;
        y = swap;
    }
    const size_t rows = (size_t)m->rows, cols = (size_t)m->cols;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) m->o[i * cols + j] = m->rows > m->cols ? x[j * z.c + i] : x[i * z.c + j];
}

void newton_schulz(const ns_matrix *m, int n, void *scratch, int n_threads) {
    const size_t stride = newton_schulz_scratch_bytes(m, n, 1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads > 0 ? n_threads : 1)
    for (int i = 0; i < n; i++) {
#ifdef _OPENMP
        const size_t thread = (size_t)omp_get_thread_num();
#else
        const size_t thread = 0;
#endif
        orthogonalise(&m[i], (float *)(void *)((unsigned char *)scratch + thread * stride));
    }
}
