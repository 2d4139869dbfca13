/* Gradients of a convolution's weights and bias: dense by pieces of the picture in half precision, as one matrix
 * product otherwise; depthwise by its own kernels. Partial sums of blocks are joined in a fixed order. */
#include "device/gpu/gpu.h"

#include <limits.h>
#include <stdio.h>

static unsigned blocks_of(int64_t count, int64_t per_block) {
    return (unsigned)((count + per_block - 1) / per_block);
}

/* The launch after the partial sums [splits][k padded][taps][c padded]: adds them into the gradient (k, c, taps). */
static void reduce_add(gpu_builder *b, uint64_t partial, int64_t splits, int k, int k_padded, int c, int c_padded,
                       int taps) {
    const wgrad_reduce_args r = {
        .splits = (gpu_i32)splits, .k = k, .c = c, .taps = taps, .k_padded = k_padded, .c_padded = c_padded};
    gpu_launch *l = gpu_launch_add(b, "wgrad_reduce", "wgrad_reduce", &r, sizeof r,
                                   blocks_of((int64_t)k * taps * c_padded, 32), 1, 1);
    GPU_SLOT(l, wgrad_reduce_args, partial, SLOT_SCRATCH, 0, partial);
    GPU_SLOT(l, wgrad_reduce_args, grad, SLOT_OUT, 0, 0);
}

static void reduce_dense(gpu_builder *b, uint64_t partial, int64_t splits, int k_padded, int c_padded, int taps) {
    const shape *w = &b->op->out[0].shape;
    reduce_add(b, partial, splits, (int)w->dim[0], k_padded, (int)w->dim[1], c_padded, taps);
}

static void depthwise_weights(gpu_builder *b) {
    const op_record *op = b->op;
    const op_attr *attr = op->attr;
    const op_operand *x = &op->in[0], *gy = &op->in[1];
    const int channels = gpu_padded(x->shape.dim[1]), taps = attr->kernel[0] * attr->kernel[0];
    depthwise_wgrad_args a = {.n = (gpu_i32)x->shape.dim[0],
                              .h = (gpu_i32)x->shape.dim[2],
                              .w = (gpu_i32)x->shape.dim[3],
                              .oh = (gpu_i32)gy->shape.dim[2],
                              .ow = (gpu_i32)gy->shape.dim[3],
                              .c = channels,
                              .c_logical = (gpu_i32)x->shape.dim[1],
                              .ld_in = x->layout.block,
                              .ld_dy = gy->layout.block,
                              .kernel = attr->kernel[0],
                              .step = attr->stride[0],
                              .pad = attr->pad[0],
                              .dilation = attr->dilation[0]};
    /* rows of pixels with all taps at once where the window allows it, else pixels and a tap a block */
    const bool by_rows = a.kernel == 3 && a.step == 1 && a.dilation == 1;
    const int lanes = by_rows ? 4 : 8, width = channels / lanes;
    a.groups = width < 256 / lanes ? width : 256 / lanes;
    const int64_t rows = (int64_t)a.n * a.oh * (by_rows ? 1 : a.ow);
    const int64_t least = by_rows ? 256 / a.groups : 256 / a.groups * 4;
    const int64_t even = (rows + (by_rows ? 511 : 255)) / (by_rows ? 512 : 256);
    a.rows_per_block = (gpu_i32)(even > least ? even : least);
    a.blocks = (gpu_i32)blocks_of(rows, a.rows_per_block);
    const uint64_t partial = gpu_scratch_take(b, (size_t)a.blocks * (size_t)(taps * channels) * sizeof(float));
    char name[32];
    snprintf(name, sizeof name, "depthwise%s_wgrad_%s", by_rows ? "3" : "", gpu_type_suffix(x->type));
    gpu_launch *l = gpu_launch_add(b, "depthwise_wgrad", name, &a, sizeof a, (unsigned)a.blocks,
                                   blocks_of(width, a.groups), by_rows ? 1 : (unsigned)taps);
    GPU_SLOT(l, depthwise_wgrad_args, in, SLOT_IN, 0, 0);
    GPU_SLOT(l, depthwise_wgrad_args, dy, SLOT_IN, 1, 0);
    GPU_SLOT(l, depthwise_wgrad_args, partial, SLOT_SCRATCH, 0, partial);
    reduce_add(b, partial, a.blocks, 1, 1, a.c_logical, channels, taps);
}

/* Gradients of parameters are added to; other outputs must be overwritten, so they are cleared first. */
static void clear_unless_adding(gpu_builder *b, const op_operand *out) {
    if (out->role == ROLE_GRAD) return;
    const fill_args a = {.count = (uint64_t)shape_elements(&out->shape)};
    gpu_launch *l = gpu_launch_add(b, "map", "fill_u32", &a, sizeof a, blocks_of((int64_t)a.count, 256), 1, 1);
    GPU_SLOT(l, fill_args, to, SLOT_OUT, 0, 0);
}

/* --- dense, by pieces of the picture --- */

typedef struct tile_choice {
    int64_t cost;
    int w, h, pixels, halo_w, halo_h, tiles_x, tiles_y, stage_bytes;
} tile_choice;

