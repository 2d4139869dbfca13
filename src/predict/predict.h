/* Prediction over files: reads pictures, runs them in batches, prints the console lines, saves, hands each result on.
 * Makes neither runner nor run folder. One thread at a time. */
#ifndef PREDICT_PREDICT_H
#define PREDICT_PREDICT_H

#include "predict/predictor.h"
#include "predict/save.h"
#include "predict/source.h"

/* A failure ends the run with that status. The result's pointers are valid during the call. */
typedef ol_status (*predict_result_fn)(void *user, const predict_result *r);

typedef struct predict_options {
    predictor_options model;
    int batch;                   /* pictures a batch, at least 1 */
    const char *save_dir;        /* run folder, exists; NULL: nothing is written */
    bool save_pictures;          /* annotated pictures */
    bool quiet;                  /* no console lines */
    predict_result_fn on_result; /* may be NULL */
    void *user;
} predict_options;

typedef struct predict_summary {
    size_t n_pictures, n_unreadable, n_detections;
    double speed_ms[PREDICT_N_STAGES];  /* means a picture */
    int batch, channels, height, width; /* shape of the last batch */
} predict_summary;

/* Unreadable pictures are skipped with a warning; when none could be read the run fails with OL_ERROR_FORMAT. `summary`
 * may be NULL. */
ol_status predict_run(ol_context *ctx, runner *r, const source_list *sources, const predict_options *options,
                      predict_summary *summary);

#endif
