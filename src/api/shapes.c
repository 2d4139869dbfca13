/* The drawn data set, for those who see only the public header. */
#include "data/shapes.h"
#include "base/numbers.h"

ol_status ol_shapes_write(ol_context *ctx, const char *folder, int n_train, int n_val, int size_px, uint64_t seed) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    if (n_train < 1 || n_val < 1 || n_train > 100000 || n_val > 100000)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%d train and %d val pictures: each must be between 1 and 100000",
                        n_train, n_val);
    if (size_px < 64 || size_px > 2048)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "'size=%d' is out of range; pictures may have 64 to 2048 pixels",
                        size_px);
    return shapes_write(ctx, folder, n_train, n_val, size_px, seed);
}
