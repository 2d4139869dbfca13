/* Batches from a data set: worker threads decode, resize and augment; batches come in order and are the same for the
 * same (options, epoch) whatever the number of threads. One thread drives a loader. Nothing is allocated once buffers
 * have grown to the set's largest picture. A picture that went bad since the scan is replaced by plain grey without
 * objects. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "base/settings.h"
#include "data/augment.h"
#include "data/batch.h"
#include "data/dataset.h"

/* Where resized pictures are kept between epochs. AUTO: in memory when the whole set needs at most 512 MiB (and a
 * quarter of the free memory), else the most recent ones within that bound. RAM: all in memory; AUTO with a warning
 * when twice the need is not free. DISK: as raw files in the cache folder (never beside the pictures); AUTO with a
 * warning when the disk has no room. */
typedef enum loader_cache { LOADER_CACHE_AUTO, LOADER_CACHE_RAM, LOADER_CACHE_DISK, LOADER_CACHE_NONE } loader_cache;

typedef struct loader_options {
    bool training;     /* shuffled and augmented; otherwise resized and letterboxed without scaling up */
    int batch;         /* capped at the number of pictures; the last batch may be smaller */
    int imgsz, stride; /* stride: of the model, at least 32 is used */
    bool rect;         /* batches of like aspect ratios with the least padding (data document, 2.13, 2.15) */
    int workers;       /* threads; 0: the caller does the work inside loader_next */
    uint64_t seed;
    loader_cache cache;
    const char *cache_folder; /* for LOADER_CACHE_DISK; NULL: dataset_cache_folder */
    uint64_t cache_bytes; /* bound of AUTO; 0: 512 MiB. Part of what decides a sample: beyond it mosaic partners come
                             from the 8 batches (at most 1000 pictures) before, within it from the whole set */
    augment_settings augment; /* training only; out_height and out_width are set by the loader */
    device *maker;            /* where the batches go: makes the pictures of training when asked to, and is copied to at
                                 full speed from validation's; NULL: the host */
    double recipe_room;       /* pictures' bytes that a batch of recipes has for pixels; 0: enough as a rule */
    double multi_scale;       /* training only: batches of random sizes within this share of imgsz */
} loader_options;

/* From the arguments of `train` (batch, imgsz, rect, workers, seed, cache, multi_scale and the augmentation). */
loader_options loader_options_train(const settings *s, int batch, int imgsz, int stride);
/* For validation: rectangular unless the user said rect=False; `batch` pictures. */
loader_options loader_options_val(const settings *s, int batch, int imgsz, int stride);

typedef struct loader loader;

typedef struct loader_stats {
    int64_t n_images;
    double waited_s;  /* the caller stood in loader_next without a batch being ready */
    double elapsed_s; /* from the epoch's start to the last batch handed out */
} loader_stats;

/* Borrows `d`, which must outlive the loader. */
ol_status loader_create(ol_context *ctx, const dataset *d, const loader_options *options, loader **out);
void loader_destroy(loader *l);

/* Most bytes of pixels that a batch of recipes with these options carries; 0: the host makes the pictures. */
size_t loader_recipe_pixels(const loader_options *options, int channels, int batch);

int loader_n_batches(const loader *l);
/* Pictures in a full batch, after capping. */
int loader_batch_size(const loader *l);
/* M of batch.h: the most objects that a sample of these options can have. */
int loader_max_targets(const loader *l);
/* The height and width of batch `index` of the epoch that runs (of every epoch unless multi_scale). */
void loader_batch_shape(const loader *l, int index, int hw[2]);

/* Starts (or restarts) an epoch: workers begin at once, so a caller may start the next epoch before it validates. */
ol_status loader_start(loader *l, int epoch);
/* From the next loader_start on: batches carry recipes for the device instead of images, where there is a maker and it
 * can make the samples of these options. The samples are the same. */
void loader_give_recipes(loader *l, bool on);
/* The next batch, NULL after the last. Reuses the memory of the batch handed out before. */
ol_status loader_next(loader *l, const batch **out);
/* From the next loader_start on: no mosaic, mixup, cutmix or copy-paste (close_mosaic). */
void loader_close_mosaic(loader *l);
/* Of the current or last epoch; waited_s/elapsed_s is the "waiting for data" share. */
loader_stats loader_get_stats(const loader *l);
/* One line when the caller waited for a good part of the epoch (a fifth, and five seconds), with what helps. */
void loader_report_wait(const loader *l);
/* Its text, cut to the buffer; false when there is nothing to say. */
bool loader_describe_wait(const loader_stats *s, const char *name, int workers, char *line, size_t bytes);

#endif
