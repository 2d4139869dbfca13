#include "data/gather.h"

#include "base/simd.h"
#include "data/affine.h"

#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SLACK 16 /* elements that vector code may touch beyond a row */

void gather_reset(gather *g, int channels, int out_height, int out_width) {
    g->n_tiles = 0;
    g->channels = channels;
    g->out_height = out_height;
    g->out_width = out_width;
}

void gather_add(gather *g, const gather_tile *tile) {
    if (tile->x2 > tile->x1 && tile->y2 > tile->y1) g->tiles[g->n_tiles++] = *tile;
}

void gather_deinit(ol_context *ctx, gather *g) {
    mem_free_aligned(ctx, g->memory);
    *g = (gather){0};
}

static void find_hull(gather *g) {
    g->x1 = g->y1 = g->x2 = g->y2 = 0;
    for (int i = 0; i < g->n_tiles; i++) {
        const gather_tile *t = &g->tiles[i];
        if (i == 0 || t->x1 < g->x1) g->x1 = t->x1;
        if (i == 0 || t->y1 < g->y1) g->y1 = t->y1;
        if (i == 0 || t->x2 > g->x2) g->x2 = t->x2;
        if (i == 0 || t->y2 > g->y2) g->y2 = t->y2;
    }
}

/* Floor and fraction, with whole positions more than one pixel outside [low, high) brought to where both taps are pad.
 */
static int32_t split(double position, int low, int high, float *part) {
    *part = 0.0f;
    if (!(position >= low - 1)) return low - 2; /* also for NaN */
    if (position >= high) return high;
    const double whole = floor(position);
    *part = (float)(position - whole);
    return (int32_t)whole;
}

static void find_columns(gather *g) {
    int low = g->x2 + 1, high = g->x1 - 2;
    for (int x = 0; x < g->out_width; x++) {
        const int32_t at = split(g->inverse[0] * x + g->inverse[2], g->x1, g->x2, &g->part_x[x]);
        g->at_x[x] = at;
        if (at < low) low = at;
        if (at > high) high = at;
    }
    g->line_x1 = low;
    g->n_line = high + 2 - low;
    for (int x = 0; x < g->out_width; x++) g->at_x[x] -= low; /* from here on: positions in the line */
}

ol_status gather_begin(ol_context *ctx, gather *g, const float m[9], bool perspective) {
    affine_invert(m, g->inverse);
    g->perspective = perspective;
    g->separable = !perspective && m[1] == 0.0f && m[3] == 0.0f;
    find_hull(g);
    const size_t width = (size_t)g->out_width + SLACK, c = (size_t)g->channels;
    const size_t line = ((size_t)(g->x2 - g->x1) + 4) * c + SLACK;
    const size_t needed = width * (2 * sizeof(int32_t) + 2 * sizeof(float)) + line * (sizeof(float) + 2) + 64;
    if (needed > g->memory_bytes) {
        void *grown = mem_alloc_aligned(ctx, needed, 1);
        if (grown == NULL) return OL_ERROR_MEMORY;
        mem_free_aligned(ctx, g->memory);
        g->memory = grown;
        g->memory_bytes = needed;
    }
    g->at_x = g->memory;
    g->at_y = g->at_x + width;
    g->part_x = (float *)(g->at_y + width);
    g->part_y = g->part_x + width;
    g->line = g->part_y + width;
    g->rows[0] = (uint8_t *)(g->line + line);
    g->rows[1] = g->rows[0] + line;
    if (g->separable) find_columns(g);
    return OL_OK;
}

/* Row y of the plane between line_x1 and line_x1 + n_line. False when it is pad from end to end. */
static bool compose_row(const gather *g, int y, uint8_t *row) {
    const size_t c = (size_t)g->channels;
    const int end = g->line_x1 + g->n_line;
    bool any = false;
    memset(row, GATHER_PAD, (size_t)g->n_line * c);
    for (int i = 0; i < g->n_tiles; i++) {
        const gather_tile *t = &g->tiles[i];
        const int x1 = t->x1 > g->line_x1 ? t->x1 : g->line_x1, x2 = t->x2 < end ? t->x2 : end;
        if (y < t->y1 || y >= t->y2 || x1 >= x2) continue;
        memcpy(row + (size_t)(x1 - g->line_x1) * c,
               t->pixels + (size_t)(y - t->y1) * t->row_bytes + (size_t)(x1 - t->x1) * c, (size_t)(x2 - x1) * c);
        any = true;
    }
    return any;
}

