/* Ops of map.gpu.c: element-wise maps, copies of channel ranges, resampling, pooling, layout changes. */
#include "device/gpu/gpu.h"

#include <stdio.h>

static unsigned blocks_of(int64_t threads) {
    return (unsigned)((threads + 255) / 256);
}

static int pixels_of(const op_operand *t) {
    return (int)(t->shape.dim[0] * t->shape.dim[2] * t->shape.dim[3]);
}

static int padded_of(const op_operand *t) {
    return gpu_padded(t->shape.dim[1]);
}

static const char *typed(char buffer[32], const char *name, const op_operand *t) {
    snprintf(buffer, 32, "%s_%s", name, gpu_type_suffix(t->type));
    return buffer;
}

void gpu_compile_image_float(gpu_builder *b) {
    const op_operand *x = &b->op->in[0], *y = &b->op->out[0];
    char name[32];
    const image_args a = {.n = (gpu_i32)x->shape.dim[0],
                          .c = (gpu_i32)x->shape.dim[1],
                          .hw = (gpu_i32)(x->shape.dim[2] * x->shape.dim[3]),
                          .c_padded = padded_of(y),
                          .ld_y = y->layout.block};
    gpu_launch *l = gpu_launch_add(b, "map", typed(name, "image_float", y), &a, sizeof a,
                                   blocks_of((int64_t)pixels_of(y) * padded_of(y) / 8), 1, 1);
    GPU_SLOT(l, image_args, x, SLOT_IN, 0, 0);
    GPU_SLOT(l, image_args, y, SLOT_OUT, 0, 0);
}

void gpu_compile_add(gpu_builder *b) {
    const op_operand *y = &b->op->out[0];
    char name[32];
    const add_args a = {.pixels = pixels_of(y),
                        .c = padded_of(y),
                        .ld_a = b->op->in[0].layout.block,
                        .ld_b = b->op->in[1].layout.block,
                        .ld_y = y->layout.block};
    gpu_launch *l =
        gpu_launch_add(b, "map", typed(name, "add", y), &a, sizeof a, blocks_of((int64_t)a.pixels * a.c / 8), 1, 1);
    GPU_SLOT(l, add_args, a, SLOT_IN, 0, 0);
    GPU_SLOT(l, add_args, b, SLOT_IN, 1, 0);
    GPU_SLOT(l, add_args, y, SLOT_OUT, 0, 0);
}

/* Copies channels [from, from+c) of operand x to [to, to+c) of y. */
static void copy_channels(gpu_builder *b, const op_operand *x, gpu_slot_kind x_kind, int x_index, int64_t from,
                          const op_operand *y, gpu_slot_kind y_kind, int y_index, int64_t to, int64_t c) {
    char name[32];
    const size_t element = dtype_bytes(y->type);
    gpu_launch *l;
    if (from % 8 == 0 && to % 8 == 0 && c % 8 == 0) {
        const add_args a = {.pixels = pixels_of(y), .c = (gpu_i32)c, .ld_a = x->layout.block, .ld_y = y->layout.block};
        l = gpu_launch_add(b, "map", typed(name, "add", y), &a, sizeof a, blocks_of((int64_t)a.pixels * a.c / 8), 1, 1);
        GPU_SLOT(l, add_args, a, x_kind, x_index, (uint64_t)from * element);
        GPU_SLOT(l, add_args, y, y_kind, y_index, (uint64_t)to * element);
        return;
    }
    const copy_channels_args a = {.pixels = pixels_of(y),
                                  .c = (gpu_i32)c,
                                  .ld_x = x->layout.block,
                                  .ld_y = y->layout.block,
                                  .x_channel = (gpu_i32)from,
                                  .y_channel = (gpu_i32)to};
    l = gpu_launch_add(b, "map", typed(name, "copy_channels", y), &a, sizeof a, blocks_of((int64_t)a.pixels * a.c), 1,
                       1);
    GPU_SLOT(l, copy_channels_args, x, x_kind, x_index, 0);
    GPU_SLOT(l, copy_channels_args, y, y_kind, y_index, 0);
}

