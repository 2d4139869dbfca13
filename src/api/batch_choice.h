/* The `batch` argument of training where the size is left to the program, and what to say when memory is out. */
#ifndef API_BATCH_CHOICE_H
#define API_BATCH_CHOICE_H

#include "base/settings.h"
#include "train/fit.h"

/* batch=-1: 60 % of the device's memory; a share in (0, 1): that much of it; never more than is free. On CPUs 16, with
 * a warning. Logs the choice. OL_ERROR_MEMORY when not even one picture fits. */
ol_status batch_choose(const train_fit *fit, const settings *s, int *batch);
/* After OL_ERROR_MEMORY of a run on a GPU: the message goes on with what the run needs, what is free, and the largest
 * batch that fits. Returns OL_ERROR_MEMORY. */
ol_status batch_explain(const train_fit *fit, int batch);

#endif
