/* Batch normalisation on the GPU: statistics, join, apply; and the three steps back. */
#include "device/gpu/gpu.h"

#include <stdio.h>

/* Cuts rows so that there are about four blocks a multiprocessor, which are all resident, each with at least four rows
 * a thread; a thread has four channels. */
gpu_rows_split gpu_split_rows(const gpu_builder *b, const op_operand *t) {
    gpu_rows_split s = {.rows = (int)(t->shape.dim[0] * t->shape.dim[2] * t->shape.dim[3])};
    const int groups = gpu_padded(t->shape.dim[1]) / 4;
    s.groups = groups < 64 ? groups : 64;
    s.channel_blocks = (groups + s.groups - 1) / s.groups;
    const int wanted = (4 * b->g->info.multiprocessors + s.channel_blocks - 1) / s.channel_blocks;
    const int least = 256 / s.groups * 4, even = (s.rows + wanted - 1) / wanted;
    s.rows_per_block = even > least ? even : least;
    s.blocks = (s.rows + s.rows_per_block - 1) / s.rows_per_block;
    return s;
}

static const char *typed(char buffer[32], const char *name, const op_operand *t) {
    snprintf(buffer, 32, "%s_%s", name, gpu_type_suffix(t->type));
    return buffer;
}

/* in: x, gamma, beta, running mean, running variance; out: y, mean, 1/std. */
void gpu_compile_batch_norm(gpu_builder *b) {
    const op_record *op = b->op;
    const op_operand *x = &op->in[0], *y = &op->out[0];
    const gpu_rows_split s = gpu_split_rows(b, x);
    const int c = (int)x->shape.dim[1], padded = gpu_padded(c);
    char name[32];
    bn_finalize_args f = {.rows = s.rows,
                          .rows_per_block = s.rows_per_block,
                          .blocks = s.blocks,
                          .c = c,
                          .ld_stats = padded,
                          .eps = op->attr->eps,
                          .momentum = op->attr->momentum};
    gpu_launch *l;
    if (op->attr->frozen) {
        l = gpu_launch_add(b, "bn", "bn_frozen", &f, sizeof f, (unsigned)(c + 255) / 256, 1, 1);
    } else {
        const bn_stats_args a = {.rows = s.rows,
                                 .c = padded,
                                 .ld_x = x->layout.block,
                                 .ld_stats = padded,
                                 .groups = s.groups,
                                 .rows_per_block = s.rows_per_block};
        const uint64_t stats = gpu_scratch_take(b, (size_t)s.blocks * 2 * (size_t)padded * sizeof(float));
        l = gpu_launch_add(b, "bn", typed(name, "bn_stats", x), &a, sizeof a, (unsigned)s.blocks,
                           (unsigned)s.channel_blocks, 1);
        GPU_SLOT(l, bn_stats_args, x, SLOT_IN, 0, 0);
        GPU_SLOT(l, bn_stats_args, stats, SLOT_SCRATCH, 0, stats);
        l = gpu_launch_add(b, "bn", "bn_finalize", &f, sizeof f, (unsigned)padded / 4, 1, 1);
        GPU_SLOT(l, bn_finalize_args, stats, SLOT_SCRATCH, 0, stats);
    }
    GPU_SLOT(l, bn_finalize_args, mean, SLOT_OUT, 1, 0);
    GPU_SLOT(l, bn_finalize_args, inv_std, SLOT_OUT, 2, 0);
    GPU_SLOT(l, bn_finalize_args, running_mean, SLOT_IN, 3, 0);
    GPU_SLOT(l, bn_finalize_args, running_var, SLOT_IN, 4, 0);
    const bn_apply_args a = {.rows = s.rows,
                             .c = c,
                             .c_padded = padded,
                             .ld_x = x->layout.block,
                             .ld_y = y->layout.block,
                             .groups = s.groups,
                             .rows_per_block = s.rows_per_block,
                             .act = (gpu_i32)op->attr->act};
    l = gpu_launch_add(b, "bn", typed(name, "bn_apply", x), &a, sizeof a, (unsigned)s.blocks,
                       (unsigned)s.channel_blocks, 1);
    GPU_SLOT(l, bn_apply_args, x, SLOT_IN, 0, 0);
    GPU_SLOT(l, bn_apply_args, y, SLOT_OUT, 0, 0);
    GPU_SLOT(l, bn_apply_args, mean, SLOT_OUT, 1, 0);
    GPU_SLOT(l, bn_apply_args, inv_std, SLOT_OUT, 2, 0);
    GPU_SLOT(l, bn_apply_args, gamma, SLOT_IN, 1, 0);
    GPU_SLOT(l, bn_apply_args, beta, SLOT_IN, 2, 0);
}

