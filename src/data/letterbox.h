/* Letterboxing: scale a picture into a target and pad the rest with 114 (data document, section 2.14).
 * Geometry is separate from pixels so that boxes can be mapped without them. Keeps no state; any thread. */
#ifndef DATA_LETTERBOX_H
#define DATA_LETTERBOX_H

#include "data/image.h"
#include "kernels/pictures.h"

#define LETTERBOX_PAD 114

typedef struct letterbox_options {
    int height, width; /* target */
    int stride;        /* for `minimal`; 0: 32 */
    bool minimal;      /* pad only to the next multiple of stride ("auto") */
    bool stretch;      /* fill the target, ignoring the aspect ratio ("scale_fill") */
    bool no_scale_up;
    bool top_left; /* pad right and bottom only ("center=False") */
} letterbox_options;

typedef struct letterbox_geometry {
    double ratio_h, ratio_w; /* source pixels * ratio + (top, left) = target pixels */
    int inner_height, inner_width;
    int top, bottom, left, right;
    int out_height, out_width;
} letterbox_geometry;

letterbox_geometry letterbox_plan(int height, int width, const letterbox_options *options);

/* `scratch` holds the resized picture between calls (zero-initialised, image_deinit by the caller). */
ol_status letterbox_apply(ol_context *ctx, const image *src, const letterbox_geometry *g, image *scratch, image *out);
/* The same into planes (3,out_height,out_width) in the order R,G,B ((1,…) for a one-channel picture). */
ol_status letterbox_planes(ol_context *ctx, const image *src, const letterbox_geometry *g, image *scratch,
                           uint8_t *planes);
/* What a device needs to do the same (device/pictures.h); `offset` of the picture in the batch's pixels. */
letterbox_recipe letterbox_recipe_of(const letterbox_geometry *g, int src_height, int src_width, size_t offset);

#endif
