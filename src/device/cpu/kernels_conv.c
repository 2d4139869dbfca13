/* Direct convolution for prediction, where weights are fixed: 1x1, windows with stride 2, depthwise 3x3, and what 3x3
 * Winograd's filtering leaves. A work item is
 * a few rows of output for a team of filter blocks; consecutive items share the input rows, which stay in the cache. */
#include "device/cpu/kernels.h"

#define CHUNK_FLOATS 32768 /* input of an item: an eighth of a usual second-level cache */

typedef struct conv_kernel {
    map_kernel base;
    int64_t chunks; /* of rows of output in a map */
    bool depthwise;
    float *weights; /* teams of filter blocks, each (input block, ky, kx, channel, block of the team, width) */
} conv_kernel;

typedef struct conv_job {
    const cpu_device *dev;
    const conv_kernel *k;
    const kernel_memory *m;
    map_view in, out;
    int64_t lanes; /* channels of an input block: 1 where the input is planar */
    int64_t teams; /* of filter blocks in a map */
    float *bias;   /* one value a padded filter */
} conv_job;

static int64_t block_floats(const conv_job *j) { /* weights of one block of filters */
    const op_attr *a = &j->k->base.attr;
    const int64_t width = j->dev->simd->width;
    const int64_t inputs = j->k->depthwise ? 1 : j->in.blocks * j->lanes;
    return inputs * a->kernel[0] * a->kernel[1] * width;
}

/* Filter blocks [begin, end) that are summed together: teams of two, but the last three in one, for a block alone would
 * have the input read for half the work. */
typedef struct team {
    int64_t begin, end;
} team;

static team team_at(const conv_job *j, int64_t index) {
    if (j->k->depthwise) return (team){index, index + 1};
    return (team){2 * index, index + 1 == j->teams ? j->out.blocks : 2 * index + 2};
}

static team team_of_block(const conv_job *j, int64_t block) {
    const int64_t pair = block / 2, last = j->teams - 1;
    return team_at(j, j->k->depthwise ? block : pair < last ? pair : last);
}

/* From (K,C,kh,kw); filters and channels beyond K and C are zero. */
static void weights_pack(const conv_job *j) {
    const op_attr *a = &j->k->base.attr;
    const float *w = j->m->in[1];
    const int64_t width = j->dev->simd->width, taps = (int64_t)a->kernel[0] * a->kernel[1];
#pragma omp parallel for num_threads(j->dev->threads) schedule(static)
    for (int64_t f = 0; f < j->out.blocks * width; f++) {
        const int64_t block = f / width, lanes = j->k->depthwise ? 1 : j->lanes;
        const int64_t real = j->k->depthwise ? 1 : j->in.c, padded = j->k->depthwise ? 1 : j->in.blocks * lanes;
        const team own = team_of_block(j, block);
        float *to = j->k->weights + own.begin * block_floats(j) + (block - own.begin) * width + f % width;
        for (int64_t c = 0; c < padded; c++)
            for (int64_t t = 0; t < taps; t++)
                to[((c / lanes * taps + t) * lanes + c % lanes) * (own.end - own.begin) * width] =
                    f < j->out.c && c < real ? w[(f * real + c) * taps + t] : 0.0f;
    }
}

static void row_run(const conv_job *j, int64_t n, team blocks, int64_t oy) {
    const op_record *op = &j->k->base.op;
    const op_attr *a = op->attr;
    const int64_t width = j->dev->simd->width, iy = oy * a->stride[0] - a->pad[0];
    const int64_t at = blocks.begin * j->out.plane * width + oy * j->out.w * width;
    conv_row r = {.x_block = j->in.plane * j->lanes,
                  .x_row = j->in.w * j->lanes,
                  .planar = j->lanes == 1,
                  .in_w = j->in.w,
                  .in_blocks = j->in.blocks,
                  .kh = a->kernel[0],
                  .kw = a->kernel[1],
                  .stride = a->stride[1],
                  .pad = a->pad[1],
                  .groups = (int)(blocks.end - blocks.begin),
                  .w = j->k->weights + blocks.begin * block_floats(j),
                  .bias = j->bias + blocks.begin * width,
                  .y_block = j->out.plane * width,
                  .pixels = j->out.w,
                  .act = a->act};
    r.x = (const float *)j->m->in[0] + n * j->in.batch_stride + iy * r.x_row;
    r.y = (float *)j->m->out[0] + n * j->out.batch_stride + at;
    if (op->n_in > 3 && op->in[3].present)
        r.residual = (const float *)j->m->in[3] + n * op->in[3].layout.batch_stride + at;
    r.ky0 = iy < 0 ? (int)-iy : 0;
    r.ky1 = iy + r.kh > j->in.h ? (int)(j->in.h - iy) : r.kh;
    if (j->k->depthwise) r.x += blocks.begin * r.x_block;
    (j->k->depthwise ? j->dev->simd->depthwise_row : j->dev->simd->conv_row)(&r);
}

