/* The pictures of a validation: curves and confusion matrices, named as the field names them. */
#ifndef VAL_PLOTS_H
#define VAL_PLOTS_H

#include "val/report.h"

/* BoxPR_curve.png, BoxF1_curve.png, BoxP_curve.png, BoxR_curve.png, confusion_matrix.png,
 * confusion_matrix_normalized.png into `folder`; the curves only when a class has labels. */
ol_status val_draw_plots(ol_context *ctx, const val_report *r, const char *folder);

#endif
