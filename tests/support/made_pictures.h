/* Pictures of noise with outlined objects, as an augmentation's source: for tests of samples. The same on every
 * machine; one thread at a time. */
#ifndef TESTS_MADE_PICTURES_H
#define TESTS_MADE_PICTURES_H

#include "data/augment.h"

enum { MADE_PICTURES = 7, MADE_OBJECTS = 3, MADE_POINTS = 5 };

typedef struct made_pictures {
    image images[MADE_PICTURES]; /* one side of each is `side`, the other shorter */
    float rows[MADE_PICTURES][5 * MADE_OBJECTS], points[MADE_PICTURES][2 * MADE_OBJECTS * MADE_POINTS];
    int32_t first[MADE_PICTURES][MADE_OBJECTS + 1];
    bool outlined; /* objects are lent with their outlines */
    int fail_at;   /* picture that cannot be fetched, -1: none */
} made_pictures;

void made_pictures_init(made_pictures *m, ol_context *ctx, int side, int channels, bool outlined);
void made_pictures_deinit(made_pictures *m, ol_context *ctx);
/* The fetch function of augment_source, `user` the pictures; every second one comes in `storage`, as without a cache,
 * and picture 4 has no objects. */
ol_status made_pictures_lend(void *user, ol_context *ctx, uint32_t index, image *storage, augment_picture *picture);

#endif
