/* A graph on the CPU device for tests: binds every parameter, buffer and gradient to memory of its own, filled from a
 * state dict. Failures fail the test. */
#ifndef TESTS_PLAN_HARNESS_H
#define TESTS_PLAN_HARNESS_H

#include "graph/plan.h"
#include "tensor/tensor_list.h"

typedef struct plan_harness {
    ol_context *ctx;
    device *dev;
    const graph *g;
    plan *p;
    device_buffer **buffers; /* one a tensor, NULL where the plan provides the memory */
} plan_harness;

/* `state` holds the values of PARAM and BUFFER tensors by name; gradients start at zero. */
void plan_harness_init(plan_harness *h, ol_context *ctx, const graph *g, const tensor_list *state);
void plan_harness_deinit(plan_harness *h);
void plan_harness_write(plan_harness *h, tensor_ref t, const void *data);
void plan_harness_run(plan_harness *h);
/* Copy of an INPUT, OUTPUT or bound tensor; free() it. */
float *plan_harness_read(plan_harness *h, tensor_ref t);
float *plan_harness_read_named(plan_harness *h, const char *name);

#endif
