/* Self-attention over the positions of a map, one head after the other. Model document, section 1.3 (Attention).
 * Per head with L = H*W positions: S = scale * q^T k (L,L), P = softmax over keys, out[:,i] = sum_j v[:,j] P[i,j]. */
#include "ops/ops.h"

#include <math.h>
#include <string.h>

typedef struct head_view {
    int64_t positions;
    float *q, *k, *v; /* (key_dim, L), (key_dim, L), (head_dim, L) */
} head_view;

static head_view head_of(const op_attr *a, const tensor *qkv, int64_t n, int64_t head) {
    const int64_t positions = qkv->shape.dim[2] * qkv->shape.dim[3], rows = 2 * a->key_dim + a->head_dim;
    float *base = tensor_f32(qkv) + (n * a->heads + head) * rows * positions;
    return (head_view){positions, base, base + a->key_dim * positions, base + 2 * a->key_dim * positions};
}

static void softmax(float *row, int64_t n) {
    float peak = -INFINITY, sum = 0.0f;
    for (int64_t i = 0; i < n; i++) peak = fmaxf(peak, row[i]);
    for (int64_t i = 0; i < n; i++) sum += row[i] = expf(row[i] - peak);
    for (int64_t i = 0; i < n; i++) row[i] /= sum;
}

void op_attention(const op_args *args) {
    const op_attr *a = args->attr;
    const int64_t batch = args->in[0].shape.dim[0];
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t nh = 0; nh < batch * a->heads; nh++) {
        const head_view h = head_of(a, &args->in[0], nh / a->heads, nh % a->heads);
        const int64_t len = h.positions;
        float *prob = tensor_f32(&args->out[1]) + nh * len * len;
        float *y = tensor_f32(&args->out[0]) + nh * a->head_dim * len;
        for (int64_t i = 0; i < len; i++) {
            float *row = prob + i * len;
            memset(row, 0, (size_t)len * sizeof *row);
            for (int64_t d = 0; d < a->key_dim; d++) {
                const float q = h.q[d * len + i] * a->scale;
                for (int64_t j = 0; j < len; j++) row[j] += q * h.k[d * len + j];
            }
            softmax(row, len);
            for (int64_t d = 0; d < a->head_dim; d++) {
                float sum = 0.0f;
                for (int64_t j = 0; j < len; j++) sum += h.v[d * len + j] * row[j];
                y[d * len + i] = sum;
            }
        }
    }
}

/* gP[i,j] = sum_d gy[d,i] v[d,j]; gS = P * (gP - sum_j P gP); gq[d,i] = scale sum_j gS[i,j] k[d,j];
 * gk[d,j] = scale sum_i gS[i,j] q[d,i]; gv[d,j] = sum_i P[i,j] gy[d,i]. */
static void attention_grad_row(const op_attr *a, const head_view *h, const head_view *g, const float *gy,
                               const float *prob, int64_t i) {
    const int64_t len = h->positions;
    double dot = 0.0; /* sum_j P gP = sum_d gy out, computed from its terms */
    for (int64_t j = 0; j < len; j++) {
        float gp = 0.0f;
        for (int64_t d = 0; d < a->head_dim; d++) gp += gy[d * len + i] * h->v[d * len + j];
        dot += (double)gp * (double)prob[i * len + j];
    }
    for (int64_t j = 0; j < len; j++) {
        float gp = 0.0f;
        const float p = prob[i * len + j];
        for (int64_t d = 0; d < a->head_dim; d++) {
            gp += gy[d * len + i] * h->v[d * len + j];
            g->v[d * len + j] += p * gy[d * len + i];
        }
        const float gs = p * (gp - (float)dot) * a->scale;
        for (int64_t d = 0; d < a->key_dim; d++) {
            g->q[d * len + i] += gs * h->k[d * len + j];
            g->k[d * len + j] += gs * h->q[d * len + i];
        }
    }
}

void op_attention_grad(const op_args *args) {
    const op_attr *a = args->attr;
    const int64_t batch = args->in[1].shape.dim[0];
    memset(args->out[0].data, 0, (size_t)shape_elements(&args->out[0].shape) * sizeof(float));
#pragma omp parallel for num_threads(args->n_threads)
    for (int64_t nh = 0; nh < batch * a->heads; nh++) {
        const head_view h = head_of(a, &args->in[1], nh / a->heads, nh % a->heads);
        const head_view g = head_of(a, &args->out[0], nh / a->heads, nh % a->heads);
        const float *gy = tensor_f32(&args->in[0]) + nh * a->head_dim * h.positions;
        const float *prob = tensor_f32(&args->in[2]) + nh * h.positions * h.positions;
        for (int64_t i = 0; i < h.positions; i++) attention_grad_row(a, &h, &g, gy, prob, i);
    }
}
