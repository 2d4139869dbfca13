#include "device/device.h"
#include "device/plan_memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct plan_op {
    kernel *kernel; /* NULL: a view, nothing to do */
    kernel_memory memory;
    double seconds; /* of the last run, when profiling */
} plan_op;

struct plan {
    ol_context *ctx;
    device *dev;
    const graph *g;
    memory_map map;
    plan_op *ops;
    device_buffer *arena, *scratch;
    size_t scratch_bytes, persistent_bytes;
    void **address; /* of each tensor; NULL: bound later */
    size_t n_unbound;
    void *recording;   /* of a run without repacking; NULL: none */
    void *packing;     /* of all kernels, for these addresses; NULL: none, or the device packs kernel by kernel */
    unsigned n_runs;   /* since the last change of a binding */
    device_step *step; /* taken along; NULL: none */
    step_places step_at;
    bool params_fixed, params_changed, profiling, no_recording;
};

static op_operand operand_of(const plan *p, tensor_ref t) {
    if (t == TENSOR_NONE) return (op_operand){0};
    const graph_tensor *tensor = &p->g->tensors[t];
    const placement *at = &p->map.tensors[t];
    return (op_operand){.present = true,
                        .type = at->element,
                        .shape = tensor->shape,
                        .role = tensor->role,
                        .layout = {at->block, at->batch_stride},
                        .unused = tensor->n_uses == 0 && tensor->role == ROLE_TEMP};
}

static void concat_inputs_mark(const plan *p, const graph_op *op, op_record *record) {
    const placement *at = p->map.tensors;
    int64_t begin = at[op->out[0]].begin;
    for (int i = 0; i < op->n_in; i++) {
        record->in[i].in_place = at[op->in[i]].root == at[op->out[0]].root && at[op->in[i]].begin == begin;
        begin += graph_shape(p->g, op->in[i])->dim[1];
    }
}

static ol_status op_compile(plan *p, size_t i) {
    const graph_op *op = &p->g->ops[i];
    if (p->map.op_is_view[i]) return OL_OK;
    if (!p->dev->api->supports(p->dev, op->kind))
        return ctx_fail(p->ctx, OL_ERROR_UNSUPPORTED, "layer %s: device %s cannot run %s", op->name, p->dev->api->name,
                        op_info_of(op->kind)->name);
    op_record record = {.kind = op->kind,
                        .name = op->name,
                        .attr = &op->attr,
                        .n_in = op->n_in,
                        .n_out = op->n_out,
                        .params_fixed = p->params_fixed};
    for (int k = 0; k < op->n_in; k++) record.in[k] = operand_of(p, op->in[k]);
    for (int k = 0; k < op->n_out; k++) record.out[k] = operand_of(p, op->out[k]);
    if (op->kind == OP_CONCAT) concat_inputs_mark(p, op, &record);
    ol_status status = p->dev->api->compile(p->dev, &record, &p->ops[i].kernel);
    if (status != OL_OK) return ctx_annotate(p->ctx, status, "layer %s (%s)", op->name, op_info_of(op->kind)->name);
    const kernel *k = p->ops[i].kernel;
    if (k->scratch_bytes > p->scratch_bytes) p->scratch_bytes = k->scratch_bytes;
    p->persistent_bytes += k->persistent_bytes;
    p->no_recording = p->no_recording || k->on_host;
    return OL_OK;
}

/* A graph that makes gradients changes its parameters between runs: packed weights are made anew in each. */
static bool graph_is_derived(const graph *g) {
    for (size_t t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].role == ROLE_GRAD) return true;
    return false;
}

static void addresses_set(plan *p) {
    unsigned char *base = p->dev->api->buffer_address(p->arena);
    for (size_t t = 0; t < p->g->n_tensors; t++) {
        if (p->map.tensors[t].bound)
            p->n_unbound++;
        else
            p->address[t] = base + p->map.tensors[t].offset_bytes;
    }
    void *scratch = p->dev->api->buffer_address(p->scratch);
    for (size_t i = 0; i < p->g->n_ops; i++) {
        const graph_op *op = &p->g->ops[i];
        p->ops[i].memory.scratch = scratch;
        for (int k = 0; k < op->n_in; k++)
            if (op->in[k] != TENSOR_NONE) p->ops[i].memory.in[k] = p->address[op->in[k]];
        for (int k = 0; k < op->n_out; k++) p->ops[i].memory.out[k] = p->address[op->out[k]];
    }
}

static ol_status run_begin(plan *p) {
    return p->dev->api->run_begin != NULL ? p->dev->api->run_begin(p->dev) : OL_OK;
}

