/* Network inputs made on a device from decoded pictures: the loader draws and packs, the device does the work of every
 * pixel. The reference is the CPU code of the data room (gather, hsv, mixes, letterbox); results are the same bytes.
 * Devices that share memory with the host make no pictures: there the data room does it. One thread at a time. */
#ifndef DEVICE_PICTURES_H
#define DEVICE_PICTURES_H

#include "graph/plan.h"
#include "kernels/pictures.h"

typedef enum pictures_kind { PICTURES_SAMPLES, PICTURES_LETTERBOXED } pictures_kind;

/* n pictures as u8 planes (n,channels,h,w), R,G,B. */
typedef struct picture_batch {
    pictures_kind kind;
    int n, channels, h, w;
    const void *recipes;                  /* (n) picture_recipe or letterbox_recipe */
    const uint8_t *pixels;                /* what their offsets point into */
    size_t pixel_bytes, most_pixel_bytes; /* of this batch; of any batch like it */
    const uint8_t *planes;                /* (n,channels,h,w): samples whose recipe has no layers are taken from here */
} picture_batch;

bool device_makes_pictures(const device *dev);
/* Copies what the next device_make_pictures needs, beside what the device has to do, so that it waits for nothing. May
 * be left out. */
ol_status device_bring_pictures(device *dev, const picture_batch *batch);
/* Into `out` from `offset_bytes` on, after what the device has to do; does not wait for it. Recipes and pixels are free
 * again on return. Once `step` (NULL: none) has stopped a training run, the pictures that did it stay: for samples that
 * the device makes itself. */
ol_status device_make_pictures(device *dev, const picture_batch *batch, const device_step *step, device_buffer *out,
                               size_t offset_bytes);
/* Whether the device makes all of them itself, so that nothing is copied from `planes`. */
bool picture_batch_is_whole(const picture_batch *batch);

/* Memory of its own that a device takes for batches like this on their way to it. */
size_t device_pictures_bytes(const device *dev, pictures_kind kind, int n, size_t most_pixel_bytes);
/* Gives that memory back; the next batch takes it anew. */
void device_pictures_release(device *dev);

/* Host memory that copies to the device at full speed (page-locked; where there is none of that, other
 * memory, which is only slower). */
ol_status device_host_create(device *dev, size_t bytes, void **out);
void device_host_destroy(device *dev, void *memory);

#endif
