/* Everything that calls oneDNN: convolutions with their gradients and matrix products. Builds with oneDNN 2.6 and 3.x.
 * Internal to src/device/cpu; a device's objects serve one thread at a time. */
#ifndef DEVICE_CPU_ONEDNN_H
#define DEVICE_CPU_ONEDNN_H

#include "device/cpu/cpu.h"

ol_status onednn_create(ol_context *ctx, onednn **out);
void onednn_destroy(ol_context *ctx, onednn *d);
const char *onednn_version_text(void);
/* The instruction set that oneDNN uses, which its environment variable DNNL_MAX_CPU_ISA (ONEDNN_MAX_CPU_ISA) can lower:
 * maps are blocked for it. */
simd_level onednn_simd_level(void);

/* CONV2D, CONV2D_GRAD_X and CONV2D_GRAD_W on maps in the device's layouts. */
ol_status onednn_conv_compile(cpu_device *dev, const op_record *op, cpu_kernel **out);

/* C = alpha op(A) op(B) + beta C, row-major; op transposes where `ta`, `tb` is 'T', else 'N'. */
ol_status onednn_matmul(ol_context *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                        int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#endif
