/* Precision, recall and average precision over a set of pictures. Collects matched detections and labels, then
 * computes; knows nothing of networks, files or pictures' pixels. One thread at a time per object. */
#ifndef VAL_METRICS_H
#define VAL_METRICS_H

#include "base/arena.h"
#include "val/matching.h"

#define METRICS_CURVE 1000 /* points of a curve, x = 0 … 1 */

/* What the metrics are computed from. */
typedef struct match_stats {
    ol_context *ctx;
    int nc;
    size_t n_detections, detection_capacity; /* over the set, in the order of arrival */
    uint8_t *hits;                           /* n_detections x VAL_N_IOU */
    float *scores;
    int32_t *classes;
    int64_t n_images;
    int64_t *images_per_class, *instances_per_class; /* nc each: pictures with that label, labels */
    int64_t n_instances;
} match_stats;

ol_status match_stats_init(match_stats *s, ol_context *ctx, int nc);
void match_stats_deinit(match_stats *s);
/* Adds one picture. `hits` (n_detections x VAL_N_IOU, may be NULL) receives its true-positive flags. Labels whose class
 * is outside 0..nc-1 must have been dropped by the caller. */
ol_status match_stats_add(match_stats *s, const float *label_boxes, const int32_t *label_classes, size_t n_labels,
                          const detection *detections, size_t n_detections, uint8_t *hits);

/* Values per labelled class (n rows) and their means; formulas: data document, section 3.4. Arrays live in the arena
 * given to metrics_compute. Means over no class are NAN: printed as "none". */
typedef struct metrics {
    int n;                                /* labelled classes */
    int32_t *classes;                     /* ids, ascending */
    double *ap;                           /* n x VAL_N_IOU */
    double *p, *r, *f1, *tp, *fp;         /* n, at the confidence of the best smoothed mean F1 */
    double *p_curve, *r_curve, *f1_curve; /* n x METRICS_CURVE over confidence */
    double *pr_curve;                     /* n x METRICS_CURVE: precision (IoU 0.5) over recall */
    double *x, *f1_mean_smooth;           /* METRICS_CURVE: abscissa, smoothed class-mean F1 */
    int best;                             /* index of the reported confidence, x[best] */
    double mp, mr, map50, map75, map;
} metrics;

ol_status metrics_compute(arena *a, const match_stats *s, metrics *out);

/* AP of one precision-recall sequence: envelope, 101 points, trapezoid rule. precision/recall: n values in order of
 * falling score. `scratch` holds 2 * (n + 3) doubles and keeps mrec and the envelope (n + 2 used of each half). */
double average_precision(const double *recall, const double *precision, size_t n, double *scratch);

/* Linear interpolation over ascending x[0..n-1]; of equal abscissae the last counts; outside: `left` and y[n-1]. */
double curve_at(const double *x, const double *y, size_t n, double at, double left);
/* Box filter of odd length round(n * fraction * 2) / 2 + 1 with repeated ends (101 for n = 1000, fraction 0.1). */
ol_status curve_smooth(ol_context *ctx, const double *y, size_t n, double fraction, double *out);

#endif
