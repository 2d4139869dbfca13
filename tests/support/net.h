/* A small graph with its plan, memory and values, for tests of ops: values of inputs and parameters are hashed from
 * their names. Every failure ends the test. */
#ifndef TESTS_NET_H
#define TESTS_NET_H

#include "graph/plan.h"

#define NET_MAX_TENSORS 4096

typedef struct net {
    ol_context *ctx;
    device *dev;
    graph *g;
    plan *p;
    device_buffer *memory; /* of all bound tensors */
    size_t offset[NET_MAX_TENSORS];
    float *value[NET_MAX_TENSORS];    /* host values of INPUT, PARAM and BUFFER tensors; of the tensor's own type */
    tensor_ref grad[NET_MAX_TENSORS]; /* after net_derive */
} net;

/* On the device of the test, opened for this net alone, or on the one that net_device_keep has opened for all of them.
 */
net *net_create(void);
void net_destroy(net *n);
void net_device_keep(void);
void net_device_release(void);
/* Values uniform in [lo, hi). */
tensor_ref net_tensor(net *n, const char *name, tensor_role role, shape s, double lo, double hi);
/* The same for any of f32, i32, u8 (whole numbers). */
tensor_ref net_tensor_typed(net *n, const char *name, tensor_role role, dtype type, shape s, double lo, double hi);
tensor_ref net_op(net *n, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in);
/* Marks `y` as output "y", makes input "gy" of its shape, derives for every parameter and every f32 input. */
tensor_ref net_derive(net *n, tensor_ref y);
/* Plans, binds. Then net_run writes all values, clears gradients and runs. */
void net_plan(net *n);
void net_run(net *n);
/* Copies an INPUT, OUTPUT, PARAM, BUFFER or GRAD tensor as it is after the run; freed by the caller with free(). */
float *net_read(net *n, tensor_ref t);
size_t net_count(const net *n, tensor_ref t);

#endif