/* Outputs that are not parameter gradients are overwritten: bn_grad_finalize adds, so they are cleared first. */
static void clear_vector(gpu_builder *b, int out) {
    const op_operand *t = &b->op->out[out];
    if (t->role == ROLE_GRAD) return;
    const fill_args a = {.count = (uint64_t)shape_elements(&t->shape)};
    gpu_launch *l = gpu_launch_add(b, "map", "fill_u32", &a, sizeof a, (unsigned)((a.count + 255) / 256), 1, 1);
    GPU_SLOT(l, fill_args, to, SLOT_OUT, out, 0);
}

static void grad_slots(gpu_launch *l, uint64_t partial, uint64_t totals) {
    GPU_SLOT(l, bn_grad_args, dy, SLOT_IN, 0, 0);
    GPU_SLOT(l, bn_grad_args, x, SLOT_IN, 1, 0);
    GPU_SLOT(l, bn_grad_args, gamma, SLOT_IN, 2, 0);
    GPU_SLOT(l, bn_grad_args, beta, SLOT_IN, 3, 0);
    GPU_SLOT(l, bn_grad_args, mean, SLOT_IN, 4, 0);
    GPU_SLOT(l, bn_grad_args, inv_std, SLOT_IN, 5, 0);
    GPU_SLOT(l, bn_grad_args, dx, SLOT_OUT, 0, 0);
    GPU_SLOT(l, bn_grad_args, grad_gamma, SLOT_OUT, 1, 0);
    GPU_SLOT(l, bn_grad_args, grad_beta, SLOT_OUT, 2, 0);
    GPU_SLOT(l, bn_grad_args, partial, SLOT_SCRATCH, 0, partial);
    GPU_SLOT(l, bn_grad_args, totals, SLOT_SCRATCH, 0, totals);
}

/* in: gy, x, gamma, beta, mean, 1/std; out: gx, ggamma, gbeta. */
void gpu_compile_batch_norm_grad(gpu_builder *b) {
    const op_record *op = b->op;
    const op_operand *gy = &op->in[0], *x = &op->in[1], *gx = &op->out[0];
    const gpu_rows_split s = gpu_split_rows(b, x);
    const int c = (int)x->shape.dim[1], padded = gpu_padded(c);
    const bn_grad_args a = {.rows = s.rows,
                            .c = c,
                            .c_padded = padded,
                            .ld_x = x->layout.block,
                            .ld_dy = gy->layout.block,
                            .ld_dx = gx->layout.block,
                            .groups = s.groups,
                            .rows_per_block = s.rows_per_block,
                            .blocks = s.blocks,
                            .act = (gpu_i32)op->attr->act,
                            .frozen = op->attr->frozen};
    char name[32];
    clear_vector(b, 1);
    clear_vector(b, 2);
    const uint64_t partial = gpu_scratch_take(b, (size_t)s.blocks * 2 * (size_t)padded * sizeof(float));
    const uint64_t totals = gpu_scratch_take(b, 2 * (size_t)padded * sizeof(float));
    grad_slots(gpu_launch_add(b, "bn", typed(name, "bn_grad_reduce", x), &a, sizeof a, (unsigned)s.blocks,
                              (unsigned)s.channel_blocks, 1),
               partial, totals);
    grad_slots(gpu_launch_add(b, "bn", "bn_grad_finalize", &a, sizeof a, (unsigned)padded / 4, 1, 1), partial, totals);
    grad_slots(gpu_launch_add(b, "bn", typed(name, "bn_grad_apply", x), &a, sizeof a, (unsigned)s.blocks,
                              (unsigned)s.channel_blocks, 1),
               partial, totals);
}
