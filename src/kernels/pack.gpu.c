/* Master weights to the packed forms of all convolutions of a plan, in one launch. */
#include "args.h"
#include "gpu.h"

/* Master weights f32 (K, C, kernel_y, kernel_x) to the packed form [rows][taps][reduction] of the convolution: forward
 * rows are K; transposed (gradient of the input) rows are C, and tap (j, i) of the packed form is tap (y0 + j*y_step,
 * x0 + i*x_step). Depthwise: transposed with one row. */
template <typename T> DEVICE void pack_element(const pack_item &m, i32 index) {
    const i32 taps = m.taps_y * m.taps_x, r = index % m.reduction_padded, rest = index / m.reduction_padded,
              tap = rest % taps, row = rest / taps;
    if (row >= m.rows_padded) return;
    const i32 y = m.y0 + tap / m.taps_x * m.y_step, x = m.x0 + tap % m.taps_x * m.x_step;
    const i32 k = m.transposed ? r : row, c = m.transposed ? row : r;
    float v = 0.0f;
    if (k < m.k && c < m.c) v = ((const float *)m.weight)[(((i64)k * m.c + c) * m.kernel_y + y) * m.kernel_x + x];
    ((T *)m.packed)[index] = (T)v;
}

/* Blocks belong to items in their order; each makes PACK_BLOCK elements. */
KERNEL(256) pack_weights(pack_args a) {
    const pack_item *items = (const pack_item *)a.items;
    const i32 block = (i32)block_x();
    i32 low = 0, high = a.n - 1; /* the last item that starts at or before this block */
    while (low < high) {
        const i32 middle = (low + high + 1) / 2;
        if (items[middle].first_block <= block)
            low = middle;
        else
            high = middle - 1;
    }
    const pack_item m = items[low];
    const i32 first = (block - m.first_block) * PACK_BLOCK + (i32)thread_x();
    for (i32 i = 0; i < PACK_BLOCK; i += 256) {
        if (m.type == PACK_F16)
            pack_element<f16>(m, first + i);
        else if (m.type == PACK_BF16)
            pack_element<bf16>(m, first + i);
        else
            pack_element<float>(m, first + i);
    }
}