static ol_status run_end(plan *p) {
    return p->dev->api->run_end != NULL ? p->dev->api->run_end(p->dev) : OL_OK;
}

static ol_status kernels_compile(plan *p) {
    ol_status status = run_begin(p);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < p->g->n_ops && status == OL_OK; i++) status = op_compile(p, i);
    const ol_status end = run_end(p);
    return status != OL_OK ? status : end;
}

/* Everything but the arena and the scratch memory. */
static ol_status plan_prepare(ol_context *ctx, device *dev, const graph *g, plan **out) {
    plan *p = mem_alloc0(ctx, 1, sizeof *p);
    if (p == NULL) return OL_ERROR_MEMORY;
    p->ctx = ctx;
    p->dev = dev;
    p->g = g;
    p->params_fixed = !graph_is_derived(g);
    p->params_changed = true;
    ol_status status = OL_ERROR_MEMORY;
    p->ops = mem_alloc0(ctx, g->n_ops, sizeof *p->ops);
    p->address = mem_alloc0(ctx, g->n_tensors, sizeof *p->address);
    if (p->ops == NULL || p->address == NULL) goto fail;
    if ((status = memory_map_create(ctx, dev, g, &p->map)) != OL_OK) goto fail;
    if ((status = kernels_compile(p)) != OL_OK) goto fail;
    *out = p;
    return OL_OK;
fail:
    plan_destroy(p);
    return status;
}

ol_status plan_create(ol_context *ctx, device *dev, const graph *g, plan **out) {
    plan *p = NULL;
    ol_status status = plan_prepare(ctx, dev, g, &p);
    if (status == OL_OK) status = dev->api->buffer_create(dev, p->map.arena_bytes, &p->arena);
    if (status == OL_OK) status = dev->api->buffer_create(dev, p->scratch_bytes, &p->scratch);
    if (status != OL_OK) {
        plan_destroy(p);
        return status;
    }
    addresses_set(p);
    *out = p;
    return OL_OK;
}

ol_status plan_measure(ol_context *ctx, device *dev, const graph *g, size_t *bytes) {
    plan *p = NULL;
    const ol_status status = plan_prepare(ctx, dev, g, &p);
    if (status == OL_OK) *bytes = plan_memory_bytes(p);
    plan_destroy(p);
    return status;
}

static void recording_drop(plan *p) {
    if (p->recording != NULL) p->dev->api->recording_destroy(p->dev, p->recording);
    if (p->packing != NULL) p->dev->api->packing_destroy(p->dev, p->packing);
    p->recording = NULL;
    p->packing = NULL;
    p->n_runs = 0;
}

void plan_destroy(plan *p) {
    if (p == NULL) return;
    recording_drop(p);
    for (size_t i = 0; p->ops != NULL && i < p->g->n_ops; i++)
        if (p->ops[i].kernel != NULL) p->dev->api->kernel_destroy(p->dev, p->ops[i].kernel);
    device_buffer_destroy(p->scratch);
    device_buffer_destroy(p->arena);
    memory_map_destroy(p->ctx, &p->map);
    mem_free(p->ctx, p->address);
    mem_free(p->ctx, p->ops);
    mem_free(p->ctx, p);
}

static size_t tensor_bytes(const plan *p, tensor_ref t) {
    return (size_t)shape_elements(graph_shape(p->g, t)) * dtype_bytes(p->g->tensors[t].type);
}

ol_status plan_bind(plan *p, tensor_ref t, device_buffer *buffer, size_t offset_bytes) {
    const char *name = p->g->tensors[t].name;
    if (!p->map.tensors[t].bound) return ctx_fail(p->ctx, OL_ERROR_INTERNAL, "tensor '%s' cannot be bound", name);
    size_t end;
    if (!size_add(offset_bytes, tensor_bytes(p, t), &end) || end > buffer->bytes || offset_bytes % sizeof(float) != 0)
        return ctx_fail(p->ctx, OL_ERROR_INTERNAL, "tensor '%s' does not fit the buffer that it is bound to", name);
    if (p->address[t] == NULL) p->n_unbound--;
    p->address[t] = (unsigned char *)p->dev->api->buffer_address(buffer) + offset_bytes;
    for (size_t i = 0; i < p->g->n_ops; i++) {
        const graph_op *op = &p->g->ops[i];
        for (int k = 0; k < op->n_in; k++)
            if (op->in[k] == t) p->ops[i].memory.in[k] = p->address[t];
        for (int k = 0; k < op->n_out; k++)
            if (op->out[k] == t) p->ops[i].memory.out[k] = p->address[t];
    }
    p->params_changed = true;
    recording_drop(p);
    return OL_OK;
}

