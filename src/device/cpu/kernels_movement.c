/* Ops that move whole blocks of channels, or maps to and from flat rows. */
#include "device/cpu/kernels.h"

#include <string.h>

/* One run of blocks between two maps with equal planes. */
typedef struct block_copy {
    const float *from;
    float *to;
    int64_t from_stride, to_stride, images, blocks, block_elements;
} block_copy;

static void blocks_copy(const cpu_device *dev, const block_copy *c) {
#pragma omp parallel for collapse(2) num_threads(dev->threads) schedule(static)
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t b = 0; b < c->blocks; b++)
            memcpy(c->to + n * c->to_stride + b * c->block_elements,
                   c->from + n * c->from_stride + b * c->block_elements, (size_t)c->block_elements * sizeof(float));
}

static ol_status concat_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const map_view out = map_view_of(&op->out[0]);
    const int64_t block_elements = out.plane * dev->simd->width;
    int64_t begin = 0;
    for (int i = 0; i < op->n_in; i++) {
        const map_view in = map_view_of(&op->in[i]);
        if (!op->in[i].in_place)
            blocks_copy(dev, &(block_copy){m->in[i], (float *)m->out[0] + begin * block_elements, in.batch_stride,
                                           out.batch_stride, in.n, in.blocks, block_elements});
        begin += in.blocks;
    }
    return OL_OK;
}

/* Slices of whole blocks, one run a group; the gradient goes the other way into a cleared map. */
static ol_status slice_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const bool grad = op->kind == OP_SLICE_GRAD;
    const map_view whole = map_view_of(grad ? &op->out[0] : &op->in[0]),
                   part = map_view_of(grad ? &op->in[0] : &op->out[0]);
    float *w = grad ? m->out[0] : m->in[0], *p = grad ? m->in[0] : m->out[0];
    const int64_t block_elements = whole.plane * dev->simd->width, groups = op->attr->groups;
    const int64_t part_blocks = part.blocks / groups, whole_blocks = whole.blocks / groups;
    const int64_t first = op->attr->begin / dev->simd->width;
    for (int64_t n = 0; grad && n < whole.n; n++)
        memset(w + n * whole.batch_stride, 0, (size_t)(whole.blocks * block_elements) * sizeof(float));
    for (int64_t g = 0; g < groups; g++) {
        float *in_whole = w + (g * whole_blocks + first) * block_elements,
              *in_part = p + g * part_blocks * block_elements;
        blocks_copy(dev,
                    &(block_copy){grad ? in_part : in_whole, grad ? in_whole : in_part,
                                  grad ? part.batch_stride : whole.batch_stride,
                                  grad ? whole.batch_stride : part.batch_stride, whole.n, part_blocks, block_elements});
    }
    return OL_OK;
}

static ol_status upsample_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const bool grad = op->kind == OP_UPSAMPLE2_GRAD;
    const map_view small = map_view_of(grad ? &op->out[0] : &op->in[0]),
                   large = map_view_of(grad ? &op->in[0] : &op->out[0]);
    float *s = grad ? m->out[0] : m->in[0], *l = grad ? m->in[0] : m->out[0];
    const int64_t width = dev->simd->width;
#pragma omp parallel for collapse(2) num_threads(dev->threads) schedule(static)
    for (int64_t n = 0; n < small.n; n++) {
        for (int64_t r = 0; r < small.blocks * small.h; r++) {
            float *from = s + n * small.batch_stride + r * small.w * width;
            float *y0 = l + n * large.batch_stride + 2 * r * large.w * width, *y1 = y0 + large.w * width;
            if (grad)
                dev->simd->upsample_row_grad(y0, y1, from, small.w);
            else
                dev->simd->upsample_row(from, y0, y1, small.w);
        }
    }
    return OL_OK;
}

static int64_t block_channels(const map_view *v, int64_t block, int64_t width) {
    const int64_t left = v->c - block * width;
    return left < width ? left : width;
}

static ol_status flatten_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const int64_t columns = op->out[0].shape.dim[2], width = dev->simd->width;
    int64_t begin = 0;
    for (int i = 0; i < op->n_in; i++) {
        const map_view v = map_view_of(&op->in[i]);
        const float *x = m->in[i];
        float *rows = (float *)m->out[0] + begin;
#pragma omp parallel for collapse(2) num_threads(dev->threads) schedule(static)
        for (int64_t n = 0; n < v.n; n++)
            for (int64_t b = 0; b < v.blocks; b++)
                dev->simd->unblock(x + n * v.batch_stride + b * v.plane * width, rows + (n * v.c + b * width) * columns,
                                   v.plane, columns, block_channels(&v, b, width));
        begin += v.plane;
    }
    return OL_OK;
}

static ol_status flatten_grad_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const int64_t columns = op->in[0].shape.dim[2], width = dev->simd->width;
    const map_view v = map_view_of(&op->out[0]);
    const float *rows = (const float *)m->in[0] + op->attr->begin;
    float *x = m->out[0];
#pragma omp parallel for collapse(2) num_threads(dev->threads) schedule(static)
    for (int64_t n = 0; n < v.n; n++)
        for (int64_t b = 0; b < v.blocks; b++)
            dev->simd->block(rows + (n * v.c + b * width) * columns, x + n * v.batch_stride + b * v.plane * width,
                             v.plane, columns, block_channels(&v, b, width));
    return OL_OK;
}

static const struct {
    op_kind kind;
    cpu_run_fn run;
} runs[] = {
    {OP_CONCAT, concat_run},
    {OP_SLICE, slice_run},
    {OP_SLICE_GRAD, slice_run},
    {OP_UPSAMPLE2, upsample_run},
    {OP_UPSAMPLE2_GRAD, upsample_run},
    {OP_FLATTEN_CONCAT, flatten_run},
    {OP_FLATTEN_CONCAT_GRAD, flatten_grad_run},
};

/* Channels must start and end with blocks wherever maps are joined or cut. */
static bool blocks_are_whole(const cpu_device *dev, const op_record *op) {
    const int64_t width = dev->simd->width;
    if (op->kind == OP_CONCAT) {
        for (int i = 0; i + 1 < op->n_in; i++)
            if (op->in[i].shape.dim[1] % width != 0) return false;
    }
    if (op->kind == OP_SLICE || op->kind == OP_SLICE_GRAD) {
        const int64_t channels = op->kind == OP_SLICE ? op->in[0].shape.dim[1] : op->out[0].shape.dim[1];
        return channels / op->attr->groups % width == 0 && op->attr->begin % width == 0 && op->attr->size % width == 0;
    }
    return true;
}

ol_status movement_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i].shape.rank == 4 && !map_is_blocked(dev, &op->in[i])) return OL_ERROR_UNSUPPORTED;
    if (op->out[0].shape.rank == 4 && !map_is_blocked(dev, &op->out[0])) return OL_ERROR_UNSUPPORTED;
    if (!blocks_are_whole(dev, op)) return OL_ERROR_UNSUPPORTED;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        if (runs[i].kind == op->kind) return map_kernel_create(dev, op, runs[i].run, 0, out);
    return OL_ERROR_UNSUPPORTED;
}
