/* What the loader hands out. Owned by the loader; valid until its next call. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include "device/pictures.h"

typedef struct batch_image {
    const char *path;
    int index;             /* in the data set */
    int h0, w0;            /* as decoded */
    double gain_h, gain_w; /* network pixels a picture pixel (validation: x_net = x*gain_w + pad_left) */
    double pad_left, pad_top;
    bool unreadable; /* went bad since the scan: the pixels are plain grey and there are no targets */
} batch_image;

typedef struct batch {
    int n, channels, h, w;
    const uint8_t *images;        /* (n,channels,h,w), R,G,B, 0..255; unset with recipes */
    const picture_batch *recipes; /* what a device makes the images from; NULL: they are made */
    int max_targets;              /* M, the same for all batches of a loader */
    const float *targets;     /* (n,M,5): class, cx, cy, w, h as fractions of w, h; rows from the count on are zero */
    const int32_t *n_targets; /* (n) */
    const batch_image *info;  /* (n) */
    int64_t n_objects;        /* sum of n_targets */
} batch;

#endif
