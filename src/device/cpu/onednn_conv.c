#include "device/cpu/onednn_api.h"

#include <stdio.h>
#include <string.h>

/* One convolution pass. `batch` images go through the primitive at once: all of them where the maps are dense, else one
 * (a view into a concatenation has gaps between its images), `repeats` times. */
typedef struct conv_kernel {
    cpu_kernel base;
    conv_pass pass;
    dnnl_primitive_t conv, reorder; /* reorder: parameter -> packed, or packed gradient -> parameter gradient */
    dnnl_primitive_t reorder_first; /* GRAD_W into memory that is overwritten: without the sum */
    dnnl_memory_t src, dst, weights, bias, residual, scratchpad, plain;
    desc src_desc, dst_desc, weights_desc, bias_desc, plain_desc;
    void *packed; /* persistent weights; NULL: packed in scratch */
    size_t packed_bytes, scratchpad_at, src_step, dst_step, residual_step; /* bytes */
    int64_t repeats;
    int residual_index; /* among the post-ops */
    /* Inputs of less than a block's channels are taken for pictures by oneDNN's fast kernels, which want those
     * unblocked: such a convolution is done over the whole padded block, its weights widened by zeros. 0: as they are.
     */
    int64_t wide_channels, channels, filters, taps;
    size_t wide_at; /* widened plain weights, in scratch */
    bool adds;
} conv_kernel;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const dnnl_status_t try_status = (call);                                                                       \
        if (try_status != dnnl_success) return complain(ctx, #call, try_status);                                       \
    } while (0)

static ol_status complain(ol_context *ctx, const char *call, dnnl_status_t status) {
    if (status == dnnl_out_of_memory)
        return ctx_fail(ctx, OL_ERROR_MEMORY, "oneDNN ran out of memory; use a smaller batch or imgsz");
    return ctx_fail(ctx, status == dnnl_unimplemented ? OL_ERROR_UNSUPPORTED : OL_ERROR_DEVICE,
                    "oneDNN %s refused with status %d: %.60s", onednn_version_text(), (int)status, call);
}

const char *onednn_version_text(void) {
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
    return TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

simd_level onednn_simd_level(void) {
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(); /* each set's bits contain those of the lesser ones */
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core) return SIMD_AVX512;
    return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 ? SIMD_AVX2 : SIMD_BASE;
}

ol_status onednn_create(ol_context *ctx, onednn **out) {
    onednn *d = mem_alloc0(ctx, 1, sizeof *d);
    if (d == NULL) return OL_ERROR_MEMORY;
    dnnl_status_t status = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    if (status == dnnl_success) status = dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        onednn_destroy(ctx, d);
        return complain(ctx, "engine", status);
    }
    *out = d;
    return OL_OK;
}

void onednn_destroy(ol_context *ctx, onednn *d) {
    if (d == NULL) return;
    if (d->stream != NULL) dnnl_stream_destroy(d->stream);
    if (d->engine != NULL) dnnl_engine_destroy(d->engine);
    mem_free(ctx, d);
}

