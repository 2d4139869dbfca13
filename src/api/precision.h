/* In which precision a call computes: what `amp` and `quantize` ask for, where the device has it. On CPUs always f32.
 */
#ifndef API_PRECISION_H
#define API_PRECISION_H

#include "api/model.h"

/* quantize=16 and its other spellings. */
bool precision_is_half(const settings *s);
/* Of predict and val: f16 for quantize=16 on GPUs. */
dtype precision_of_inference(const device *dev, const settings *s);
/* Of a training run: `amp`, for fp16 after half_check of the model with the run's batch and picture size; a failed
 * check is a warning and f32. */
ol_status precision_of_training(ol_context *ctx, device *dev, const model *m, const settings *s, int batch, int imgsz,
                                dtype *out);

#endif
