#include "data/shapes.h"

#include "base/rng.h"

#include <stdint.h>

/* Lengths are in 1/256 pixel (Q8), unit vectors in 1/16384 (Q14). */
#define Q8       256
#define Q14      16384
#define N_ANGLES 64 /* directions in a full turn */
#define N_SUB    4  /* samples a pixel and direction for smooth edges */

typedef struct point {
    int x, y;
} point;

/* Corners on the unit circle; the star's inner ones at 0.46. A circle has none. */
static const point square_corners[] = {{11585, -11585}, {11585, 11585}, {-11585, 11585}, {-11585, -11585}};
static const point triangle_corners[] = {{0, -16384}, {14189, 8192}, {-14189, 8192}};
static const point star_corners[] = {{0, -16384}, {4430, -6097},  {15582, -5063}, {7168, 2329},    {9630, 13255},
                                     {0, 7537},   {-9630, 13255}, {-7168, 2329},  {-15582, -5063}, {-4430, -6097}};

static const struct {
    const point *corners;
    int n_corners;
} outlines[SHAPES_N_CLASSES] = {{NULL, 0}, {square_corners, 4}, {triangle_corners, 3}, {star_corners, 10}};

typedef struct color {
    int b, g, r;
} color;

static const color paints[] = {{60, 76, 231},  {219, 152, 52}, {113, 204, 46},  {15, 196, 241},  {182, 89, 155},
                               {156, 188, 26}, {34, 126, 230}, {180, 105, 255}, {240, 240, 236}, {94, 73, 52}};
static const color grounds[] = {{96, 110, 120}, {120, 124, 104}, {84, 96, 78},    {140, 128, 116}, {150, 160, 168},
                                {70, 64, 74},   {128, 150, 150}, {164, 150, 140}, {88, 84, 110},   {110, 130, 96}};
#define N_PAINTS  ((uint32_t)(sizeof paints / sizeof *paints))
#define N_GROUNDS ((uint32_t)(sizeof grounds / sizeof *grounds))

/* ---- directions ---- */

static int sine(int angle) {
    static const int quarter[] = {0,     1606,  3196,  4756,  6270,  7723,  9102,  10394, 11585,
                                  12665, 13623, 14449, 15137, 15679, 16069, 16305, 16384};
    const int a = angle & (N_ANGLES - 1), k = a & 15;
    const int up = (a & 16) != 0 ? quarter[16 - k] : quarter[k];
    return (a & 32) != 0 ? -up : up;
}

static int cosine(int angle) {
    return sine(angle + N_ANGLES / 4);
}

/* ---- ground ---- */

static uint32_t lattice(uint32_t key, int x, int y) {
    uint32_t h = key ^ ((uint32_t)x * 0x9E3779B1u) ^ ((uint32_t)y * 0x85EBCA77u);
    h = (h ^ (h >> 15)) * 0x2C1B3C6Du;
    h = (h ^ (h >> 12)) * 0x297A2D39u;
    return (h ^ (h >> 15)) & 255;
}

/* Smooth noise 0..255 with one lattice point every `period` pixels. */
static int noise(uint32_t key, int period, int x, int y) {
    const int cx = x / period, cy = y / period;
    int fx = x % period * Q8 / period, fy = y % period * Q8 / period;
    fx = fx * fx / Q8 * (3 * Q8 - 2 * fx) / Q8;
    fy = fy * fy / Q8 * (3 * Q8 - 2 * fy) / Q8;
    const int top = (int)lattice(key, cx, cy) * (Q8 - fx) + (int)lattice(key, cx + 1, cy) * fx;
    const int bottom = (int)lattice(key, cx, cy + 1) * (Q8 - fx) + (int)lattice(key, cx + 1, cy + 1) * fx;
    return (top / Q8 * (Q8 - fy) + bottom / Q8 * fy) / Q8;
}

