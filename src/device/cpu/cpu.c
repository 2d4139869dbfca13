#include "device/cpu/cpu.h"
#include "device/cpu/kernels.h"
#include "device/cpu/onednn.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct cpu_buffer {
    device_buffer base;
    void *bytes;
} cpu_buffer;

static void cpu_close(device *dev) {
    onednn_destroy(dev->ctx, ((cpu_device *)dev)->dnnl);
    mem_free(dev->ctx, dev);
}

static void cpu_properties(const device *dev, device_properties *out) {
    const cpu_device *cpu = (const cpu_device *)dev;
    *out = (device_properties){.name = "cpu", .threads = cpu->threads, .host_memory = true};
    snprintf(out->description, sizeof out->description, "%s, oneDNN %s", cpu->simd->name, onednn_version_text());
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) out->memory_bytes = (size_t)pages * (size_t)page;
}

/* Blocked maps are walked plane by plane, a new page at each step: large pages spare most address translations. Only a
 * hint; systems that have none go on as they are. */
static void large_pages_ask(void *bytes, size_t n) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t page = (uintptr_t)2 << 20, begin = ((uintptr_t)bytes + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)bytes + n) / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)bytes, (void)n;
#endif
}

static ol_status cpu_buffer_create(device *dev, size_t bytes, device_buffer **out) {
    cpu_buffer *b = mem_alloc0(dev->ctx, 1, sizeof *b);
    if (b == NULL) return OL_ERROR_MEMORY;
    b->base = (device_buffer){dev, bytes};
    b->bytes = mem_alloc_aligned(dev->ctx, bytes, 1);
    if (b->bytes == NULL) {
        mem_free(dev->ctx, b);
        return OL_ERROR_MEMORY;
    }
    large_pages_ask(b->bytes, bytes);
    memset(b->bytes, 0, bytes);
    *out = &b->base;
    return OL_OK;
}

static void cpu_buffer_destroy(device_buffer *base) {
    cpu_buffer *b = (cpu_buffer *)base;
    mem_free_aligned(base->dev->ctx, b->bytes);
    mem_free(base->dev->ctx, b);
}

static ol_status cpu_buffer_write(device_buffer *b, size_t offset_bytes, const void *host, size_t bytes) {
    memcpy((unsigned char *)((cpu_buffer *)b)->bytes + offset_bytes, host, bytes);
    return OL_OK;
}

static ol_status cpu_buffer_read(const device_buffer *b, size_t offset_bytes, void *host, size_t bytes) {
    memcpy(host, (const unsigned char *)((const cpu_buffer *)b)->bytes + offset_bytes, bytes);
    return OL_OK;
}

static void *cpu_buffer_address(device_buffer *b) {
    return ((cpu_buffer *)b)->bytes;
}

static bool cpu_supports(const device *dev, op_kind kind) {
    (void)dev;
    return op_reference_of(kind)->run != NULL;
}

/* Maps are stored in blocks of channels, except pictures as they come in and the products of attention. */
static int cpu_block(const device *dev, const graph *g, tensor_ref t) {
    const graph_tensor *tensor = &g->tensors[t];
    if (tensor->shape.rank != 4 || dtype_bytes(tensor->type) != sizeof(float)) return 1;
    if (tensor->role == ROLE_PARAM || tensor->role == ROLE_BUFFER || tensor->role == ROLE_GRAD) return 1;
    const graph_op *op = tensor->producer >= 0 ? &g->ops[tensor->producer] : NULL;
    const bool picture = op == NULL || op->kind == OP_IMAGE_FLOAT;
    if (picture && tensor->shape.dim[1] <= 3) return 1;
    if (op != NULL && op->kind == OP_ATTENTION && op->out[1] == t) return 1;
    return ((const cpu_device *)dev)->simd->width;
}

/* A part of a map is a map of its own when it is made of whole blocks; the last block may be a padded one. */
static bool cpu_view(const device *dev, int block, int64_t channels, int64_t begin, int64_t size) {
    (void)dev;
    return begin % block == 0 && (size % block == 0 || begin + size == channels);
}

static bool cpu_in_place(const device *dev, op_kind kind, int in, int out) {
    (void)dev;
    static const struct {
        op_kind kind;
        int in, out;
    } rows[] = {
        {OP_ADD, 0, 0}, {OP_ADD, 1, 0}, {OP_ACTIVATE, 0, 0}, {OP_ACTIVATE_GRAD, 0, 0}, {OP_BATCH_NORM_GRAD, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].kind == kind && rows[i].in == in && rows[i].out == out) return true;
    return false;
}

