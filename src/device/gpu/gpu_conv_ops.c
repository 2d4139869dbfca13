/* Convolution: dense through the implicit matrix product, depthwise through its own kernels; other groups are refused.
 * Master weights stay f32 in the state dict's order; packed copies are the kernel's own. */
#include "device/gpu/gpu.h"

#include <stdio.h>

static unsigned blocks_of(int64_t count, int64_t per_block) {
    return (unsigned)((count + per_block - 1) / per_block);
}

static bool is_depthwise(const op_attr *attr, const shape *weight) {
    return attr->groups > 1 && weight->dim[0] == attr->groups && weight->dim[1] == 1;
}

/* True when `op` can run; else the builder's status says why not. */
static bool shape_supported(gpu_builder *b, const op_attr *attr, const shape *weight) {
    if (b->status != OL_OK) return false;
    if (attr->groups > 1 && !is_depthwise(attr, weight)) {
        b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED,
                             "grouped convolution with %d groups is not implemented on GPUs", attr->groups);
    } else if (is_depthwise(attr, weight) &&
               (attr->kernel[0] != attr->kernel[1] || attr->stride[0] != attr->stride[1] ||
                attr->pad[0] != attr->pad[1] || attr->dilation[0] != attr->dilation[1])) {
        b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED, "depthwise windows must be square to run on GPUs");
    } else if (attr->stride[0] != attr->stride[1]) {
        b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED, "strides must be equal in x and y to run on GPUs");
    }
    return b->status == OL_OK;
}

/* --- packing --- */

typedef struct tap_range {
    int taps, first, step;   /* kernel rows (or columns) first, first + step, … */
    int offset, offset_step; /* input offset of the first and from one to the next */
} tap_range;

/* All taps, in order. */
static tap_range taps_forward(int kernel, int pad, int dilation) {
    return (tap_range){kernel, 0, 1, -pad, dilation};
}

/* The taps through which output row y of parity `phase` of the input's gradient is reached: t with (phase + pad -
 * t*dilation) divisible by the stride; the row of dy is then y + (phase + pad - t*dilation) / stride. */
static tap_range taps_backward(int kernel, int stride, int pad, int dilation, int phase) {
    tap_range r = {0};
    for (int t = 0; t < kernel; t++) {
        const int numerator = phase + pad - t * dilation;
        if (numerator % stride != 0) continue;
        const int offset = numerator / stride;
        if (r.taps == 0) {
            r.first = t;
            r.offset = offset;
        } else if (r.taps == 1) {
            r.step = t - r.first;
            r.offset_step = offset - r.offset;
        }
        r.taps++;
    }
    return r;
}

static uint64_t pack_add(gpu_builder *b, const shape *weight, int weight_input, const char *suffix, dtype type,
                         tap_range y, tap_range x, bool transposed) {
    const int k = (int)weight->dim[0], c = (int)weight->dim[1];
    pack_args a = {.k = k,
                   .c = c,
                   .kernel_y = (gpu_i32)weight->dim[2],
                   .kernel_x = (gpu_i32)weight->dim[3],
                   .rows_padded = gpu_padded(transposed ? c : k),
                   .reduction_padded = gpu_padded(transposed ? k : c),
                   .taps_y = y.taps,
                   .taps_x = x.taps,
                   .y0 = y.first,
                   .y_step = y.step,
                   .x0 = x.first,
                   .x_step = x.step,
                   .transposed = transposed};
    const int64_t count = (int64_t)a.rows_padded * a.reduction_padded * y.taps * x.taps;
    const uint64_t at = gpu_own_take(b, (size_t)(count > 0 ? count : 1) * dtype_bytes(type));
    if (count == 0) return at;
    char name[32];
    snprintf(name, sizeof name, "pack_weights_%s", suffix);
    gpu_launch *l = gpu_launch_add(b, "map", name, &a, sizeof a, blocks_of(count, 256), 1, 1);
    GPU_SLOT(l, pack_args, weight, SLOT_IN, weight_input, 0);
    GPU_SLOT(l, pack_args, packed, SLOT_OWN, 0, at);
    if (l != NULL) l->packs = true;
    return at;
}

