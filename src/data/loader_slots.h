/* The memory of one batch of a loader: planes, targets, and, where a device makes the pictures, recipes with the pixels
 * they need. Private to the loader. */
#ifndef DATA_LOADER_SLOTS_H
#define DATA_LOADER_SLOTS_H

#include "data/batch.h"
#include "data/recipe.h"

typedef struct loader_slot {
    uint8_t *images;
    bool locked; /* the images are page-locked */
    float *targets;
    int32_t *n_targets;
    batch_image *info;
    picture_recipe *recipes; /* page-locked, as the pixels are; NULL: the host makes all pictures */
    recipe_pixels pixels;
    picture_batch made;
    batch public;
} loader_slot;

/* n pictures of picture_bytes each; page-locked for `copier`, the device that they will be copied to (NULL: none), if
 * there is such memory. */
ol_status loader_slot_init(ol_context *ctx, loader_slot *s, device *copier, int n, size_t picture_bytes,
                           int max_targets);
/* Room for n recipes and bytes of pixels in each slot; where page-locked memory is short in none: the host makes the
 * pictures then. */
ol_status loader_slots_add_recipes(ol_context *ctx, loader_slot *slots, int n_slots, device *maker, int n,
                                   size_t pixel_bytes);
void loader_slot_deinit(ol_context *ctx, loader_slot *s, device *maker);
/* Before the first sample of a batch. */
void loader_slot_clear(loader_slot *s);

#endif
