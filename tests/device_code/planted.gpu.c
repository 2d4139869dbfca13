/* Kernels with the faults that tools/check_device_code.sh must find; tests/device_code/planted.sh chooses one by FAULT.
 */
#include "gpu.h"

#define FAULT_PRIVATE 1 /* an array whose elements are chosen at run time */
#define FAULT_BLOCK   2 /* a block of another size */
#define FAULT_SPILL   3 /* more values than registers */
#define FAULT_PLAIN   4 /* a half-precision convolution without the matrix unit */

typedef struct planted_args {
    u64 from, to;
} planted_args;

#if FAULT == FAULT_BLOCK
KERNEL(128) planted(planted_args a) {
#elif FAULT == FAULT_SPILL
KERNEL(256) __attribute__((amdgpu_num_vgpr(24))) planted(planted_args a) {
#elif FAULT == FAULT_PLAIN
KERNEL(256) conv_f16_planted(planted_args a) {
#else
KERNEL(256) planted(planted_args a) {
#endif
    const float *from = (const float *)a.from;
    float *to = (float *)a.to;
    float kept[64];
    for (int i = 0; i < 64; i++) kept[i] = from[i * 256 + thread_x()];
#if FAULT == FAULT_PRIVATE
    to[thread_x()] = kept[(int)from[0] & 63];
#else
    float sum = 0.0f;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 64; i++) sum = kept[i] * sum + kept[(i * 7 + k) & 63];
    to[thread_x()] = sum;
#endif
}
