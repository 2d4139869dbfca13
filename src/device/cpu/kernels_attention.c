/* Attention through matrix products on plain rows: a head's q, k, v are unblocked, its result is blocked again.
 * Formulas: ops/attention.c. Forward, each thread takes queries of a head; backward, heads come one after the
 * other and the products and the rows of the softmax use all threads. */
#include "device/cpu/kernels.h"
#include "device/cpu/onednn.h"

#include <string.h>

/* Copies channels [begin, begin+count) of image `n` to rows (count, L), or back with `to_map`. */
static void channels_copy(const cpu_device *dev, const op_operand *t, void *map, int64_t n, int64_t begin,
                          int64_t count, float *rows, bool to_map) {
    const map_view v = map_view_of(t);
    const int64_t width = dev->simd->width;
    float *image = (float *)map + n * v.batch_stride;
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t c = 0; c < count; c++) {
        float *from = image + (begin + c) / width * v.plane * width + (begin + c) % width, *row = rows + c * v.plane;
        for (int64_t i = 0; i < v.plane; i++) {
            if (to_map)
                from[i * width] = row[i];
            else
                row[i] = from[i * width];
        }
    }
}

static void padding_clear(const cpu_device *dev, const op_operand *t, void *map) {
    const map_view v = map_view_of(t);
    const int64_t width = dev->simd->width;
    if (v.c % width == 0) return;
    for (int64_t n = 0; n < v.n; n++) {
        float *last = (float *)map + n * v.batch_stride + (v.blocks - 1) * v.plane * width;
        for (int64_t i = 0; i < v.plane; i++)
            for (int64_t c = v.c % width; c < width; c++) last[i * width + c] = 0.0f;
    }
}

/* One image's attention. Rows of a head: q, k (key_dim,L), v, y (head_dim,L). */
typedef struct attention_job {
    cpu_device *dev;
    const op_record *op;
    const kernel_memory *m;
    int64_t n, len, head_rows;
    int64_t splits; /* pieces of a head's queries */
} attention_job;

static float *head_at(const attention_job *j, int64_t head) {
    return (float *)j->m->scratch + head * j->head_rows * j->len;
}

/* Up to a block of channels from the map to rows: `first` counts among all heads' q, k and v. */
static void qkv_unblock(const attention_job *j, int64_t first) {
    const op_attr *a = j->op->attr;
    const map_view v = map_view_of(&j->op->in[0]);
    const int64_t width = j->dev->simd->width, each = 2 * (int64_t)a->key_dim + a->head_dim;
    const float *block = (const float *)j->m->in[0] + j->n * v.batch_stride + first * v.plane;
    if (first / each == (first + width - 1) / each && first + width <= v.c) {
        j->dev->simd->unblock(block, head_at(j, first / each) + first % each * j->len, j->len, j->len, width);
        return;
    }
    for (int64_t c = first; c < first + width && c < v.c; c++) {
        float *row = head_at(j, c / each) + c % each * j->len;
        for (int64_t i = 0; i < j->len; i++) row[i] = block[i * width + c - first];
    }
}

/* A head's result for queries [begin, end) to the map. */
static void result_block(const attention_job *j, int64_t head, const float *y, int64_t begin, int64_t end) {
    const int64_t hd = j->op->attr->head_dim, width = j->dev->simd->width;
    const map_view v = map_view_of(&j->op->out[0]);
    float *image = (float *)j->m->out[0] + j->n * v.batch_stride;
    if (hd % width == 0) {
        for (int64_t c = 0; c < hd; c += width)
            j->dev->simd->block(y + c * j->len + begin, image + (head * hd + c) * v.plane + begin * width, end - begin,
                                j->len, width);
        return;
    }
    for (int64_t c = 0; c < hd; c++) {
        const int64_t channel = head * hd + c;
        float *to = image + channel / width * v.plane * width + channel % width;
        for (int64_t i = begin; i < end; i++) to[i * width] = y[c * j->len + i];
    }
}

/* Queries [begin, end) of one head; every product by the calling thread alone. */
static ol_status queries_run(const attention_job *j, int64_t head, int64_t begin, int64_t end) {
    const op_attr *a = j->op->attr;
    ol_context *ctx = j->dev->base.ctx;
    const int64_t len = j->len, kd = a->key_dim, hd = a->head_dim;
    float *q = head_at(j, head), *k = q + kd * len, *v = k + kd * len, *y = v + hd * len;
    float *prob = (float *)j->m->out[1] + ((j->n * a->heads + head) * len + begin) * len;
    ol_status status =
        onednn_matmul(ctx, 'T', 'N', end - begin, len, kd, a->scale, q + begin, len, k, len, 0.0f, prob, len);
    if (status != OL_OK) return status;
    for (int64_t i = 0; i < end - begin; i++) j->dev->simd->softmax(prob + i * len, len);
    status = onednn_matmul(ctx, 'N', 'T', hd, end - begin, len, 1.0f, v, len, prob, len, 0.0f, y + begin, len);
    if (status == OL_OK) result_block(j, head, y, begin, end);
    return status;
}

