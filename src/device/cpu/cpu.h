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

/* cpu_flat.c: device/flat.h on the CPU. */
ol_status cpu_flat_sum_squares(device *dev, flat x, size_t n, double *sum);
ol_status cpu_flat_scale(device *dev, flat x, size_t n, float factor);
ol_status cpu_flat_clear(device *dev, flat x, size_t n);
ol_status cpu_flat_optim(device *dev, optimizer_kind kind, const optim_step *step, flat p, flat g, flat a, flat b,
                         size_t n);
ol_status cpu_flat_ema(device *dev, double decay, flat x, flat ema, size_t n);
ol_status cpu_flat_muon_momentum(device *dev, double mu, flat g, flat m, flat u, size_t n);
ol_status cpu_flat_muon_create(device *dev, const flat_matrix *list, int n, flat_muon **out);
void cpu_flat_muon_destroy(device *dev, flat_muon *m);
ol_status cpu_flat_muon_apply(device *dev, flat_muon *m, flat u, flat values, const double *lr);
/* cpu_select.c: device/select.h on the CPU. */
ol_status cpu_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows);

#endif
