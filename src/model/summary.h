/* The layer table and the summary lines as the reference prints them (model document, section 6.2). Logs through the
 * context. */
#ifndef MODEL_SUMMARY_H
#define MODEL_SUMMARY_H

#include "model/build.h"

typedef struct model_summary {
    int leaf_modules; /* "layers" of the summary line */
    int64_t parameters, gradients;
    double gflops; /* at 640x640 unless another size is given */
} model_summary;

/* The table, one log line a layer, header first. */
ol_status model_log_layers(const model *m);
/* fused: batch norms folded and one branch dropped (`kept` stays). gradients: parameters that are not frozen; 0 when
 * fused. */
ol_status model_summarize(const model *m, bool fused, model_branch kept, int height, int width, model_summary *out);
/* "YOLO26n summary: 260 layers, 2,572,280 parameters, 2,572,280 gradients, 6.2 GFLOPs" */
ol_status model_log_summary(const model *m, bool fused, model_branch kept);

#endif
