/* Batches from a data set: worker threads decode, resize and augment; batches come in order and are the same for the
 * same (options, epoch) whatever the number of threads. One thread drives a loader. Nothing is allocated after the
 * first epoch. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/batch.h"
#include "data/dataset.h"

typedef enum loader_cache {
    LOADER_CACHE_AUTO, /* keeps resized pictures in memory up to a bound: a quarter of the free memory, at most 512 MiB
                        */
    LOADER_CACHE_RAM,  /* keeps all resized pictures in memory; refused with a warning when twice that is not free */
    LOADER_CACHE_DISK, /* keeps resized pictures as raw files in the cache folder */
    LOADER_CACHE_NONE
} loader_cache;

typedef struct loader loader;

typedef struct loader_stats {
    int64_t n_images;
    double waited_s;  /* the caller stood in loader_next without a batch being ready */
    double elapsed_s; /* from the epoch's start to the last batch handed out */
} loader_stats;

int loader_n_batches(const loader *l);
/* M of batch.h. */
int loader_max_targets(const loader *l);

/* Starts (or restarts) an epoch: workers begin at once, so a caller may start the next epoch before it validates. */
ol_status loader_start(loader *l, int epoch);
/* The next batch, NULL after the last. Reuses the memory of the batch handed out before. */
ol_status loader_next(loader *l, const batch **out);
/* From the next loader_start on: no mosaic, mixup, cutmix or copy-paste (close_mosaic). */
void loader_close_mosaic(loader *l);
/* Of the current or last epoch; waited_s/elapsed_s is the "waiting for data" share. */
loader_stats loader_get_stats(const loader *l);
void loader_destroy(loader *l);

#endif
