#include "data/augment_parts.h"

#include <math.h>
#include <string.h>

#define MIXUP_SHAPE       32.0 /* of the beta distribution */
#define CUTMIX_CANDIDATES 3

typedef struct region {
    int x1, y1, x2, y2;
} region;

void augment_blend(uint8_t *a, const uint8_t *b, size_t n, double r) {
    for (size_t i = 0; i < n; i++) a[i] = (uint8_t)(a[i] * r + b[i] * (1.0 - r));
}

ol_status augment_mixup(augment_job *job, uint32_t index) {
    augmenter *a = job->a;
    const size_t width = (size_t)job->s->out_width, pixels = width * (size_t)job->s->out_height;
    ol_status status = augment_lay_out(job, index);
    if (status != OL_OK) return status;
    const double r = rng_beta(job->rng, MIXUP_SHAPE, MIXUP_SHAPE);
    uint8_t *line = a->line;
    if (job->recipe != NULL) {
        picture_layer *layer = recipe_add(job->recipe, &a->gather, PICTURE_BLEND);
        if (layer != NULL) layer->ratio = r;
    }
    for (size_t y = 0; y < (size_t)job->s->out_height && job->recipe == NULL; y++) {
        gather_row(&a->gather, (int)y, line, line + width, line + 2 * width);
        for (size_t k = 0; k < (size_t)job->channels; k++)
            augment_blend(a->base + k * pixels + y * width, line + k * width, width, r);
    }
    return objects_add_all(a->ctx, &a->sample, &a->found);
}

static int clamp(int x, int high) {
    return x < 0 ? 0 : x > high ? high : x;
}

static region draw_region(rng *r, int height, int width) {
    const double side = sqrt(1.0 - rng_beta(r, 1.0, 1.0));
    const int w = (int)(width * side), h = (int)(height * side);
    const int x = (int)rng_below(r, (uint32_t)width), y = (int)rng_below(r, (uint32_t)height);
    return (region){clamp(x - w / 2, width), clamp(y - h / 2, height), clamp(x + w / 2, width),
                    clamp(y + h / 2, height)};
}

static box region_box(region r) {
    return (box){(float)r.x1, (float)r.y1, (float)r.x2, (float)r.y2};
}

/* One of the candidates that touch no object, or false. */
static bool choose_region(const augment_job *job, region *out) {
    region free[CUTMIX_CANDIDATES];
    uint32_t n = 0;
    for (int k = 0; k < CUTMIX_CANDIDATES; k++) {
        const region r = draw_region(job->rng, job->s->out_height, job->s->out_width);
        bool touches = false;
        for (int i = 0; i < job->a->sample.n && !touches; i++)
            touches = box_share(region_box(r), job->a->sample.boxes[i]) > 0.0f;
        if (!touches) free[n++] = r;
    }
    if (n == 0) return false;
    *out = free[rng_below(job->rng, n)];
    return true;
}

ol_status augment_cutmix(augment_job *job) {
    augmenter *a = job->a;
    const size_t width = (size_t)job->s->out_width, pixels = width * (size_t)job->s->out_height;
    region cut;
    if (!choose_region(job, &cut)) return OL_OK;
    ol_status status = augment_lay_out(job, rng_below(job->rng, job->source->n_pictures));
    if (status != OL_OK) return status;
    const box edge = region_box(cut);
    const float least = a->found.outlined ? 0.01f : 0.1f;
    bool any = false;
    for (int i = 0; i < a->found.n; i++) {
        box *b = &a->found.boxes[i];
        if (box_share(edge, *b) < least) continue;
        *b = (box){fmaxf(b->x1, edge.x1), fmaxf(b->y1, edge.y1), fminf(b->x2, edge.x2), fminf(b->y2, edge.y2)};
        status = objects_add(a->ctx, &a->sample, &a->found, i);
        if (status != OL_OK) return status;
        any = true;
    }
    if (!any) return OL_OK;
    if (job->recipe != NULL) {
        picture_layer *layer = recipe_add(job->recipe, &a->gather, PICTURE_CUT);
        if (layer != NULL) {
            layer->cut_x1 = cut.x1;
            layer->cut_y1 = cut.y1;
            layer->cut_x2 = cut.x2;
            layer->cut_y2 = cut.y2;
        }
        return OL_OK;
    }
    uint8_t *line = a->line;
    for (int y = cut.y1; y < cut.y2; y++) {
        gather_row(&a->gather, y, line, line + width, line + 2 * width);
        for (size_t k = 0; k < (size_t)job->channels; k++)
            memcpy(a->base + k * pixels + (size_t)y * width + (size_t)cut.x1, line + k * width + (size_t)cut.x1,
                   (size_t)(cut.x2 - cut.x1));
    }
    return OL_OK;
}