ol_status onednn_matmul(ol_context *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                        int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    TRY(dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
    return OL_OK;
}

static void dims_copy(dnnl_dims_t to, const shape *s) {
    for (int i = 0; i < s->rank; i++) to[i] = s->dim[i];
}

static void geometry_fill(conv_geometry *g, const op_attr *a, const shape *x, const shape *w, const shape *y) {
    *g = (conv_geometry){.n_dims = a->groups > 1 ? 5 : 4};
    dims_copy(g->src, x);
    dims_copy(g->dst, y);
    g->bias[0] = y->dim[1];
    int at = 0;
    if (a->groups > 1) {
        g->weights[at++] = a->groups;
        g->weights[at++] = w->dim[0] / a->groups;
    } else {
        g->weights[at++] = w->dim[0];
    }
    for (int i = 1; i < 4; i++) g->weights[at++] = w->dim[i];
    for (int i = 0; i < 2; i++) {
        g->strides[i] = a->stride[i];
        g->dilates[i] = a->dilation[i] - 1;
        g->pads_begin[i] = a->pad[i];
        /* What the last window really covers: strides may leave input rows over, or need less padding. */
        g->pads_end[i] =
            (y->dim[2 + i] - 1) * a->stride[i] + (a->kernel[i] - 1) * a->dilation[i] + 1 - x->dim[2 + i] - a->pad[i];
    }
}

static dnnl_format_tag_t map_tag(const tensor_layout *l) {
    return l->block == 16 ? dnnl_nChw16c : l->block == 8 ? dnnl_nChw8c : dnnl_nchw;
}

/* Are the images of a map one after the other without gaps? */
static bool images_adjoin(const op_operand *t) {
    return !t->present || t->shape.dim[0] == 1 ||
           t->layout.batch_stride == layout_image_elements(&t->shape, t->layout.block);
}

static void conv_destroy(cpu_device *dev, cpu_kernel *base) {
    conv_kernel *k = (conv_kernel *)base;
    dnnl_memory_t *memories[] = {&k->src, &k->dst, &k->weights, &k->bias, &k->residual, &k->scratchpad, &k->plain};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (*memories[i] != NULL) dnnl_memory_destroy(*memories[i]);
    dnnl_primitive_t primitives[] = {k->conv, k->reorder, k->reorder_first};
    for (size_t i = 0; i < sizeof primitives / sizeof primitives[0]; i++)
        if (primitives[i] != NULL) dnnl_primitive_destroy(primitives[i]);
    desc descs[] = {k->src_desc, k->dst_desc, k->weights_desc, k->bias_desc, k->plain_desc};
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++) desc_release(dev->base.ctx, descs[i]);
    mem_free_aligned(dev->base.ctx, k->packed);
}

static ol_status reorder_run(cpu_device *dev, dnnl_primitive_t reorder, dnnl_memory_t from, dnnl_memory_t to) {
    ol_context *ctx = dev->base.ctx;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    TRY(dnnl_primitive_execute(reorder, dev->dnnl->stream, 2, args));
    return OL_OK;
}

/* Plain weights (K,C,taps) to (K,wide,taps), or the gradient of the wide ones back. */
static void weights_widen(const conv_kernel *k, const float *plain, float *wide) {
    const int64_t row = k->channels * k->taps, wide_row = k->wide_channels * k->taps;
    memset(wide, 0, (size_t)(k->filters * wide_row) * sizeof *wide);
    for (int64_t f = 0; f < k->filters; f++) memcpy(wide + f * wide_row, plain + f * row, (size_t)row * sizeof *wide);
}

static void gradient_narrow(const conv_kernel *k, const float *wide, float *plain, bool adds) {
    const int64_t row = k->channels * k->taps, wide_row = k->wide_channels * k->taps;
    for (int64_t f = 0; f < k->filters; f++)
        for (int64_t i = 0; i < row; i++)
            plain[f * row + i] = (adds ? plain[f * row + i] : 0.0f) + wide[f * wide_row + i];
}

/* Points `k->weights` at the packed weights, made anew when they are out of date. */
static ol_status weights_ready(cpu_device *dev, conv_kernel *k, void *plain, const kernel_memory *m) {
    ol_context *ctx = dev->base.ctx;
    if (k->reorder == NULL) {
        TRY(dnnl_memory_set_data_handle(k->weights, plain));
        return OL_OK;
    }
    TRY(dnnl_memory_set_data_handle(k->weights, k->packed != NULL ? k->packed : m->scratch));
    if (k->packed != NULL && !m->params_changed) return OL_OK;
    if (k->wide_channels > 0) {
        float *wide = (float *)((unsigned char *)m->scratch + k->wide_at);
        weights_widen(k, plain, wide);
        plain = wide;
    }
    TRY(dnnl_memory_set_data_handle(k->plain, plain));
    return reorder_run(dev, k->reorder, k->plain, k->weights);
}

static ol_status images_run(cpu_device *dev, conv_kernel *k, unsigned char *src, unsigned char *dst,
                            unsigned char *residual) {
    static const int arg_names[4][3] = {[CONV_FORWARD_EVAL] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                        [CONV_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                        [CONV_GRAD_X] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                        [CONV_GRAD_W] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    ol_context *ctx = dev->base.ctx;
    const int *names = arg_names[k->pass];
    dnnl_exec_arg_t args[6] = {
        {names[0], k->src}, {names[1], k->weights}, {names[2], k->dst}, {DNNL_ARG_SCRATCHPAD, k->scratchpad}};
    int n = 4;
    if (k->bias != NULL) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, k->bias};
    if (k->residual != NULL)
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_ATTR_MULTIPLE_POST_OP(k->residual_index) | DNNL_ARG_SRC_1, k->residual};
    TRY(dnnl_memory_set_data_handle(k->src, src));
    TRY(dnnl_memory_set_data_handle(k->dst, dst));
    if (k->residual != NULL) TRY(dnnl_memory_set_data_handle(k->residual, residual));
    TRY(dnnl_primitive_execute(k->conv, dev->dnnl->stream, n, args));
    return OL_OK;
}

