/* The whole .pt reader: zip, pickle, tensors, model. */
#include "formats/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    ol_context *ctx = NULL;
    checkpoint c;
    if (ol_context_create(NULL, &ctx) != OL_OK) return 0;
    if (checkpoint_read_memory(ctx, "fuzz", bytes, n_bytes, &c) == OL_OK) checkpoint_deinit(&c);
    ol_context_destroy(ctx);
    return 0;
}
