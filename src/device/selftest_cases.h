/* The cases of the self-test: op, attributes, inputs. Internal to src/device. */
#ifndef DEVICE_SELFTEST_CASES_H
#define DEVICE_SELFTEST_CASES_H

#include "graph/graph.h"

typedef struct selftest_input {
    shape shape;
    tensor_role role; /* INPUT, PARAM or BUFFER */
    dtype type;
    double lo, hi;
    bool distinct; /* whole numbers that differ within a plane: the order of maxima survives rounding */
} selftest_input;

typedef struct selftest_case {
    op_kind kind;
    op_attr attr;
    int n_in;
    selftest_input in[5];
    bool backward; /* derive and compare the gradients too */
} selftest_case;

extern const selftest_case selftest_cases[];
extern const size_t selftest_n_cases;

#endif