static const struct {
    op_kind kind;
    ol_status (*compile)(cpu_device *dev, const op_record *op, cpu_kernel **out);
} makers[] = {
    {OP_CONV2D, winograd_compile}, /* where it pays; else the next */
    {OP_CONV2D, conv_compile},
    {OP_CONV2D, onednn_conv_compile},
    {OP_CONV2D_GRAD_X, onednn_conv_compile},
    {OP_CONV2D_GRAD_W, onednn_conv_compile},
    {OP_CONV2D_GRAD_BIAS, head_compile},
    {OP_BATCH_NORM, batch_norm_compile},
    {OP_BATCH_NORM_GRAD, batch_norm_compile},
    {OP_IMAGE_FLOAT, elementwise_compile},
    {OP_ADD, elementwise_compile},
    {OP_ACTIVATE, elementwise_compile},
    {OP_ACTIVATE_GRAD, elementwise_compile},
    {OP_CONCAT, movement_compile},
    {OP_SLICE, movement_compile},
    {OP_SLICE_GRAD, movement_compile},
    {OP_UPSAMPLE2, movement_compile},
    {OP_UPSAMPLE2_GRAD, movement_compile},
    {OP_FLATTEN_CONCAT, movement_compile},
    {OP_FLATTEN_CONCAT_GRAD, movement_compile},
    {OP_MAX_POOL, pool_compile},
    {OP_MAX_POOL_GRAD, pool_compile},
    {OP_ATTENTION, attention_compile},
    {OP_ATTENTION_GRAD, attention_compile},
    {OP_DETECT_DECODE, head_compile},
};

static ol_status cpu_compile(device *dev, const op_record *op, kernel **out) {
    cpu_device *cpu = (cpu_device *)dev;
    cpu_kernel *k = NULL;
    ol_status status = OL_ERROR_UNSUPPORTED;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (makers[i].kind == op->kind && status == OL_ERROR_UNSUPPORTED) status = makers[i].compile(cpu, op, &k);
    if (status == OL_ERROR_UNSUPPORTED) {
        ctx_clear(dev->ctx);
        status = cpu_reference_compile(cpu, op, &k);
    }
    if (status == OL_OK) *out = &k->base;
    return status;
}

static void cpu_kernel_destroy(device *dev, kernel *base) {
    cpu_kernel *k = (cpu_kernel *)base;
    if (k->destroy != NULL) k->destroy((cpu_device *)dev, k);
    mem_free(dev->ctx, k);
}

static ol_status cpu_launch(device *dev, kernel *base, const kernel_memory *memory) {
    cpu_kernel *k = (cpu_kernel *)base;
    return k->run((cpu_device *)dev, k, memory);
}

/* The libraries that a run calls take their number of threads from OpenMP's setting of the calling thread. */
static ol_status cpu_run_begin(device *dev) {
    cpu_device *cpu = (cpu_device *)dev;
    cpu->saved_threads = omp_get_max_threads();
    omp_set_num_threads(cpu->threads);
    return OL_OK;
}

static ol_status cpu_run_end(device *dev) {
    omp_set_num_threads(((cpu_device *)dev)->saved_threads);
    return OL_OK;
}

static ol_status cpu_tensor_write(device *dev, void *address, const op_operand *t, const void *host) {
    if (cpu_is_dense(t))
        memcpy(address, host, (size_t)shape_elements(&t->shape) * dtype_bytes(t->type));
    else
        cpu_pack(t, host, address, ((cpu_device *)dev)->threads);
    return OL_OK;
}

static ol_status cpu_tensor_read(device *dev, const void *address, const op_operand *t, void *host) {
    if (cpu_is_dense(t))
        memcpy(host, address, (size_t)shape_elements(&t->shape) * dtype_bytes(t->type));
    else
        cpu_unpack(t, address, host, ((cpu_device *)dev)->threads);
    return OL_OK;
}

static const device_api cpu_api = {
    .name = "cpu",
    .close = cpu_close,
    .properties = cpu_properties,
    .buffer_create = cpu_buffer_create,
    .buffer_destroy = cpu_buffer_destroy,
    .buffer_write = cpu_buffer_write,
    .buffer_read = cpu_buffer_read,
    .buffer_address = cpu_buffer_address,
    .buffer_host = cpu_buffer_address,
    .supports = cpu_supports,
    .block = cpu_block,
    .view = cpu_view,
    .in_place = cpu_in_place,
    .compile = cpu_compile,
    .kernel_destroy = cpu_kernel_destroy,
    .launch = cpu_launch,
    .run_begin = cpu_run_begin,
    .run_end = cpu_run_end,
    .step_create = cpu_step_create,
    .step_destroy = cpu_step_destroy,
    .step_load = cpu_step_load,
    .step_order = cpu_step_order,
    .step_begin = cpu_step_begin,
    .step_end = cpu_step_end,
    .step_collect = cpu_step_collect,
    .step_outcome = cpu_step_outcome,
    .select = cpu_select,
    .tensor_write = cpu_tensor_write,
    .tensor_read = cpu_tensor_read,
};

ol_status cpu_device_open(ol_context *ctx, device **out) {
    cpu_device *cpu = mem_alloc0(ctx, 1, sizeof *cpu);
    if (cpu == NULL) return OL_ERROR_MEMORY;
    cpu->base = (device){&cpu_api, ctx};
    cpu->threads = ctx_threads(ctx);
    cpu->simd = cpu_simd_choose(onednn_simd_level());
    ol_status status = onednn_create(ctx, &cpu->dnnl);
    if (status != OL_OK) {
        mem_free(ctx, cpu);
        return status;
    }
    *out = &cpu->base;
    return OL_OK;
}