/* Zeros the whole map of an output whose channels are then filled in part: only for maps that are their own storage. */
static void clear_output(gpu_builder *b, const op_operand *y, int index) {
    const fill_args a = {.count = (uint64_t)pixels_of(y) * (uint64_t)y->layout.block * dtype_bytes(y->type) / 4};
    gpu_launch *l = gpu_launch_add(b, "map", "fill_u32", &a, sizeof a, blocks_of((int64_t)a.count), 1, 1);
    GPU_SLOT(l, fill_args, to, SLOT_OUT, index, 0);
}

/* Channels beyond the logical count of a map that is its own storage must be zeros. */
static void clear_padding(gpu_builder *b, const op_operand *y, int index) {
    if (y->shape.dim[1] % 8 != 0 && y->layout.block == padded_of(y)) clear_output(b, y, index);
}

void gpu_compile_concat(gpu_builder *b) {
    const op_operand *y = &b->op->out[0];
    int64_t begin = 0;
    bool any_in_place = false;
    for (int i = 0; i < b->op->n_in; i++) any_in_place = any_in_place || b->op->in[i].in_place;
    if (!any_in_place) clear_padding(b, y, 0);
    for (int i = 0; i < b->op->n_in; i++) {
        const op_operand *x = &b->op->in[i];
        if (!x->in_place) copy_channels(b, x, SLOT_IN, i, 0, y, SLOT_OUT, 0, begin, x->shape.dim[1]);
        begin += x->shape.dim[1];
    }
}

void gpu_compile_detach(gpu_builder *b) {
    copy_channels(b, &b->op->in[0], SLOT_IN, 0, 0, &b->op->out[0], SLOT_OUT, 0, 0, padded_of(&b->op->out[0]));
}

void gpu_compile_slice(gpu_builder *b) {
    const op_operand *x = &b->op->in[0], *y = &b->op->out[0];
    const op_attr *attr = b->op->attr;
    const int64_t group = x->shape.dim[1] / attr->groups;
    clear_padding(b, y, 0);
    for (int i = 0; i < attr->groups; i++)
        copy_channels(b, x, SLOT_IN, 0, i * group + attr->begin, y, SLOT_OUT, 0, (int64_t)i * attr->size, attr->size);
}

void gpu_compile_slice_grad(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0], *gx = &b->op->out[0];
    const op_attr *attr = b->op->attr;
    const int64_t group = gx->shape.dim[1] / attr->groups;
    clear_output(b, gx, 0);
    for (int i = 0; i < attr->groups; i++)
        copy_channels(b, gy, SLOT_IN, 0, (int64_t)i * attr->size, gx, SLOT_OUT, 0, i * group + attr->begin, attr->size);
}

static void activate_compile(gpu_builder *b, const op_operand *x, int x_index, const op_operand *dy, int dy_index) {
    const op_operand *y = &b->op->out[0];
    char name[32];
    const activate_args a = {.pixels = pixels_of(y),
                             .c = padded_of(y),
                             .ld_x = x->layout.block,
                             .ld_dy = dy != NULL ? dy->layout.block : 0,
                             .ld_y = y->layout.block,
                             .act = (gpu_i32)b->op->attr->act};
    gpu_launch *l = gpu_launch_add(b, "map", typed(name, "activate", y), &a, sizeof a,
                                   blocks_of((int64_t)a.pixels * a.c / 8), 1, 1);
    GPU_SLOT(l, activate_args, x, SLOT_IN, x_index, 0);
    if (dy != NULL) GPU_SLOT(l, activate_args, dy, SLOT_IN, dy_index, 0);
    GPU_SLOT(l, activate_args, y, SLOT_OUT, 0, 0);
}

void gpu_compile_activate(gpu_builder *b) {
    activate_compile(b, &b->op->in[0], 0, NULL, 0);
}

void gpu_compile_activate_grad(gpu_builder *b) {
    activate_compile(b, &b->op->in[1], 1, &b->op->in[0], 0);
}

