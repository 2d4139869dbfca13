/* What was found on one picture, and its console line. Borrows rows, names and picture. */
#ifndef PREDICT_RESULT_H
#define PREDICT_RESULT_H

#include "base/text.h"
#include "data/image.h"
#include "model/postprocess.h"

typedef enum predict_stage {
    PREDICT_PREPROCESS,
    PREDICT_INFERENCE,
    PREDICT_POSTPROCESS,
    PREDICT_N_STAGES
} predict_stage;

typedef struct predict_result {
    const char *path;     /* "image0.jpg" … for pictures from memory */
    size_t index, total;  /* 0-based place among the sources */
    const image *picture; /* the source's pixels */
    int height, width;    /* of the source */
    int net_height, net_width;
    const detection *rows; /* source pixels, score-descending, clipped, none of zero area */
    size_t n_rows;
    const char *const *names;
    int nc;
    double speed_ms[PREDICT_N_STAGES]; /* batch time / pictures of the batch */
} predict_result;

/* The class's name, its id in `buffer` where it has none. */
const char *result_class_name(const predict_result *r, int class_id, char buffer[16]);
/* "4 persons, 1 bus, " in id order; "(no detections), " */
void result_print_counts(text *out, const predict_result *r);
/* "image 1/2 /a/bus.jpg: 640x480 4 persons, 1 bus, 61.2ms" */
void result_print_line(text *out, const predict_result *r);

#endif
