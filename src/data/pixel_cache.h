/* Resized pictures of a data set: decodes them and keeps their pixels by one of the policies of loader.h. Any number of
 * threads fetch at once, each with a reader of its own. Never writes into the data set. */
#ifndef DATA_PIXEL_CACHE_H
#define DATA_PIXEL_CACHE_H

#include "data/dataset.h"
#include "data/image.h"

typedef enum pixel_policy {
    PIXEL_KEEP_NONE,
    PIXEL_KEEP_ALL,    /* every picture has a place in memory */
    PIXEL_KEEP_RECENT, /* as many as fit in limit_bytes, the oldest make room */
    PIXEL_KEEP_FIRST,  /* as many as fit in limit_bytes, then no more: for sets that are walked in one order */
    PIXEL_KEEP_DISK    /* raw files below `folder` */
} pixel_policy;

typedef struct pixel_cache pixel_cache;

#define PIXEL_MAX_PINS 64

/* One thread's scratch memory and the pictures that it has borrowed. Zero-initialise. */
typedef struct pixel_reader {
    image decoded;
    uint8_t *file;
    size_t file_capacity;
    int pins[PIXEL_MAX_PINS];
    int n_pins;
} pixel_reader;

/* Bytes of all resized pictures together. */
uint64_t pixel_cache_need(const dataset *d, int imgsz);
ol_status pixel_cache_create(ol_context *ctx, const dataset *d, int imgsz, pixel_policy policy, uint64_t limit_bytes,
                             const char *folder, pixel_cache **out);
void pixel_cache_destroy(pixel_cache *c);
void pixel_reader_deinit(ol_context *ctx, pixel_reader *r);

/* Picture `index` with its long side resized to imgsz: in the cache or in `storage`; it stays there until the reader is
 * released. A picture that can no longer be read, or has another size than at the scan, is plain grey, *readable is
 * false, and one warning names it. Fails only for want of memory. */
ol_status pixel_cache_fetch(pixel_cache *c, ol_context *ctx, pixel_reader *r, int index, image *storage,
                            const image **pixels, bool *readable);
void pixel_cache_release(pixel_cache *c, pixel_reader *r);

#endif