static ol_status image_attend(const attention_job *j) {
    const int64_t heads = j->op->attr->heads, width = j->dev->simd->width, channels = j->op->in[0].shape.dim[1];
    ol_status status = OL_OK;
#pragma omp parallel num_threads(j->dev->threads)
    {
#pragma omp for schedule(static)
        for (int64_t c = 0; c < channels; c += width) qkv_unblock(j, c);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < heads * j->splits; i++) {
            const int64_t part = i % j->splits;
            const ol_status each =
                queries_run(j, i / j->splits, j->len * part / j->splits, j->len * (part + 1) / j->splits);
            if (each != OL_OK) {
#pragma omp atomic write
                status = each;
            }
        }
    }
    return status;
}

static ol_status attention_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const op_attr *a = op->attr;
    attention_job j = {.dev = dev, .op = op, .m = m, .len = op->in[0].shape.dim[2] * op->in[0].shape.dim[3]};
    j.head_rows = 2 * ((int64_t)a->key_dim + a->head_dim);
    j.splits = (dev->threads + a->heads - 1) / a->heads;
    padding_clear(dev, &op->out[0], m->out[0]);
    ol_status status = OL_OK;
    for (; j.n < op->in[0].shape.dim[0] && status == OL_OK; j.n++) status = image_attend(&j);
    return status;
}

static ol_status head_grad(cpu_device *dev, const op_attr *a, int64_t len, float *q, const float *gy, const float *prob,
                           float *gp, float *gq) {
    ol_context *ctx = dev->base.ctx;
    const int64_t kd = a->key_dim, hd = a->head_dim;
    const float *k = q + kd * len, *v = k + kd * len;
    float *gk = gq + kd * len, *gv = gk + kd * len;
    ol_status status = onednn_matmul(ctx, 'N', 'N', hd, len, len, 1.0f, gy, len, prob, len, 0.0f, gv, len);
    if (status == OL_OK) status = onednn_matmul(ctx, 'T', 'N', len, len, hd, 1.0f, gy, len, v, len, 0.0f, gp, len);
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t i = 0; i < len; i++)
        dev->simd->softmax_grad(prob + i * len, gp + i * len, gp + i * len, len, a->scale);
    if (status == OL_OK) status = onednn_matmul(ctx, 'N', 'T', kd, len, len, 1.0f, k, len, gp, len, 0.0f, gq, len);
    if (status == OL_OK) status = onednn_matmul(ctx, 'N', 'N', kd, len, len, 1.0f, q, len, gp, len, 0.0f, gk, len);
    return status;
}

static ol_status attention_grad_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const op_record *op = &((const map_kernel *)base)->op;
    const op_attr *a = op->attr;
    const int64_t len = op->in[1].shape.dim[2] * op->in[1].shape.dim[3], rows = 2 * a->key_dim + a->head_dim;
    float *q = m->scratch, *gq = q + rows * len, *gy = gq + rows * len, *gp = gy + a->head_dim * len;
    padding_clear(dev, &op->out[0], m->out[0]);
    for (int64_t nh = 0; nh < op->in[1].shape.dim[0] * a->heads; nh++) {
        const int64_t n = nh / a->heads, head = nh % a->heads;
        channels_copy(dev, &op->in[1], m->in[1], n, head * rows, rows, q, false);
        channels_copy(dev, &op->in[0], m->in[0], n, head * a->head_dim, a->head_dim, gy, false);
        ol_status status = head_grad(dev, a, len, q, gy, (const float *)m->in[2] + nh * len * len, gp, gq);
        if (status != OL_OK) return status;
        channels_copy(dev, &op->out[0], m->out[0], n, head * rows, rows, gq, true);
    }
    return OL_OK;
}

ol_status attention_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    const bool grad = op->kind == OP_ATTENTION_GRAD;
    const op_operand *qkv = grad ? &op->in[1] : &op->in[0];
    if (!map_is_blocked(dev, &op->in[0]) || !map_is_blocked(dev, qkv) || !map_is_blocked(dev, &op->out[0]))
        return OL_ERROR_UNSUPPORTED;
    if (!cpu_is_dense(grad ? &op->in[2] : &op->out[1])) return OL_ERROR_UNSUPPORTED;
    const size_t len = (size_t)(qkv->shape.dim[2] * qkv->shape.dim[3]);
    const size_t hd = (size_t)op->attr->head_dim, rows = 2 * (size_t)op->attr->key_dim + hd;
    const size_t floats = grad ? (2 * rows + hd + len) * len : (size_t)op->attr->heads * (rows + hd) * len;
    return map_kernel_create(dev, op, grad ? attention_grad_run : attention_run, floats * sizeof(float), out);
}
