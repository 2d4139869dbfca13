#include "data/resize.h"

#include "base/simd.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ONE       2048 /* weights have 11 fractional bits */
#define LANES     4    /* an intermediate pixel: B,G,R and one idle lane, or grey and three */
#define ROW_SLACK 16   /* bytes that the wide kernels may read or write beyond a row */

/* One output column or row: the first of its two sources and their weights. */
typedef struct tap {
    int32_t at;
    int16_t w0, w1;
} tap;

/* Source rows scaled horizontally, kept while the next output rows still need them. */
typedef struct resizer {
    const image *src;
    image *out;
    tap *columns;     /* (out width) */
    int16_t *line[2]; /* (out width, LANES), values shifted right by 4 */
    int held[2];      /* the source row behind each line, -1: none */
    uint8_t *edge;    /* a padded copy of the row at hand where reading beyond its end would leave the picture */
    uint8_t *packed;  /* (out width * 3 + slack) */
} resizer;

static tap tap_at(int d, int n_src, int n_out, bool clamp_weight) {
    const float f = (float)((d + 0.5) * ((double)n_src / n_out) - 0.5);
    int s = (int)floorf(f);
    float part = f - (float)s;
    if (clamp_weight && s < 0) s = 0, part = 0.0f;
    if (clamp_weight && s >= n_src - 1) s = n_src - 1, part = 0.0f;
    return (tap){s, (int16_t)lrintf((1.0f - part) * ONE), (int16_t)lrintf(part * ONE)};
}

static int clamp(int x, int low, int high) {
    return x < low ? low : x > high ? high : x;
}

static void columns_plain(const uint8_t *row, const tap *t, int n, int channels, int16_t *line) {
    for (int x = 0; x < n; x++, line += LANES) {
        const uint8_t *a = row + (size_t)t[x].at * (size_t)channels;
        for (int k = 0; k < channels; k++) line[k] = (int16_t)((a[k] * t[x].w0 + a[k + channels] * t[x].w1) >> 4);
    }
}

