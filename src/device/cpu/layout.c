#include "device/cpu/cpu.h"

#include <string.h>

bool cpu_is_dense(const op_operand *t) {
    if (t->shape.rank != 4) return true;
    const int64_t image = t->shape.dim[1] * t->shape.dim[2] * t->shape.dim[3];
    return t->layout.block == 1 && (t->shape.dim[0] == 1 || t->layout.batch_stride == image);
}

typedef struct map_size {
    int64_t n, c, blocks, plane, block, batch_stride;
} map_size;

static map_size map_size_of(const op_operand *t) {
    const int64_t block = t->layout.block;
    return (map_size){t->shape.dim[0],
                      t->shape.dim[1],
                      (t->shape.dim[1] + block - 1) / block,
                      t->shape.dim[2] * t->shape.dim[3],
                      block,
                      t->layout.batch_stride};
}

void cpu_pack(const op_operand *t, const void *dense, void *blocked, int threads) {
    const map_size s = map_size_of(t);
    const uint32_t *from = dense;
    uint32_t *to = blocked;
#pragma omp parallel for collapse(2) num_threads(threads)
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t b = 0; b < s.blocks; b++) {
            uint32_t *out = to + n * s.batch_stride + b * s.plane * s.block;
            for (int64_t k = 0; k < s.block; k++) {
                const int64_t c = b * s.block + k;
                const uint32_t *in = from + (n * s.c + c) * s.plane;
                for (int64_t i = 0; i < s.plane; i++) out[i * s.block + k] = c < s.c ? in[i] : 0;
            }
        }
    }
}

void cpu_unpack(const op_operand *t, const void *blocked, void *dense, int threads) {
    const map_size s = map_size_of(t);
    const uint32_t *from = blocked;
    uint32_t *to = dense;
#pragma omp parallel for collapse(2) num_threads(threads)
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t c = 0; c < s.c; c++) {
            const uint32_t *in = from + n * s.batch_stride + c / s.block * s.plane * s.block + c % s.block;
            uint32_t *out = to + (n * s.c + c) * s.plane;
            for (int64_t i = 0; i < s.plane; i++) out[i] = in[i * s.block];
        }
    }
}
