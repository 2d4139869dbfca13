#include "guard.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUFFERS = 512, MAX_KERNELS = 4096 };

typedef struct guarded_kernel {
    kernel *kernel;
    size_t in_bytes[OP_MAX_INPUTS], out_bytes[OP_MAX_OUTPUTS];
} guarded_kernel;

/* The table of a device has no place for a user's data: what belongs to the one guarded device lies here. */
static device_api guarded;
static const device_api *honest;
static int (*allow)(void *address, size_t bytes, int allowed);
static device_buffer *buffers[MAX_BUFFERS];
static guarded_kernel kernels[MAX_KERNELS];
static size_t n_kernels, shrink;

static size_t element_bytes(const op_operand *t) {
    return dtype_bytes(t->type);
}

/* From the first byte of a tensor to the last that its kernels may touch: channels padded to eight on maps. */
static size_t operand_bytes(const op_operand *t) {
    const shape *s = &t->shape;
    if (!t->present) return 0;
    if (s->rank != 4) return (size_t)shape_elements(s) * element_bytes(t);
    const int64_t plane = s->dim[2] * s->dim[3], padded = (s->dim[1] + 7) / 8 * 8;
    if (t->layout.block > 8 || (t->layout.block == 8 && t->type != DTYPE_I32)) /* channels last, perhaps a view */
        return (size_t)((s->dim[0] - 1) * t->layout.batch_stride + (plane - 1) * t->layout.block + padded) *
               element_bytes(t);
    if (t->layout.block == 8) /* positions of maxima */
        return (size_t)(s->dim[0] * padded * plane) * element_bytes(t);
    if ((t->role == ROLE_TEMP || t->role == ROLE_OUTPUT) &&
        t->type != DTYPE_U8) /* attention's probabilities: rows padded to eight */
        return (size_t)(s->dim[0] * s->dim[1] * s->dim[2] * ((s->dim[3] + 7) / 8 * 8)) * element_bytes(t);
    return (size_t)shape_elements(s) * element_bytes(t);
}

static size_t room_of(const device *dev, const graph *g, tensor_ref t) {
    const size_t own = honest->private_bytes != NULL ? honest->private_bytes(dev, g, t) : 0;
    if (own > 0) return own + GUARD_BYTES;
    const shape *s = graph_shape(g, t);
    const dtype type = honest->element != NULL ? honest->element(dev, g, t) : g->tensors[t].type;
    int block = honest->block(dev, g, t);
    if (block == BLOCK_CHANNELS_LAST) block = (int)((s->dim[1] + 7) / 8 * 8);
    const int64_t images = s->rank == 4 ? s->dim[0] : 1;
    return (size_t)(images * layout_image_elements(s, block)) * dtype_bytes(type) + GUARD_BYTES;
}

static void buffers_allow(int allowed) {
    for (int i = 0; i < MAX_BUFFERS; i++)
        if (buffers[i] != NULL && buffers[i]->bytes > 0)
            allow(honest->buffer_address(buffers[i]), buffers[i]->bytes, allowed);
}

static ol_status guarded_buffer_create(device *dev, size_t bytes, device_buffer **out) {
    const ol_status status = honest->buffer_create(dev, bytes, out);
    for (int i = 0; status == OL_OK && i < MAX_BUFFERS; i++) {
        if (buffers[i] != NULL) continue;
        buffers[i] = *out;
        return OL_OK;
    }
    if (status == OL_OK) abort(); /* more buffers than a test has */
    return status;
}

static void guarded_buffer_destroy(device_buffer *b) {
    for (int i = 0; i < MAX_BUFFERS; i++)
        if (buffers[i] == b) buffers[i] = NULL;
    honest->buffer_destroy(b);
}

static ol_status guarded_compile(device *dev, const op_record *op, kernel **out) {
    const ol_status status = honest->compile(dev, op, out);
    if (status != OL_OK) return status;
    if (n_kernels == MAX_KERNELS) abort();
    guarded_kernel *k = &kernels[n_kernels++];
    *k = (guarded_kernel){.kernel = *out};
    for (int i = 0; i < op->n_in; i++) k->in_bytes[i] = operand_bytes(&op->in[i]);
    for (int i = 0; i < op->n_out; i++) k->out_bytes[i] = operand_bytes(&op->out[i]);
    return OL_OK;
}

static void guarded_kernel_destroy(device *dev, kernel *k) {
    for (size_t i = 0; i < n_kernels; i++)
        if (kernels[i].kernel == k) kernels[i] = kernels[--n_kernels];
    honest->kernel_destroy(dev, k);
}

static void operand_allow(void *address, size_t bytes) {
    if (address != NULL && bytes > shrink) allow(address, bytes - shrink, 1);
}

static ol_status guarded_launch(device *dev, kernel *k, const kernel_memory *m) {
    const guarded_kernel *g = NULL;
    for (size_t i = 0; i < n_kernels; i++)
        if (kernels[i].kernel == k) g = &kernels[i];
    if (g == NULL || k->on_host) return honest->launch(dev, k, m);
    buffers_allow(0);
    for (int i = 0; i < OP_MAX_INPUTS; i++) operand_allow(m->in[i], g->in_bytes[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) operand_allow(m->out[i], g->out_bytes[i]);
    if (k->scratch_bytes > 0) allow(m->scratch, k->scratch_bytes, 1);
    const ol_status status = honest->launch(dev, k, m);
    buffers_allow(1);
    return status;
}

void guard_device(device *dev) {
    void *library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, "amdemuAllow") : NULL;
    if (found == NULL || strcmp(dev->api->name, "gpu") != 0) return;
    memcpy(&allow, &found, sizeof allow);
    honest = dev->api;
    guarded = *honest;
    guarded.private_bytes = room_of;
    guarded.buffer_create = guarded_buffer_create;
    guarded.buffer_destroy = guarded_buffer_destroy;
    guarded.compile = guarded_compile;
    guarded.kernel_destroy = guarded_kernel_destroy;
    guarded.launch = guarded_launch;
    memset(buffers, 0, sizeof buffers);
    n_kernels = 0;
    shrink = 0;
    dev->api = &guarded;
}

bool guard_shrink(device *dev, size_t bytes) {
    if (dev->api != &guarded) return false;
    shrink = bytes;
    return true;
}