/* ((c0*a)>>16) + ((c1*b)>>16) + 2 >> 2: at most 255 because weights sum to 2048. */
SIMD_CLONES static void rows_plain(const int16_t *a, const int16_t *b, int c0, int c1, int n, uint8_t *to) {
    for (int i = 0; i < n; i++) {
        const int x = ((c0 * a[i] >> 16) + (c1 * b[i] >> 16) + 2) >> 2;
        to[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
}

#if defined(__x86_64__)
/* Reads 8 bytes a pixel, of which 6 count. */
__attribute__((target("avx2"))) static void columns_bgr_avx2(const uint8_t *row, const tap *t, int n, int16_t *line) {
    const __m128i pairs = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    for (int x = 0; x < n; x++, line += LANES) {
        int32_t weights;
        memcpy(&weights, &t[x].w0, 4);
        const __m128i taps = _mm_loadl_epi64((const __m128i *)(const void *)(row + (size_t)t[x].at * 3));
        const __m128i sums = _mm_madd_epi16(_mm_shuffle_epi8(taps, pairs), _mm_set1_epi32(weights));
        const __m128i shifted = _mm_srai_epi32(sums, 4);
        _mm_storel_epi64((__m128i *)(void *)line, _mm_packs_epi32(shifted, shifted));
    }
}

/* n pixels; writes up to 8 bytes beyond 3*n. */
__attribute__((target("avx2"))) static void rows_bgr_avx2(const int16_t *a, const int16_t *b, int c0, int c1, int n,
                                                          uint8_t *to) {
    const __m128i drop = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m256i w0 = _mm256_set1_epi16((int16_t)c0), w1 = _mm256_set1_epi16((int16_t)c1), two = _mm256_set1_epi16(2);
    for (int x = 0; x < n; x += 4, a += 4 * LANES, b += 4 * LANES, to += 12) {
        const __m256i p = _mm256_mulhi_epi16(_mm256_loadu_si256((const __m256i *)(const void *)a), w0);
        const __m256i q = _mm256_mulhi_epi16(_mm256_loadu_si256((const __m256i *)(const void *)b), w1);
        const __m256i sum = _mm256_srai_epi16(_mm256_add_epi16(_mm256_add_epi16(p, q), two), 2);
        const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_storeu_si128((__m128i *)(void *)to, _mm_shuffle_epi8(bytes, drop));
    }
}

static bool wide_kernels(void) {
    return __builtin_cpu_supports("avx2");
}
#else
static bool wide_kernels(void) {
    return false;
}
#endif

/* The line of source row y, computed unless it is already there; never evicts row `keep`. */
static const int16_t *line_of(resizer *r, int y, int keep) {
    for (int i = 0; i < 2; i++)
        if (r->held[i] == y) return r->line[i];
    const int slot = r->held[0] == keep ? 1 : 0;
    const image *src = r->src;
    const size_t row_bytes = (size_t)src->width * (size_t)src->channels;
    const uint8_t *row = src->pixels + row_bytes * (size_t)y;
    if (y == src->height - 1 || src->width == 1) {
        memcpy(r->edge, row, row_bytes);
        row = r->edge;
    }
#if defined(__x86_64__)
    if (src->channels == 3 && wide_kernels())
        columns_bgr_avx2(row, r->columns, r->out->width, r->line[slot]);
    else
#endif
        columns_plain(row, r->columns, r->out->width, src->channels, r->line[slot]);
    r->held[slot] = y;
    return r->line[slot];
}

static void write_row(resizer *r, const int16_t *a, const int16_t *b, const tap *t, int y) {
    const int width = r->out->width, channels = r->out->channels;
    const size_t row_bytes = (size_t)width * (size_t)channels;
    uint8_t *to = r->out->pixels + row_bytes * (size_t)y;
#if defined(__x86_64__)
    if (channels == 3 && wide_kernels()) {
        rows_bgr_avx2(a, b, t->w0, t->w1, width, r->packed);
        memcpy(to, r->packed, row_bytes);
        return;
    }
#endif
    rows_plain(a, b, t->w0, t->w1, width * LANES, r->packed);
    for (int x = 0; x < width; x++) memcpy(to + x * channels, r->packed + x * LANES, (size_t)channels);
}

static void run(resizer *r) {
    const int n_src = r->src->height;
    for (int x = 0; x < r->out->width; x++) {
        tap t = tap_at(x, r->src->width, r->out->width, true);
        if (t.at == r->src->width - 1 && t.at > 0) t = (tap){t.at - 1, 0, ONE}; /* its right neighbour is outside */
        r->columns[x] = t;
    }
    for (int y = 0; y < r->out->height; y++) {
        const tap t = tap_at(y, n_src, r->out->height, false);
        const int y0 = clamp(t.at, 0, n_src - 1), y1 = clamp(t.at + 1, 0, n_src - 1);
        const int16_t *a = line_of(r, y0, y1), *b = line_of(r, y1, y0);
        write_row(r, a, b, &t, y);
    }
}

ol_status resize_bilinear(ol_context *ctx, const image *src, int height, int width, image *out) {
    ol_status status = image_reserve(ctx, out, height, width, src->channels);
    if (status != OL_OK) return status;
    if (height == src->height && width == src->width) {
        memcpy(out->pixels, src->pixels, image_bytes(src));
        return OL_OK;
    }
    const size_t line_bytes = ((size_t)width * LANES + ROW_SLACK) * sizeof(int16_t);
    const size_t edge_bytes = (size_t)src->width * (size_t)src->channels + ROW_SLACK;
    uint8_t *scratch = mem_alloc0(
        ctx, (size_t)width * sizeof(tap) + 2 * line_bytes + edge_bytes + (size_t)width * LANES + ROW_SLACK, 1);
    if (scratch == NULL) return OL_ERROR_MEMORY;
    resizer r = {.src = src, .out = out, .held = {-1, -1}};
    r.columns = (tap *)(void *)scratch;
    r.line[0] = (int16_t *)(void *)(scratch + (size_t)width * sizeof(tap));
    r.line[1] = r.line[0] + line_bytes / sizeof(int16_t);
    r.packed = (uint8_t *)(r.line[1] + line_bytes / sizeof(int16_t));
    r.edge = r.packed + (size_t)width * LANES + ROW_SLACK;
    run(&r);
    mem_free(ctx, scratch);
    return OL_OK;
}

void resize_long_side_size(int height, int width, int imgsz, int *out_height, int *out_width) {
    const double r = (double)imgsz / (height > width ? height : width);
    const int h = (int)fmin(ceil(height * r), imgsz), w = (int)fmin(ceil(width * r), imgsz);
    const bool same = imgsz == (height > width ? height : width);
    *out_height = same ? height : h > 1 ? h : 1;
    *out_width = same ? width : w > 1 ? w : 1;
}

ol_status resize_long_side(ol_context *ctx, const image *src, int imgsz, image *out) {
    int height, width;
    resize_long_side_size(src->height, src->width, imgsz, &height, &width);
    return resize_bilinear(ctx, src, height, width, out);
}

void planes_from_image(const image *src, bool keep_bgr, uint8_t *planes) {
    const size_t n = (size_t)src->height * (size_t)src->width;
    if (src->channels == 1) {
        memcpy(planes, src->pixels, n);
        return;
    }
    uint8_t *b = keep_bgr ? planes : planes + 2 * n, *g = planes + n, *r = keep_bgr ? planes + 2 * n : planes;
    const uint8_t *p = src->pixels;
    for (size_t i = 0; i < n; i++, p += 3) {
        b[i] = p[0];
        g[i] = p[1];
        r[i] = p[2];
    }
}