static uint64_t depthwise_pack_add(gpu_builder *b, const shape *weight, int weight_input) {
    depthwise_wgrad_args a = {
        .c = gpu_padded(weight->dim[0]), .c_logical = (gpu_i32)weight->dim[0], .kernel = (gpu_i32)weight->dim[2]};
    const int64_t count = (int64_t)a.c * a.kernel * a.kernel;
    const uint64_t at = gpu_own_take(b, (size_t)count * sizeof(float));
    gpu_launch *l = gpu_launch_add(b, "depthwise", "depthwise_pack", &a, sizeof a, blocks_of(count, 256), 1, 1);
    GPU_SLOT(l, depthwise_wgrad_args, grad, SLOT_IN, weight_input, 0);
    GPU_SLOT(l, depthwise_wgrad_args, partial, SLOT_OWN, 0, at);
    if (l != NULL) l->packs = true;
    return at;
}

/* --- dense --- */

/* The widest tile that still gives every multiprocessor two blocks, else the narrowest. */
static int tile_width(const gpu_builder *b, int64_t rows, int columns, dtype type) {
    static const int widths[] = {128, 64, 32};
    for (size_t i = type == DTYPE_F32 ? 1 : 0; i < 2; i++) {
        if (columns <= widths[i + 1]) continue;
        const int64_t blocks = (int64_t)blocks_of(rows, 128) * blocks_of(columns, widths[i]);
        if (blocks >= 2 * (int64_t)b->g->info.multiprocessors) return widths[i];
    }
    return 32;
}

static gpu_launch *conv_add(gpu_builder *b, const conv_args *a, dtype type) {
    const int64_t rows = (int64_t)a->n * a->gh * a->gw;
    const int width = tile_width(b, rows, a->k, type);
    char name[32];
    snprintf(name, sizeof name, "conv_%s_128x%d", gpu_type_suffix(type), width);
    return gpu_launch_add(b, "conv", name, a, sizeof *a, blocks_of(rows, 128), blocks_of(a->k, width), 1);
}

static void conv_forward(gpu_builder *b) {
    const op_record *op = b->op;
    const op_attr *attr = op->attr;
    const op_operand *x = &op->in[0], *w = &op->in[1], *y = &op->out[0];
    const tap_range ty = taps_forward(attr->kernel[0], attr->pad[0], attr->dilation[0]);
    const tap_range tx = taps_forward(attr->kernel[1], attr->pad[1], attr->dilation[1]);
    const uint64_t packed = pack_add(b, &w->shape, 1, gpu_type_suffix(y->type), y->type, ty, tx, false);
    const bool bias = op->n_in > 2 && op->in[2].present, residual = op->n_in > 3 && op->in[3].present;
    const conv_args a = {.n = (gpu_i32)x->shape.dim[0],
                         .h = (gpu_i32)x->shape.dim[2],
                         .w = (gpu_i32)x->shape.dim[3],
                         .c = gpu_padded(x->shape.dim[1]),
                         .ld_in = x->layout.block,
                         .gh = (gpu_i32)y->shape.dim[2],
                         .gw = (gpu_i32)y->shape.dim[3],
                         .oh = (gpu_i32)y->shape.dim[2],
                         .ow = (gpu_i32)y->shape.dim[3],
                         .k = gpu_padded(y->shape.dim[1]),
                         .k_logical = (gpu_i32)y->shape.dim[1],
                         .ld_out = y->layout.block,
                         .ld_residual = residual ? op->in[3].layout.block : 0,
                         .in_step = attr->stride[0],
                         .out_step = 1,
                         .taps_y = ty.taps,
                         .taps_x = tx.taps,
                         .dy0 = ty.offset,
                         .dx0 = tx.offset,
                         .ddy = ty.offset_step,
                         .ddx = tx.offset_step,
                         .act = (gpu_i32)attr->act};
    gpu_launch *l = conv_add(b, &a, y->type);
    GPU_SLOT(l, conv_args, in, SLOT_IN, 0, 0);
    GPU_SLOT(l, conv_args, weight, SLOT_OWN, 0, packed);
    GPU_SLOT(l, conv_args, out, SLOT_OUT, 0, 0);
    if (bias) GPU_SLOT(l, conv_args, bias, SLOT_IN, 2, 0);
    if (residual) GPU_SLOT(l, conv_args, residual, SLOT_IN, 3, 0);
}

static depthwise_args depthwise_args_of(const op_attr *attr, const op_operand *in, const op_operand *out) {
    return (depthwise_args){.n = (gpu_i32)in->shape.dim[0],
                            .h = (gpu_i32)in->shape.dim[2],
                            .w = (gpu_i32)in->shape.dim[3],
                            .oh = (gpu_i32)out->shape.dim[2],
                            .ow = (gpu_i32)out->shape.dim[3],
                            .c = gpu_padded(in->shape.dim[1]),
                            .c_logical = (gpu_i32)in->shape.dim[1],
                            .ld_in = in->layout.block,
                            .ld_out = out->layout.block,
                            .kernel = attr->kernel[0],
                            .step = attr->stride[0],
                            .pad = attr->pad[0],
                            .dilation = attr->dilation[0],
                            .act = (gpu_i32)attr->act};
}