SIMD_CLONES static void mix_rows(const uint8_t *restrict a, const uint8_t *restrict b, float part, int n,
                                 float *restrict out) {
    for (int i = 0; i < n; i++) out[i] = (float)a[i] + ((float)b[i] - (float)a[i]) * part;
}

static uint8_t rounded(float x) {
    return (uint8_t)(int)(x + 8388608.0f - 8388608.0f); /* to nearest even; 0 <= x <= 255 */
}

/* Pictures have one channel or three. */
static int n_planes(const gather *g) {
    return g->channels == 1 ? 1 : 3;
}

static void columns_plain(const gather *g, int begin, uint8_t *planes[3]) {
    const int c = n_planes(g);
    for (int x = begin; x < g->out_width; x++) {
        const float *p = g->line + g->at_x[x] * c;
        for (int k = 0; k < c; k++) planes[k][x] = rounded(p[k] + (p[k + c] - p[k]) * g->part_x[x]);
    }
}

#if defined(__SSE2__)
static __m128 column_bgr(const gather *g, int x) {
    const float *p = g->line + g->at_x[x] * 3;
    const __m128 a = _mm_loadu_ps(p), b = _mm_loadu_ps(p + 3);
    return _mm_add_ps(a, _mm_mul_ps(_mm_sub_ps(b, a), _mm_set1_ps(g->part_x[x])));
}

static void store4(uint8_t *to, __m128 x) {
    const __m128i words = _mm_packs_epi32(_mm_cvtps_epi32(x), _mm_setzero_si128());
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(to, &bytes, 4);
}

/* Four pixels at a time: their B,G,R lanes turned into planes. Reads one float beyond the line. */
static void columns_bgr(const gather *g, uint8_t *planes[3]) {
    int x = 0;
    for (; x + 4 <= g->out_width; x += 4) {
        __m128 p0 = column_bgr(g, x), p1 = column_bgr(g, x + 1), p2 = column_bgr(g, x + 2), p3 = column_bgr(g, x + 3);
        _MM_TRANSPOSE4_PS(p0, p1, p2, p3);
        store4(planes[0] + x, p0);
        store4(planes[1] + x, p1);
        store4(planes[2] + x, p2);
    }
    columns_plain(g, x, planes);
}
#endif

static void row_separable(gather *g, int y, uint8_t *planes[3]) {
    float part;
    const int32_t at = split(g->inverse[4] * y + g->inverse[5], g->y1, g->y2, &part);
    const bool upper = compose_row(g, at, g->rows[0]), lower = compose_row(g, at + 1, g->rows[1]);
    if (!upper && !lower) {
        for (int k = 0; k < n_planes(g); k++) memset(planes[k], GATHER_PAD, (size_t)g->out_width);
        return;
    }
    mix_rows(g->rows[0], g->rows[1], part, g->n_line * g->channels, g->line);
#if defined(__SSE2__)
    if (g->channels == 3) {
        columns_bgr(g, planes);
        return;
    }
#endif
    columns_plain(g, 0, planes);
}

SIMD_CLONES static void find_points(const double *restrict inverse, bool perspective, int y, int n, const int hull[4],
                                    int32_t *restrict at_x, float *restrict part_x, int32_t *restrict at_y,
                                    float *restrict part_y) {
    const double low_x = hull[0] - 2, high_x = hull[2] + 1, low_y = hull[1] - 2, high_y = hull[3] + 1;
    for (int x = 0; x < n; x++) {
        double px = inverse[0] * x + (inverse[1] * y + inverse[2]);
        double py = inverse[3] * x + (inverse[4] * y + inverse[5]);
        if (perspective) {
            const double w = inverse[6] * x + (inverse[7] * y + inverse[8]);
            px = w != 0.0 ? px / w : low_x;
            py = w != 0.0 ? py / w : low_y;
        }
        px = px > low_x ? px < high_x ? px : high_x : low_x; /* beyond the hull all is pad; keeps the cast defined */
        py = py > low_y ? py < high_y ? py : high_y : low_y;
        const int32_t ix = (int32_t)(px - low_x), iy = (int32_t)(py - low_y);
        part_x[x] = (float)(px - low_x - ix);
        part_y[x] = (float)(py - low_y - iy);
        at_x[x] = ix + hull[0] - 2;
        at_y[x] = iy + hull[1] - 2;
    }
}

