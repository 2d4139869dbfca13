/* Batch normalisation with its activation, and the gradient of both: two passes over the map each. Formulas:
 * ops/batch_norm.c. */
#include "device/cpu/kernels.h"

#include <math.h>
#include <string.h>

#define CHUNK_PIXELS 4096 /* a piece of a plane that one thread takes */

/* The sums of one piece, by channel. */
typedef struct partial {
    double a[SIMD_MAX_WIDTH], b[SIMD_MAX_WIDTH];
} partial;

typedef struct norm_job {
    const cpu_simd *simd;
    map_view v;
    int64_t chunks, pieces; /* of a plane; of a block over all images */
    const op_record *op;
    const kernel_memory *m;
    partial *partials; /* (blocks, pieces) */
    norm_lanes *lanes; /* (blocks) */
} norm_job;

static norm_job job_of(const cpu_device *dev, const map_kernel *k, const kernel_memory *m) {
    norm_job j = {.simd = dev->simd, .v = map_view_of(&k->op.out[0]), .op = &k->op, .m = m};
    j.chunks = (j.v.plane + CHUNK_PIXELS - 1) / CHUNK_PIXELS;
    j.pieces = j.v.n * j.chunks;
    j.partials = m->scratch;
    j.lanes = (norm_lanes *)(j.partials + j.v.blocks * j.pieces);
    return j;
}

static size_t job_scratch(const op_operand *t) {
    const map_view v = map_view_of(t);
    const int64_t chunks = (v.plane + CHUNK_PIXELS - 1) / CHUNK_PIXELS;
    return (size_t)(v.blocks * v.n * chunks) * sizeof(partial) + (size_t)v.blocks * sizeof(norm_lanes);
}

typedef struct piece {
    int64_t image, block, first, pixels;
} piece;

static piece piece_of(const norm_job *j, int64_t block, int64_t index) {
    const int64_t first = index % j->chunks * CHUNK_PIXELS;
    const int64_t left = j->v.plane - first;
    return (piece){index / j->chunks, block, first, left < CHUNK_PIXELS ? left : CHUNK_PIXELS};
}

/* Where a piece starts in a map that may be a view with its own distance between images. */
static float *piece_at(const norm_job *j, void *base, const op_operand *t, const piece *p) {
    return (float *)base + p->image * t->layout.batch_stride + (p->block * j->v.plane + p->first) * j->simd->width;
}

static int64_t block_channels(const norm_job *j, int64_t block) {
    const int64_t left = j->v.c - block * j->simd->width;
    return left < j->simd->width ? left : j->simd->width;
}

static partial partials_total(const norm_job *j, int64_t block) {
    partial t = {0};
    for (int64_t i = 0; i < j->pieces; i++) {
        const partial *p = &j->partials[block * j->pieces + i];
        for (int k = 0; k < j->simd->width; k++) {
            t.a[k] += p->a[k];
            t.b[k] += p->b[k];
        }
    }
    return t;
}

/* The first pixel of a block is the origin from which its values are summed: squares then lose no digits to a far mean.
 */
static void forward_piece_sums(const norm_job *j, int64_t block, int64_t index) {
    const piece p = piece_of(j, block, index), origin = piece_of(j, block, 0);
    partial *to = &j->partials[block * j->pieces + index];
    memset(to, 0, sizeof *to);
    j->simd->sums(piece_at(j, j->m->in[0], &j->op->in[0], &p), p.pixels,
                  piece_at(j, j->m->in[0], &j->op->in[0], &origin), to->a, to->b);
}

/* Statistics of a block: `mean` and `rstd` of its lanes become scale and shift; running ones are updated. */
static void forward_block_finish(const norm_job *j, int64_t block) {
    const op_attr *attr = j->op->attr;
    const piece origin = piece_of(j, block, 0);
    const float *shift = piece_at(j, j->m->in[0], &j->op->in[0], &origin);
    const float *gamma = j->m->in[1], *beta = j->m->in[2];
    float *running_mean = j->m->in[3], *running_var = j->m->in[4], *saved_mean = j->m->out[1],
          *saved_rstd = j->m->out[2];
    const partial total = attr->frozen ? (partial){0} : partials_total(j, block);
    const double count = (double)(j->v.n * j->v.plane), m = (double)attr->momentum;
    norm_lanes *l = &j->lanes[block];
    memset(l, 0, sizeof *l);
    for (int64_t k = 0; k < block_channels(j, block); k++) {
        const int64_t c = block * j->simd->width + k;
        double mean = (double)running_mean[c], var = (double)running_var[c];
        if (!attr->frozen) {
            const double offset = total.a[k] / count, squares = total.b[k] - total.a[k] * offset;
            mean = (double)shift[k] + offset;
            var = squares > 0.0 ? squares / count : 0.0;
            const double unbiased = count > 1.0 ? var * count / (count - 1.0) : var;
            running_mean[c] = (float)((1.0 - m) * (double)running_mean[c] + m * mean);
            running_var[c] = (float)((1.0 - m) * (double)running_var[c] + m * unbiased);
        }
        saved_mean[c] = (float)mean;
        saved_rstd[c] = (float)(1.0 / sqrt(var + (double)attr->eps));
        l->gamma[k] = saved_rstd[c] * gamma[c];
        l->beta[k] = beta[c] - saved_mean[c] * l->gamma[k];
    }
}

