/* Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, 2015): 16 products a channel pair for four outputs instead
 * of
 * 36. For prediction only: its rounding is a few times that of the direct form, which no prediction sees, but AdamW's
 * first steps, which weigh a gradient near zero like any other, do. A few rows of tiles at a time stay in the cache. */
#include "device/cpu/kernels.h"

#include <string.h>

#define POSITIONS   16
#define CHUNK_TILES 20          /* at least so many tiles share one pass over the transformed weights */
#define MAX_PAIRS   (128 * 192) /* channel pairs whose transformed weights stay in the cache */

typedef struct winograd_kernel {
    map_kernel base;
    int64_t inputs, filters; /* channels */
    int64_t rows;            /* of tiles in a chunk */
    float *weights;          /* (16, blocks of filters, inputs, width) */
    size_t work_at;          /* bytes into scratch, which starts with the bias: one work space a thread */
    size_t work_floats;
} winograd_kernel;

/* What one run works on. */
typedef struct winograd_job {
    const cpu_device *dev;
    const winograd_kernel *k;
    const kernel_memory *m;
    map_view in, out;
    int64_t tiles, tile_rows, chunks; /* tiles in a row, rows in a map, chunks in a map */
    float *bias;                      /* one value a padded filter */
} winograd_job;

/* U = G g G^T with G = (1 0 0; .5 .5 .5; .5 -.5 .5; 0 0 1) */
static void filter_transform(const float *g, float u[POSITIONS]) {
    float r[4][3];
    for (int j = 0; j < 3; j++) {
        r[0][j] = g[j];
        r[1][j] = 0.5f * (g[j] + g[3 + j] + g[6 + j]);
        r[2][j] = 0.5f * (g[j] - g[3 + j] + g[6 + j]);
        r[3][j] = g[6 + j];
    }
    for (int i = 0; i < 4; i++) {
        u[4 * i] = r[i][0];
        u[4 * i + 1] = 0.5f * (r[i][0] + r[i][1] + r[i][2]);
        u[4 * i + 2] = 0.5f * (r[i][0] - r[i][1] + r[i][2]);
        u[4 * i + 3] = r[i][2];
    }
}

static void weights_transform(const winograd_job *j) {
    const winograd_kernel *k = j->k;
    const float *w = j->m->in[1];
    const int64_t width = j->dev->simd->width, position = j->out.blocks * width * k->inputs;
#pragma omp parallel for num_threads(j->dev->threads) schedule(static)
    for (int64_t f = 0; f < j->out.blocks * width; f++) {
        for (int64_t c = 0; c < k->inputs; c++) {
            float g[9] = {0}, u[POSITIONS];
            for (int t = 0; t < 9 && f < k->filters; t++) g[t] = w[(f * k->inputs + c) * 9 + t];
            filter_transform(g, u);
            float *to = k->weights + (f / width * k->inputs + c) * width + f % width;
            for (int p = 0; p < POSITIONS; p++) to[p * position] = u[p];
        }
    }
}

static void chunk_input(const winograd_job *j, int64_t n, int64_t first, int64_t rows, float *v) {
    const int64_t width = j->dev->simd->width, stride = j->in.blocks * width, all = rows * j->tiles;
    const winograd_map map = {j->in.h, j->in.w, j->tiles};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t b = 0; b < j->in.blocks; b++)
            j->dev->simd->winograd_input(&map,
                                         (const float *)j->m->in[0] + n * j->in.batch_stride + b * j->in.plane * width,
                                         first + r, v + r * j->tiles * stride + b * width, all * stride, stride);
}

static void chunk_products(const winograd_job *j, int64_t tiles, const float *v, float *products) {
    const int64_t width = j->dev->simd->width, v_stride = j->in.blocks * width, m_stride = j->out.blocks * width;
    for (int64_t p = 0; p < POSITIONS; p++)
        for (int64_t b = 0; b < j->out.blocks; b++)
            j->dev->simd->winograd_products(
                v + p * tiles * v_stride, j->k->weights + (p * j->out.blocks + b) * j->k->inputs * width,
                products + p * tiles * m_stride + b * width, tiles, j->k->inputs, v_stride, m_stride);
}

static void chunk_output(const winograd_job *j, int64_t n, int64_t first, int64_t rows, const float *products) {
    const op_record *op = &j->k->base.op;
    const int64_t width = j->dev->simd->width, stride = j->out.blocks * width, all = rows * j->tiles;
    const winograd_map map = {j->out.h, j->out.w, j->tiles};
    const bool adds = op->n_in > 3 && op->in[3].present;
    for (int64_t b = 0; b < j->out.blocks; b++) {
        const int64_t at = b * j->out.plane * width;
        const winograd_tail tail = {j->bias + b * width,
                                    adds ? (const float *)j->m->in[3] + n * op->in[3].layout.batch_stride + at : NULL,
                                    (float *)j->m->out[0] + n * j->out.batch_stride + at};
        for (int64_t r = 0; r < rows; r++)
            j->dev->simd->winograd_output(&map, &tail, first + r, products + r * j->tiles * stride + b * width,
                                          all * stride, stride, op->attr->act);
    }
}

