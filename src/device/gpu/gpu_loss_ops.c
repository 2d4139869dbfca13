/* The detection loss as a sequence of launches over the entries of the assignment. */
#include "device/gpu/gpu.h"

enum { ENTRY_BYTES = 32, MAX_TOPK = 16 };

typedef struct loss_offsets {
    uint64_t entries, chosen, first, kept, best_metric, best_overlap, sums, class_sums;
} loss_offsets;

static unsigned blocks_of(int64_t count, int64_t per_block) {
    return (unsigned)((count + per_block - 1) / per_block);
}

static void launch(gpu_builder *b, const char *name, const loss_args *a, const loss_offsets *o, unsigned gx,
                   unsigned gy, unsigned gz) {
    gpu_launch *l = gpu_launch_add(b, "loss", name, a, sizeof *a, gx, gy, gz);
    GPU_SLOT(l, loss_args, boxes, SLOT_IN, 0, 0);
    GPU_SLOT(l, loss_args, scores, SLOT_IN, 1, 0);
    GPU_SLOT(l, loss_args, targets, SLOT_IN, 2, 0);
    GPU_SLOT(l, loss_args, counts, SLOT_IN, 3, 0);
    GPU_SLOT(l, loss_args, gains, SLOT_IN, 4, 0);
    GPU_SLOT(l, loss_args, items, SLOT_OUT, 0, 0);
    GPU_SLOT(l, loss_args, grad_boxes, SLOT_OUT, 1, 0);
    GPU_SLOT(l, loss_args, grad_scores, SLOT_OUT, 2, 0);
    GPU_SLOT(l, loss_args, entries, SLOT_SCRATCH, 0, o->entries);
    GPU_SLOT(l, loss_args, chosen, SLOT_SCRATCH, 0, o->chosen);
    GPU_SLOT(l, loss_args, first, SLOT_SCRATCH, 0, o->first);
    GPU_SLOT(l, loss_args, kept, SLOT_SCRATCH, 0, o->kept);
    GPU_SLOT(l, loss_args, best_metric, SLOT_SCRATCH, 0, o->best_metric);
    GPU_SLOT(l, loss_args, best_overlap, SLOT_SCRATCH, 0, o->best_overlap);
    GPU_SLOT(l, loss_args, sums, SLOT_SCRATCH, 0, o->sums);
    GPU_SLOT(l, loss_args, class_sums, SLOT_SCRATCH, 0, o->class_sums);
}

static void fill(gpu_builder *b, gpu_slot_kind kind, int index, uint64_t offset, uint64_t bytes, uint32_t bits) {
    const fill_args a = {.count = bytes / 4, .bits = bits};
    gpu_launch *l = gpu_launch_add(b, "map", "fill_u32", &a, sizeof a, blocks_of((int64_t)a.count, 256), 1, 1);
    GPU_SLOT(l, fill_args, to, kind, index, offset);
}

void gpu_compile_detect_loss(gpu_builder *b) {
    const op_attr *attr = b->op->attr;
    const shape *scores = &b->op->in[1].shape, *targets = &b->op->in[2].shape;
    const bool second = attr->topk2 != attr->topk;
    if (attr->topk > MAX_TOPK || (second && attr->topk2 != 1) || attr->alpha != 0.5f || attr->beta != 6.0f) {
        b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED,
                             "an assigner with topk %d/%d, alpha %g, beta %g has no device code", attr->topk,
                             attr->topk2, (double)attr->alpha, (double)attr->beta);
        return;
    }
    loss_args a = {.n = (gpu_i32)scores->dim[0],
                   .nc = (gpu_i32)scores->dim[1],
                   .anchors = (gpu_i32)scores->dim[2],
                   .max_targets = (gpu_i32)targets->dim[1],
                   .topk = attr->topk,
                   .n_levels = attr->n_levels};
    for (int i = 0; i < attr->n_levels; i++) {
        a.level_h[i] = attr->level_h[i];
        a.level_w[i] = attr->level_w[i];
        a.level_stride[i] = attr->level_stride[i];
    }
    a.class_blocks = (gpu_i32)blocks_of(a.anchors, 1024);
    const uint64_t n = (uint64_t)a.n, rows = n * (uint64_t)a.max_targets, anchors = n * (uint64_t)a.anchors;
    /* chosen, kept and the bests are cleared together, so they lie together */
    const uint64_t chosen_bytes = (anchors * 4 + 255) / 256 * 256, row_bytes = (rows * 4 + 255) / 256 * 256;
    loss_offsets o = {.entries = gpu_scratch_take(b, rows * (uint64_t)a.topk * ENTRY_BYTES)};
    o.chosen = gpu_scratch_take(b, chosen_bytes + 4 * row_bytes);
    o.kept = o.chosen + chosen_bytes;
    o.best_metric = o.kept + 2 * row_bytes;
    o.best_overlap = o.best_metric + row_bytes;
    o.first = gpu_scratch_take(b, anchors * 4);
    o.sums = gpu_scratch_take(b, n * 4 * sizeof(double));
    o.class_sums = gpu_scratch_take(b, n * (uint64_t)a.nc * (uint64_t)a.class_blocks * sizeof(double));
    fill(b, SLOT_SCRATCH, 0, o.chosen, chosen_bytes + 4 * row_bytes, 0);
    fill(b, SLOT_SCRATCH, 0, o.first, anchors * 4, 0x7FFFFFFFu);
    fill(b, SLOT_OUT, 1, 0, anchors * 4 * 4, 0);
    const unsigned entry_blocks = blocks_of((int64_t)a.max_targets * a.topk, 256), images = (unsigned)a.n;
    launch(b, "loss_candidates", &a, &o, (unsigned)a.max_targets, images, 1);
    launch(b, "loss_settle", &a, &o, entry_blocks, images, 1);
    if (second) {
        launch(b, "loss_second", &a, &o, entry_blocks, images, 1);
        launch(b, "loss_drop", &a, &o, entry_blocks, images, 1);
    }
    launch(b, "loss_best", &a, &o, entry_blocks, images, 1);
    launch(b, "loss_scores", &a, &o, images, 1, 1);
    launch(b, "loss_boxes", &a, &o, images, 1, 1);
    launch(b, "loss_classes", &a, &o, (unsigned)a.class_blocks, (unsigned)a.nc, images);
    launch(b, "loss_positives", &a, &o, images, 1, 1);
    launch(b, "loss_items", &a, &o, 1, 1, 1);
}
