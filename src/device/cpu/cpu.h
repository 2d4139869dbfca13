/* The CPU device's own types. Internal to src/device/cpu. */
#ifndef DEVICE_CPU_CPU_H
#define DEVICE_CPU_CPU_H

#include "device/cpu/simd.h"
#include "device/device.h"
#include "ops/ops.h"

typedef struct onednn onednn; /* onednn.h */

typedef struct cpu_device {
    device base;
    onednn *dnnl;
    int threads;
    const cpu_simd *simd; /* its width is the number of channels that a block of maps has */
    int saved_threads;    /* OpenMP's number for this thread before a run */
} cpu_device;

/* A CPU kernel: what a maker fills and launch calls. Makers' structs start with this one. */
typedef struct cpu_kernel cpu_kernel;
struct cpu_kernel {
    kernel base;
    ol_status (*run)(cpu_device *dev, cpu_kernel *k, const kernel_memory *m);
    void (*destroy)(cpu_device *dev, cpu_kernel *k); /* frees what the kernel holds, not `k`; may be NULL */
};

/* The kernel of last resort: the op's reference, on dense copies of the maps that are stored otherwise. */
ol_status cpu_reference_compile(cpu_device *dev, const op_record *op, cpu_kernel **out);

/* Dense (N,C,H,W) <-> blocked, any 4-byte type. Padding channels are written as zeros. */
void cpu_pack(const op_operand *t, const void *dense, void *blocked, int threads);
void cpu_unpack(const op_operand *t, const void *blocked, void *dense, int threads);
/* Is the tensor dense in logical order as it lies? */
bool cpu_is_dense(const op_operand *t);

/* cpu_step.c: device/step.h on the CPU. */
ol_status cpu_step_create(device *dev, const step_layout *layout, device_step **out);
void cpu_step_destroy(device_step *s);
ol_status cpu_step_load(device_step *s, const step_numbers *numbers);
ol_status cpu_step_order(device_step *s, const step_orders *orders);
ol_status cpu_step_begin(device_step *s, const step_places *at);
ol_status cpu_step_end(device_step *s, const step_places *at);
ol_status cpu_step_collect(device_step *s);
ol_status cpu_step_outcome(device_step *s, step_outcome *out);

/* cpu_select.c: device/select.h on the CPU. */
ol_status cpu_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows);

#endif
