/* Where the tensors of a plan lie: which share storage (views, in-place results) and at what offset of one arena each
 * storage starts. Pure arithmetic over the graph, no device memory. Internal to plans. */
#ifndef DEVICE_PLAN_MEMORY_H
#define DEVICE_PLAN_MEMORY_H

#include "device/device.h"

#define ARENA_ALIGNMENT 64

/* A tensor is a run of channels, from `begin` on, of the map that its root stores; a root is its own. */
typedef struct placement {
    tensor_ref root;
    tensor_ref next; /* the next tensor with the same root; TENSOR_NONE ends */
    tensor_ref over; /* the input whose memory the producing op overwrites in place; TENSOR_NONE */
    int64_t begin;
    int32_t defined, last; /* first op that writes it (-1: the host), last op that touches it (n_ops: the host) */
    int block;
    dtype element;       /* as stored */
    bool bound;          /* PARAM, BUFFER, GRAD: memory comes from outside */
    size_t offset_bytes; /* in the arena */
    int64_t batch_stride;
} placement;

typedef struct memory_map {
    placement *tensors;
    bool *op_is_view; /* ops that need no kernel: their outputs are views of their inputs */
    size_t arena_bytes;
} memory_map;

ol_status memory_map_create(ol_context *ctx, device *dev, const graph *g, memory_map *out);
void memory_map_destroy(ol_context *ctx, memory_map *m);

#endif
