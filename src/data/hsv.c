#include "data/hsv.h"

#include "base/simd.h"

#include <math.h>

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

/* Eight pixels at a time in the compilers' own vectors: the selections below defeat automatic vectorisation. Samples
 * are held as 32-bit integers, because compilers take the conversion of short byte vectors apart. */
typedef int32_t ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef float floats __attribute__((vector_size(32)));

#define LANES               8
#define SELECT(mask, a, b)  (((a) & (mask)) | ((b) & ~(mask)))
#define FSELECT(mask, a, b) ((floats)SELECT(mask, (ints)(a), (ints)(b)))
#define TO_FLOATS(x)        __builtin_convertvector(x, floats)
#define TO_INTS(x)          __builtin_convertvector(x, ints)

/* Quotients 255*4096/v and 180*4096/(6*d) are rounded in float: right for all 255 divisors (a test walks them). A zero
 * divisor counts as one: it only meets a zero factor. */
SIMD_CLONES void hsv_from_bgr(int32_t *b_to_h, int32_t *g_to_s, int32_t *r_to_v, int n) {
    for (int i = 0; i < n; i += LANES) {
        ints *h = (ints *)(b_to_h + i), *s = (ints *)(g_to_s + i), *v = (ints *)(r_to_v + i);
        const ints cb = *h, cg = *s, cr = *v;
        ints most = SELECT(cb > cg, cb, cg), least = SELECT(cb < cg, cb, cg);
        most = SELECT(most > cr, most, cr);
        least = SELECT(least < cr, least, cr);
        const ints d = most - least, one = (ints){0} + 1;
        const ints by_v = TO_INTS(1044480.0f / TO_FLOATS(SELECT(most > 1, most, one)) + 0.5f);
        const ints by_d = TO_INTS(122880.0f / TO_FLOATS(SELECT(d > 1, d, one)) + 0.5f);
        ints q = SELECT(most == cg, cb - cr + 2 * d, cr - cg + 4 * d);
        q = SELECT(most == cr, cg - cb, q);
        const ints hue = (q * by_d + 2048) >> 12;
        *h = hue + ((hue < 0) & 180);
        *s = (d * by_v + 2048) >> 12;
        *v = most;
    }
}

/* Of b, g, r one is the value, one is p and the third is q or t, by the sector of the hue. From `rounded_from` on (a
 * multiple of 32) results are rounded to nearest even, by adding and taking away 2^23, and not truncated. */
SIMD_CLONES static void to_bgr(int32_t *h_to_b, int32_t *s_to_g, int32_t *v_to_r, int n, int rounded_from) {
    for (int i = 0; i < n; i += LANES) {
        ints *b = (ints *)(h_to_b + i), *g = (ints *)(s_to_g + i), *r = (ints *)(v_to_r + i);
        const float bias = i < rounded_from ? 0.0f : 8388608.0f;
        const floats hue = TO_FLOATS(*b) * (6.0f / 180.0f), saturation = TO_FLOATS(*g) * (1.0f / 255.0f);
        const floats value = TO_FLOATS(*r) * (1.0f / 255.0f);
        const ints sector = TO_INTS(hue);
        const floats part = hue - TO_FLOATS(sector);
        const floats p = value * (1.0f - saturation), q = value * (1.0f - saturation * part);
        const floats t = value * (1.0f - saturation * (1.0f - part)), e = FSELECT((sector & 1) != 0, q, t);
        floats fb = FSELECT(sector < 2, p, e), fg = FSELECT(sector > 3, p, e);
        floats fr = FSELECT((sector == 2) | (sector == 3), p, e);
        fb = FSELECT((sector == 3) | (sector == 4), value, fb);
        fg = FSELECT((sector == 1) | (sector == 2), value, fg);
        fr = FSELECT((sector == 0) | (sector == 5), value, fr);
        *b = TO_INTS(fb * 255.0f + bias - bias);
        *g = TO_INTS(fg * 255.0f + bias - bias);
        *r = TO_INTS(fr * 255.0f + bias - bias);
    }
}

SIMD_CLONES static void widen(const uint8_t *restrict from, int n, int32_t *restrict to) {
    for (int i = 0; i < n; i++) to[i] = from[i];
}

SIMD_CLONES static void narrow(const int32_t *restrict from, int n, uint8_t *restrict to) {
    for (int i = 0; i < n; i++) to[i] = (uint8_t)from[i];
}

static void look_up(const uint8_t table[256], int32_t *x, int n) {
    for (int i = 0; i < n; i++) x[i] = table[x[i]];
}

void hsv_jitter_row(const hsv_tables *t, uint8_t *b, uint8_t *g, uint8_t *r, int n, int32_t *scratch) {
    const int padded = (n + LANES - 1) / LANES * LANES;
    int32_t *h = scratch, *s = h + padded, *v = s + padded;
    for (int i = n; i < padded; i++) h[i] = s[i] = v[i] = 0;
    widen(b, n, h);
    widen(g, n, s);
    widen(r, n, v);
    hsv_from_bgr(h, s, v, padded);
    look_up(t->h, h, n);
    look_up(t->s, s, n);
    look_up(t->v, v, n);
    to_bgr(h, s, v, padded, n - n % TAIL);
    narrow(h, n, b);
    narrow(s, n, g);
    narrow(v, n, r);
}