static void item_run(const conv_job *j, int64_t item) {
    const team blocks = team_at(j, item % j->teams);
    const int64_t chunks = j->k->chunks, chunk = item / j->teams % chunks, n = item / j->teams / chunks;
    const int64_t end = j->out.h * (chunk + 1) / chunks;
    for (int64_t oy = j->out.h * chunk / chunks; oy < end; oy++) row_run(j, n, blocks, oy);
}

static ol_status conv_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const conv_kernel *k = (const conv_kernel *)base;
    const op_record *op = &k->base.op;
    conv_job j = {.dev = dev, .k = k, .m = m, .in = map_view_of(&op->in[0]), .out = map_view_of(&op->out[0])};
    j.lanes = op->in[0].layout.block;
    j.teams = k->depthwise ? j.out.blocks : j.out.blocks < 2 ? 1 : j.out.blocks / 2;
    j.bias = padded_bias(&k->base, m, j.out.blocks * dev->simd->width);
    if (m->params_changed) weights_pack(&j);
    const int threads = dev->threads;
    const int64_t items = j.out.n * k->chunks * j.teams;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < threads; t++)
        for (int64_t i = items * t / threads; i < items * (t + 1) / threads; i++) item_run(&j, i);
    return OL_OK;
}

static void conv_destroy(cpu_device *dev, cpu_kernel *base) {
    mem_free_aligned(dev->base.ctx, ((conv_kernel *)base)->weights);
}

static bool is_depthwise(const op_record *op) {
    const op_attr *a = op->attr;
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != 3 || a->stride[i] != 1 || a->pad[i] != 1) return false;
    return a->groups > 1 && a->groups == op->in[0].shape.dim[1] && a->groups == op->out[0].shape.dim[1];
}

/* Only the first and the last pixel of a row may have a tap beside the map: windows up to 3 wide, padded by at most 1;
 * and each window has a row inside. */
static bool window_fits(const op_attr *a) {
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] > 3 || a->pad[i] > 1 || a->pad[i] >= a->kernel[i] || a->stride[i] > 2 || a->dilation[i] != 1)
            return false;
    return true;
}

static bool conv_fits(const cpu_device *dev, const op_record *op) {
    const op_attr *a = op->attr;
    if (dev->simd == &cpu_simd_base || !op->params_fixed || !window_fits(a)) return false;
    const bool planar = op->in[0].layout.block == 1 && a->groups == 1 && a->stride[1] == 2;
    if (a->groups != 1 && !is_depthwise(op)) return false;
    if (!planar && !map_is_blocked(dev, &op->in[0])) return false;
    if (!map_is_blocked(dev, &op->out[0])) return false;
    if (op->n_in > 3 && op->in[3].present && !map_is_blocked(dev, &op->in[3])) return false;
    return !act_breaks_padding(dev, &op->out[0], a->act);
}

/* Chunks of rows in a map: small enough for a cache to keep a chunk's input, and as many for each thread. */
static int64_t chunks_of(const cpu_device *dev, const op_attr *a, const map_view *in, const map_view *out) {
    const int64_t input = in->w * in->c * a->stride[0] * out->h, threads = dev->threads;
    int64_t chunks = (input + CHUNK_FLOATS - 1) / CHUNK_FLOATS;
    if (out->n % threads != 0) chunks = (chunks + threads - 1) / threads * threads;
    return chunks < out->h ? chunks : out->h;
}

ol_status conv_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    ol_context *ctx = dev->base.ctx;
    if (!conv_fits(dev, op)) return OL_ERROR_UNSUPPORTED;
    const map_view in = map_view_of(&op->in[0]), to = map_view_of(&op->out[0]);
    const op_attr *a = op->attr;
    const size_t width = (size_t)dev->simd->width, filters = (size_t)to.blocks * width;
    const size_t inputs = a->groups > 1 ? 1 : (size_t)in.blocks * (size_t)op->in[0].layout.block;
    const size_t bytes = filters * inputs * (size_t)(a->kernel[0] * a->kernel[1]) * sizeof(float);
    conv_kernel *k = mem_alloc0(ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    k->weights = mem_alloc_aligned(ctx, bytes, 1);
    if (k->weights == NULL) {
        mem_free(ctx, k);
        return OL_ERROR_MEMORY;
    }
    k->chunks = chunks_of(dev, a, &in, &to);
    k->depthwise = a->groups > 1;
    k->base.base.base.persistent_bytes = bytes;
    k->base.base.base.scratch_bytes = filters * sizeof(float);
    map_kernel_init(&k->base, op, conv_run);
    k->base.base.destroy = conv_destroy;
    *out = &k->base.base;
    return OL_OK;
}
