/* The picture decoders: a picture that decodes must have the size that the probe gives. */
#include "data/image.h"

#define MOST_PIXELS (1 << 22) /* larger ones only cost the fuzzer time */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    ol_context *ctx = NULL;
    image im = {0};
    image_info info;
    if (ol_context_create(NULL, &ctx) != OL_OK) return 0;
    const bool probed = image_probe(ctx, "fuzz", bytes, n_bytes, &info) == OL_OK;
    ctx_clear(ctx);
    if (!probed || (int64_t)info.height * info.width <= MOST_PIXELS) {
        for (int channels = 1; channels <= 3; channels += 2) {
            const bool decoded = image_decode(ctx, "fuzz", bytes, n_bytes, channels, &im) == OL_OK;
            if (decoded && (!probed || im.height != info.height || im.width != info.width)) __builtin_trap();
            ctx_clear(ctx);
        }
    }
    image_deinit(ctx, &im);
    ol_context_destroy(ctx);
    return 0;
}