static uint8_t clamp(int x) {
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* Two muted colours mixed by cloudy noise, with grain; sometimes faint stripes. */
static void draw_ground(image *im, rng *r) {
    const color from = grounds[rng_below(r, N_GROUNDS)], to = grounds[rng_below(r, N_GROUNDS)];
    const uint32_t key = rng_u32(r), striped = rng_below(r, 3);
    const int angle = (int)rng_below(r, N_ANGLES), period = 12 + (int)rng_below(r, 20), scale = im->width / 3 + 1;
    const int along_x = cosine(angle), along_y = sine(angle);
    uint8_t *p = im->pixels;
    for (int y = 0; y < im->height; y++) {
        for (int x = 0; x < im->width; x++, p += 3) {
            const int cloud =
                (noise(key, scale, x, y) * 4 + noise(key ^ 1, scale / 4 + 2, x, y) * 2 + noise(key ^ 2, 7, x, y)) / 7;
            int light = (int)lattice(key ^ 3, x, y) % 13 - 6;
            const int phase = (x * along_x + y * along_y) / Q14 + 4096;
            if (striped == 0 && phase % period < period / 2) light += 9;
            p[0] = clamp((from.b * (255 - cloud) + to.b * cloud) / 255 + light);
            p[1] = clamp((from.g * (255 - cloud) + to.g * cloud) / 255 + light);
            p[2] = clamp((from.r * (255 - cloud) + to.r * cloud) / 255 + light);
        }
    }
}

/* ---- shapes ---- */

typedef struct shape_at {
    int cls, x, y, radius; /* centre and radius of the circle around it, Q8 */
    point corners[10];
    shapes_object box;
} shape_at;

static int min_int(int a, int b) {
    return a < b ? a : b;
}
static int max_int(int a, int b) {
    return a > b ? a : b;
}

static void place_corners(shape_at *s, int angle) {
    const int64_t c = cosine(angle), d = sine(angle);
    s->box = (shapes_object){s->cls, s->x - s->radius, s->y - s->radius, s->x + s->radius, s->y + s->radius};
    const int n = outlines[s->cls].n_corners;
    for (int i = 0; i < n; i++) {
        const point u = outlines[s->cls].corners[i];
        const int64_t dx = (u.x * c - u.y * d) / Q14, dy = (u.x * d + u.y * c) / Q14;
        s->corners[i] = (point){s->x + (int)(dx * s->radius / Q14), s->y + (int)(dy * s->radius / Q14)};
        if (i == 0)
            s->box = (shapes_object){s->cls, s->corners[0].x, s->corners[0].y, s->corners[0].x, s->corners[0].y};
        s->box.x1 = min_int(s->box.x1, s->corners[i].x);
        s->box.y1 = min_int(s->box.y1, s->corners[i].y);
        s->box.x2 = max_int(s->box.x2, s->corners[i].x);
        s->box.y2 = max_int(s->box.y2, s->corners[i].y);
    }
}

static bool inside(const shape_at *s, int x, int y) {
    const int n = outlines[s->cls].n_corners;
    if (n == 0) {
        const int64_t dx = x - s->x, dy = y - s->y;
        return dx * dx + dy * dy <= (int64_t)s->radius * s->radius;
    }
    bool in = false;
    for (int i = 0, j = n - 1; i < n; j = i++) { /* crossings of a ray to the right */
        const point a = s->corners[i], b = s->corners[j];
        if ((a.y > y) == (b.y > y)) continue;
        const int64_t side = (int64_t)(b.x - a.x) * (y - a.y) - (int64_t)(x - a.x) * (b.y - a.y);
        if ((side > 0) == (b.y > a.y)) in = !in;
    }
    return in;
}

/* Samples of the pixel that lie inside, 0..N_SUB². */
static int coverage(const shape_at *s, int px, int py, int shift) {
    int n = 0;
    for (int k = 0; k < N_SUB * N_SUB; k++) {
        const int x = px * Q8 + (2 * (k % N_SUB) + 1) * Q8 / (2 * N_SUB),
                  y = py * Q8 + (2 * (k / N_SUB) + 1) * Q8 / (2 * N_SUB);
        n += inside(s, x - shift, y - shift);
    }
    return n;
}

static void blend(uint8_t *p, color c, int part, int whole) {
    p[0] = clamp((p[0] * (whole - part) + c.b * part) / whole);
    p[1] = clamp((p[1] * (whole - part) + c.g * part) / whole);
    p[2] = clamp((p[2] * (whole - part) + c.r * part) / whole);
}

/* A soft shadow to the lower right, then the shape, lighter towards the upper left. */
static void draw_shape(image *im, const shape_at *s, color paint) {
    const int shadow = s->radius / 10, full = N_SUB * N_SUB;
    const int x1 = max_int(s->box.x1 / Q8 - 1, 0), x2 = min_int((s->box.x2 + shadow) / Q8 + 1, im->width - 1);
    const int y1 = max_int(s->box.y1 / Q8 - 1, 0), y2 = min_int((s->box.y2 + shadow) / Q8 + 1, im->height - 1);
    for (int y = y1; y <= y2; y++) {
        for (int x = x1; x <= x2; x++) {
            uint8_t *p = im->pixels + 3 * ((size_t)y * (size_t)im->width + (size_t)x);
            blend(p, (color){0, 0, 0}, coverage(s, x, y, shadow), 3 * full);
            const int light = ((s->x - x * Q8) + (s->y - y * Q8)) * 22 / s->radius;
            const color lit = {clamp(paint.b + light), clamp(paint.g + light), clamp(paint.r + light)};
            blend(p, lit, coverage(s, x, y, 0), full);
        }
    }
}

/* True when the boxes, grown by a margin, overlap. */
static bool too_close(const shapes_object *a, const shapes_object *b, int margin) {
    return a->x1 - margin < b->x2 && b->x1 - margin < a->x2 && a->y1 - margin < b->y2 && b->y1 - margin < a->y2;
}

/* Small, middle and large ones; false when no free place was found. */
static bool find_place(const image *im, rng *r, const shapes_object *others, int n_others, shape_at *s) {
    const int longer = max_int(im->height, im->width) * Q8, shorter = min_int(im->height, im->width) * Q8;
    for (int attempt = 0; attempt < 40; attempt++) {
        const uint32_t kind = rng_below(r, 4);
        const int low = kind == 0 ? longer / 40 : kind < 3 ? longer / 20 : longer / 9;
        const int high = kind == 0 ? longer / 20 : kind < 3 ? longer / 9 : longer / 5;
        bool free = true;
        s->cls = (int)rng_below(r, SHAPES_N_CLASSES);
        s->radius = low + (int)rng_below(r, (uint32_t)(high - low));
        const int angle = (int)rng_below(r, N_ANGLES);
        if (2 * s->radius + 4 * Q8 >= shorter) continue;
        s->x = s->radius + Q8 + (int)rng_below(r, (uint32_t)(im->width * Q8 - 2 * s->radius - 2 * Q8));
        s->y = s->radius + Q8 + (int)rng_below(r, (uint32_t)(im->height * Q8 - 2 * s->radius - 2 * Q8));
        place_corners(s, angle);
        for (int i = 0; i < n_others; i++) free = free && !too_close(&s->box, &others[i], 2 * Q8);
        if (free) return true;
    }
    return false;
}

ol_status shapes_draw(ol_context *ctx, int size_px, uint64_t seed, int split, int index, image *out,
                      shapes_object objects[SHAPES_MAX_OBJECTS], int *n_objects) {
    static const int sides[][2] = {{4, 4}, {3, 4}, {4, 3}, {4, 4}}; /* quarters of size_px: height, width */
    if (size_px < 64 || size_px > 2048)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "shapes of %d pixels cannot be drawn: 64 to 2048 are possible",
                        size_px);
    rng r = rng_stream(seed, RNG_SHAPES, (uint32_t)split, (uint32_t)index);
    const int *side = sides[rng_below(&r, 4)];
    const ol_status status = image_reserve(ctx, out, size_px * side[0] / 4, size_px * side[1] / 4, 3);
    if (status != OL_OK) return status;
    draw_ground(out, &r);
    const int wanted = 2 + (int)rng_below(&r, SHAPES_MAX_OBJECTS - 2);
    int n = 0;
    shape_at s = {0};
    while (n < wanted && find_place(out, &r, objects, n, &s)) {
        draw_shape(out, &s, paints[rng_below(&r, N_PAINTS)]);
        objects[n++] = s.box;
    }
    *n_objects = n;
    return OL_OK;
}
