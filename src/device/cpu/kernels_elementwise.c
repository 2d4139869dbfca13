/* Ops that work element by element, and the parts that all kernels of maps share. */
#include "device/cpu/kernels.h"

#include <string.h>

#define PIECE_ELEMENTS 65536 /* what one thread takes at a time */

map_view map_view_of(const op_operand *t) {
    const int64_t block = t->layout.block, h = t->shape.dim[2], w = t->shape.dim[3];
    return (map_view){.n = t->shape.dim[0],
                      .c = t->shape.dim[1],
                      .blocks = (t->shape.dim[1] + block - 1) / block,
                      .h = h,
                      .w = w,
                      .plane = h * w,
                      .batch_stride = t->layout.batch_stride};
}

bool map_is_blocked(const cpu_device *dev, const op_operand *t) {
    return t->shape.rank == 4 && t->layout.block == dev->simd->width;
}

bool act_breaks_padding(const cpu_device *dev, const op_operand *t, activation act) {
    return act == ACT_SIGMOID && t->shape.dim[1] % dev->simd->width != 0;
}

void map_kernel_init(map_kernel *k, const op_record *op, cpu_run_fn run) {
    k->base.run = run;
    k->op = *op;
    k->attr = *op->attr;
    k->op.attr = &k->attr;
}

float *padded_bias(const map_kernel *k, const kernel_memory *m, int64_t padded) {
    float *bias = m->scratch;
    memset(bias, 0, (size_t)padded * sizeof *bias);
    if (k->op.n_in > 2 && k->op.in[2].present) memcpy(bias, m->in[2], (size_t)k->op.out[0].shape.dim[1] * sizeof *bias);
    return bias;
}

ol_status map_kernel_create(cpu_device *dev, const op_record *op, cpu_run_fn run, size_t scratch_bytes,
                            cpu_kernel **out) {
    map_kernel *k = mem_alloc0(dev->base.ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    map_kernel_init(k, op, run);
    k->base.base.scratch_bytes = scratch_bytes;
    *out = &k->base;
    return OL_OK;
}

/* Elements of one image, padding included. */
static int64_t image_elements(const op_operand *t) {
    return layout_image_elements(&t->shape, t->layout.block);
}

static ol_status elementwise_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const map_kernel *k = (const map_kernel *)base;
    const op_record *op = &k->op;
    const int64_t images = op->out[0].shape.rank == 4 ? op->out[0].shape.dim[0] : 1, size = image_elements(&op->out[0]);
    const int64_t pieces = (size + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS;
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t i = 0; i < images * pieces; i++) {
        const int64_t image = i / pieces, first = i % pieces * PIECE_ELEMENTS;
        const int64_t count = size - first < PIECE_ELEMENTS ? size - first : PIECE_ELEMENTS;
        const float *a = (const float *)m->in[0] + image * op->in[0].layout.batch_stride + first;
        const float *b = op->n_in > 1 ? (const float *)m->in[1] + image * op->in[1].layout.batch_stride + first : NULL;
        float *y = (float *)m->out[0] + image * op->out[0].layout.batch_stride + first;
        if (op->kind == OP_ADD)
            dev->simd->add(a, b, y, count);
        else if (op->kind == OP_ACTIVATE)
            dev->simd->activate(a, y, count, op->attr->act);
        else
            dev->simd->activate_grad(a, b, y, count, op->attr->act);
    }
    return OL_OK;
}

static ol_status image_float_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const map_kernel *k = (const map_kernel *)base;
    const int64_t size = shape_elements(&k->op.out[0].shape), pieces = (size + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS;
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t first = i * PIECE_ELEMENTS, count = size - first < PIECE_ELEMENTS ? size - first : PIECE_ELEMENTS;
        dev->simd->image_float((const uint8_t *)m->in[0] + first, (float *)m->out[0] + first, count);
    }
    return OL_OK;
}

ol_status elementwise_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    if (op->kind == OP_IMAGE_FLOAT) {
        if (!cpu_is_dense(&op->in[0]) || !cpu_is_dense(&op->out[0])) return OL_ERROR_UNSUPPORTED;
        return map_kernel_create(dev, op, image_float_run, 0, out);
    }
    if (!map_is_blocked(dev, &op->out[0])) return OL_ERROR_UNSUPPORTED;
    if (op->kind == OP_ACTIVATE && act_breaks_padding(dev, &op->out[0], op->attr->act)) return OL_ERROR_UNSUPPORTED;
    for (int i = 0; i < op->n_in; i++)
        if (!map_is_blocked(dev, &op->in[i])) return OL_ERROR_UNSUPPORTED;
    return map_kernel_create(dev, op, elementwise_run, 0, out);
}
