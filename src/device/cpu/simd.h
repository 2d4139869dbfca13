/* Inner loops over channel-blocked maps, once for each instruction set: `width` channels lie side by side and make one
 * vector. Pure functions without threads of their own. Internal to src/device/cpu. */
#ifndef DEVICE_CPU_SIMD_H
#define DEVICE_CPU_SIMD_H

#include "graph/graph.h"

#define SIMD_MAX_WIDTH 16
#define MAX_GROUPS     3 /* blocks of filters that a convolution sums at once */

/* Per-channel numbers of one block for batch normalisation and its gradient. */
typedef struct norm_lanes {
    float mean[SIMD_MAX_WIDTH], rstd[SIMD_MAX_WIDTH], gamma[SIMD_MAX_WIDTH], beta[SIMD_MAX_WIDTH];
    float mean_g[SIMD_MAX_WIDTH], mean_dot[SIMD_MAX_WIDTH]; /* of g and of g*xhat, for the gradient */
} norm_lanes;

typedef struct pool_window {
    int64_t h, w, y0, y1, x0, x1; /* the plane, and the window's part inside it */
} pool_window;

/* One row of 2x2 output tiles of a 3x3 convolution. */
typedef struct winograd_map {
    int64_t h, w, tiles; /* the plane; tiles in a row */
} winograd_map;

/* What happens to a block of output channels: y = act(sum + bias) + residual. */
typedef struct winograd_tail {
    const float *bias;
    const float *residual; /* plane, or NULL */
    float *y;              /* plane */
} winograd_tail;

/* One row of output pixels of a convolution, for some neighbouring blocks of filters: y = act(sum + bias) +
 * residual. Weights lie (input block, ky, kx, channel of the block, group, width). */
typedef struct conv_row {
    const float *x;          /* input row of tap ky = 0, first block; taps outside [ky0, ky1) are in the padding */
    int64_t x_block, x_row;  /* floats from block to block, from row to row */
    int64_t in_w, in_blocks; /* pixels in an input row; blocks of input channels */
    int kh, kw, ky0, ky1;    /* the window, and the part of its rows that lies inside */
    int stride, pad;         /* along the row; stride 1 or 2 */
    bool planar;             /* an input block is one channel, as pictures come; stride 2 only */
    int groups;              /* blocks of filters, 1 to MAX_GROUPS */
    const float *w, *bias;   /* bias: groups*width */
    const float *residual;   /* as y, or NULL */
    float *y;                /* the row in the first block of filters */
    int64_t y_block, pixels; /* floats from block to block; pixels in the row */
    activation act;
} conv_row;

typedef struct cpu_simd {
    const char *name; /* "AVX-512", … */
    int width;
    /* sum += x - shift, squares += (x - shift)^2, by channel */
    void (*sums)(const float *x, int64_t pixels, const float *shift, double *sum, double *squares);
    /* y = act(x*scale + shift), by channel */
    void (*affine)(const float *x, float *y, int64_t pixels, const float *scale, const float *shift, activation act);
    /* With z = xhat*gamma + beta, g = gy*act'(z): sum += g, dot += g*xhat */
    void (*norm_grad_sums)(const float *gy, const float *x, int64_t pixels, const norm_lanes *l, activation act,
                           double *sum, double *dot);
    /* gx = gamma*rstd*(g - mean_g - xhat*mean_dot) */
    void (*norm_grad)(const float *gy, const float *x, float *gx, int64_t pixels, const norm_lanes *l, activation act);
    /* Whole arrays, `count` a multiple of width. */
    void (*add)(const float *a, const float *b, float *y, int64_t count);
    void (*activate)(const float *x, float *y, int64_t count, activation act);
    void (*activate_grad)(const float *gy, const float *x, float *gx, int64_t count, activation act);
    /* `count` any */
    void (*sigmoid)(const float *x, float *y, int64_t count);
    void (*image_float)(const uint8_t *x, float *y, int64_t count);
    /* One row of the input to two rows of the output, and back. */
    void (*upsample_row)(const float *x, float *y0, float *y1, int64_t pixels);
    void (*upsample_row_grad)(const float *y0, const float *y1, float *x, int64_t pixels);
    /* Maximum of a window and, unless NULL, the plane index of its first place. */
    void (*pool)(const float *plane, const pool_window *win, float *y, int32_t *argmax);
    /* gx[argmax] += gy for every output pixel; gx is cleared before. */
    void (*pool_grad)(const float *gy, const int32_t *argmax, float *gx, int64_t pixels);
    /* Block of `channels` channels <-> rows of pixels, `row_stride` apart; missing channels read as zero. */
    void (*unblock)(const float *x, float *rows, int64_t pixels, int64_t row_stride, int64_t channels);
    void (*block)(const float *rows, float *y, int64_t pixels, int64_t row_stride, int64_t channels);
    /* row[i] = exp(row[i]*scale - max) / sum, in place */
    void (*softmax)(float *row, int64_t count);
    /* gs[i] = p[i]*(gp[i] - sum_j p[j] gp[j])*scale, gs may be gp */
    void (*softmax_grad)(const float *p, const float *gp, float *gs, int64_t count, float scale);
    /* The three steps of Winograd's convolution for one row of tiles and one block: transformed input (16 positions,
     * tiles, channels); for one position m (tiles, width) = v (tiles, channels) u (channels, width); transformed
     * output. */
    void (*winograd_input)(const winograd_map *map, const float *plane, int64_t tile_row, float *v, int64_t pos_stride,
                           int64_t tile_stride);
    void (*winograd_products)(const float *v, const float *u, float *m, int64_t tiles, int64_t channels,
                              int64_t v_stride, int64_t m_stride);
    void (*winograd_output)(const winograd_map *map, const winograd_tail *tail, int64_t tile_row, const float *m,
                            int64_t pos_stride, int64_t tile_stride, activation act);
    void (*conv_row)(const conv_row *row);
    /* The same for 3x3 windows of stride 1 and pad 1, one a channel, and one block; weights (ky, kx, width). */
    void (*depthwise_row)(const conv_row *row);
} cpu_simd;

extern const cpu_simd cpu_simd_avx512, cpu_simd_avx2, cpu_simd_base;
typedef enum simd_level { SIMD_BASE, SIMD_AVX2, SIMD_AVX512 } simd_level;
/* The widest that this machine runs, no wider than `limit`. */
const cpu_simd *cpu_simd_choose(simd_level limit);

#endif
