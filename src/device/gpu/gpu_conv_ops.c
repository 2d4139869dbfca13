/* Convolution: dense through the implicit matrix product, depthwise through its own kernels; other groups are refused.
 * Master weights stay f32 in the state dict's order; packed copies are the kernel's own. */
#include "device/gpu/gpu.h"

#include <limits.h>
#include <stdio.h>

static unsigned blocks_of(int64_t count, int64_t per_block) {
    return (unsigned)((count + per_block - 1) / per_block);
}

bool gpu_is_depthwise(const op_attr *attr, const shape *weight) {
    return attr->groups > 1 && weight->dim[0] == attr->groups && weight->dim[1] == 1;
}

/* True when `op` can run; else the builder's status says why not. */
bool gpu_conv_supported(gpu_builder *b, const op_attr *attr, const shape *weight) {
    if (b->status != OL_OK) return false;
    if (attr->groups > 1 && !gpu_is_depthwise(attr, weight)) {
        b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED,
                             "grouped convolution with %d groups has no device code", attr->groups);
    } else if (gpu_is_depthwise(attr, weight) &&
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

static int pack_type(dtype type) {
    return type == DTYPE_F16 ? PACK_F16 : type == DTYPE_BF16 ? PACK_BF16 : PACK_F32;
}

static uint64_t pack_add(gpu_builder *b, const shape *weight, dtype type, tap_range y, tap_range x, bool transposed) {
    const int k = (int)weight->dim[0], c = (int)weight->dim[1];
    const pack_item item = {.k = k,
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
                            .transposed = transposed,
                            .type = pack_type(type)};
    return gpu_pack_add(b, &item, dtype_bytes(type), 1);
}

/* (c, taps) to [taps][padded c], in f32. */
static uint64_t depthwise_pack_add(gpu_builder *b, const shape *weight) {
    const int side = (int)weight->dim[2];
    const pack_item item = {.k = (gpu_i32)weight->dim[0],
                            .c = 1,
                            .kernel_y = side,
                            .kernel_x = side,
                            .rows_padded = 1,
                            .reduction_padded = gpu_padded(weight->dim[0]),
                            .taps_y = side,
                            .taps_x = side,
                            .y_step = 1,
                            .x_step = 1,
                            .transposed = 1,
                            .type = PACK_F32};
    return gpu_pack_add(b, &item, sizeof(float), 1);
}

/* --- dense --- */

/* n / d by a product and a shift, for n below 2^31 (args.h). */
gpu_divisor gpu_divisor_of(int d) {
    gpu_divisor r = {0, 0};
    while (((int64_t)1 << r.shift) < d) r.shift++;
    r.multiplier = (gpu_u32)((((uint64_t)1 << 32) * (((uint64_t)1 << r.shift) - (uint64_t)d)) / (uint64_t)d + 1);
    return r;
}

/* The tile that wastes least: columns beyond the map cost as much as columns in it, and every block of columns reads
 * the picture again, which costs about as much as 40 columns. Where that leaves multiprocessors without work, the
 * 32-wide. */
static int tile_width(const gpu_builder *b, int64_t rows, int columns) {
    static const int widths[] = {16, 32, 64, 80};
    int best = 32, least = INT_MAX;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int blocks = (int)blocks_of(columns, widths[i]), cost = blocks * (widths[i] + 40);
        if (widths[i] > 32 && (int64_t)blocks_of(rows, 128) * blocks < 2 * (int64_t)b->g->info.multiprocessors)
            continue;
        if (cost < least) best = widths[i];
        if (cost < least) least = cost;
    }
    return best;
}

static gpu_launch *conv_add(gpu_builder *b, conv_args *a, dtype type) {
    const int64_t rows = (int64_t)a->n * a->gh * a->gw;
    const int width = !a->out_f32 ? tile_width(b, rows, a->k) : a->k <= 16 ? 16 : 80;
    a->by_gw = gpu_divisor_of(a->gw);
    a->by_gh = gpu_divisor_of(a->gh);
    a->scattered = a->out_step != 1 || a->gh != a->oh || a->gw != a->ow;
    char module[12], name[32];
    snprintf(module, sizeof module, "conv_%s", gpu_type_suffix(type));
    snprintf(name, sizeof name, "%s_128x%d", module, width);
    return gpu_launch_add(b, module, name, a, sizeof *a, blocks_of(rows, 128), blocks_of(a->k, width), 1);
}

static void conv_forward(gpu_builder *b) {
    const op_record *op = b->op;
    const op_attr *attr = op->attr;
    const op_operand *x = &op->in[0], *w = &op->in[1], *y = &op->out[0];
    const tap_range ty = taps_forward(attr->kernel[0], attr->pad[0], attr->dilation[0]);
    const tap_range tx = taps_forward(attr->kernel[1], attr->pad[1], attr->dilation[1]);
    const uint64_t packed = pack_add(b, &w->shape, x->type, ty, tx, false);
    const bool bias = op->n_in > 2 && op->in[2].present, residual = op->n_in > 3 && op->in[3].present;
    conv_args a = {.n = (gpu_i32)x->shape.dim[0],
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
                   .act = (gpu_i32)attr->act,
                   .out_f32 = x->type != y->type};
    gpu_launch *l = conv_add(b, &a, x->type);
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
    const bool rows = a->kernel == 3 && a->step == 1 && a->dilation == 1; /* four neighbours a thread */
    const int64_t pixels = (int64_t)a->n * a->oh * (rows ? (a->ow + 3) / 4 : a->ow);
    snprintf(name, sizeof name, "depthwise%s_%s", rows ? "3" : "", gpu_type_suffix(type));
    return gpu_launch_add(b, "depthwise", name, a, sizeof *a, blocks_of(pixels * (a->c / 8), 256), 1, 1);
}

void gpu_compile_conv2d(gpu_builder *b) {
    const op_record *op = b->op;
    if (!gpu_conv_supported(b, op->attr, &op->in[1].shape)) return;
    if (!gpu_is_depthwise(op->attr, &op->in[1].shape)) {
        conv_forward(b);
        return;
    }
    const uint64_t packed = depthwise_pack_add(b, &op->in[1].shape);
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
    if (!gpu_conv_supported(b, attr, &w->shape)) return;
    if (gpu_is_depthwise(attr, &w->shape)) {
        const uint64_t packed = depthwise_pack_add(b, &w->shape);
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
        const uint64_t packed = pack_add(b, &w->shape, gx->type, ty, tx, true);
        conv_args a = {.n = (gpu_i32)gy->shape.dim[0],
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
