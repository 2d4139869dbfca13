/* The joining of a weight gradient's partial sums. */
#include "args.h"
#include "gpu.h"

/* grad (k, c, taps) in the dense order of the state dict += sum over splits of partial[split][k][tap][padded c]: 32
 * elements a block, 8 threads an element. */
KERNEL(256) wgrad_reduce(wgrad_reduce_args a) {
    SHARED float scratch[256];
    const i32 t = (i32)thread_x(), index = (i32)block_x() * 32 + t % 32;
    const i32 c = index % a.c_padded, rest = index / a.c_padded, tap = rest % a.taps, k = rest / a.taps;
    const i64 plane = (i64)a.k_padded * a.taps * a.c_padded;
    const float *p = (const float *)a.partial + index;
    float sum = 0.0f;
    const i32 splits = k < a.k ? a.splits : 0;
#pragma unroll 4
    for (i32 s = t / 32; s < splits; s += 8) sum += p[s * plane];
    scratch[t] = sum;
    barrier();
    if (t >= 32 || k >= a.k || c >= a.c) return;
#pragma unroll
    for (int i = 1; i < 8; i++) sum += scratch[t + 32 * i];
    float *grad = (float *)a.grad + ((i64)k * a.c + c) * a.taps + tap;
    *grad += sum;
}
