#include "val/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TINY      1e-16
#define AP_POINTS 101

ol_status match_stats_init(match_stats *s, ol_context *ctx, int nc) {
    match_stats t = {.ctx = ctx, .nc = nc};
    t.images_per_class = mem_alloc0(ctx, (size_t)nc, sizeof *t.images_per_class);
    t.instances_per_class = mem_alloc0(ctx, (size_t)nc, sizeof *t.instances_per_class);
    if (!t.images_per_class || !t.instances_per_class) {
        match_stats_deinit(&t);
        return OL_ERROR_MEMORY;
    }
    *s = t;
    return OL_OK;
}

void match_stats_deinit(match_stats *s) {
    if (!s->ctx) return;
    mem_free(s->ctx, s->hits);
    mem_free(s->ctx, s->scores);
    mem_free(s->ctx, s->classes);
    mem_free(s->ctx, s->images_per_class);
    mem_free(s->ctx, s->instances_per_class);
    *s = (match_stats){0};
}

static ol_status stats_reserve(match_stats *s, size_t needed) {
    if (needed <= s->detection_capacity) return OL_OK;
    size_t capacity = s->detection_capacity ? s->detection_capacity : 1024;
    while (capacity < needed) capacity *= 2;
    void *hits = mem_resize(s->ctx, s->hits, capacity, VAL_N_IOU);
    if (!hits) return OL_ERROR_MEMORY;
    s->hits = hits;
    void *scores = mem_resize(s->ctx, s->scores, capacity, sizeof *s->scores);
    if (!scores) return OL_ERROR_MEMORY;
    s->scores = scores;
    void *classes = mem_resize(s->ctx, s->classes, capacity, sizeof *s->classes);
    if (!classes) return OL_ERROR_MEMORY;
    s->classes = classes;
    s->detection_capacity = capacity;
    return OL_OK;
}

static bool class_seen_before(const int32_t *classes, size_t at) {
    for (size_t i = 0; i < at; i++) {
        if (classes[i] == classes[at]) return true;
    }
    return false;
}

ol_status match_stats_add(match_stats *s, const float *label_boxes, const int32_t *label_classes, size_t n_labels,
                          const detection *detections, size_t n_detections, uint8_t *hits) {
    ol_status status = stats_reserve(s, s->n_detections + n_detections);
    if (status) return status;
    uint8_t *here = s->hits + s->n_detections * VAL_N_IOU;
    status = match_detections(s->ctx, label_boxes, label_classes, n_labels, detections, n_detections, here);
    if (status) return status;
    if (hits && n_detections) memcpy(hits, here, n_detections * VAL_N_IOU);
    for (size_t d = 0; d < n_detections; d++) {
        s->scores[s->n_detections + d] = detections[d].score;
        s->classes[s->n_detections + d] = detections[d].class_id;
    }
    s->n_detections += n_detections;
    for (size_t l = 0; l < n_labels; l++) {
        s->instances_per_class[label_classes[l]]++;
        if (!class_seen_before(label_classes, l)) s->images_per_class[label_classes[l]]++;
    }
    s->n_instances += (int64_t)n_labels;
    s->n_images++;
    return OL_OK;
}

