/* The part of the self-test that is judged bit for bit: rows of detections, and pictures where the device makes them.
 */
#ifndef API_SELFTEST_EXACT_H
#define API_SELFTEST_EXACT_H

#include "device/pictures.h"

typedef struct exact_line {
    const char *name;
    int n_cases, n_wrong;
    double milliseconds; /* of the slowest case, copies included */
    const char *message; /* of a case that could not be run; "" */
} exact_line;

typedef void (*exact_line_fn)(void *user, const exact_line *line);

/* Fails only for want of host memory. */
ol_status selftest_exact(ol_context *ctx, device *dev, exact_line_fn line, void *user);

#endif