static gpu_launch *depthwise_add(gpu_builder *b, const depthwise_args *a, dtype type) {
    char name[32];
    snprintf(name, sizeof name, "depthwise_%s", gpu_type_suffix(type));
    return gpu_launch_add(b, "depthwise", name, a, sizeof *a,
                          blocks_of((int64_t)a->n * a->oh * a->ow * (a->c / 8), 256), 1, 1);
}

void gpu_compile_conv2d(gpu_builder *b) {
    const op_record *op = b->op;
    if (!shape_supported(b, op->attr, &op->in[1].shape)) return;
    if (!is_depthwise(op->attr, &op->in[1].shape)) {
        conv_forward(b);
        return;
    }
    const uint64_t packed = depthwise_pack_add(b, &op->in[1].shape, 1);
    depthwise_args a = depthwise_args_of(op->attr, &op->in[0], &op->out[0]);
    const bool residual = op->n_in > 3 && op->in[3].present;
    if (residual) a.ld_residual = op->in[3].layout.block;
    gpu_launch *l = depthwise_add(b, &a, op->out[0].type);
    GPU_SLOT(l, depthwise_args, in, SLOT_IN, 0, 0);
    GPU_SLOT(l, depthwise_args, weight, SLOT_OWN, 0, packed);
    GPU_SLOT(l, depthwise_args, out, SLOT_OUT, 0, 0);
    if (op->n_in > 2 && op->in[2].present) GPU_SLOT(l, depthwise_args, bias, SLOT_IN, 2, 0);
    if (residual) GPU_SLOT(l, depthwise_args, residual, SLOT_IN, 3, 0);
}

void gpu_compile_conv2d_grad_x(gpu_builder *b) {
    const op_record *op = b->op;
    const op_attr *attr = op->attr;
    const op_operand *gy = &op->in[0], *w = &op->in[1], *gx = &op->out[0];
    if (!shape_supported(b, attr, &w->shape)) return;
    if (is_depthwise(attr, &w->shape)) {
        const uint64_t packed = depthwise_pack_add(b, &w->shape, 1);
        depthwise_args a = depthwise_args_of(attr, gy, gx);
        a.mirrored = 1;
        a.act = 0;
        gpu_launch *l = depthwise_add(b, &a, gx->type);
        GPU_SLOT(l, depthwise_args, in, SLOT_IN, 0, 0);
        GPU_SLOT(l, depthwise_args, weight, SLOT_OWN, 0, packed);
        GPU_SLOT(l, depthwise_args, out, SLOT_OUT, 0, 0);
        return;
    }
    const int stride = attr->stride[0], h = (int)gx->shape.dim[2], width = (int)gx->shape.dim[3];
    for (int phase = 0; phase < stride * stride; phase++) {
        const int py = phase / stride, px = phase % stride;
        if (py >= h || px >= width) continue;
        const tap_range ty = taps_backward(attr->kernel[0], stride, attr->pad[0], attr->dilation[0], py);
        const tap_range tx = taps_backward(attr->kernel[1], stride, attr->pad[1], attr->dilation[1], px);
        const uint64_t packed = pack_add(b, &w->shape, 1, gpu_type_suffix(gx->type), gx->type, ty, tx, true);
        const conv_args a = {.n = (gpu_i32)gy->shape.dim[0],
                             .h = (gpu_i32)gy->shape.dim[2],
                             .w = (gpu_i32)gy->shape.dim[3],
                             .c = gpu_padded(gy->shape.dim[1]),
                             .ld_in = gy->layout.block,
                             .gh = (h - py + stride - 1) / stride,
                             .gw = (width - px + stride - 1) / stride,
                             .oh = h,
                             .ow = width,
                             .k = gpu_padded(gx->shape.dim[1]),
                             .k_logical = (gpu_i32)gx->shape.dim[1],
                             .ld_out = gx->layout.block,
                             .in_step = 1,
                             .out_step = stride,
                             .out_y = py,
                             .out_x = px,
                             .taps_y = ty.taps,
                             .taps_x = tx.taps,
                             .dy0 = ty.offset,
                             .dx0 = tx.offset,
                             .ddy = ty.offset_step,
                             .ddx = tx.offset_step};
        gpu_launch *l = conv_add(b, &a, gx->type);
        GPU_SLOT(l, conv_args, in, SLOT_IN, 0, 0);
        GPU_SLOT(l, conv_args, weight, SLOT_OWN, 0, packed);
        GPU_SLOT(l, conv_args, out, SLOT_OUT, 0, 0);
    }
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
                              .dilation = attr->dilation[0],
                              .groups = channels / 8 < 32 ? channels / 8 : 32};
    const int64_t rows = (int64_t)a.n * a.oh * a.ow;
    const int64_t least = 256 / a.groups * 4, even = (rows + 255) / 256;
    a.rows_per_block = (gpu_i32)(even > least ? even : least);
    a.blocks = (gpu_i32)blocks_of(rows, a.rows_per_block);
    const uint64_t partial = gpu_scratch_take(b, (size_t)a.blocks * (size_t)(taps * channels) * sizeof(float));
    char name[32];
    snprintf(name, sizeof name, "depthwise_wgrad_%s", gpu_type_suffix(x->type));
    gpu_launch *l = gpu_launch_add(b, "depthwise", name, &a, sizeof a, (unsigned)a.blocks,
                                   blocks_of(channels / 8, a.groups), (unsigned)taps);
    GPU_SLOT(l, depthwise_wgrad_args, in, SLOT_IN, 0, 0);
    GPU_SLOT(l, depthwise_wgrad_args, dy, SLOT_IN, 1, 0);
    GPU_SLOT(l, depthwise_wgrad_args, partial, SLOT_SCRATCH, 0, partial);
    l = gpu_launch_add(b, "depthwise", "depthwise_wgrad_reduce", &a, sizeof a,
                       blocks_of((int64_t)a.c_logical * taps, 256), 1, 1);
    GPU_SLOT(l, depthwise_wgrad_args, partial, SLOT_SCRATCH, 0, partial);
    GPU_SLOT(l, depthwise_wgrad_args, grad, SLOT_OUT, 0, 0);
}