static ol_status forward_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    conv_kernel *k = (conv_kernel *)base;
    ol_context *ctx = dev->base.ctx;
    ol_status status = weights_ready(dev, k, m->in[1], m);
    if (k->bias != NULL) TRY(dnnl_memory_set_data_handle(k->bias, m->in[2]));
    TRY(dnnl_memory_set_data_handle(k->scratchpad, (unsigned char *)m->scratch + k->scratchpad_at));
    for (int64_t i = 0; i < k->repeats && status == OL_OK; i++) {
        const size_t n = (size_t)i;
        unsigned char *residual = k->residual != NULL ? (unsigned char *)m->in[3] + n * k->residual_step : NULL;
        status = images_run(dev, k, (unsigned char *)m->in[0] + n * k->src_step,
                            (unsigned char *)m->out[0] + n * k->dst_step, residual);
    }
    return status;
}

static ol_status grad_x_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    conv_kernel *k = (conv_kernel *)base;
    ol_context *ctx = dev->base.ctx;
    ol_status status = weights_ready(dev, k, m->in[1], m);
    TRY(dnnl_memory_set_data_handle(k->scratchpad, (unsigned char *)m->scratch + k->scratchpad_at));
    for (int64_t i = 0; i < k->repeats && status == OL_OK; i++) {
        const size_t n = (size_t)i;
        status = images_run(dev, k, (unsigned char *)m->out[0] + n * k->src_step,
                            (unsigned char *)m->in[0] + n * k->dst_step, NULL);
    }
    return status;
}

static ol_status grad_w_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    conv_kernel *k = (conv_kernel *)base;
    ol_context *ctx = dev->base.ctx;
    ol_status status = OL_OK;
    TRY(dnnl_memory_set_data_handle(k->weights, m->scratch));
    float *wide = (float *)((unsigned char *)m->scratch + k->wide_at);
    TRY(dnnl_memory_set_data_handle(k->plain, k->wide_channels > 0 ? wide : m->out[0]));
    TRY(dnnl_memory_set_data_handle(k->scratchpad, (unsigned char *)m->scratch + k->scratchpad_at));
    for (int64_t i = 0; i < k->repeats && status == OL_OK; i++) {
        const size_t n = (size_t)i;
        status = images_run(dev, k, (unsigned char *)m->in[0] + n * k->src_step,
                            (unsigned char *)m->in[1] + n * k->dst_step, NULL);
        if (status != OL_OK) break;
        const bool overwrite = i == 0 && !k->adds;
        status =
            reorder_run(dev, overwrite || k->wide_channels > 0 ? k->reorder_first : k->reorder, k->weights, k->plain);
        if (k->wide_channels > 0) gradient_narrow(k, wide, m->out[0], !overwrite);
    }
    return status;
}

static ol_status attr_make(ol_context *ctx, conv_kernel *k, const op_record *op, dnnl_primitive_attr_t *out) {
    static const dnnl_alg_kind_t kinds[] = {
        [ACT_SILU] = dnnl_eltwise_swish, [ACT_RELU] = dnnl_eltwise_relu, [ACT_SIGMOID] = dnnl_eltwise_logistic};
    TRY(dnnl_primitive_attr_create(out));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user));
    if (k->pass != CONV_FORWARD_EVAL) return OL_OK;
    dnnl_post_ops_t ops = NULL;
    TRY(dnnl_post_ops_create(&ops));
    dnnl_status_t status = dnnl_success;
    if (op->attr->act != ACT_NONE) {
        status = post_op_eltwise(ops, kinds[op->attr->act]);
        k->residual_index = 1;
    }
    if (status == dnnl_success && op->n_in > 3 && op->in[3].present) status = post_op_add(ops, desc_look(k->dst_desc));
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*out, ops);
    dnnl_post_ops_destroy(ops);
    return status == dnnl_success ? OL_OK : complain(ctx, "post-ops", status);
}

