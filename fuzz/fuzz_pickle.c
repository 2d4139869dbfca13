/* The pickle interpreter and the conversion of its tree to values. */
#include "formats/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    ol_context *ctx = NULL;
    arena a;
    pickle_node *root;
    const value *v;
    if (ol_context_create(NULL, &ctx) != OL_OK) return 0;
    arena_init(&a, ctx, (size_t)64 << 20);
    if (pickle_parse(&a, "fuzz", bytes, n_bytes, &root) == OL_OK) pickle_to_value(&a, root, 10000, &v);
    arena_deinit(&a);
    ol_context_destroy(ctx);
    return 0;
}
