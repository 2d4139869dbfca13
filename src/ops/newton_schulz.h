/* Newton-Schulz orthogonalisation for MuSGD (model document, section 5.3): operands and results rounded to bfloat16,
 * each a*Y + b*Z*W summed in float32 and rounded once, as the reference does it; so that CPUs without bf16 units run it
 * at float32 speed. Plain C, OpenMP over matrices; results do not depend on the number of threads. */
#ifndef OPS_NEWTON_SCHULZ_H
#define OPS_NEWTON_SCHULZ_H

#include <stddef.h>

/* A matrix of a batch: `u` (rows, cols) is read, `o` (rows, cols) receives the result; they may be the same memory. */
typedef struct ns_matrix {
    const float *u;
    float *o;
    int rows, cols;
} ns_matrix;

/* Scratch for `n_threads` threads over matrices no larger than these. */
size_t newton_schulz_scratch_bytes(const ns_matrix *m, int n, int n_threads);
void newton_schulz(const ns_matrix *m, int n, void *scratch, int n_threads);

#endif
