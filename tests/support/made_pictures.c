#include "made_pictures.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void objects_make(made_pictures *m, int picture, rng *r) {
    static const float corner[MADE_POINTS][2] = {{-0.5f, -0.5f}, {0.5f, -0.4f}, {0.5f, 0.5f}, {0, 0.3f}, {-0.5f, 0.4f}};
    for (int k = 0; k < MADE_OBJECTS; k++) {
        float *row = m->rows[picture] + 5 * k, *points = m->points[picture] + 2 * k * MADE_POINTS;
        row[0] = (float)k;
        for (int q = 1; q < 5; q++) row[q] = (float)rng_range(r, 0.3, 0.7);
        m->first[picture][k + 1] = (k + 1) * MADE_POINTS;
        for (int p = 0; p < MADE_POINTS; p++) {
            points[2 * p] = row[1] + row[3] * corner[p][0];
            points[2 * p + 1] = row[2] + row[4] * corner[p][1];
        }
    }
}

void made_pictures_init(made_pictures *m, ol_context *ctx, int side, int channels, bool outlined) {
    const int shortest = side / 4;
    rng r = rng_stream(3, RNG_TEST, 0, 0);
    *m = (made_pictures){.outlined = outlined, .fail_at = -1};
    for (int i = 0; i < MADE_PICTURES; i++) {
        const int other = shortest + (int)rng_below(&r, (uint32_t)(side - shortest));
        image *im = &m->images[i];
        assert_int_equal(image_reserve(ctx, im, i % 2 ? side : other, i % 2 ? other : side, channels), OL_OK);
        for (size_t k = 0; k < image_bytes(im); k++) im->pixels[k] = (uint8_t)rng_u32(&r);
        objects_make(m, i, &r);
    }
}

void made_pictures_deinit(made_pictures *m, ol_context *ctx) {
    for (int i = 0; i < MADE_PICTURES; i++) image_deinit(ctx, &m->images[i]);
}

ol_status made_pictures_lend(void *user, ol_context *ctx, uint32_t index, image *storage, augment_picture *picture) {
    made_pictures *m = user;
    if ((int)index == m->fail_at) return ctx_fail(ctx, OL_ERROR_FORMAT, "picture %u is gone", index);
    const image *im = &m->images[index];
    if (index % 2 == 1) {
        const ol_status status = image_reserve(ctx, storage, im->height, im->width, im->channels);
        if (status != OL_OK) return status;
        memcpy(storage->pixels, im->pixels, image_bytes(im));
        im = storage;
    }
    *picture = (augment_picture){im, {.n = index == 4 ? 0 : MADE_OBJECTS, .rows = m->rows[index]}};
    if (m->outlined) {
        picture->labels.points = m->points[index];
        picture->labels.first_point = m->first[index];
    }
    return OL_OK;
}