static ol_status primitive_make(ol_context *ctx, dnnl_primitive_desc_t pd, dnnl_primitive_t *out) {
    TRY(dnnl_primitive_create(out, pd));
    return OL_OK;
}

static ol_status reorder_make(cpu_device *dev, desc_view from, desc_view to, bool adds, dnnl_primitive_t *out) {
    ol_context *ctx = dev->base.ctx;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success && adds) {
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success) status = post_op_sum(ops);
        if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, ops);
    }
    if (status == dnnl_success) status = reorder_describe(dev->dnnl, from, to, attr, &pd);
    if (status == dnnl_success) status = dnnl_primitive_create(out, pd);
    if (pd != NULL) dnnl_primitive_desc_destroy(pd);
    if (ops != NULL) dnnl_post_ops_destroy(ops);
    if (attr != NULL) dnnl_primitive_attr_destroy(attr);
    return status == dnnl_success ? OL_OK : complain(ctx, "reorder", status);
}

/* Weights in the layout that the primitive chose, or where that is the plain one, the parameter itself. */
static ol_status weights_set_up(cpu_device *dev, conv_kernel *k, const op_record *op, desc_view chosen) {
    ol_context *ctx = dev->base.ctx;
    const size_t bytes = desc_bytes(chosen);
    TRY(desc_memory(dev->dnnl, chosen, &k->weights));
    TRY(desc_memory(dev->dnnl, desc_look(k->plain_desc), &k->plain));
    if (k->pass == CONV_GRAD_W) {
        k->scratchpad_at = (bytes + 63) / 64 * 64;
        ol_status status = reorder_make(dev, chosen, desc_look(k->plain_desc), true, &k->reorder);
        if (status != OL_OK || (k->adds && k->wide_channels == 0)) return status;
        return reorder_make(dev, chosen, desc_look(k->plain_desc), false, &k->reorder_first);
    }
    if (desc_same(chosen, desc_look(k->plain_desc)) && k->wide_channels == 0) return OL_OK;
    if (op->params_fixed) {
        k->packed = mem_alloc_aligned(ctx, bytes, 1);
        if (k->packed == NULL) return OL_ERROR_MEMORY;
        k->base.base.persistent_bytes = bytes;
    } else {
        k->scratchpad_at = (bytes + 63) / 64 * 64;
    }
    return reorder_make(dev, desc_look(k->plain_desc), chosen, false, &k->reorder);
}

typedef struct conv_operands {
    const op_operand *x, *w, *y, *bias, *residual;
} conv_operands;

static conv_operands operands_of(const op_record *op) {
    switch (op->kind) {
    case OP_CONV2D_GRAD_X:
        return (conv_operands){&op->out[0], &op->in[1], &op->in[0], NULL, NULL};
    case OP_CONV2D_GRAD_W:
        return (conv_operands){&op->in[0], &op->out[0], &op->in[1], NULL, NULL};
    default:
        return (conv_operands){&op->in[0], &op->in[1], &op->out[0],
                               op->n_in > 2 && op->in[2].present ? &op->in[2] : NULL,
                               op->n_in > 3 && op->in[3].present ? &op->in[3] : NULL};
    }
}

static ol_status descs_make(cpu_device *dev, conv_kernel *k, const conv_operands *o, const conv_geometry *g,
                            desc *any) {
    ol_context *ctx = dev->base.ctx;
    const bool grouped = g->n_dims == 5;
    TRY(desc_create(ctx, &k->src_desc, 4, g->src, map_tag(&o->x->layout)));
    TRY(desc_create(ctx, &k->dst_desc, 4, g->dst, map_tag(&o->y->layout)));
    TRY(desc_create(ctx, &k->plain_desc, g->n_dims, g->weights, grouped ? dnnl_goihw : dnnl_oihw));
    TRY(desc_create(ctx, any, g->n_dims, g->weights, dnnl_format_tag_any));
    if (o->bias != NULL) TRY(desc_create(ctx, &k->bias_desc, 1, g->bias, dnnl_x));
    TRY(desc_memory(dev->dnnl, desc_look(k->src_desc), &k->src));
    TRY(desc_memory(dev->dnnl, desc_look(k->dst_desc), &k->dst));
    if (o->bias != NULL) TRY(desc_memory(dev->dnnl, desc_look(k->bias_desc), &k->bias));
    if (o->residual != NULL) TRY(desc_memory(dev->dnnl, desc_look(k->dst_desc), &k->residual));
    return OL_OK;
}