static void forward_piece_apply(const norm_job *j, int64_t block, int64_t index) {
    const piece p = piece_of(j, block, index);
    const norm_lanes *l = &j->lanes[block];
    j->simd->affine(piece_at(j, j->m->in[0], &j->op->in[0], &p), piece_at(j, j->m->out[0], &j->op->out[0], &p),
                    p.pixels, l->gamma, l->beta, j->op->attr->act);
}

static void grad_block_start(const norm_job *j, int64_t block) {
    const float *gamma = j->m->in[2], *beta = j->m->in[3], *mean = j->m->in[4], *rstd = j->m->in[5];
    norm_lanes *l = &j->lanes[block];
    memset(l, 0, sizeof *l);
    for (int64_t k = 0; k < block_channels(j, block); k++) {
        const int64_t c = block * j->simd->width + k;
        l->gamma[k] = gamma[c];
        l->beta[k] = beta[c];
        l->mean[k] = mean[c];
        l->rstd[k] = rstd[c];
    }
}

static void grad_piece_sums(const norm_job *j, int64_t block, int64_t index) {
    const piece p = piece_of(j, block, index);
    partial *to = &j->partials[block * j->pieces + index];
    memset(to, 0, sizeof *to);
    j->simd->norm_grad_sums(piece_at(j, j->m->in[0], &j->op->in[0], &p), piece_at(j, j->m->in[1], &j->op->in[1], &p),
                            p.pixels, &j->lanes[block], j->op->attr->act, to->a, to->b);
}

static void grad_block_finish(const norm_job *j, int64_t block) {
    const partial total = partials_total(j, block);
    const double count = (double)(j->v.n * j->v.plane);
    float *ggamma = j->m->out[1], *gbeta = j->m->out[2];
    const bool adds_gamma = j->op->out[1].role == ROLE_GRAD, adds_beta = j->op->out[2].role == ROLE_GRAD;
    norm_lanes *l = &j->lanes[block];
    for (int64_t k = 0; k < block_channels(j, block); k++) {
        const int64_t c = block * j->simd->width + k;
        ggamma[c] = (adds_gamma ? ggamma[c] : 0.0f) + (float)total.b[k];
        gbeta[c] = (adds_beta ? gbeta[c] : 0.0f) + (float)total.a[k];
        if (j->op->attr->frozen) continue;
        l->mean_g[k] = (float)(total.a[k] / count);
        l->mean_dot[k] = (float)(total.b[k] / count);
    }
}

static void grad_piece_apply(const norm_job *j, int64_t block, int64_t index) {
    const piece p = piece_of(j, block, index);
    j->simd->norm_grad(piece_at(j, j->m->in[0], &j->op->in[0], &p), piece_at(j, j->m->in[1], &j->op->in[1], &p),
                       piece_at(j, j->m->out[0], &j->op->out[0], &p), p.pixels, &j->lanes[block], j->op->attr->act);
}

static void start_nothing(const norm_job *j, int64_t block) {
    (void)j, (void)block;
}

typedef struct norm_steps {
    void (*start)(const norm_job *j, int64_t block);
    void (*sums)(const norm_job *j, int64_t block, int64_t index);
    void (*finish)(const norm_job *j, int64_t block);
    void (*apply)(const norm_job *j, int64_t block, int64_t index);
    bool without_sums;
} norm_steps;

/* With blocks enough for all threads each takes whole blocks, whose second pass finds the data in the cache; else the
 * pieces of all blocks are shared out, pass by pass. Sums are formed in the same order either way. */
static void passes_run(const norm_job *j, const norm_steps *s, int threads) {
    const int64_t blocks = j->v.blocks, pieces = j->pieces;
    if (blocks % threads == 0 || blocks >= 8 * (int64_t)threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t b = 0; b < blocks; b++) {
            s->start(j, b);
            for (int64_t i = 0; i < pieces && !s->without_sums; i++) s->sums(j, b, i);
            s->finish(j, b);
            for (int64_t i = 0; i < pieces; i++) s->apply(j, b, i);
        }
        return;
    }
    for (int64_t b = 0; b < blocks; b++) s->start(j, b);
    if (!s->without_sums) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < blocks * pieces; i++) s->sums(j, i / pieces, i % pieces);
    }
    for (int64_t b = 0; b < blocks; b++) s->finish(j, b);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < blocks * pieces; i++) s->apply(j, i / pieces, i % pieces);
}

static ol_status forward_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const norm_job j = job_of(dev, (const map_kernel *)base, m);
    const norm_steps steps = {start_nothing, forward_piece_sums, forward_block_finish, forward_piece_apply,
                              j.op->attr->frozen};
    passes_run(&j, &steps, dev->threads);
    return OL_OK;
}

static ol_status grad_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const norm_job j = job_of(dev, (const map_kernel *)base, m);
    const norm_steps steps = {grad_block_start, grad_piece_sums, grad_block_finish, grad_piece_apply, false};
    passes_run(&j, &steps, dev->threads);
    return OL_OK;
}

ol_status batch_norm_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    const bool grad = op->kind == OP_BATCH_NORM_GRAD;
    if (!map_is_blocked(dev, &op->in[0]) || !map_is_blocked(dev, &op->out[0]) ||
        (grad && !map_is_blocked(dev, &op->in[1])))
        return OL_ERROR_UNSUPPORTED;
    if (!grad && act_breaks_padding(dev, &op->out[0], op->attr->act)) return OL_ERROR_UNSUPPORTED;
    return map_kernel_create(dev, op, grad ? grad_run : forward_run, job_scratch(&op->out[0]), out);
}
