/* Arguments of the kernels: plain structs that the host fills and passes by value; included by both sides, so only
 * fixed-width types and addresses as 64-bit numbers. Activations are channels-last: element (n,y,x,c) of a tensor lies
 * at
 * ((n*H + y)*W + x)*ld + c, where ld >= C is the pixel stride of the (possibly larger) tensor that it is a channel
 * range of. C and ld are multiples of 8, addresses of 16 bytes; channels beyond the logical count hold zeros. */
#ifndef KERNELS_ARGS_H
#define KERNELS_ARGS_H

#ifdef __cplusplus
typedef unsigned long long gpu_address;
typedef int gpu_i32;
typedef unsigned int gpu_u32;
typedef long long gpu_i64;
#else
#include <stdint.h>
typedef uint64_t gpu_address;
typedef int32_t gpu_i32;
typedef uint32_t gpu_u32;
typedef int64_t gpu_i64;
#endif

/* Division of numbers below 2^31 by a number that the host knows: (n * multiplier / 2^32 + n) >> shift. */
typedef struct gpu_divisor {
    gpu_u32 multiplier, shift;
} gpu_divisor;

/* Gathering convolution: out(n, y*os+oy, x*os+ox, k) = sum over taps (j,i) and c of
 *   in(n, y*is + dy0 + j*ddy, x*is + dx0 + i*ddx, c) * w[k][j][i][c]   with zeros outside the picture.
 * Forward: os=1, is=stride, dy0=-pad, ddy=dilation. Gradient of the input at stride 1: channels swapped, taps mirrored;
 * at stride 2: one launch per parity (oy, ox) with the taps that reach it. */
