/* The op table on one device against the plain C references: every row of graph/ops.def, forward ones by themselves,
 * backward ones in derived graphs. For users whose hardware nobody here has. Keeps nothing; one thread at a time. */
#ifndef DEVICE_SELFTEST_H
#define DEVICE_SELFTEST_H

#include "graph/plan.h"

/* One kind of op over all its cases. */
typedef struct selftest_line {
    op_kind kind;
    dtype compute;
    int n_cases;  /* 0: not reached */
    double error; /* the largest |found - reference| / |reference| (Euclidean norms) of an output; INFINITY: NaN */
    double limit; /* allowed */
    double milliseconds; /* of the slowest case, one launch */
    bool ok;
    const char *message; /* of a case that could not be run; "" */
} selftest_line;

typedef struct selftest_listener {
    void (*line)(void *user, const selftest_line *line);
    /* Before each case, which some drivers answer by ending the program; may be NULL. */
    void (*begin)(void *user, op_kind kind, dtype compute);
    void *user;
} selftest_listener;

/* Runs all cases with activations of type `compute` and reports a line a kind, in the order of ops.def. *n_wrong is the
 * number of lines that are not ok. Fails only for want of host memory or when interrupted. */
ol_status device_selftest(ol_context *ctx, device *dev, dtype compute, const selftest_listener *to, int *n_wrong);

#endif
