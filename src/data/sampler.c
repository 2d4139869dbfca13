#include "data/sampler.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

void sampler_shuffle(uint64_t seed, uint32_t epoch, int32_t *order, int n) {
    rng r = rng_stream(seed, RNG_SHUFFLE, epoch, 0);
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)rng_below(&r, (uint32_t)i + 1);
        const int32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

typedef struct aspect {
    double ratio; /* h/w */
    int32_t index;
} aspect;

static int compare_aspects(const void *x, const void *y) {
    const aspect *a = x, *b = y;
    if (a->ratio != b->ratio) return a->ratio < b->ratio ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Smallest shape, in units of imgsz, that holds all aspect ratios between `low` and `high` (h/w). */
static void batch_shape(double low, double high, int imgsz, int stride, double pad, int32_t shape[2]) {
    double h = 1, w = 1;
    if (high < 1)
        h = high;
    else if (low > 1)
        w = 1 / low;
    shape[0] = (int32_t)ceil(h * imgsz / stride + pad) * stride;
    shape[1] = (int32_t)ceil(w * imgsz / stride + pad) * stride;
}

ol_status sampler_rect(ol_context *ctx, const int32_t *sizes, int n, int batch, int imgsz, int stride, double pad,
                       int32_t *order, int32_t *shapes) {
    aspect *aspects = mem_alloc(ctx, (size_t)n, sizeof *aspects);
    if (aspects == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < n; i++) aspects[i] = (aspect){(double)sizes[2 * i] / sizes[2 * i + 1], i};
    qsort(aspects, (size_t)n, sizeof *aspects, compare_aspects);
    for (int i = 0; i < n; i++) order[i] = aspects[i].index;
    for (int b = 0; b * batch < n; b++) {
        const int last = (b + 1) * batch < n ? (b + 1) * batch - 1 : n - 1;
        batch_shape(aspects[b * batch].ratio, aspects[last].ratio, imgsz, stride, pad, shapes + 2 * b);
    }
    mem_free(ctx, aspects);
    return OL_OK;
}

int sampler_multi_scale(uint64_t seed, uint32_t epoch, uint32_t batch, int imgsz, int stride, double range) {
    rng r = rng_stream(seed, RNG_SCALE, epoch, batch);
    int low = (int)(imgsz * (1 - range));
    const int high = (int)(imgsz * (1 + range) + stride);
    if (low < stride) low = stride;
    return (low + (int)rng_below(&r, (uint32_t)(high - low))) / stride * stride;
}