double curve_at(const double *x, const double *y, size_t n, double at, double left) {
    if (!n || at < x[0]) return left;
    if (at >= x[n - 1]) return y[n - 1];
    size_t low = 0, high = n - 1; /* x[low] <= at < x[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (x[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    double slope = (y[high] - y[low]) / (x[high] - x[low]);
    return slope * (at - x[low]) + y[low];
}

ol_status curve_smooth(ol_context *ctx, const double *y, size_t n, double fraction, double *out) {
    size_t length = (size_t)rint((double)n * fraction * 2) / 2 + 1;
    if (length % 2 == 0) length++;
    size_t half = length / 2;
    double *padded = mem_alloc(ctx, n + 2 * half, sizeof *padded);
    if (!padded) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < n + 2 * half; i++) {
        size_t from = i < half ? 0 : i - half;
        padded[i] = y[from < n ? from : n - 1];
    }
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < length; k++) sum += padded[i + k] / (double)length;
        out[i] = sum;
    }
    mem_free(ctx, padded);
    return OL_OK;
}

double average_precision(const double *recall, const double *precision, size_t n, double *scratch) {
    double *mrec = scratch, *mpre = scratch + n + 3;
    size_t m = n + 3; /* 0, recall…, recall_last, 1 against 1, precision…, 0, 0 */
    mrec[0] = 0;
    mpre[0] = 1;
    for (size_t i = 0; i < n; i++) {
        mrec[i + 1] = recall[i];
        mpre[i + 1] = precision[i];
    }
    mrec[n + 1] = n ? recall[n - 1] : 1;
    mrec[n + 2] = 1;
    mpre[n + 1] = mpre[n + 2] = 0;
    for (size_t i = m - 1; i > 0; i--) {
        if (mpre[i - 1] < mpre[i]) mpre[i - 1] = mpre[i];
    }
    double area = 0, before = 0, x_before = 0;
    for (int i = 0; i < AP_POINTS; i++) {
        double x = (double)i / (AP_POINTS - 1);
        double y = curve_at(mrec, mpre, m, x, mpre[0]);
        if (i) area += (x - x_before) * (y + before) / 2;
        before = y;
        x_before = x;
    }
    return area;
}

/* Detections of the set in order of falling score; equal scores keep their order of arrival. */
typedef struct ranked {
    float score;
    int32_t class;
    size_t at;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

typedef struct class_work {
    ranked *order;
    const uint8_t **hits; /* of this class's detections, best first */
    double *minus_score, *recall, *precision, *scratch;
} class_work;

static ol_status work_init(arena *a, size_t n, class_work *w) {
    w->order = arena_alloc(a, n + 1, sizeof *w->order);
    w->hits = arena_alloc(a, n + 1, sizeof *w->hits);
    w->minus_score = arena_alloc(a, n + 1, sizeof(double));
    w->recall = arena_alloc(a, n + 1, sizeof(double));
    w->precision = arena_alloc(a, n + 1, sizeof(double));
    w->scratch = arena_alloc(a, 2 * (n + 3), sizeof(double));
    return w->order && w->hits && w->minus_score && w->recall && w->precision && w->scratch ? OL_OK : OL_ERROR_MEMORY;
}

/* Fills row k of the curves and of AP from the n detections of one class that has n_labels labels. */
static void class_curves(metrics *m, int k, class_work *w, size_t n, int64_t n_labels) {
    for (int t = 0; t < VAL_N_IOU; t++) {
        double hit = 0, miss = 0;
        for (size_t i = 0; i < n; i++) {
            if (w->hits[i][t])
                hit++;
            else
                miss++;
            w->recall[i] = hit / ((double)n_labels + TINY);
            w->precision[i] = hit / (hit + miss);
        }
        m->ap[k * VAL_N_IOU + t] = average_precision(w->recall, w->precision, n, w->scratch);
        if (t) continue;
        for (int i = 0; i < METRICS_CURVE; i++) {
            size_t at = (size_t)k * METRICS_CURVE + (size_t)i;
            m->r_curve[at] = curve_at(w->minus_score, w->recall, n, -m->x[i], 0);
            m->p_curve[at] = curve_at(w->minus_score, w->precision, n, -m->x[i], 1);
            m->pr_curve[at] = curve_at(w->scratch, w->scratch + n + 3, n + 3, m->x[i], 1);
        }
    }
}

static ol_status metrics_alloc(arena *a, const match_stats *s, metrics *m) {
    for (int c = 0; c < s->nc; c++) m->n += s->instances_per_class[c] > 0;
    size_t n = (size_t)m->n;
    struct {
        double **array;
        size_t count;
    } arrays[] = {{&m->ap, n * VAL_N_IOU},
                  {&m->p, n},
                  {&m->r, n},
                  {&m->f1, n},
                  {&m->tp, n},
                  {&m->fp, n},
                  {&m->p_curve, n * METRICS_CURVE},
                  {&m->r_curve, n * METRICS_CURVE},
                  {&m->f1_curve, n * METRICS_CURVE},
                  {&m->pr_curve, n * METRICS_CURVE},
                  {&m->x, METRICS_CURVE},
                  {&m->f1_mean_smooth, METRICS_CURVE}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i].array = arena_alloc(a, arrays[i].count + 1, sizeof(double));
        if (!*arrays[i].array) return OL_ERROR_MEMORY;
    }
    m->classes = arena_alloc(a, n + 1, sizeof *m->classes);
    if (!m->classes) return OL_ERROR_MEMORY;
    for (int c = 0, k = 0; c < s->nc; c++) {
        if (s->instances_per_class[c] > 0) m->classes[k++] = c;
    }
    for (int i = 0; i < METRICS_CURVE; i++) m->x[i] = i == METRICS_CURVE - 1 ? 1 : i * (1.0 / (METRICS_CURVE - 1));
    return OL_OK;
}