/* `small` is the map of h x w, `large` that of 2h x 2w. */
static void upsample_compile(gpu_builder *b, const char *kernel_name, const op_operand *small, gpu_slot_kind small_kind,
                             const op_operand *large, gpu_slot_kind large_kind, const op_operand *grid) {
    char name[32];
    const resample_args a = {.n = (gpu_i32)small->shape.dim[0],
                             .h = (gpu_i32)small->shape.dim[2],
                             .w = (gpu_i32)small->shape.dim[3],
                             .c = padded_of(small),
                             .ld_x = small->layout.block,
                             .ld_y = large->layout.block};
    gpu_launch *l = gpu_launch_add(b, "map", typed(name, kernel_name, small), &a, sizeof a,
                                   blocks_of((int64_t)pixels_of(grid) * a.c / 8), 1, 1);
    GPU_SLOT(l, resample_args, x, small_kind, 0, 0);
    GPU_SLOT(l, resample_args, y, large_kind, 0, 0);
}

void gpu_compile_upsample2(gpu_builder *b) {
    const op_operand *x = &b->op->in[0], *y = &b->op->out[0];
    upsample_compile(b, "upsample2", x, SLOT_IN, y, SLOT_OUT, y);
}

void gpu_compile_upsample2_grad(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0], *gx = &b->op->out[0];
    upsample_compile(b, "upsample2_grad", gx, SLOT_OUT, gy, SLOT_IN, gx);
}

static pool_args pool_args_of(const op_attr *attr, const op_operand *in, const op_operand *out) {
    return (pool_args){.n = (gpu_i32)in->shape.dim[0],
                       .h = (gpu_i32)in->shape.dim[2],
                       .w = (gpu_i32)in->shape.dim[3],
                       .oh = (gpu_i32)out->shape.dim[2],
                       .ow = (gpu_i32)out->shape.dim[3],
                       .c = padded_of(in),
                       .ld_x = in->layout.block,
                       .ld_y = out->layout.block,
                       .kernel = attr->kernel[0],
                       .step = attr->stride[0],
                       .pad = attr->pad[0]};
}

static void square_window_check(gpu_builder *b) {
    const op_attr *attr = b->op->attr;
    if (attr->kernel[0] == attr->kernel[1] && attr->stride[0] == attr->stride[1] && attr->pad[0] == attr->pad[1] &&
        attr->kernel[0] <= 15)
        return;
    b->status = ctx_fail(b->g->base.ctx, OL_ERROR_UNSUPPORTED, "pooling windows must be square and at most 15 wide");
}

void gpu_compile_max_pool(gpu_builder *b) {
    const op_operand *x = &b->op->in[0], *y = &b->op->out[0];
    char name[32];
    square_window_check(b);
    const pool_args a = pool_args_of(b->op->attr, x, y);
    gpu_launch *l = gpu_launch_add(b, "map", typed(name, "max_pool", y), &a, sizeof a,
                                   blocks_of((int64_t)pixels_of(y) * a.c / 8), 1, 1);
    GPU_SLOT(l, pool_args, x, SLOT_IN, 0, 0);
    GPU_SLOT(l, pool_args, y, SLOT_OUT, 0, 0);
    if (!b->op->out[1].unused) GPU_SLOT(l, pool_args, argmax, SLOT_OUT, 1, 0);
}

void gpu_compile_max_pool_grad(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0], *gx = &b->op->out[0];
    char name[32];
    square_window_check(b);
    const pool_args a = pool_args_of(b->op->attr, gx, gy);
    gpu_launch *l = gpu_launch_add(b, "map", typed(name, "max_pool_grad", gx), &a, sizeof a,
                                   blocks_of((int64_t)pixels_of(gx) * a.c / 8), 1, 1);
    GPU_SLOT(l, pool_args, x, SLOT_OUT, 0, 0);
    GPU_SLOT(l, pool_args, y, SLOT_IN, 0, 0);
    GPU_SLOT(l, pool_args, argmax, SLOT_IN, 1, 0);
}

