/* Whether a model may be computed in half precision on a device: the same pictures in f32 and in half, compared and
 * timed. Decides nothing beyond the report. One thread at a time. Design, section 5. */
#ifndef MODEL_HALF_CHECK_H
#define MODEL_HALF_CHECK_H

#include "model/runner.h"

typedef struct half_report {
    bool finite;                      /* every value of both predictions */
    int n_rows;                       /* anchors that were compared: the most confident ones of the f32 prediction */
    double box_error, score_error;    /* largest difference: pixels, probability */
    bool boxes_agree, scores_agree;   /* within 0.5 px + 1e-5 of the value; within 0.05 */
    double seconds_f32, seconds_half; /* of a batch; 0: not timed */
    bool passed;
    char why[200]; /* not passed: a clause that says what was found */
} half_report;

/* Two predictions (rows = 4 + nc, anchors) of one picture. Fills all but the seconds. */
void half_compare(const float *full, const float *half, int rows, int anchors, half_report *out);

/* With the times of both known: a type that computes slower than f32 does not pass. */
void half_judge_times(half_report *r);

/* Compares on a drawn picture of a size that stays the same from run to run, times n pictures of h x w. `compute`
 * slower than f32 does not pass. */
ol_status half_check(ol_context *ctx, device *dev, const model *m, dtype compute, int n, int h, int w,
                     half_report *out);

#endif
