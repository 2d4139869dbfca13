/* The ends of the detection head: gradient of a bias, boxes and scores of the decoded output. */
#include "device/cpu/kernels.h"

#include <string.h>

static ol_status bias_grad_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const map_view v = map_view_of(&op->in[0]);
    const int64_t width = dev->simd->width;
    const float *gy = m->in[0];
    float *gb = m->out[0];
    const bool adds = op->out[0].role == ROLE_GRAD;
    static const float zeros[SIMD_MAX_WIDTH] = {0};
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t b = 0; b < v.blocks; b++) {
        double sum[SIMD_MAX_WIDTH] = {0}, squares[SIMD_MAX_WIDTH] = {0};
        for (int64_t n = 0; n < v.n; n++)
            dev->simd->sums(gy + n * v.batch_stride + b * v.plane * width, v.plane, zeros, sum, squares);
        for (int64_t c = b * width; c < v.c && c < (b + 1) * width; c++)
            gb[c] = (adds ? gb[c] : 0.0f) + (float)sum[c - b * width];
    }
    return OL_OK;
}

/* The reference makes the boxes; the scores, which are far more, are made here. */
static ol_status decode_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const int64_t batch = op->in[1].shape.dim[0], classes = op->in[1].shape.dim[1], anchors = op->in[1].shape.dim[2];
    for (int64_t n = 0; n < batch; n++) {
        const op_args boxes = {
            .attr = op->attr,
            .n_in = 2,
            .n_out = 1,
            .n_threads = 1,
            .in = {tensor_view(DTYPE_F32, shape_3d(1, 4, anchors), (float *)m->in[0] + n * 4 * anchors),
                   tensor_view(DTYPE_F32, shape_3d(1, 0, anchors), NULL)},
            .out = {tensor_view(DTYPE_F32, shape_3d(1, 4, anchors), (float *)m->out[0] + n * (4 + classes) * anchors)}};
        op_detect_decode(&boxes);
    }
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t r = 0; r < batch * classes; r++)
        dev->simd->sigmoid((const float *)m->in[1] + r * anchors,
                           (float *)m->out[0] + (r / classes * (4 + classes) + 4 + r % classes) * anchors, anchors);
    return OL_OK;
}

ol_status head_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    if (op->kind == OP_DETECT_DECODE) return map_kernel_create(dev, op, decode_run, 0, out);
    if (!map_is_blocked(dev, &op->in[0])) return OL_ERROR_UNSUPPORTED;
    return map_kernel_create(dev, op, bias_grad_run, 0, out);
}