/* The reported confidence and the values there. */
static ol_status choose_best(ol_context *ctx, const match_stats *s, metrics *m) {
    double mean[METRICS_CURVE] = {0};
    for (int k = 0; k < m->n; k++) {
        for (int i = 0; i < METRICS_CURVE; i++) {
            size_t at = (size_t)k * METRICS_CURVE + (size_t)i;
            double p = m->p_curve[at], r = m->r_curve[at];
            m->f1_curve[at] = 2 * p * r / (p + r + TINY);
            mean[i] += m->f1_curve[at] / m->n;
        }
    }
    ol_status status = curve_smooth(ctx, mean, METRICS_CURVE, 0.1, m->f1_mean_smooth);
    if (status) return status;
    for (int i = 1; i < METRICS_CURVE; i++) {
        if (m->f1_mean_smooth[i] > m->f1_mean_smooth[m->best]) m->best = i;
    }
    for (int k = 0; k < m->n; k++) {
        size_t at = (size_t)k * METRICS_CURVE + (size_t)m->best;
        m->p[k] = m->p_curve[at];
        m->r[k] = m->r_curve[at];
        m->f1[k] = m->f1_curve[at];
        m->tp[k] = rint(m->r[k] * (double)s->instances_per_class[m->classes[k]]);
        m->fp[k] = rint(m->tp[k] / (m->p[k] + TINY) - m->tp[k]);
    }
    return OL_OK;
}

static void take_means(metrics *m) {
    m->mp = m->mr = m->map50 = m->map75 = m->map = m->n ? 0 : (double)NAN;
    for (int k = 0; k < m->n; k++) {
        const double *ap = m->ap + k * VAL_N_IOU;
        m->mp += m->p[k] / m->n;
        m->mr += m->r[k] / m->n;
        m->map50 += ap[0] / m->n;
        m->map75 += ap[5] / m->n;
        for (int t = 0; t < VAL_N_IOU; t++) m->map += ap[t] / (m->n * VAL_N_IOU);
    }
}

ol_status metrics_compute(arena *a, const match_stats *s, metrics *out) {
    metrics m = {0};
    class_work w;
    arena scratch;
    arena_init(&scratch, s->ctx, 0);
    ol_status status = metrics_alloc(a, s, &m);
    if (!status) status = work_init(&scratch, s->n_detections, &w);
    if (status) goto fail;
    for (size_t i = 0; i < s->n_detections; i++) w.order[i] = (ranked){s->scores[i], s->classes[i], i};
    if (s->n_detections > 1) qsort(w.order, s->n_detections, sizeof *w.order, by_score);
    for (int k = 0; k < m.n; k++) {
        size_t n = 0;
        for (size_t i = 0; i < s->n_detections; i++) {
            if (w.order[i].class != m.classes[k]) continue;
            w.hits[n] = s->hits + w.order[i].at * VAL_N_IOU;
            w.minus_score[n++] = -(double)w.order[i].score;
        }
        if (n) class_curves(&m, k, &w, n, s->instances_per_class[m.classes[k]]);
    }
    status = choose_best(s->ctx, s, &m);
    if (status) goto fail;
    take_means(&m);
    *out = m;
fail:
    arena_deinit(&scratch);
    return status;
}
