/* Pictures in memory to results: letterbox, network, selection, boxes mapped back (data document, sections 4.2, 4.3).
 * Reads and writes no files. One thread at a time. */
#ifndef PREDICT_PREDICTOR_H
#define PREDICT_PREDICTOR_H

#include "base/settings.h"
#include "model/runner.h"
#include "predict/result.h"

typedef struct predictor predictor;

typedef struct predictor_options {
    const settings *s; /* reads imgsz, rect, conf, iou, max_det, classes, agnostic_nms */
    const char *const *names;
    int nc;
    int channels; /* of the network's input, 1 or 3; 0: 3 */
    int stride;   /* the largest stride; 0: 32 */
} predictor_options;

/* `r` decodes the branch that is wanted; it and the options' pointers outlive the predictor. Sides of imgsz that are no
 * multiples of the stride are raised with a warning. */
ol_status predictor_create(ol_context *ctx, runner *r, const predictor_options *options, predictor **out);
void predictor_destroy(predictor *p);

/* One batch. Pictures have the network's channels; `pictures[i]` outlives the use of results[i]. Sets all fields of the
 * n results but path, index and total; their rows are valid until the next call. */
ol_status predictor_run(predictor *p, const image *const *pictures, int n, predict_result *results);

#endif