/* Gradients of parameters are added to; other outputs must be overwritten, so they are cleared first. */
static void clear_unless_adding(gpu_builder *b, const op_operand *out) {
    if (out->role == ROLE_GRAD) return;
    const fill_args a = {.count = (uint64_t)shape_elements(&out->shape)};
    gpu_launch *l = gpu_launch_add(b, "map", "fill_u32", &a, sizeof a, blocks_of((int64_t)a.count, 256), 1, 1);
    GPU_SLOT(l, fill_args, to, SLOT_OUT, 0, 0);
}

void gpu_compile_conv2d_grad_w(gpu_builder *b) {
    const op_record *op = b->op;
    const op_attr *attr = op->attr;
    const op_operand *x = &op->in[0], *gy = &op->in[1], *gw = &op->out[0];
    if (!shape_supported(b, attr, &gw->shape)) return;
    clear_unless_adding(b, gw);
    if (is_depthwise(attr, &gw->shape)) {
        depthwise_weights(b);
        return;
    }
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
    const wgrad_reduce_args r = {.splits = (gpu_i32)splits,
                                 .k = (gpu_i32)gw->shape.dim[0],
                                 .c = (gpu_i32)gw->shape.dim[1],
                                 .taps = taps,
                                 .k_padded = k,
                                 .c_padded = c};
    l = gpu_launch_add(b, "wgrad", "wgrad_reduce", &r, sizeof r, blocks_of(shape_elements(&gw->shape), 256), 1, 1);
    GPU_SLOT(l, wgrad_reduce_args, partial, SLOT_SCRATCH, 0, partial);
    GPU_SLOT(l, wgrad_reduce_args, grad, SLOT_OUT, 0, 0);
}

void gpu_compile_conv2d_grad_bias(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0];
    clear_unless_adding(b, &b->op->out[0]);
    const bias_grad_args a = {.pixels = (gpu_i32)(gy->shape.dim[0] * gy->shape.dim[2] * gy->shape.dim[3]),
                              .c = (gpu_i32)gy->shape.dim[1],
                              .ld_dy = gy->layout.block};
    char name[32];
    snprintf(name, sizeof name, "bias_grad_%s", gpu_type_suffix(gy->type));
    gpu_launch *l = gpu_launch_add(b, "map", name, &a, sizeof a, (unsigned)(gpu_padded(a.c) / 8), 1, 1);
    GPU_SLOT(l, bias_grad_args, dy, SLOT_IN, 0, 0);
    GPU_SLOT(l, bias_grad_args, grad, SLOT_OUT, 0, 0);
}
