/* One random training sample: mosaic, copy-paste, affine, mixup, cutmix, HSV, flips, planes (data document, 2.3-2.10).
 * Every draw comes from a stream keyed by (seed, epoch, index): the sample does not depend on threads or order.
 * An augmenter is scratch memory for one thread; the steps with injected draws are in augment_steps.h. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include "data/image.h"
#include "data/labels.h"
#include "data/recipe.h"

/* A picture that the data set lends until the sample is finished: long side resized to imgsz. */
typedef struct augment_picture {
    const image *pixels;
    label_rows labels; /* with outlines for all rows or for none */
} augment_picture;

/* Supplies picture `index`. It may decode into `storage`, whose memory is kept for the next sample, or point to a
 * cached picture that stays put. Called from the thread that asks for the sample. */
typedef struct augment_source {
    ol_status (*fetch)(void *user, ol_context *ctx, uint32_t index, image *storage, augment_picture *picture);
    void *user;
    uint32_t n_pictures; /* partners of mosaic and mixes are drawn from 0 … n_pictures-1 */
} augment_source;

/* Names, meanings and defaults are those of the arguments of `train`. */
typedef struct augment_settings {
    int out_height, out_width; /* the target; imgsz x imgsz unless rectangular */
    int imgsz;                 /* tile size of the mosaic */
    double mosaic, mixup, cutmix, copy_paste;
    bool copy_paste_mixup;                                                /* copy_paste_mode=mixup instead of flip */
    double degrees, translate, scale_low, scale_high, shear, perspective; /* scale s: low 1-s, high 1+s */
    double hsv_h, hsv_s, hsv_v, flipud, fliplr, bgr;
} augment_settings;

/* The defaults of `train` for imgsz x imgsz (data document, 2.3). */
augment_settings augment_defaults(int imgsz);
/* Mosaic, copy-paste, mixup and cutmix off: the last epochs (close_mosaic) and rectangular training. */
void augment_close_mosaic(augment_settings *s);

typedef struct augmenter augmenter;
ol_status augmenter_create(ol_context *ctx, augmenter **out);
void augmenter_destroy(augmenter *a);

/* Sample `index` of `epoch` into planes (3,out_height,out_width) in the order R,G,B (B,G,R with probability `bgr`).
 * *rows is (n,5): class, cx, cy, w, h as fractions of the target; it belongs to the augmenter and lives until its next
 * sample. Pictures of one channel give one plane, without HSV.
 * Allocates only while scratch memory still grows. Fails when `fetch` fails, with its message. */
ol_status augment_sample(augmenter *a, const augment_settings *s, const augment_source *source, uint64_t seed,
                         uint32_t epoch, uint32_t index, uint8_t *planes, const float **rows, int *n_rows);

/* Can samples of these settings be told by a recipe? Not those that paste outlines after the warp. */
bool augment_has_recipe(const augment_settings *s);
/* The same sample as a recipe from which the device makes the planes. With writer->full the recipe is of no use. */
ol_status augment_write_recipe(augmenter *a, const augment_settings *s, const augment_source *source, uint64_t seed,
                               uint32_t epoch, uint32_t index, recipe_writer *writer, const float **rows, int *n_rows);

#endif