static ol_status primitives_make(cpu_device *dev, conv_kernel *k, const op_record *op, const conv_geometry *g,
                                 desc any) {
    ol_context *ctx = dev->base.ctx;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    ol_status status = attr_make(ctx, k, op, &attr);
    dnnl_status_t made = dnnl_success;
    if (status == OL_OK && k->pass >= CONV_GRAD_X)
        made = conv_describe(dev->dnnl, CONV_FORWARD, g, k->src_desc, any, NULL, k->dst_desc, NULL, NULL, &hint);
    if (status == OL_OK && made == dnnl_success)
        made = conv_describe(dev->dnnl, k->pass, g, k->src_desc, any, k->bias_desc, k->dst_desc, attr, hint, &pd);
    if (status == OL_OK && made != dnnl_success) status = complain(ctx, "convolution", made);
    if (status == OL_OK) status = weights_set_up(dev, k, op, conv_chosen_weights(pd, k->pass));
    if (status == OL_OK) {
        const desc_view scratch = conv_scratchpad(pd);
        k->wide_at = k->scratchpad_at + (desc_bytes(scratch) + 63) / 64 * 64;
        k->base.base.scratch_bytes = k->wide_at + (size_t)(k->filters * k->wide_channels * k->taps) * sizeof(float);
        made = desc_memory(dev->dnnl, scratch, &k->scratchpad);
        if (made != dnnl_success) status = complain(ctx, "scratchpad", made);
    }
    if (status == OL_OK) status = primitive_make(ctx, pd, &k->conv);
    if (pd != NULL) dnnl_primitive_desc_destroy(pd);
    if (hint != NULL) dnnl_primitive_desc_destroy(hint);
    if (attr != NULL) dnnl_primitive_attr_destroy(attr);
    return status;
}

ol_status onednn_conv_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    ol_context *ctx = dev->base.ctx;
    const conv_operands o = operands_of(op);
    conv_kernel *k = mem_alloc0(ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    k->base.destroy = conv_destroy;
    k->base.run = op->kind == OP_CONV2D_GRAD_X ? grad_x_run : op->kind == OP_CONV2D_GRAD_W ? grad_w_run : forward_run;
    k->pass = op->kind == OP_CONV2D_GRAD_X   ? CONV_GRAD_X
              : op->kind == OP_CONV2D_GRAD_W ? CONV_GRAD_W
                                             : CONV_FORWARD_EVAL;
    k->adds = op->kind == OP_CONV2D_GRAD_W && op->out[0].role == ROLE_GRAD;
    conv_geometry g;
    geometry_fill(&g, op->attr, &o.x->shape, &o.w->shape, &o.y->shape);
    k->repeats = 1;
    if (!images_adjoin(o.x) || !images_adjoin(o.y) || (o.residual != NULL && !images_adjoin(o.residual))) {
        k->repeats = g.src[0];
        g.src[0] = g.dst[0] = 1;
        k->src_step = (size_t)o.x->layout.batch_stride * sizeof(float);
        k->dst_step = (size_t)o.y->layout.batch_stride * sizeof(float);
        if (o.residual != NULL) k->residual_step = (size_t)o.residual->layout.batch_stride * sizeof(float);
    }
    if (op->attr->groups == 1 && o.x->layout.block > 1 && o.x->shape.dim[1] < o.x->layout.block) {
        k->channels = g.src[1];
        k->filters = g.dst[1];
        k->taps = g.weights[2] * g.weights[3];
        k->wide_channels = g.src[1] = g.weights[1] = o.x->layout.block;
    }
    desc any = NULL;
    ol_status status = descs_make(dev, k, &o, &g, &any);
    if (status == OL_OK) status = primitives_make(dev, k, op, &g, any);
    desc_release(ctx, any);
    if (status != OL_OK) {
        conv_destroy(dev, &k->base);
        mem_free(ctx, k);
        return status;
    }
    *out = &k->base;
    return OL_OK;
}
