/* Validation: runs a model over a data set's pictures, matches, measures, prints the table and writes the files asked
 * for. Used by `yolo val` and, each epoch, by training. Makes neither runner nor loader. One thread at a time. */
#ifndef VAL_VAL_H
#define VAL_VAL_H

#include "base/settings.h"
#include "data/loader.h"
#include "model/runner.h"
#include "val/report.h"

typedef struct val_options {
    const settings
        *s; /* reads conf, iou, max_det, agnostic_nms, classes, single_cls, save_json, save_txt, save_conf, verbose */
    const char *const *names; /* the model's classes */
    int nc;
    const char *save_dir;    /* run folder, exists; NULL: nothing is written */
    const char *split_path;  /* what the data file names as this split, to recognise COCO lists; may be NULL */
    bool plots;              /* curves, confusion matrices, first three batches */
    bool in_training;        /* prints the `all` row alone */
    const float *loss_gains; /* 5 + nc, as detect_loss wants them; NULL: no losses (the runner's `loss` must agree) */
    bool quiet;              /* prints nothing */
} val_options;

/* Runs one epoch of `l` (a validation loader over `d`) through `r`. Detections are judged in network pixels (data
 * document, section 3.2). With more labels in a picture than max_det a warning is given, and max_det raised when it was
 * not set by the user. `out` is to be released with val_report_deinit. */
ol_status val_run(ol_context *ctx, runner *r, loader *l, const dataset *d, const val_options *options, val_report *out);

#endif
