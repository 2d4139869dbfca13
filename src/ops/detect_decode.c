/* Raw maps of the detection head to boxes in pixels and scores. Model document, section 2 (Decode). */
#include "ops/ops.h"

void op_detect_decode(const op_args *args) {
    const op_attr *a = args->attr;
    const shape *scores = &args->in[1].shape;
    const int64_t batch = scores->dim[0], classes = scores->dim[1], anchors = scores->dim[2];
    const float *box = tensor_f32(&args->in[0]), *raw = tensor_f32(&args->in[1]);
    float *out = tensor_f32(&args->out[0]);
    for (int64_t n = 0; n < batch; n++) {
        int64_t begin = 0;
        for (int level = 0; level < a->n_levels; level++) {
            const int64_t cells = (int64_t)a->level_h[level] * a->level_w[level];
            const float stride = (float)a->level_stride[level];
            for (int64_t i = 0; i < cells; i++) {
                const float *b = box + n * 4 * anchors + begin + i;
                float *o = out + n * (4 + classes) * anchors + begin + i;
                const int64_t row = i / a->level_w[level], column = i % a->level_w[level];
                const float ax = (float)column + 0.5f, ay = (float)row + 0.5f;
                const float x1 = ax - b[0], y1 = ay - b[anchors], x2 = ax + b[2 * anchors], y2 = ay + b[3 * anchors];
                o[0] = (a->corners ? x1 : (x1 + x2) / 2.0f) * stride;
                o[anchors] = (a->corners ? y1 : (y1 + y2) / 2.0f) * stride;
                o[2 * anchors] = (a->corners ? x2 : x2 - x1) * stride;
                o[3 * anchors] = (a->corners ? y2 : y2 - y1) * stride;
            }
            begin += cells;
        }
        float *score = out + (n * (4 + classes) + 4) * anchors;
#pragma omp parallel for num_threads(args->n_threads)
        for (int64_t i = 0; i < classes * anchors; i++)
            score[i] = activation_apply(ACT_SIGMOID, raw[n * classes * anchors + i]);
    }
}
