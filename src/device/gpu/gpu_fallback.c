/* Ops without device code: their inputs are copied to the host, the plain C reference runs there, the outputs are
 * copied back. Right but slow; said once in the log. A plan with such an op is not recorded. */
#include "device/gpu/gpu.h"
#include "ops/ops.h"

#include <string.h>

typedef struct host_kernel {
    gpu_kernel base;
    op_reference_fn run;
    op_attr attr;
    int n_in, n_out;
    op_operand in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    tensor in_copy[OP_MAX_INPUTS], out_copy[OP_MAX_OUTPUTS];
    void *scratch;
} host_kernel;

/* The host's copy is dense and of the type that the reference knows: f32 for maps of any element type. */
static ol_status copy_make(ol_context *ctx, const op_operand *t, tensor *copy) {
    if (!t->present) return OL_OK;
    const bool half = t->type == DTYPE_F16 || t->type == DTYPE_BF16;
    return tensor_init(ctx, copy, half ? DTYPE_F32 : t->type, t->shape);
}

void gpu_host_kernel_deinit(gpu_device *g, gpu_kernel *base) {
    host_kernel *k = (host_kernel *)base;
    for (int i = 0; i < k->n_in; i++) tensor_deinit(g->base.ctx, &k->in_copy[i]);
    for (int i = 0; i < k->n_out; i++) tensor_deinit(g->base.ctx, &k->out_copy[i]);
    mem_free_aligned(g->base.ctx, k->scratch);
}

ol_status gpu_host_compile(gpu_device *g, const op_record *op, kernel **out) {
    ol_context *ctx = g->base.ctx;
    host_kernel *k = mem_alloc0(ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    k->base.base.on_host = true;
    k->run = op_reference_of(op->kind)->run;
    k->attr = *op->attr;
    k->n_in = op->n_in;
    k->n_out = op->n_out;
    memcpy(k->in, op->in, sizeof k->in);
    memcpy(k->out, op->out, sizeof k->out);
    op_args args = {.attr = &k->attr, .n_in = k->n_in, .n_out = k->n_out, .n_threads = ctx_threads(ctx)};
    ol_status status = OL_OK;
    for (int i = 0; i < k->n_in && status == OL_OK; i++) {
        status = copy_make(ctx, &k->in[i], &k->in_copy[i]);
        args.in[i] = k->in_copy[i];
    }
    for (int i = 0; i < k->n_out && status == OL_OK; i++) {
        status = copy_make(ctx, &k->out[i], &k->out_copy[i]);
        args.out[i] = k->out_copy[i];
    }
    if (status == OL_OK) {
        k->scratch = mem_alloc_aligned(ctx, op_scratch_bytes(op->kind, &args), 1);
        if (k->scratch == NULL) status = OL_ERROR_MEMORY;
    }
    if (status != OL_OK) {
        gpu_host_kernel_deinit(g, &k->base);
        mem_free(ctx, k);
        return status;
    }
    ctx_log(ctx, OL_LOG_INFO, "%s: layer %s (%s) runs on the CPU", g->name, op->name, op_info_of(op->kind)->name);
    *out = &k->base.base;
    return OL_OK;
}

ol_status gpu_host_launch(gpu_device *g, gpu_kernel *base, const kernel_memory *m) {
    host_kernel *k = (host_kernel *)base;
    const device_api *api = g->base.api;
    op_args args = {.attr = &k->attr, .n_in = k->n_in, .n_out = k->n_out, .scratch = k->scratch};
    args.n_threads = ctx_threads(g->base.ctx);
    ol_status status = OL_OK;
    for (int i = 0; i < k->n_in && status == OL_OK; i++) {
        args.in[i] = k->in_copy[i];
        if (k->in[i].present) status = api->tensor_read(&g->base, m->in[i], &k->in[i], k->in_copy[i].data);
    }
    for (int i = 0; i < k->n_out && status == OL_OK; i++) {
        args.out[i] = k->out_copy[i];
        args.out_adds[i] = k->out[i].role == ROLE_GRAD;
        if (args.out_adds[i]) status = api->tensor_read(&g->base, m->out[i], &k->out[i], k->out_copy[i].data);
    }
    if (status != OL_OK) return status;
    k->run(&args);
    for (int i = 0; i < k->n_out && status == OL_OK; i++)
        status = api->tensor_write(&g->base, m->out[i], &k->out[i], k->out_copy[i].data);
    return status;
}