static ol_status host_access_check(const plan *p, tensor_ref t, size_t bytes, bool write) {
    const graph_tensor *tensor = &p->g->tensors[t];
    if (tensor->role != ROLE_INPUT && (write || tensor->role != ROLE_OUTPUT))
        return ctx_fail(p->ctx, OL_ERROR_INTERNAL, "tensor '%s' cannot be %s by the host", tensor->name,
                        write ? "written" : "read");
    if (bytes != tensor_bytes(p, t))
        return ctx_fail(p->ctx, OL_ERROR_INTERNAL, "tensor '%s' has %zu bytes, not %zu", tensor->name,
                        tensor_bytes(p, t), bytes);
    return OL_OK;
}

ol_status plan_write(plan *p, tensor_ref t, const void *host, size_t bytes) {
    ol_status status = host_access_check(p, t, bytes, true);
    if (status != OL_OK) return status;
    const op_operand operand = operand_of(p, t);
    return p->dev->api->tensor_write(p->dev, p->address[t], &operand, host);
}

ol_status plan_read(plan *p, tensor_ref t, void *host, size_t bytes) {
    ol_status status = host_access_check(p, t, bytes, false);
    if (status != OL_OK) return status;
    const op_operand operand = operand_of(p, t);
    return p->dev->api->tensor_read(p->dev, p->address[t], &operand, host);
}

ol_status plan_locate(const plan *p, tensor_ref t, device_buffer **buffer, size_t *offset_bytes) {
    const graph_tensor *tensor = &p->g->tensors[t];
    const placement *at = &p->map.tensors[t];
    const bool outside = tensor->role == ROLE_INPUT || tensor->role == ROLE_OUTPUT;
    if (!outside || at->block != 1 || at->element != tensor->type)
        return ctx_fail(p->ctx, OL_ERROR_INTERNAL, "tensor '%s' is not a dense input or output", tensor->name);
    *buffer = p->arena;
    *offset_bytes = at->offset_bytes;
    return OL_OK;
}

static ol_status step_place(const plan *p, tensor_ref t, void **address) {
    device_buffer *buffer = NULL;
    size_t offset = 0;
    *address = NULL;
    if (t == TENSOR_NONE) return OL_OK;
    const ol_status status = plan_locate(p, t, &buffer, &offset);
    if (status == OL_OK) *address = (unsigned char *)p->dev->api->buffer_address(buffer) + offset;
    return status;
}

ol_status plan_take_step(plan *p, device_step *step, const tensor_ref gains[2], const tensor_ref items[2]) {
    ol_status status = OL_OK;
    for (int branch = 0; branch < STEP_BRANCHES && status == OL_OK; branch++) {
        status = step_place(p, gains[branch], &p->step_at.gains[branch]);
        if (status == OL_OK) status = step_place(p, items[branch], &p->step_at.items[branch]);
    }
    if (status != OL_OK) return status;
    p->step = step;
    recording_drop(p);
    return OL_OK;
}