static planes_args planes_args_of(const op_operand *map, int64_t length, int64_t offset) {
    return (planes_args){.n = (gpu_i32)map->shape.dim[0],
                         .c = (gpu_i32)map->shape.dim[1],
                         .c_padded = padded_of(map),
                         .hw = (gpu_i32)(map->shape.dim[2] * map->shape.dim[3]),
                         .ld = map->layout.block,
                         .length = (gpu_i32)length,
                         .offset = (gpu_i32)offset,
                         .scale = 1.0f};
}

static gpu_launch *flatten_add(gpu_builder *b, const char *kernel_name, const op_operand *map, const planes_args *a) {
    char name[32];
    return gpu_launch_add(b, "map", typed(name, kernel_name, map), a, sizeof *a, (unsigned)(a->hw + 63) / 64,
                          (unsigned)(a->c_padded + 31) / 32, (unsigned)a->n);
}

void gpu_compile_flatten_concat(gpu_builder *b) {
    const op_operand *y = &b->op->out[0];
    int64_t offset = 0;
    for (int i = 0; i < b->op->n_in; i++) {
        const op_operand *x = &b->op->in[i];
        const planes_args a = planes_args_of(x, y->shape.dim[2], offset);
        gpu_launch *l = flatten_add(b, "flatten", x, &a);
        GPU_SLOT(l, planes_args, map, SLOT_IN, i, 0);
        GPU_SLOT(l, planes_args, planes, SLOT_OUT, 0, 0);
        offset += a.hw;
    }
}

void gpu_compile_flatten_concat_grad(gpu_builder *b) {
    const op_operand *gy = &b->op->in[0], *gx = &b->op->out[0];
    const planes_args a = planes_args_of(gx, gy->shape.dim[2], b->op->attr->begin);
    gpu_launch *l = flatten_add(b, "flatten_grad", gx, &a);
    GPU_SLOT(l, planes_args, planes, SLOT_IN, 0, 0);
    GPU_SLOT(l, planes_args, map, SLOT_OUT, 0, 0);
}

/* What selects rows of the result (gpu_select.c) is compiled along with the kernels that make it. */
static void select_want(gpu_builder *b, bool corners) {
    static const char *const head[] = {"select_collect", "select_order", "select_entries", "select_rows"};
    static const char *const suppression[] = {"select_collect", "select_order", "select_suppress"};
    const char *const *names = corners ? head : suppression;
    const size_t n = corners ? sizeof head / sizeof *head : sizeof suppression / sizeof *suppression;
    for (size_t i = 0, index; i < n && b->status == OL_OK; i++)
        b->status = gpu_function_want(b->g, "select", names[i], &index);
}

void gpu_compile_detect_decode(gpu_builder *b) {
    const op_attr *attr = b->op->attr;
    const op_operand *scores = &b->op->in[1];
    decode_args a = {.n = (gpu_i32)scores->shape.dim[0],
                     .nc = (gpu_i32)scores->shape.dim[1],
                     .anchors = (gpu_i32)scores->shape.dim[2],
                     .corners = attr->corners,
                     .n_levels = attr->n_levels};
    for (int i = 0; i < attr->n_levels && i < OP_MAX_LEVELS; i++) {
        a.level_h[i] = attr->level_h[i];
        a.level_w[i] = attr->level_w[i];
        a.level_stride[i] = attr->level_stride[i];
    }
    gpu_launch *l =
        gpu_launch_add(b, "map", "detect_decode", &a, sizeof a, blocks_of((int64_t)a.n * (4 + a.nc) * a.anchors), 1, 1);
    select_want(b, attr->corners != 0);
    GPU_SLOT(l, decode_args, boxes, SLOT_IN, 0, 0);
    GPU_SLOT(l, decode_args, scores, SLOT_IN, 1, 0);
    GPU_SLOT(l, decode_args, out, SLOT_OUT, 0, 0);
}