/* What a piece of w x h output pixels comes to; false when it does not fit twice into shared memory. The cost counts
 * the 16-byte pieces that are brought, and the work of the waves at six of them for a pixel and wave. */
static bool tile_judge(const wgrad_tile_args *a, int side, int slice_k, int slice_c, int waves, int w, int pixels,
                       tile_choice *out) {
    tile_choice t = {.w = w, .h = pixels / w, .pixels = pixels};
    if (t.h > a->oh) t.h = a->oh;
    if (t.h < 1) return false;
    t.pixels = (t.w * t.h + 15) / 16 * 16;
    t.halo_w = (t.w - 1) * a->step + (side - 1) * a->ddx + 1;
    t.halo_h = (t.h - 1) * a->step + (side - 1) * a->ddy + 1;
    t.tiles_x = (a->ow + t.w - 1) / t.w;
    t.tiles_y = (a->oh + t.h - 1) / t.h;
    t.stage_bytes = 2 * (t.pixels * (slice_k + 8) + t.halo_w * t.halo_h * (slice_c + 8));
    if (2 * t.stage_bytes > WGRAD_TILE_BYTES || t.halo_w * t.halo_h > WGRAD_TILE_HALO || t.halo_w > 255 ||
        t.halo_h > 255 || t.w > 255 || t.h > 255)
        return false;
    const int groups = waves / (a->wk * a->wc), rounds = (t.pixels / 16 + groups - 1) / groups;
    const int copied = t.pixels * slice_k / 8 + t.halo_w * t.halo_h * slice_c / 8;
    t.cost = (int64_t)t.tiles_x * t.tiles_y * (copied + 96 * waves * rounds + 200);
    *out = t;
    return true;
}

static tile_choice tile_choose(const wgrad_tile_args *a, int side, int slice_k, int slice_c, int waves) {
    tile_choice best = {.cost = INT64_MAX}, t;
    for (int pixels = 32; pixels <= WGRAD_TILE_PIXELS; pixels += 32)
        for (int w = 1; w <= pixels && w <= a->ow; w++)
            if (tile_judge(a, side, slice_k, slice_c, waves, w, pixels, &t) && t.cost < best.cost) best = t;
    return best;
}

/* False when the convolution has a form for which there is no such kernel. */
static bool weights_by_tiles(gpu_builder *b) {
    const op_attr *attr = b->op->attr;
    const op_operand *x = &b->op->in[0], *gy = &b->op->in[1];
    const int side = attr->kernel[0], images = (int)x->shape.dim[0];
    if (x->type == DTYPE_F32 || attr->kernel[0] != attr->kernel[1] || (side != 1 && side != 3)) return false;
    wgrad_tile_args a = {.h = (gpu_i32)x->shape.dim[2],
                         .w = (gpu_i32)x->shape.dim[3],
                         .c = gpu_padded(x->shape.dim[1]),
                         .ld_in = x->layout.block,
                         .oh = (gpu_i32)gy->shape.dim[2],
                         .ow = (gpu_i32)gy->shape.dim[3],
                         .k = gpu_padded(gy->shape.dim[1]),
                         .ld_dy = gy->layout.block,
                         .step = attr->stride[0],
                         .dy0 = -attr->pad[0],
                         .dx0 = -attr->pad[1],
                         .ddy = attr->dilation[0],
                         .ddx = attr->dilation[1]};
    int tiled_images = images;
    if (side == 1 && a.step == 1 && attr->pad[0] == 0 && attr->pad[1] == 0) { /* pixels in one row */
        a.w = a.ow = images * a.oh * a.ow;
        a.h = a.oh = tiled_images = 1;
    }
    const int deep = side == 3 ? 16 : 32; /* channels of one wave */
    a.wk = a.k > deep ? 2 : 1;
    a.wc = a.c > deep ? 2 : 1;
    const int slice_k = a.wk * deep, slice_c = a.wc * deep, waves = 256 / b->g->info.wave_width;
    const tile_choice t = tile_choose(&a, side, slice_k, slice_c, waves);
    if (t.cost == INT64_MAX) return false;
    a.tile_h = t.h;
    a.tile_w = t.w;
    a.pixels = t.pixels;
    a.halo_h = t.halo_h;
    a.halo_w = t.halo_w;
    a.tiles_y = t.tiles_y;
    a.tiles_x = t.tiles_x;
    a.tiles = tiled_images * t.tiles_y * t.tiles_x;
    a.by_tiles_x = gpu_divisor_of(t.tiles_x);
    a.by_tiles_y = gpu_divisor_of(t.tiles_y);
    a.slices_c = (gpu_i32)blocks_of(a.c, slice_c);
    a.stages = 3 * t.stage_bytes > WGRAD_TILE_BYTES ? 2 : 3;
    const int slices = (int)blocks_of(a.k, slice_k) * a.slices_c;
    int64_t splits = 2 * (int64_t)b->g->info.multiprocessors / slices;
    if (splits < 1) splits = 1;
    a.tiles_per_split = (gpu_i32)((a.tiles + splits - 1) / splits);
    splits = (int64_t)blocks_of(a.tiles, a.tiles_per_split);
    const uint64_t partial =
        gpu_scratch_take(b, (size_t)splits * (size_t)a.k * (size_t)(side * side * a.c) * sizeof(float));
    char name[32];
    snprintf(name, sizeof name, "wgrad_%s_tile%d", gpu_type_suffix(x->type), side);
    gpu_launch *l = gpu_launch_add(b, "wgrad_tile", name, &a, sizeof a, (unsigned)splits, (unsigned)slices, 1);
    GPU_SLOT(l, wgrad_tile_args, in, SLOT_IN, 0, 0);
    GPU_SLOT(l, wgrad_tile_args, dy, SLOT_IN, 1, 0);
    GPU_SLOT(l, wgrad_tile_args, partial, SLOT_SCRATCH, 0, partial);
    reduce_dense(b, partial, splits, a.k, a.c, side * side);
    return true;
}