static void chunk_run(const winograd_job *j, int64_t index, float *work) {
    const int64_t n = index / j->chunks, first = index % j->chunks * j->k->rows;
    const int64_t rows = j->tile_rows - first < j->k->rows ? j->tile_rows - first : j->k->rows;
    float *products = work + POSITIONS * rows * j->tiles * j->in.blocks * j->dev->simd->width;
    chunk_input(j, n, first, rows, work);
    chunk_products(j, rows * j->tiles, work, products);
    chunk_output(j, n, first, rows, products);
}

static winograd_job job_of(const cpu_device *dev, const winograd_kernel *k, const kernel_memory *m) {
    const op_record *op = &k->base.op;
    winograd_job j = {.dev = dev, .k = k, .m = m, .in = map_view_of(&op->in[0]), .out = map_view_of(&op->out[0])};
    j.tiles = (j.out.w + 1) / 2;
    j.tile_rows = (j.out.h + 1) / 2;
    j.chunks = (j.tile_rows + k->rows - 1) / k->rows;
    j.bias = padded_bias(&k->base, m, j.out.blocks * dev->simd->width);
    return j;
}

static ol_status winograd_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const winograd_kernel *k = (const winograd_kernel *)base;
    const winograd_job j = job_of(dev, k, m);
    if (m->params_changed) weights_transform(&j);
    const int threads = dev->threads;
    const int64_t all = j.in.n * j.chunks;
    float *work = (float *)((unsigned char *)m->scratch + k->work_at);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < threads; t++)
        for (int64_t i = all * t / threads; i < all * (t + 1) / threads; i++)
            chunk_run(&j, i, work + (size_t)t * k->work_floats);
    return OL_OK;
}

static void winograd_destroy(cpu_device *dev, cpu_kernel *base) {
    mem_free_aligned(dev->base.ctx, ((winograd_kernel *)base)->weights);
}

static bool winograd_fits(const cpu_device *dev, const op_record *op) {
    const op_attr *a = op->attr;
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != 3 || a->stride[i] != 1 || a->pad[i] != 1 || a->dilation[i] != 1) return false;
    if (!op->params_fixed || a->groups != 1 || !map_is_blocked(dev, &op->in[0]) || !map_is_blocked(dev, &op->out[0]))
        return false;
    if (op->n_in > 3 && op->in[3].present && !map_is_blocked(dev, &op->in[3])) return false;
    if (act_breaks_padding(dev, &op->out[0], a->act)) return false;
    return op->in[1].shape.dim[0] * op->in[1].shape.dim[1] <= MAX_PAIRS;
}

/* Rows of tiles in a chunk: enough to share the weights, and so that all threads get as many chunks where that is
 * possible with chunks of at most three times the size. */
static int64_t chunk_rows(int64_t tile_rows, int64_t tiles, int64_t images, int threads) {
    const int64_t least = (CHUNK_TILES + tiles - 1) / tiles;
    for (int64_t rows = least; rows <= 3 * least && rows <= tile_rows; rows++)
        if (images * ((tile_rows + rows - 1) / rows) % threads == 0 && (tile_rows % rows == 0 || rows == least))
            return rows;
    return least < tile_rows ? least : tile_rows;
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

ol_status winograd_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    ol_context *ctx = dev->base.ctx;
    if (!winograd_fits(dev, op)) return OL_ERROR_UNSUPPORTED;
    winograd_kernel *k = mem_alloc0(ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    const map_view in = map_view_of(&op->in[0]), to = map_view_of(&op->out[0]);
    const int64_t width = dev->simd->width, tiles = (to.w + 1) / 2;
    k->inputs = in.c;
    k->filters = to.c;
    k->rows = chunk_rows((to.h + 1) / 2, tiles, in.n, dev->threads);
    const size_t weights = (size_t)(POSITIONS * to.blocks * width * in.c) * sizeof(float);
    k->work_at = round_up((size_t)(to.blocks * width) * sizeof(float));
    k->work_floats = (size_t)(POSITIONS * k->rows * tiles * (in.blocks + to.blocks) * width);
    k->weights = mem_alloc_aligned(ctx, weights, 1);
    if (k->weights == NULL) {
        mem_free(ctx, k);
        return OL_ERROR_MEMORY;
    }
    k->base.base.base.persistent_bytes = weights;
    map_kernel_init(&k->base, op, winograd_run);
    k->base.base.destroy = winograd_destroy;
    k->base.base.base.scratch_bytes = k->work_at + (size_t)dev->threads * k->work_floats * sizeof(float);
    *out = &k->base.base;
    return OL_OK;
}
