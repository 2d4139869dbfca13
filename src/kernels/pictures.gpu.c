/* Network inputs from decoded pictures: training samples by recipe, letterboxed pictures. The same bytes as
 * data/gather.c, data/hsv.c, data/augment_mix.c and data/resize.c, which are the reference. One thread an output pixel;
 * block y is the picture; results are u8 planes (n,channels,h,w) in the order R,G,B. */
#include "pictures.h"
#include "args.h"
#include "gpu.h"

/* Every rounding is the reference's. */
#pragma clang fp contract(off)

struct pixel {
    i32 c[3];
};

/* To nearest even; 0 <= x <= 255. */
DEVICE i32 rounded(float x) {
    return (i32)__builtin_rintf(x);
}

/* ---- what lies on the plane ---- */

DEVICE const u8 *pixel_at(const picture_layer &l, const u8 *pixels, i32 x, i32 y, i32 channels) {
    const u8 *found = nullptr;
#pragma unroll
    for (i32 i = 0; i < PICTURE_MAX_TILES; i++) {
        const picture_tile &t = l.tiles[i];
        if (i < l.n_tiles && x >= t.x1 && x < t.x2 && y >= t.y1 && y < t.y2)
            found = pixels + t.offset + (i64)(y - t.y1) * t.row_bytes + (i64)(x - t.x1) * channels;
    }
    return found;
}

/* A position as its whole part and the rest; separable maps and general ones round in different places. */
struct split {
    i32 at;
    float part;
    DEVICE_MEMBER void separable(double position, i32 low, i32 high) {
        part = 0.0f;
        at = low - 2; /* also what is not a number */
        if (!(position >= (double)(low - 1))) return;
        at = high;
        if (position >= (double)high) return;
        const double whole = __builtin_floor(position);
        part = (float)(position - whole);
        at = (i32)whole;
    }
    DEVICE_MEMBER void general(double position, i32 low, i32 high) {
        const double least = (double)(low - 2), most = (double)(high + 1);
        position = position > least ? position < most ? position : most : least;
        const i32 whole = (i32)(position - least);
        part = (float)(position - least - (double)whole);
        at = whole + low - 2;
    }
};

DEVICE pixel layer_pixel(const picture_layer &l, const u8 *pixels, i32 x, i32 y, i32 channels) {
    const double dx = (double)x, dy = (double)y;
    split sx, sy;
    if (l.separable) {
        sx.separable(l.inverse[0] * dx + l.inverse[2], l.x1, l.x2);
        sy.separable(l.inverse[4] * dy + l.inverse[5], l.y1, l.y2);
    } else {
        double px = l.inverse[0] * dx + (l.inverse[1] * dy + l.inverse[2]);
        double py = l.inverse[3] * dx + (l.inverse[4] * dy + l.inverse[5]);
        if (l.perspective) {
            const double w = l.inverse[6] * dx + (l.inverse[7] * dy + l.inverse[8]);
            px = w != 0.0 ? px / w : (double)(l.x1 - 2);
            py = w != 0.0 ? py / w : (double)(l.y1 - 2);
        }
        sx.general(px, l.x1, l.x2);
        sy.general(py, l.y1, l.y2);
    }
    const u8 *a = pixel_at(l, pixels, sx.at, sy.at, channels), *b = pixel_at(l, pixels, sx.at + 1, sy.at, channels);
    const u8 *c = pixel_at(l, pixels, sx.at, sy.at + 1, channels),
             *d = pixel_at(l, pixels, sx.at + 1, sy.at + 1, channels);
    pixel out = {{PICTURE_PAD, PICTURE_PAD, PICTURE_PAD}};
#pragma unroll
    for (i32 k = 0; k < 3; k++) {
        if (k >= channels) break;
        const float va = a ? (float)a[k] : (float)PICTURE_PAD, vb = b ? (float)b[k] : (float)PICTURE_PAD;
        const float vc = c ? (float)c[k] : (float)PICTURE_PAD, vd = d ? (float)d[k] : (float)PICTURE_PAD;
        const float left = va + (vc - va) * sy.part, right = vb + (vd - vb) * sy.part;
        out.c[k] = rounded(left + (right - left) * sx.part);
    }
    return out;
}

/* ---- colours ---- */

/* B,G,R through the tables in HSV space. In the last columns of a row results are rounded instead of truncated. */
DEVICE pixel jittered(const pixel &in, const u8 *tables, bool nearest) {
    const i32 b = in.c[0], g = in.c[1], r = in.c[2];
    i32 most = b > g ? b : g, least = b < g ? b : g;
    most = most > r ? most : r;
    least = least < r ? least : r;
    const i32 d = most - least;
    const i32 by_v = (i32)(1044480.0f / (float)(most > 1 ? most : 1) + 0.5f);
    const i32 by_d = (i32)(122880.0f / (float)(d > 1 ? d : 1) + 0.5f);
    i32 q = most == g ? b - r + 2 * d : r - g + 4 * d;
    q = most == r ? g - b : q;
    i32 hue = (q * by_d + 2048) >> 12;
    hue += hue < 0 ? 180 : 0;
    const i32 sat = (d * by_v + 2048) >> 12;
    const float h = (float)tables[hue] * (6.0f / 180.0f), s = (float)tables[256 + sat] * (1.0f / 255.0f);
    const float v = (float)tables[512 + most] * (1.0f / 255.0f);
    const i32 sector = (i32)h;
    const float part = h - (float)sector;
    const float p = v * (1.0f - s), fall = v * (1.0f - s * part), rise = v * (1.0f - s * (1.0f - part));
    const float e = sector & 1 ? fall : rise;
    float fb = sector < 2 ? p : e, fg = sector > 3 ? p : e, fr = sector == 2 || sector == 3 ? p : e;
    fb = sector == 3 || sector == 4 ? v : fb;
    fg = sector == 1 || sector == 2 ? v : fg;
    fr = sector == 0 || sector == 5 ? v : fr;
    fb *= 255.0f;
    fg *= 255.0f;
    fr *= 255.0f;
    pixel out;
    out.c[0] = nearest ? rounded(fb) : (i32)fb;
    out.c[1] = nearest ? rounded(fg) : (i32)fg;
    out.c[2] = nearest ? rounded(fr) : (i32)fr;
    return out;
}