/* --- dense, as one matrix product --- */

static void weights_by_product(gpu_builder *b) {
    const op_attr *attr = b->op->attr;
    const op_operand *x = &b->op->in[0], *gy = &b->op->in[1];
    const int k = gpu_padded(gy->shape.dim[1]), c = gpu_padded(x->shape.dim[1]);
    const int taps = attr->kernel[0] * attr->kernel[1], height = k >= 64 ? 64 : 32;
    wgrad_args a = {.n = (gpu_i32)x->shape.dim[0],
                    .h = (gpu_i32)x->shape.dim[2],
                    .w = (gpu_i32)x->shape.dim[3],
                    .c = c,
                    .ld_in = x->layout.block,
                    .oh = (gpu_i32)gy->shape.dim[2],
                    .ow = (gpu_i32)gy->shape.dim[3],
                    .k = k,
                    .ld_dy = gy->layout.block,
                    .step = attr->stride[0],
                    .taps_y = attr->kernel[0],
                    .taps_x = attr->kernel[1],
                    .dy0 = -attr->pad[0],
                    .dx0 = -attr->pad[1],
                    .ddy = attr->dilation[0],
                    .ddx = attr->dilation[1]};
    const int64_t pixels = (int64_t)a.n * a.oh * a.ow,
                  tiles = (int64_t)blocks_of((int64_t)taps * c, 64) * blocks_of(k, height);
    int64_t splits = (4 * (int64_t)b->g->info.multiprocessors + tiles - 1) / tiles;
    const int64_t most = (pixels + 255) / 256; /* at least 256 pixels a split */
    if (splits > most) splits = most;
    a.pixels_per_split = (gpu_i32)(((pixels + splits - 1) / splits + 31) / 32 * 32);
    splits = (pixels + a.pixels_per_split - 1) / a.pixels_per_split;
    const uint64_t partial = gpu_scratch_take(b, (size_t)splits * (size_t)k * (size_t)(taps * c) * sizeof(float));
    char name[32];
    snprintf(name, sizeof name, "wgrad_%s_%dx64", gpu_type_suffix(x->type), height);
    gpu_launch *l = gpu_launch_add(b, "wgrad", name, &a, sizeof a, blocks_of((int64_t)taps * c, 64),
                                   blocks_of(k, height), (unsigned)splits);
    GPU_SLOT(l, wgrad_args, in, SLOT_IN, 0, 0);
    GPU_SLOT(l, wgrad_args, dy, SLOT_IN, 1, 0);
    GPU_SLOT(l, wgrad_args, partial, SLOT_SCRATCH, 0, partial);
    reduce_dense(b, partial, splits, k, c, taps);
}

void gpu_compile_conv2d_grad_w(gpu_builder *b) {
    const op_record *op = b->op;
    const op_attr *attr = op->attr;
    const op_operand *gw = &op->out[0];
    if (!gpu_conv_supported(b, attr, &gw->shape)) return;
    clear_unless_adding(b, gw);
    if (gpu_is_depthwise(attr, &gw->shape)) {
        depthwise_weights(b);
        return;
    }
    if (!weights_by_tiles(b)) weights_by_product(b);
}

void gpu_compile_conv2d_grad_bias(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0];
    clear_unless_adding(b, &b->op->out[0]);
    const gpu_rows_split r = gpu_split_rows(b, gy);
    const int c = (int)gy->shape.dim[1], padded = gpu_padded(c);
    const bias_grad_args a = {
        .rows = r.rows, .c = padded, .ld_dy = gy->layout.block, .groups = r.groups, .rows_per_block = r.rows_per_block};
    const uint64_t partial = gpu_scratch_take(b, (size_t)r.blocks * (size_t)padded * sizeof(float));
    char name[32];
    snprintf(name, sizeof name, "bias_grad_%s", gpu_type_suffix(gy->type));
    gpu_launch *l = gpu_launch_add(b, "bn", name, &a, sizeof a, (unsigned)r.blocks, (unsigned)r.channel_blocks, 1);
    GPU_SLOT(l, bias_grad_args, dy, SLOT_IN, 0, 0);
    GPU_SLOT(l, bias_grad_args, partial, SLOT_SCRATCH, 0, partial);
    reduce_add(b, partial, r.blocks, 1, 1, c, padded, 1);
}
