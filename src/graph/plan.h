/* A graph made ready for one device: every tensor has a lifetime, an offset in one arena and a physical layout, every
 * op a resolved kernel. Running it allocates nothing and decides nothing. One thread at a time may use a plan. */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include "base/text.h"
#include "graph/graph.h"

typedef struct device device;               /* src/device/device.h */
typedef struct device_buffer device_buffer; /* memory on a device */
typedef struct plan plan;
typedef struct device_step device_step; /* src/device/step.h: an optimizer on a device */

/* The graph must outlive the plan and must not change. */
ol_status plan_create(ol_context *ctx, device *dev, const graph *g, plan **out);
void plan_destroy(plan *p);

/* What a plan of this graph takes of the device's memory, without taking it. */
ol_status plan_measure(ol_context *ctx, device *dev, const graph *g, size_t *bytes);

/* Gives a PARAM, BUFFER or GRAD tensor its memory (dense, logical order, `offset_bytes` into `buffer`, which outlives
 * the plan). All of them must be bound before the first run. */
ol_status plan_bind(plan *p, tensor_ref t, device_buffer *buffer, size_t offset_bytes);
/* Host copies in dense logical order; `bytes` must be the tensor's size. Writing goes to INPUT, reading from INPUT or
 * OUTPUT. */
ol_status plan_write(plan *p, tensor_ref t, const void *host, size_t bytes);
ol_status plan_read(plan *p, tensor_ref t, void *host, size_t bytes);
/* Where a dense INPUT or OUTPUT lies, for operations on the device that fill or use it between runs. */
ol_status plan_locate(const plan *p, tensor_ref t, device_buffer **buffer, size_t *offset_bytes);
/* Tells that bound parameters were changed from outside since the last run, so that packed copies are made anew.
 * Plans of derived graphs (training) always repack. */
void plan_params_changed(plan *p);
ol_status plan_run(plan *p);
/* The same without waiting for the end where a device has a queue; what is asked of the device later comes after it. */
ol_status plan_start(plan *p);

/* From now on every run of the plan is a whole training step: before it the loss scale goes into these inputs of the
 * losses, behind it the optimizer takes the gradients, and what the losses report goes with the step's outcome. Tensors
 * by branch, TENSOR_NONE where there is none. The step outlives the plan. */
ol_status plan_take_step(plan *p, device_step *step, const tensor_ref gains[2], const tensor_ref items[2]);

/* Bytes of the activation arena plus scratch and packed weights. */
size_t plan_memory_bytes(const plan *p);
/* Per-op seconds of the last run when profiling is on; for `yolo` benches and tests. */
void plan_profile_enable(plan *p, bool on);
double plan_op_seconds(const plan *p, size_t op);
ol_status plan_profile_report(const plan *p, text *out);

/* --- implemented by src/device; declared here because plans hand them around --- */
ol_status device_open(ol_context *ctx, const char *name, device **out); /* "cpu" */
void device_close(device *dev);
/* For people: "CUDA:0", "NVIDIA H200, sm_90", "CUDA driver 13.0" and its memory; "CPU" and the vector width. */
typedef struct device_description {
    bool is_gpu;
    char label[24], title[160], driver[64];
    uint64_t memory_bytes;
} device_description;
void device_describe(const device *dev, device_description *out);
/* Whether work goes on while the host does something else (plan_start). */
bool device_has_queue(const device *dev);
/* False where the device does not say (CPUs). Free memory of 0 means that the driver does not tell. */
bool device_memory(device *dev, uint64_t *free_bytes, uint64_t *total_bytes);
/* The kernels that are loaded, and those that take most: of a thread's registers, of a thread's spilled bytes, of a
 * block's shared memory. */
typedef struct device_code {
    int n_kernels, registers, spilled_bytes, shared_bytes;
    char registers_of[32], spilled_of[32], shared_of[32];
} device_code;
/* False where the device does not say. */
bool device_code_look(device *dev, device_code *out);
ol_status device_buffer_create(device *dev, size_t bytes, device_buffer **out); /* cleared */
void device_buffer_destroy(device_buffer *b);
ol_status device_buffer_write(device_buffer *b, size_t offset_bytes, const void *host, size_t bytes);
ol_status device_buffer_read(const device_buffer *b, size_t offset_bytes, void *host, size_t bytes);
/* The host address where the device shares memory with the host (CPU), else NULL. */
void *device_buffer_host(device_buffer *b);

#endif
