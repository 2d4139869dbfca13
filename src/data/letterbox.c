#include "data/letterbox.h"

#include "data/resize.h"

#include <math.h>
#include <string.h>

static int at_least_one(double x) {
    return x < 1.0 ? 1 : (int)x;
}

letterbox_geometry letterbox_plan(int height, int width, const letterbox_options *o) {
    letterbox_geometry g = {0};
    const int stride = o->stride > 0 ? o->stride : 32;
    double r = fmin((double)o->height / height, (double)o->width / width);
    if (o->no_scale_up && r > 1.0) r = 1.0;
    g.ratio_h = g.ratio_w = r;
    g.inner_width = at_least_one(rint(width * r));
    g.inner_height = at_least_one(rint(height * r));
    double dw = o->width - g.inner_width, dh = o->height - g.inner_height;
    if (o->minimal) {
        dw = fmod(dw, stride);
        dh = fmod(dh, stride);
    } else if (o->stretch) {
        dw = dh = 0.0;
        g.inner_width = o->width;
        g.inner_height = o->height;
        g.ratio_w = (double)o->width / width;
        g.ratio_h = (double)o->height / height;
    }
    if (!o->top_left) {
        dw /= 2;
        dh /= 2;
        g.top = (int)rint(dh - 0.1);
        g.left = (int)rint(dw - 0.1);
    }
    g.bottom = (int)rint(dh + 0.1);
    g.right = (int)rint(dw + 0.1);
    g.out_height = g.top + g.inner_height + g.bottom;
    g.out_width = g.left + g.inner_width + g.right;
    return g;
}

/* The picture at its inner size: itself, or resized into `scratch`. */
static ol_status inner_picture(ol_context *ctx, const image *src, const letterbox_geometry *g, image *scratch,
                               const image **inner) {
    *inner = src;
    if (src->height == g->inner_height && src->width == g->inner_width) return OL_OK;
    *inner = scratch;
    return resize_bilinear(ctx, src, g->inner_height, g->inner_width, scratch);
}

ol_status letterbox_apply(ol_context *ctx, const image *src, const letterbox_geometry *g, image *scratch, image *out) {
    const image *inner;
    ol_status status = inner_picture(ctx, src, g, scratch, &inner);
    if (status == OL_OK) status = image_reserve(ctx, out, g->out_height, g->out_width, src->channels);
    if (status != OL_OK) return status;
    image_fill(out, LETTERBOX_PAD);
    const size_t c = (size_t)src->channels, row_bytes = (size_t)inner->width * c;
    uint8_t *to = out->pixels + ((size_t)g->top * (size_t)g->out_width + (size_t)g->left) * c;
    for (int y = 0; y < inner->height; y++)
        memcpy(to + (size_t)y * (size_t)g->out_width * c, inner->pixels + (size_t)y * row_bytes, row_bytes);
    return OL_OK;
}

ol_status letterbox_planes(ol_context *ctx, const image *src, const letterbox_geometry *g, image *scratch,
                           uint8_t *planes) {
    const image *inner;
    const ol_status status = inner_picture(ctx, src, g, scratch, &inner);
    if (status != OL_OK) return status;
    const size_t n = (size_t)g->out_height * (size_t)g->out_width, c = (size_t)src->channels;
    memset(planes, LETTERBOX_PAD, n * c);
    for (int y = 0; y < inner->height; y++) {
        const uint8_t *from = inner->pixels + (size_t)y * (size_t)inner->width * c;
        uint8_t *to = planes + (size_t)(g->top + y) * (size_t)g->out_width + (size_t)g->left;
        if (c == 1) {
            memcpy(to, from, (size_t)inner->width);
            continue;
        }
        for (size_t x = 0; x < (size_t)inner->width; x++) {
            to[x] = from[3 * x + 2];
            to[n + x] = from[3 * x + 1];
            to[2 * n + x] = from[3 * x];
        }
    }
    return OL_OK;
}

letterbox_recipe letterbox_recipe_of(const letterbox_geometry *g, int src_height, int src_width, size_t offset) {
    return (letterbox_recipe){.scale_x = (double)src_width / g->inner_width,
                              .scale_y = (double)src_height / g->inner_height,
                              .offset = offset,
                              .src_h = src_height,
                              .src_w = src_width,
                              .inner_h = g->inner_height,
                              .inner_w = g->inner_width,
                              .top = g->top,
                              .left = g->left};
}
