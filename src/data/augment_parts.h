/* The pieces of augment_sample that several of its files share. Private to the augment files. */
#ifndef DATA_AUGMENT_PARTS_H
#define DATA_AUGMENT_PARTS_H

#include "base/rng.h"
#include "data/augment.h"
#include "data/gather.h"
#include "data/hsv.h"
#include "data/objects.h"
#include "data/recipe.h"

/* Scratch of one thread. Memory grows to what the largest sample needed and stays. */
struct augmenter {
    ol_context *ctx;
    image storage[GATHER_MAX_TILES]; /* for `fetch` */
    gather gather;
    objects found;          /* of the picture at hand, moved into the target */
    objects sample;         /* what the sample will carry */
    objects scratch;        /* clipping, mirrored instances */
    image canvas, mirrored; /* copy-paste needs the mosaic as a picture */
    uint8_t *base;          /* planes B,G,R of the sample while others are mixed into it */
    uint8_t *line;          /* one row of planes */
    int32_t *colours;       /* HSV's scratch */
    float *rows;
    size_t base_capacity, line_capacity, colours_capacity, rows_capacity;
};

/* What one sample is made from. */
typedef struct augment_job {
    augmenter *a;
    const augment_settings *s;
    const augment_source *source;
    rng *rng;
    recipe_writer *recipe; /* NULL: pixels are made here and now */
    int channels;
} augment_job;

/* Steps 1 to 3 (mosaic, copy-paste, perspective) for one picture: a->gather is ready to give rows, a->found holds the
 * objects. */
ol_status augment_lay_out(augment_job *job, uint32_t index);

/* Copy-paste in mode flip, before the warp: turns the laid-out pictures into a->canvas with mirrored objects pasted in,
 * and adds those to a->found. */
ol_status augment_paste_mirrored(augment_job *job, int height, int width);
/* Copy-paste in mode mixup, after the warp: pastes another sample's objects into a->base and a->sample. */
ol_status augment_paste_other(augment_job *job, uint32_t index);
/* a = truncate(a*r + b*(1-r)), in double precision (data document, section 2.7). */
void augment_blend(uint8_t *a, const uint8_t *b, size_t n, double r);
ol_status augment_mixup(augment_job *job, uint32_t index);
ol_status augment_cutmix(augment_job *job);

#endif