KERNEL(256) pictures_gather(pictures_args a) {
    SHARED u8 tables[3 * 256];
    const i32 t = (i32)thread_x(), image = (i32)block_y(), at = (i32)block_x() * 256 + t;
    const picture_recipe &r = ((const picture_recipe *)a.recipes)[image];
    if (r.n_layers == 0 || (a.stopped && *(const i32 *)a.stopped)) return;
    const u8 *pixels = (const u8 *)a.pixels;
#pragma unroll
    for (i32 k = 0; k < 3; k++) tables[k * 256 + t] = r.tables[k][t];
    barrier();
    if (at >= a.h * a.w) return;
    const i32 y = at / a.w, x = at % a.w;
    pixel p = {{0, 0, 0}};
    for (i32 i = 0; i < r.n_layers; i++) {
        const picture_layer &l = r.layers[i];
        if (l.kind == PICTURE_CUT && (x < l.cut_x1 || x >= l.cut_x2 || y < l.cut_y1 || y >= l.cut_y2)) continue;
        const pixel q = layer_pixel(l, pixels, x, y, a.channels);
        const bool blend = l.kind == PICTURE_BLEND;
#pragma unroll
        for (i32 k = 0; k < 3; k++)
            p.c[k] = blend ? (i32)((double)p.c[k] * l.ratio + (double)q.c[k] * (1.0 - l.ratio)) : q.c[k];
    }
    if (r.jitter) p = jittered(p, tables, x >= a.w - a.w % 32);
    const i32 ty = r.flip_rows ? a.h - 1 - y : y, tx = r.flip_columns ? a.w - 1 - x : x;
    u8 *out = (u8 *)a.out + (i64)image * a.channels * a.h * a.w + (i64)ty * a.w + tx;
#pragma unroll
    for (i32 k = 0; k < 3; k++) {
        if (k >= a.channels) break;
        const i32 plane = a.channels == 3 && !r.keep_bgr ? 2 - k : k;
        out[(i64)plane * a.h * a.w] = (u8)p.c[k];
    }
}

/* ---- letterbox ---- */

enum { ONE = 2048 }; /* weights have 11 fractional bits */

struct tap {
    i32 at, w0, w1;
    DEVICE_MEMBER tap(i32 d, double scale, i32 n_src, bool clamped) {
        const float f = (float)(((double)d + 0.5) * scale - 0.5);
        const float whole = __builtin_floorf(f);
        float part = f - whole;
        at = (i32)whole;
        if (clamped && at < 0) at = 0, part = 0.0f;
        if (clamped && at >= n_src - 1) at = n_src - 1, part = 0.0f;
        w0 = (i32)__builtin_rintf((1.0f - part) * (float)ONE);
        w1 = (i32)__builtin_rintf(part * (float)ONE);
    }
};

DEVICE i32 clamp_i(i32 x, i32 low, i32 high) {
    return x < low ? low : x > high ? high : x;
}

KERNEL(256) pictures_letterbox(pictures_args a) {
    const i32 image = (i32)block_y(), at = (i32)(block_x() * 256 + thread_x());
    if (at >= a.h * a.w) return;
    const letterbox_recipe &r = ((const letterbox_recipe *)a.recipes)[image];
    const i32 y = at / a.w - r.top, x = at % a.w - r.left;
    i32 value[3] = {PICTURE_PAD, PICTURE_PAD, PICTURE_PAD};
    if (x >= 0 && x < r.inner_w && y >= 0 && y < r.inner_h) {
        tap tx(x, r.scale_x, r.src_w, true);
        const tap ty(y, r.scale_y, r.src_h, false);
        const i32 row0 = clamp_i(ty.at, 0, r.src_h - 1), row1 = clamp_i(ty.at + 1, 0, r.src_h - 1);
        const i32 next = tx.at + 1 < r.src_w ? 1 : 0; /* beyond the last column the weight is zero */
        const u8 *from = (const u8 *)a.pixels + r.offset + (i64)tx.at * a.channels;
        const u8 *top = from + (i64)row0 * r.src_w * a.channels, *low = from + (i64)row1 * r.src_w * a.channels;
#pragma unroll
        for (i32 k = 0; k < 3; k++) {
            if (k >= a.channels) break;
            const i32 n = next * a.channels + k;
            const i32 p = (top[k] * tx.w0 + top[n] * tx.w1) >> 4, q = (low[k] * tx.w0 + low[n] * tx.w1) >> 4;
            value[k] = clamp_i(((ty.w0 * p >> 16) + (ty.w1 * q >> 16) + 2) >> 2, 0, 255);
        }
    }
    u8 *out = (u8 *)a.out + (i64)image * a.channels * a.h * a.w + at;
#pragma unroll
    for (i32 k = 0; k < 3; k++) {
        if (k >= a.channels) break;
        out[(i64)(a.channels == 3 ? 2 - k : k) * a.h * a.w] = (u8)value[k];
    }
}
