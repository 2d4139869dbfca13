#include "model/half_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_ROWS         30   /* anchors that are compared */
#define CONFIDENT        0.25 /* those above it; the best ten where there are fewer */
#define MIN_ROWS         10
#define BOX_ABSOLUTE     0.5
#define BOX_RELATIVE     1e-5
#define SCORE_ABSOLUTE   0.05
#define SLOWER           1.2 /* times f32 that count as slower: noise must not decide how a run is computed */
#define N_TIMED          8
#define N_BLOCKS         24
#define COMPARISON_SIDES 4 /* the compared picture: 256 pixels a side, or so many largest strides */

static float best_score(const float *prediction, int rows, int anchors, int a) {
    float best = 0.0f;
    for (int c = 4; c < rows; c++) best = fmaxf(best, prediction[(size_t)c * (size_t)anchors + (size_t)a]);
    return best;
}

/* The most confident anchors, best first. */
static int rows_choose(const float *prediction, int rows, int anchors, int chosen[MAX_ROWS]) {
    float scores[MAX_ROWS];
    int n = 0;
    for (int a = 0; a < anchors; a++) {
        const float score = best_score(prediction, rows, anchors, a);
        int at = n;
        while (at > 0 && score > scores[at - 1]) at--;
        if (at == MAX_ROWS) continue;
        if (n < MAX_ROWS) n++;
        for (int i = n - 1; i > at; i--) {
            scores[i] = scores[i - 1];
            chosen[i] = chosen[i - 1];
        }
        scores[at] = score;
        chosen[at] = a;
    }
    while (n > MIN_ROWS && scores[n - 1] < (float)CONFIDENT) n--;
    return n;
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

void half_compare(const float *full, const float *half, int rows, int anchors, half_report *out) {
    const size_t n = (size_t)rows * (size_t)anchors;
    int chosen[MAX_ROWS];
    half_report r = {.finite = all_finite(full, n) && all_finite(half, n), .boxes_agree = true, .scores_agree = true};
    if (r.finite) r.n_rows = rows_choose(full, rows, anchors, chosen);
    for (int i = 0; i < r.n_rows; i++) {
        for (int k = 0; k < rows; k++) {
            const size_t at = (size_t)k * (size_t)anchors + (size_t)chosen[i];
            const double x = (double)full[at], error = fabs((double)half[at] - x);
            if (k < 4) {
                r.box_error = fmax(r.box_error, error);
                if (error > BOX_ABSOLUTE + BOX_RELATIVE * fabs(x)) r.boxes_agree = false;
            } else {
                r.score_error = fmax(r.score_error, error);
                if (error > SCORE_ABSOLUTE) r.scores_agree = false;
            }
        }
    }
    r.passed = r.finite && r.boxes_agree && r.scores_agree;
    if (!r.finite)
        snprintf(r.why, sizeof r.why, "the predictions hold values that are not finite");
    else if (!r.passed)
        snprintf(r.why, sizeof r.why, "boxes differ by up to %.2f pixels and scores by up to %.3f from those in fp32",
                 r.box_error, r.score_error);
    *out = r;
}

/* A picture with edges, areas and texture, the same in every run: gradients, blocks, and a little noise on them. */
static void picture_draw(uint8_t *to, int channels, int h, int w) {
    uint32_t state = 12345;
    const size_t plane = (size_t)h * (size_t)w;
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                to[(size_t)c * plane + (size_t)y * (size_t)w + (size_t)x] = (uint8_t)((c == 0   ? 255 * x / w
                                                                                       : c == 1 ? 255 * y / h
                                                                                                : 128) /
                                                                                          2 +
                                                                                      40);
    for (int i = 0; i < N_BLOCKS; i++) {
        int place[4];
        for (int k = 0; k < 4; k++) {
            state = state * 1664525u + 1013904223u;
            place[k] = (int)((state >> 8) % (uint32_t)(k % 2 == 0 ? w : h));
        }
        const int x1 = place[0], y1 = place[1], x2 = x1 + place[2] / 3 + 2, y2 = y1 + place[3] / 3 + 2;
        for (int c = 0; c < channels; c++) {
            state = state * 1664525u + 1013904223u;
            const int colour = (int)(state >> 24);
            for (int y = y1; y < y2 && y < h; y++)
                for (int x = x1; x < x2 && x < w; x++) {
                    state = state * 1664525u + 1013904223u;
                    const int value = colour + (int)(state >> 28) - 8;
                    to[(size_t)c * plane + (size_t)y * (size_t)w + (size_t)x] = (uint8_t)(value < 0     ? 0
                                                                                          : value > 255 ? 255
                                                                                                        : value);
                }
        }
    }
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The quickest of some runs; the first ones prepare the plan. */
static ol_status batch_time(runner *r, const uint8_t *images, int n, int h, int w, double *seconds) {
    runner_result result;
    *seconds = INFINITY;
    for (int i = 0; i < N_TIMED + 2; i++) {
        const double start = seconds_now();
        const ol_status status = runner_run(r, images, n, h, w, NULL, &result);
        if (status != OL_OK) return status;
        if (i >= 2) *seconds = fmin(*seconds, seconds_now() - start);
    }
    return OL_OK;
}

/* Predicts the compared picture, into a copy at *out when asked for, and times the batch. */
static ol_status side_run(ol_context *ctx, runner *r, const uint8_t *images, int side, int n, int h, int w,
                          runner_result *result, float **copy, double *seconds) {
    const ol_status status = runner_run(r, images, 1, side, side, NULL, result);
    if (status != OL_OK) return status;
    const size_t count = (size_t)result->rows * (size_t)result->anchors;
    *copy = mem_alloc(ctx, count, sizeof **copy);
    if (*copy == NULL) return OL_ERROR_MEMORY;
    memcpy(*copy, result->decoded, count * sizeof **copy);
    return batch_time(r, images, n, h, w, seconds);
}

void half_judge_times(half_report *r) {
    if (!r->passed || r->seconds_half <= SLOWER * r->seconds_f32) return;
    r->passed = false;
    snprintf(r->why, sizeof r->why, "it is slower than fp32 on this device: %.2f instead of %.2f ms a batch",
             r->seconds_half * 1e3, r->seconds_f32 * 1e3);
}

ol_status half_check(ol_context *ctx, device *dev, const model *m, dtype compute, int n, int h, int w,
                     half_report *out) {
    const int stride = m->strides[m->n_levels - 1], channels = m->desc.channels;
    const int least = COMPARISON_SIDES * stride, side = (256 > least ? (256 + stride - 1) / stride * stride : least);
    const dtype types[2] = {DTYPE_F32, compute};
    const size_t whole = (size_t)n * (size_t)h * (size_t)w, one = (size_t)side * (size_t)side;
    runner *r = NULL;
    runner_result result = {0};
    float *prediction[2] = {NULL, NULL};
    double seconds[2] = {0.0, 0.0};
    ol_status status = OL_OK;
    uint8_t *images = mem_alloc0(ctx, (whole > one ? whole : one), (size_t)channels);
    if (images == NULL) return OL_ERROR_MEMORY;
    picture_draw(images, channels, side, side);
    for (int i = 0; i < 2 && status == OL_OK; i++) {
        const runner_options options = {.compute = types[i], .decoded = true, .max_plans = 1};
        status = runner_create(ctx, dev, m, &options, &r);
        if (status == OL_OK) status = side_run(ctx, r, images, side, n, h, w, &result, &prediction[i], &seconds[i]);
        runner_destroy(r);
        r = NULL;
    }
    if (status == OL_OK) {
        half_compare(prediction[0], prediction[1], result.rows, result.anchors, out);
        out->seconds_f32 = seconds[0];
        out->seconds_half = seconds[1];
        half_judge_times(out);
    }
    for (int i = 0; i < 2; i++) mem_free(ctx, prediction[i]);
    mem_free(ctx, images);
    return status;
}
