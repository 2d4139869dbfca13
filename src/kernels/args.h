/* Arguments of the kernels: plain structs that the host fills and passes by value; included by both sides, so only fixed-width
 * types and addresses as 64-bit numbers. Activations are channels-last: element (n,y,x,c) of a tensor lies at
 * ((n*H + y)*W + x)*ld + c, where ld >= C is the pixel stride of the (possibly larger) tensor that it is a channel range of.
 * C and ld are multiples of 8, addresses of 16 bytes; channels beyond the logical count hold zeros. */
#ifndef KERNELS_ARGS_H
#define KERNELS_ARGS_H

#ifdef __cplusplus
typedef unsigned long long gpu_address;
typedef int gpu_i32;
typedef unsigned int gpu_u32;
#else
#include <stdint.h>
typedef uint64_t gpu_address;
typedef int32_t gpu_i32;
typedef uint32_t gpu_u32;
#endif

/* Gathering convolution: out(n, y*os+oy, x*os+ox, k) = sum over taps (j,i) and c of
 *   in(n, y*is + dy0 + j*ddy, x*is + dx0 + i*ddx, c) * w[k][j][i][c]   with zeros outside the picture.
 * Forward: os=1, is=stride, dy0=-pad, ddy=dilation. Gradient of the input at stride 1: channels swapped, taps mirrored; at stride 2:
 * one launch per parity (oy, ox) with the taps that reach it. */
typedef struct conv_args {
    gpu_address in, weight, out;
    gpu_address bias;     /* f32 [k], 0: none */
    gpu_address residual; /* added after the activation; 0: none */
    gpu_address stats;    /* f32 [row blocks][2][ldstats]: mean and sum of squared deviations of the block; 0: none */
    gpu_i32 n, h, w, c, ld_in;
    gpu_i32 gh, gw; /* grid of output pixels computed by this launch */
    gpu_i32 oh, ow, k, ld_out, ld_residual, ld_stats;
    gpu_i32 in_step, out_step, out_y, out_x;
    gpu_i32 taps_y, taps_x, dy0, dx0, ddy, ddx;
    gpu_i32 act;
    gpu_i32 accumulate; /* add to what is in `out` */
} conv_args;

/* Weight gradient: for each tap (j,i), k, c: partial[split][k][j][i][c] = sum over the split's pixels of
 *   dy(n,y,x,k) * in(n, y*step + dy0 + j*ddy, x*step + dx0 + i*ddx, c). */
typedef struct wgrad_args {
    gpu_address in, dy, partial; /* f32 [splits][k][taps*c] */
    gpu_i32 n, h, w, c, ld_in;
    gpu_i32 oh, ow, k, ld_dy;
    gpu_i32 step, taps_y, taps_x, dy0, dx0, ddy, ddx;
    gpu_i32 pixels_per_split; /* multiple of 32 */
} wgrad_args;

/* k, c: logical; partial has k_padded rows of taps * c_padded. */
typedef struct wgrad_reduce_args {
    gpu_address partial, grad;
    gpu_i32 splits, k, c, taps, k_padded, c_padded;
} wgrad_reduce_args;

#endif
