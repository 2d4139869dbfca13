/* Looking into the tensors of a weights file. Used inside the model room only; no state. */
#ifndef MODEL_SOURCE_H
#define MODEL_SOURCE_H

#include "model/model.h"

/* "<path><suffix>", NULL when absent. */
const tensor *source_tensor(const model_source *source, const char *path, const char *suffix);
/* No batch norm anywhere: it is folded into the convolutions. */
bool source_is_fused(const model_source *source);
/* The spec that describes the file's own model: class count, class-branch width and channels from the tensors. */
ol_status source_describe(ol_context *ctx, const model_source *source, model_spec *spec);

#endif