typedef struct conv_args {
    gpu_address in, weight, out;
    gpu_address bias;     /* f32 [k], 0: none */
    gpu_address residual; /* added after the activation; 0: none */
    gpu_i32 n, h, w, c, ld_in;
    gpu_i32 gh, gw;                                    /* grid of output pixels computed by this launch */
    gpu_i32 oh, ow, k, k_logical, ld_out, ld_residual; /* bias has k_logical entries */
    gpu_i32 in_step, out_step, out_y, out_x;
    gpu_i32 taps_y, taps_x, dy0, dx0, ddy, ddx;
    gpu_i32 act;
    gpu_i32 scattered; /* grid pixel m is not output pixel m */
    gpu_i32 out_f32;   /* `out` is f32 though the inputs are half: 16 and 80 wide tiles, not scattered, no residual */
    gpu_divisor by_gw, by_gh;
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

/* The same for half-precision maps by pieces of the picture: a piece of tile_h x tile_w output pixels, `pixels` of them
 * with padding to a multiple of 16, and the halo_h x halo_w input pixels that they need. Waves stand wk deep in blocks
 * of output channels, wc in blocks of input channels, the rest share the pixels. `stages` pieces fit shared memory. */
typedef struct wgrad_tile_args {
    gpu_address in, dy, partial; /* f32 [splits][k][taps*c] */
    gpu_i32 h, w, c, ld_in;
    gpu_i32 oh, ow, k, ld_dy;
    gpu_i32 step, dy0, dx0, ddy, ddx;
    gpu_i32 tile_h, tile_w, pixels, halo_h, halo_w;
    gpu_i32 tiles_y, tiles_x, tiles, tiles_per_split;
    gpu_i32 wk, wc, slices_c, stages; /* block y = (k slice) * slices_c + (c slice) */
    gpu_divisor by_tiles_x, by_tiles_y;
} wgrad_tile_args;
enum { WGRAD_TILE_BYTES = 47104, WGRAD_TILE_PIXELS = 128, WGRAD_TILE_HALO = 768 };

/* k, c: logical; partial has k_padded rows of taps * c_padded. */
typedef struct wgrad_reduce_args {
    gpu_address partial, grad;
    gpu_i32 splits, k, c, taps, k_padded, c_padded;
} wgrad_reduce_args;

/* Batch norm: rows are pixels (n*h*w). A block takes rows_per_block rows and groups*4 channels: grid (row blocks,
 * channel blocks). */
typedef struct bn_stats_args {
    gpu_address x, stats; /* f32 [row blocks][2][ld_stats] */
    gpu_i32 rows, c, ld_x, ld_stats, groups, rows_per_block;
} bn_stats_args;

typedef struct bn_finalize_args {
    gpu_address stats, mean, inv_std, running_mean, running_var; /* running ones 0: not updated */
    gpu_i32 rows, rows_per_block, blocks, c, ld_stats;
    float eps, momentum;
} bn_finalize_args;

typedef struct bn_apply_args {
    gpu_address x, y, mean, inv_std, gamma, beta;
    gpu_i32 rows, c, c_padded, ld_x, ld_y, groups, rows_per_block, act;
} bn_apply_args;

typedef struct bn_grad_args {
    gpu_address x, dy, dx, mean, inv_std, gamma, beta;
    gpu_address partial, totals; /* f32 [blocks][2][c_padded], [2][c_padded] */
    gpu_address grad_gamma, grad_beta;
    gpu_i32 rows, c, c_padded, ld_x, ld_dy, ld_dx, groups, rows_per_block, blocks, act, frozen;
} bn_grad_args;

typedef struct add_args {
    gpu_address a, b, y;
    gpu_i32 pixels, c, ld_a, ld_b, ld_y, accumulate;
} add_args;

typedef struct copy_channels_args {
    gpu_address x, y;
    gpu_i32 pixels, c, ld_x, ld_y, x_channel, y_channel, accumulate;
} copy_channels_args;

/* y = act(x), or with dy: y = dy * act'(x). */
typedef struct activate_args {
    gpu_address x, dy, y;
    gpu_i32 pixels, c, ld_x, ld_dy, ld_y, act;
} activate_args;

typedef struct resample_args {
    gpu_address x, y;
    gpu_i32 n, h, w, c, ld_x, ld_y; /* h, w of x */
} resample_args;

typedef struct pool_args {
    gpu_address x, y, argmax; /* u8 [pixels of y][c], 0: not wanted */
    gpu_i32 n, h, w, oh, ow, c, ld_x, ld_y, kernel, step, pad;
} pool_args;

typedef struct image_args {
    gpu_address x, y;
    gpu_i32 n, c, hw, c_padded, ld_y;
} image_args;

typedef struct planes_args {
    gpu_address map, planes;
    gpu_i32 n, c, c_padded, hw, ld, length, offset;
    float scale; /* from_planes: the loss scale of mixed precision */
} planes_args;

/* One packed copy of a convolution's weights. */
enum { PACK_F32, PACK_F16, PACK_BF16, PACK_BLOCK = 1024 };
typedef struct pack_item {
    gpu_address weight, packed;
    gpu_i32 k, c, kernel_y, kernel_x;
    gpu_i32 rows_padded, reduction_padded, taps_y, taps_x, y0, y_step, x0, x_step, transposed;
    gpu_i32 type, first_block, unused;
} pack_item;

typedef struct pack_args {
    gpu_address items;
    gpu_i32 n;
} pack_args;

typedef struct bias_grad_args {
    gpu_address dy, partial; /* f32 [row blocks][c] */
    gpu_i32 rows, c, ld_dy, groups, rows_per_block;
} bias_grad_args;

typedef struct decode_args {
    gpu_address boxes, scores, out;
    gpu_i32 n, nc, anchors, corners, n_levels;
    gpu_i32 level_h[4], level_w[4], level_stride[4];
} decode_args;

typedef struct fill_args {
    gpu_address to;
    gpu_address count; /* elements of 4 bytes */
    gpu_u32 bits;
} fill_args;

/* Strides in elements; batch z = outer * inner_count + inner; alpha * A * B + beta * C. Contiguous runs are 16-byte
 * aligned and padded with readable zeros up to a multiple of 8. */
typedef struct gemm_args {
    gpu_address a, b, c;
    gpu_address a_outer, a_inner, b_outer, b_inner, c_outer, c_inner;
    gpu_i32 m, n, k, ld_a, ld_b, ld_c, inner;
    float alpha, beta;
} gemm_args;

typedef struct softmax_args {
    gpu_address p, dp; /* dp 0: forward, in place */
    gpu_i32 rows, n, ld;
} softmax_args;

typedef struct depthwise_args {
    gpu_address in, weight, bias, residual, out;
    gpu_i32 n, h, w, oh, ow, c, c_logical, ld_in, ld_out, ld_residual, kernel, step, pad, dilation, mirrored, act;
} depthwise_args;

typedef struct depthwise_wgrad_args {
    gpu_address in, dy, partial;
    gpu_i32 n, h, w, oh, ow, c, c_logical, ld_in, ld_dy, kernel, step, pad, dilation, groups, rows_per_block, blocks;
} depthwise_wgrad_args;

/* Detection loss of one branch; inputs and outputs as the op's, the rest is scratch. */
typedef struct loss_args {
    gpu_address boxes, scores, targets, counts, gains, items, grad_boxes, grad_scores;
    gpu_address entries;                   /* 32 bytes each, [n][max_targets][topk] */
    gpu_address chosen, first;             /* i32 [n][anchors]; cleared to 0 and to the largest integer */
    gpu_address kept;                      /* u64 [n][max_targets], cleared */
    gpu_address best_metric, best_overlap; /* f32 [n][max_targets], cleared */
    gpu_address sums;                      /* f64 [n][4] */
    gpu_address class_sums;                /* f64 [n][nc][class_blocks] */
    gpu_i32 n, nc, anchors, max_targets, topk, class_blocks, n_levels;
    gpu_i32 level_h[4], level_w[4], level_stride[4];
} loss_args;

/* --- the optimizer step (step.gpu.c, optim.gpu.c) ---
 * The board lies in device memory: what the host says for one batch, what the device keeps from step to step, what it
 * decided for the kernels that follow, and what it tells the host. */
enum { STEP_GROUPS = 8, STEP_RANGES = 2 * STEP_GROUPS + 1, STEP_PARTIALS = 256, STEP_ITEMS = 3, STEP_SPAN = 1024 };
enum { STEP_REST = 0, STEP_CLEAR, STEP_MOVE }; /* nothing; a skipped step: gradients are cleared; a step */

typedef struct board_orders {
    double lr[STEP_GROUPS], momentum[STEP_GROUPS], decay[STEP_GROUPS];
    double beta2, images;
    gpu_i32 take, unused;
} board_orders;

typedef struct board_state {
    double scale, mu_product;
    gpu_i64 n_good, step, ema_updates;
    gpu_i32 n_skipped, scaled, stopped, skips; /* ops/loss_scaler.h */
} board_state;

/* optim_rule of ops/optim.h, and MuSGD's rate. */
typedef struct board_rule {
    float lr, decay, shrink, mu, one_minus_mu, beta2, one_minus_beta2, step_size, root2, grad_size, muon_rate;
    gpu_i32 rectified;
} board_rule;

typedef struct board_decision {
    gpu_i32 mode;
    float factor, ema_rest, unused; /* of gradients; 1 - decay of the averages */
    board_rule rules[STEP_GROUPS];
} board_decision;

typedef struct board_outcome {
    double norm, scale;
    float items[2][STEP_ITEMS];
    gpu_i32 skipped, unused;
    board_state state; /* after the batch */
} board_outcome;

/* Floats [begin, end) of the flat buffers, STEP_SPAN a block from `block` on. Group -1: only averaged. */
typedef struct board_range {
    gpu_address begin, end;
    gpu_i32 group, block;
} board_range;

typedef struct step_board {
    board_orders orders;
    board_state state;
    board_decision decision;
    board_outcome outcome;
    double partial[STEP_PARTIALS]; /* sums of squares */
    board_range ranges[STEP_RANGES];
    gpu_i32 n_ranges, unused;
} step_board;

typedef struct step_args {
    gpu_address board;
    gpu_address values, grads, ema, a, b; /* flat; a and b: states */
    gpu_address m, u;                     /* MuSGD: momentum and directions of the matrices */
    gpu_address n_trained;
    gpu_address gains[2], items[2];               /* of the losses, 0: none */
    gpu_i32 kind, n_groups, gain_at, muon_groups; /* muon_groups: a bit each */
    gpu_i32 scale_interval, most_skips;           /* loss_scaler.h */
    float clip_norm, scale_growth, scale_backoff;
} step_args;

/* A matrix of Newton-Schulz: bf16 work matrices X, Y [r8][c8] and A, B [r8][r8] with r <= c. */
typedef struct ns_item {
    gpu_address x, y, a, b, offset; /* offset: floats, in u and in the values */
    gpu_i32 rows, cols, group;
    float scale;
} ns_item;

typedef struct ns_args {
    gpu_address items, u, values, norms, board;
    gpu_i32 blocks, swapped;
} ns_args;

/* Rows from decoded outputs (select.gpu.c). Modes: the one-to-one head's top-k selection, or suppression of each
 * anchor's best class, or of every class above conf. */
enum { GPU_SELECT_HEAD = 0, GPU_SELECT_BEST, GPU_SELECT_LABELS };
typedef struct select_args {
    gpu_address pred, keep;           /* f32 (n, 4+nc, anchors); u8 [nc], 0: all classes */
    gpu_address counts;               /* u32 [n][2], cleared */
    gpu_address list, order;          /* u64 [n][capacity], [n][limit] */
    gpu_address entries, entry_order; /* u64 [n][limit*nc], [n][limit]: the second stage of the top-k selection */
    gpu_address kept;                 /* 20 bytes [n][max_det] */
    gpu_address row_counts, rows;     /* i32 [n]; 28 bytes [n][max_det] */
    gpu_i32 nc, anchors, capacity, limit, max_det, mode, stage, agnostic;
    float conf, iou;
} select_args;

/* Recipes (pictures.h) of n pictures to u8 planes (n,channels,h,w). */
typedef struct pictures_args {
    gpu_address recipes, pixels, out;
    gpu_address stopped; /* i32: when it is set the pictures stay; 0: none */
    gpu_i32 channels, h, w;
} pictures_args;

#endif