static const uint8_t pad_pixel[3] = {GATHER_PAD, GATHER_PAD, GATHER_PAD};

static const uint8_t *pixel_at(const gather *g, int x, int y) {
    for (int i = 0; i < g->n_tiles; i++) {
        const gather_tile *t = &g->tiles[i];
        if (x >= t->x1 && x < t->x2 && y >= t->y1 && y < t->y2)
            return t->pixels + (size_t)(y - t->y1) * t->row_bytes + (size_t)(x - t->x1) * (size_t)g->channels;
    }
    return pad_pixel;
}

static void point_general(const gather *g, int x, uint8_t *planes[3]) {
    const int n = n_planes(g), at_x = g->at_x[x], at_y = g->at_y[x];
    const float fx = g->part_x[x], fy = g->part_y[x];
    const uint8_t *a = pixel_at(g, at_x, at_y), *b = pixel_at(g, at_x + 1, at_y);
    const uint8_t *c = pixel_at(g, at_x, at_y + 1), *d = pixel_at(g, at_x + 1, at_y + 1);
    for (int k = 0; k < n; k++) {
        const float left = (float)a[k] + ((float)c[k] - (float)a[k]) * fy;
        const float right = (float)b[k] + ((float)d[k] - (float)b[k]) * fy;
        planes[k][x] = rounded(left + (right - left) * fx);
    }
}

#if defined(__SSE2__)
/* Four bytes as floats; the fourth does not count. */
static __m128 load_pixel(const uint8_t *p) {
    int32_t bytes;
    memcpy(&bytes, p, 4);
    const __m128i zero = _mm_setzero_si128();
    return _mm_cvtepi32_ps(_mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), zero), zero));
}

/* All four neighbours in one tile, and a fourth byte to read after each. */
static void point_inside(const uint8_t *p, size_t row_bytes, float fx, float fy, uint8_t *planes[3], int x) {
    const __m128 a = load_pixel(p), b = load_pixel(p + 3), c = load_pixel(p + row_bytes);
    const __m128 d = load_pixel(p + row_bytes + 3), wy = _mm_set1_ps(fy);
    const __m128 left = _mm_add_ps(a, _mm_mul_ps(_mm_sub_ps(c, a), wy));
    const __m128 right = _mm_add_ps(b, _mm_mul_ps(_mm_sub_ps(d, b), wy));
    const __m128 mixed = _mm_add_ps(left, _mm_mul_ps(_mm_sub_ps(right, left), _mm_set1_ps(fx)));
    const __m128i words = _mm_packs_epi32(_mm_cvtps_epi32(mixed), _mm_setzero_si128());
    const uint32_t bytes = (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    planes[0][x] = (uint8_t)bytes;
    planes[1][x] = (uint8_t)(bytes >> 8);
    planes[2][x] = (uint8_t)(bytes >> 16);
}
#endif

static void row_general(gather *g, int y, uint8_t *planes[3]) {
    const int hull[4] = {g->x1, g->y1, g->x2, g->y2};
    find_points(g->inverse, g->perspective, y, g->out_width, hull, g->at_x, g->part_x, g->at_y, g->part_y);
    const gather_tile *t = g->tiles;
    for (int x = 0; x < g->out_width; x++) {
#if defined(__SSE2__)
        const int px = g->at_x[x], py = g->at_y[x];
        if (g->channels == 3 && g->n_tiles > 0) {
            for (int i = 0; i < g->n_tiles; i++) { /* usually the tile of the pixel before */
                if (px >= t->x1 && px + 2 < t->x2 && py >= t->y1 && py + 1 < t->y2) break;
                t = t + 1 < g->tiles + g->n_tiles ? t + 1 : g->tiles;
            }
            if (px >= t->x1 && px + 2 < t->x2 && py >= t->y1 && py + 1 < t->y2) {
                point_inside(t->pixels + (size_t)(py - t->y1) * t->row_bytes + (size_t)(px - t->x1) * 3, t->row_bytes,
                             g->part_x[x], g->part_y[x], planes, x);
                continue;
            }
        }
#endif
        point_general(g, x, planes);
    }
}

void gather_row(gather *g, int y, uint8_t *b, uint8_t *green, uint8_t *r) {
    uint8_t *planes[3] = {b, green, r};
    if (g->separable)
        row_separable(g, y, planes);
    else
        row_general(g, y, planes);
}
