/* Kernels of the CPU device over channel-blocked maps: makers by op kind. A maker answers OL_ERROR_UNSUPPORTED, without
 * a message, when the operands do not lie as it needs. Internal to src/device/cpu. */
#ifndef DEVICE_CPU_KERNELS_H
#define DEVICE_CPU_KERNELS_H

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

/* A kernel that keeps its record. */
typedef struct map_kernel {
    cpu_kernel base;
    op_record op; /* op.attr points to attr */
    op_attr attr;
} map_kernel;

/* A map as kernels walk it. */
typedef struct map_view {
    int64_t n, c, blocks, h, w, plane, batch_stride; /* plane = h*w pixels; strides in elements */
} map_view;

map_view map_view_of(const op_operand *t);
/* Is the map stored in blocks of the device's vectors? */
bool map_is_blocked(const cpu_device *dev, const op_operand *t);

/* Would the activation leave something other than zero in the padding? */
bool act_breaks_padding(const cpu_device *dev, const op_operand *t, activation act);

typedef ol_status (*cpu_run_fn)(cpu_device *dev, cpu_kernel *k, const kernel_memory *m);
/* Keeps the record in `k`. */
void map_kernel_init(map_kernel *k, const op_record *op, cpu_run_fn run);
/* A convolution's bias, or zeros, at the start of scratch: `padded` values. */
float *padded_bias(const map_kernel *k, const kernel_memory *m, int64_t padded);
ol_status map_kernel_create(cpu_device *dev, const op_record *op, cpu_run_fn run, size_t scratch_bytes,
                            cpu_kernel **out);

ol_status batch_norm_compile(cpu_device *dev, const op_record *op, cpu_kernel **out); /* and its gradient */
ol_status elementwise_compile(cpu_device *dev, const op_record *op,
                              cpu_kernel **out); /* add, activate, …_grad, image_float */
ol_status movement_compile(cpu_device *dev, const op_record *op,
                           cpu_kernel **out);                                   /* concat, slice, upsample, flatten */
ol_status pool_compile(cpu_device *dev, const op_record *op, cpu_kernel **out); /* max_pool and its gradient */
ol_status attention_compile(cpu_device *dev, const op_record *op, cpu_kernel **out); /* and its gradient */
ol_status head_compile(cpu_device *dev, const op_record *op, cpu_kernel **out); /* conv2d_grad_bias, detect_decode */

/* CONV2D of 3x3 with stride 1 in graphs that are not derived, with fewer multiplications. */
ol_status winograd_compile(cpu_device *dev, const op_record *op, cpu_kernel **out);
/* CONV2D of windows up to 3x3 with stride up to 2 in graphs that are not derived. */
ol_status conv_compile(cpu_device *dev, const op_record *op, cpu_kernel **out);

#endif
