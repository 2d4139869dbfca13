/* Weights as .safetensors: the state dict, and the model's description as JSON texts in the metadata (yaml, names, nc,
 * stride, task). No training state. The reader trusts nothing in the file. */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include "formats/checkpoint.h"

/* Fills weights and what the metadata says; files of others without it give weights only. `out` as for checkpoint_read.
 */
ol_status safetensors_read(ol_context *ctx, const char *path, checkpoint *out);
ol_status safetensors_read_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                  checkpoint *out);
/* Writes c->weights with the description of `m`, atomically. `half`: floats in half precision. */
ol_status safetensors_write(ol_context *ctx, const char *path, const checkpoint *c, const model *m, bool half);

#endif
