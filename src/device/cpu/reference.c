#include "device/cpu/cpu.h"

#include <string.h>

#define ALIGNMENT ((size_t)64)

typedef struct reference_kernel {
    cpu_kernel base;
    op_reference_fn run;
    op_attr attr;
    int n_in, n_out;
    op_operand in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    size_t in_copy[OP_MAX_INPUTS], out_copy[OP_MAX_OUTPUTS]; /* offset in scratch + 1; 0: used where it lies */
    size_t scratch_at;
} reference_kernel;

static size_t room_take(size_t *used, size_t bytes) {
    const size_t at = *used;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static size_t copy_reserve(const op_operand *t, size_t *used) {
    if (!t->present || cpu_is_dense(t)) return 0;
    return room_take(used, (size_t)shape_elements(&t->shape) * dtype_bytes(t->type)) + 1;
}

static op_args args_of(const reference_kernel *k, int threads) {
    op_args args = {.attr = &k->attr, .n_in = k->n_in, .n_out = k->n_out, .n_threads = threads};
    for (int i = 0; i < k->n_in; i++) args.in[i] = tensor_view(k->in[i].type, k->in[i].shape, NULL);
    for (int i = 0; i < k->n_out; i++) {
        args.out[i] = tensor_view(k->out[i].type, k->out[i].shape, NULL);
        args.out_adds[i] = k->out[i].role == ROLE_GRAD;
    }
    return args;
}

static ol_status reference_run(cpu_device *dev, cpu_kernel *base, const kernel_memory *m) {
    const reference_kernel *k = (const reference_kernel *)base;
    unsigned char *scratch = m->scratch;
    op_args args = args_of(k, dev->threads);
    for (int i = 0; i < k->n_in; i++) {
        args.in[i].data = m->in[i];
        if (k->in_copy[i] == 0) continue;
        args.in[i].data = scratch + k->in_copy[i] - 1;
        cpu_unpack(&k->in[i], m->in[i], args.in[i].data, dev->threads);
    }
    for (int i = 0; i < k->n_out; i++)
        args.out[i].data = k->out_copy[i] != 0 ? scratch + k->out_copy[i] - 1 : m->out[i];
    args.scratch = scratch + k->scratch_at;
    k->run(&args);
    for (int i = 0; i < k->n_out; i++)
        if (k->out_copy[i] != 0) cpu_pack(&k->out[i], args.out[i].data, m->out[i], dev->threads);
    return OL_OK;
}

ol_status cpu_reference_compile(cpu_device *dev, const op_record *op, cpu_kernel **out) {
    const op_reference *row = op_reference_of(op->kind);
    if (row->run == NULL)
        return ctx_fail(dev->base.ctx, OL_ERROR_UNSUPPORTED, "the op has no implementation on this device");
    reference_kernel *k = mem_alloc0(dev->base.ctx, 1, sizeof *k);
    if (k == NULL) return OL_ERROR_MEMORY;
    k->base.run = reference_run;
    k->run = row->run;
    k->attr = *op->attr;
    k->n_in = op->n_in;
    k->n_out = op->n_out;
    memcpy(k->in, op->in, sizeof k->in);
    memcpy(k->out, op->out, sizeof k->out);
    size_t used = 0;
    for (int i = 0; i < k->n_in; i++) k->in_copy[i] = copy_reserve(&k->in[i], &used);
    for (int i = 0; i < k->n_out; i++) k->out_copy[i] = copy_reserve(&k->out[i], &used);
    const op_args args = args_of(k, dev->threads);
    k->scratch_at = room_take(&used, op_scratch_bytes(op->kind, &args));
    k->base.base.scratch_bytes = used;
    *out = &k->base;
    return OL_OK;
}
