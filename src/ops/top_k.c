#include "ops/top_k.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether entry a comes after entry b in the wanted order. */
static bool after(const float *x, int32_t a, int32_t b) {
    const float xa = isnan(x[a]) ? -INFINITY : x[a], xb = isnan(x[b]) ? -INFINITY : x[b];
    if (xa != xb) return xa < xb;
    return a > b;
}

/* Heap with the entry that comes last on top. */
static void sift(const float *x, int32_t *heap, int32_t at, int32_t n) {
    const int32_t moving = heap[at];
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && after(x, heap[child + 1], heap[child])) child++;
        if (!after(x, heap[child], moving)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

void top_k(const float *x, int32_t n, int32_t k, int32_t *indices) {
    if (k > n) k = n;
    if (k <= 0) return;
    for (int32_t i = 0; i < k; i++) indices[i] = i;
    for (int32_t i = k / 2; i-- > 0;) sift(x, indices, i, k);
    for (int32_t i = k; i < n; i++) {
        if (!after(x, indices[0], i)) continue;
        indices[0] = i;
        sift(x, indices, 0, k);
    }
    for (int32_t end = k - 1; end > 0; end--) {
        const int32_t last = indices[0];
        indices[0] = indices[end];
        indices[end] = last;
        sift(x, indices, 0, end);
    }
}

void best_classes(const float *scores, int nc, int anchors, float *best, int32_t *best_class) {
    for (int a = 0; a < anchors; a++) {
        best[a] = scores[a];
        best_class[a] = 0;
    }
    for (int c = 1; c < nc; c++) {
        const float *row = scores + (size_t)c * (size_t)anchors;
        for (int a = 0; a < anchors; a++) {
            if (row[a] > best[a]) {
                best[a] = row[a];
                best_class[a] = c;
            }
        }
    }
}