void plan_params_changed(plan *p) {
    p->params_changed = true;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ol_status unbound_complain(const plan *p) {
    for (size_t t = 0; t < p->g->n_tensors; t++)
        if (p->address[t] == NULL)
            return ctx_fail(p->ctx, OL_ERROR_INTERNAL, "tensor '%s' and %zu more have no memory bound to them",
                            p->g->tensors[t].name, p->n_unbound - 1);
    return OL_ERROR_INTERNAL;
}

static ol_status packing_create(plan *p) {
    const size_t n = p->g->n_ops;
    kernel **kernels = mem_alloc0(p->ctx, n, sizeof(kernel *));
    const kernel_memory **memory = mem_alloc0(p->ctx, n, sizeof(const kernel_memory *));
    ol_status status = kernels != NULL && memory != NULL ? OL_OK : OL_ERROR_MEMORY;
    for (size_t i = 0; i < n && status == OL_OK; i++) {
        kernels[i] = p->ops[i].kernel;
        memory[i] = &p->ops[i].memory;
    }
    if (status == OL_OK) status = p->dev->api->packing_create(p->dev, kernels, memory, n, &p->packing);
    mem_free(p->ctx, memory);
    mem_free(p->ctx, kernels);
    return status;
}

static ol_status pack(plan *p) {
    if (p->dev->api->packing_create == NULL) return OL_OK;
    const ol_status status = p->packing == NULL ? packing_create(p) : OL_OK;
    return status == OL_OK ? p->dev->api->packing_run(p->dev, p->packing) : status;
}

static ol_status ops_launch(plan *p, bool changed) {
    ol_status status = changed ? pack(p) : OL_OK;
    if (status == OL_OK && p->step != NULL) status = p->dev->api->step_begin(p->step, &p->step_at);
    for (size_t i = 0; i < p->g->n_ops && status == OL_OK; i++) {
        plan_op *op = &p->ops[i];
        if (op->kernel == NULL) continue;
        const double start = p->profiling ? seconds_now() : 0.0;
        op->memory.params_changed = changed;
        status = p->dev->api->launch(p->dev, op->kernel, &op->memory);
        if (p->profiling && status == OL_OK) status = run_end(p); /* waits, where launches are asynchronous */
        if (p->profiling && status == OL_OK) status = run_begin(p);
        if (p->profiling) op->seconds = seconds_now() - start;
        if (status != OL_OK)
            ctx_annotate(p->ctx, status, "layer %s (%s)", p->g->ops[i].name, op_info_of(p->g->ops[i].kind)->name);
    }
    if (status == OL_OK && p->step != NULL) status = p->dev->api->step_end(p->step, &p->step_at);
    return status;
}

/* The first run launches op by op, which loads all code; the second is recorded; later ones replay the recording. A
 * device or driver that cannot record goes on op by op. */
static ol_status ops_run(plan *p) {
    const bool changed = p->params_changed || !p->params_fixed, usual = !p->params_fixed || !changed;
    if (p->dev->api->capture_begin == NULL || p->no_recording || p->profiling || !usual || p->n_runs == 0)
        return ops_launch(p, changed);
    if (p->recording != NULL) return p->dev->api->replay(p->dev, p->recording);
    if (p->dev->api->capture_begin(p->dev) != OL_OK) {
        ctx_clear(p->ctx);
        p->no_recording = true;
        return ops_launch(p, changed);
    }
    ol_status status = ops_launch(p, changed);
    const ol_status end = p->dev->api->capture_end(p->dev, &p->recording);
    if (status == OL_OK && end == OL_OK) return p->dev->api->replay(p->dev, p->recording);
    ctx_log(p->ctx, OL_LOG_WARNING, "%s cannot record graphs; launching op by op", p->dev->api->name);
    ctx_clear(p->ctx);
    p->recording = NULL;
    p->no_recording = true;
    return ops_launch(p, changed);
}

static ol_status run(plan *p, bool waits) {
    if (p->n_unbound > 0) return unbound_complain(p);
    ol_status status = run_begin(p);
    if (status != OL_OK) return status;
    status = ops_run(p);
    if (status == OL_OK && p->step != NULL) status = device_step_collect(p->step);
    if (status == OL_OK) {
        p->params_changed = false;
        p->n_runs++;
        if (!waits) return OL_OK;
    }
    const ol_status end = run_end(p);
    return status != OL_OK ? status : end;
}

ol_status plan_run(plan *p) {
    return run(p, true);
}

ol_status plan_start(plan *p) {
    return run(p, !device_has_queue(p->dev));
}

size_t plan_memory_bytes(const plan *p) {
    return p->map.arena_bytes + p->scratch_bytes + p->persistent_bytes;
}

void plan_profile_enable(plan *p, bool on) {
    p->profiling = on;
}

double plan_op_seconds(const plan *p, size_t op) {
    return p->ops[op].seconds;
}

ol_status plan_profile_report(const plan *p, text *out) {
    double by_kind[OP_KIND_COUNT] = {0}, total = 0.0;
    for (size_t i = 0; i < p->g->n_ops; i++) {
        const graph_op *op = &p->g->ops[i];
        if (p->ops[i].kernel == NULL) continue;
        char shape_text[96];
        shape_print(graph_shape(p->g, op->out[0]), shape_text, sizeof shape_text);
        text_printf(out, "%9.3f ms  %-16s %-36s %s\n", p->ops[i].seconds * 1e3, op_info_of(op->kind)->name, op->name,
                    shape_text);
        by_kind[op->kind] += p->ops[i].seconds;
        total += p->ops[i].seconds;
    }
    for (int k = 0; k < OP_KIND_COUNT; k++)
        if (by_kind[k] > 0.0) text_printf(out, "%9.3f ms  %s\n", by_kind[k] * 1e3, op_info_of((op_kind)k)->name);
    text_printf(out, "%9.3f ms  in all\n", total * 1e3);
    return out->failed ? OL_ERROR_MEMORY : OL_OK;
}
