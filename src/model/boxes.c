/* Box arithmetic: mapping back to the source picture, pairwise IoU. */
#include "model/postprocess.h"

#include <math.h>

static float clipped(double x, int limit) {
    return (float)fmin(fmax(x, 0.0), (double)limit);
}

void scale_boxes_by(detection *rows, size_t n, double gain_x, double gain_y, double pad_x, double pad_y, int src_h,
                    int src_w) {
    for (size_t i = 0; i < n; i++) {
        detection *d = &rows[i];
        d->x1 = clipped(((double)d->x1 - pad_x) / gain_x, src_w);
        d->y1 = clipped(((double)d->y1 - pad_y) / gain_y, src_h);
        d->x2 = clipped(((double)d->x2 - pad_x) / gain_x, src_w);
        d->y2 = clipped(((double)d->y2 - pad_y) / gain_y, src_h);
    }
}

void scale_boxes(detection *rows, size_t n, int net_h, int net_w, int src_h, int src_w) {
    const double gain = fmin((double)net_h / src_h, (double)net_w / src_w);
    const double new_h = fmax(nearbyint(src_h * gain), 1.0), new_w = fmax(nearbyint(src_w * gain), 1.0);
    const double pad_x = nearbyint((net_w - new_w) / 2 - 0.1), pad_y = nearbyint((net_h - new_h) / 2 - 0.1);
    scale_boxes_by(rows, n, new_w / src_w, new_h / src_h, pad_x, pad_y, src_h, src_w);
}

void box_iou_matrix(const float *a, int n, const float *b, int m, float *iou) {
    for (int i = 0; i < n; i++) {
        const float *p = a + 4 * (size_t)i;
        const float area = (p[2] - p[0]) * (p[3] - p[1]);
        for (int k = 0; k < m; k++) {
            const float *q = b + 4 * (size_t)k;
            const float w = fmaxf(fminf(p[2], q[2]) - fmaxf(p[0], q[0]), 0.0F);
            const float h = fmaxf(fminf(p[3], q[3]) - fmaxf(p[1], q[1]), 0.0F);
            const float inter = w * h, other = (q[2] - q[0]) * (q[3] - q[1]);
            iou[(size_t)i * (size_t)m + (size_t)k] = inter / (area + other - inter + 1e-7F);
        }
    }
}
