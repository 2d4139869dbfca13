#include "data/hsv.h"

#include "base/simd.h"

#include <math.h>
#include <stddef.h>

#define TAIL 32 /* pixels that the reference converts at a time */

void hsv_tables_init(hsv_tables *t, double rh, double rs, double rv) {
    for (int x = 0; x < 256; x++) {
        double h = fmod(x + rh * 180, 180.0);
        if (h < 0) h += 180.0;
        t->h[x] = (uint8_t)h;
        t->s[x] = (uint8_t)fmin(fmax(x * (rs + 1), 0.0), 255.0);
        t->v[x] = (uint8_t)fmin(fmax(x * (rv + 1), 0.0), 255.0);
    }
    t->s[0] = 0; /* grey stays grey */
}

/* Quotients 255*4096/v and 180*4096/(6*d) are rounded in float: right for all 255 divisors (a test walks them). A zero
 * divisor only meets a zero factor. */
SIMD_CLONES void hsv_from_bgr_row(const uint8_t *restrict b, const uint8_t *restrict g, const uint8_t *restrict r,
                                  int n, uint8_t *restrict h, uint8_t *restrict s, uint8_t *restrict v) {
    for (int i = 0; i < n; i++) {
        const int cb = b[i], cg = g[i], cr = r[i];
        const int most = cb > cg ? cb > cr ? cb : cr : cg > cr ? cg : cr;
        const int least = cb < cg ? cb < cr ? cb : cr : cg < cr ? cg : cr;
        const int d = most - least;
        const int by_v = (int)(1044480.0f / (float)(most > 0 ? most : 1) + 0.5f);
        const int by_d = (int)(122880.0f / (float)(d > 0 ? d : 1) + 0.5f);
        const int q = most == cr ? cg - cb : most == cg ? cb - cr + 2 * d : cr - cg + 4 * d;
        const int hue = (q * by_d + 2048) >> 12;
        h[i] = (uint8_t)(hue < 0 ? hue + 180 : hue);
        s[i] = (uint8_t)((d * by_v + 2048) >> 12);
        v[i] = (uint8_t)most;
    }
}

/* `bias` 0 truncates; for the tail 255*x is rounded to nearest even by adding and taking away 2^23. */
static inline __attribute__((always_inline)) void to_bgr(const uint8_t *restrict h, const uint8_t *restrict s,
                                                         const uint8_t *restrict v, int begin, int end, float bias,
                                                         uint8_t *restrict b, uint8_t *restrict g,
                                                         uint8_t *restrict r) {
    for (int i = begin; i < end; i++) {
        const float hue = (float)h[i] * (6.0f / 180.0f), saturation = (float)s[i] * (1.0f / 255.0f);
        const float value = (float)v[i] * (1.0f / 255.0f);
        const int sector = (int)hue;
        const float part = hue - (float)sector;
        const float p = value * (1.0f - saturation);
        const float e = sector & 1 ? value * (1.0f - saturation * part) : value * (1.0f - saturation * (1.0f - part));
        const float fb = sector < 2 ? p : sector == 3 || sector == 4 ? value : e;
        const float fg = sector > 3 ? p : sector == 1 || sector == 2 ? value : e;
        const float fr = sector == 2 || sector == 3 ? p : sector == 0 || sector == 5 ? value : e;
        b[i] = (uint8_t)(int)(fb * 255.0f + bias - bias);
        g[i] = (uint8_t)(int)(fg * 255.0f + bias - bias);
        r[i] = (uint8_t)(int)(fr * 255.0f + bias - bias);
    }
}

SIMD_CLONES static void row_to_bgr(const uint8_t *restrict h, const uint8_t *restrict s, const uint8_t *restrict v,
                                   int n, uint8_t *restrict b, uint8_t *restrict g, uint8_t *restrict r) {
    const int whole = n - n % TAIL;
    to_bgr(h, s, v, 0, whole, 0.0f, b, g, r);
    to_bgr(h, s, v, whole, n, 8388608.0f, b, g, r);
}

void hsv_jitter_row(const hsv_tables *t, uint8_t *b, uint8_t *g, uint8_t *r, int n, uint8_t *scratch) {
    uint8_t *h = scratch, *s = h + n, *v = s + n;
    hsv_from_bgr_row(b, g, r, n, h, s, v);
    for (int i = 0; i < n; i++) h[i] = t->h[h[i]];
    for (int i = 0; i < n; i++) s[i] = t->s[s[i]];
    for (int i = 0; i < n; i++) v[i] = t->v[v[i]];
    row_to_bgr(h, s, v, n, b, g, r);
}
