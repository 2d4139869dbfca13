/* What a validation found, as a record and as the printed table, rows and dictionaries made from it. Owns its values.
 */
#ifndef VAL_REPORT_H
#define VAL_REPORT_H

#include "base/value.h"
#include "val/metrics.h"

/* One picture at IoU 0.5, over all detections above the confidence threshold. */
typedef struct val_image {
    const char *name; /* file name */
    int64_t tp, fp, fn;
    double precision, recall, f1;
} val_image;

typedef enum val_stage { VAL_PREPROCESS, VAL_INFERENCE, VAL_LOSS, VAL_POSTPROCESS, VAL_N_STAGES } val_stage;

typedef struct val_report {
    arena arena;
    metrics box;
    int nc;
    const char *const *names;           /* nc */
    const int64_t *images_per_class;    /* nc */
    const int64_t *instances_per_class; /* nc */
    int64_t n_images, n_instances;
    const int64_t *confusion;      /* (nc+1) x (nc+1), [predicted][true], last background; NULL when not counted */
    val_image *images;             /* n_images */
    double speed_ms[VAL_N_STAGES]; /* mean a picture; preprocess is the time spent waiting for pictures */
    bool has_loss;
    double loss[3];       /* means over batches: box, class, third term */
    double loss_sum;      /* of the three */
    const char *save_dir; /* NULL when nothing was written */
} val_report;

void val_report_deinit(val_report *r);

/* mAP50-95, 0 when no class has labels. */
double val_fitness(const val_report *r);

/* "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)" */
void val_print_header(text *out);
/* The `all` row; means over nothing are "none". */
void val_print_all(text *out, const val_report *r);
void val_print_class(text *out, const val_report *r, int k);
/* "Speed: 1.4ms preprocess, …" */
void val_print_speed(text *out, const val_report *r);

#endif
