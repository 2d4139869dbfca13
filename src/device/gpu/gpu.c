#include "device/gpu/gpu.h"

#include "base/text.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gpu_buffer {
    device_buffer base;
    gpu_pointer address;
} gpu_buffer;

enum { RING_HALF = 4 << 20 };
enum { GPU_ERROR_MEMORY = 2 }; /* the same number in both libraries */

/* Errors after which nothing works on the device any more: the same numbers in both libraries. */
static const struct lost_row {
    int error;
    const char *meaning;
} lost_rows[] = {{46, "it is in exclusive use by another program"},
                 {214, "its memory has an error that cannot be corrected"},
                 {222, "the driver is too old for this program's code: update it"},
                 {700, "a kernel reached outside its memory, which is a fault of ours: please report it"},
                 {702, "a kernel ran longer than the system allows (a watchdog of the desktop?)"},
                 {709, "the device was reset"},
                 {710, "a kernel stopped itself"},
                 {718, "a kernel jumped outside its code"},
                 {719, "a kernel failed or the device was lost or reset"},
                 {999, "the driver has lost the device (look at 'dmesg')"}};

ol_status gpu_check(gpu_device *g, int error, const char *what) {
    if (error == 0) return OL_OK;
    if (error == GPU_ERROR_MEMORY) {
        uint64_t free_bytes = 0, total = 0;
        g->driver->call.memory_info(g->driver, &free_bytes, &total);
        return ctx_fail(g->base.ctx, OL_ERROR_MEMORY,
                        "%s: out of memory while %s (%s of %s are free); use a smaller batch or imgsz", g->name, what,
                        text_size(free_bytes).c, text_size(total > 0 ? total : g->info.memory_bytes).c);
    }
    const char *meaning = NULL;
    for (size_t i = 0; i < sizeof lost_rows / sizeof *lost_rows; i++)
        if (lost_rows[i].error == error) meaning = lost_rows[i].meaning;
    return ctx_fail(g->base.ctx, OL_ERROR_DEVICE, "%s: error %d while %s: %s%s%s", g->name, error, what,
                    g->driver->call.error_text(g->driver, error), meaning != NULL ? ": " : "",
                    meaning != NULL ? meaning : "");
}

static ol_status bind(gpu_device *g) {
    return gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
}

static ol_status wait(gpu_device *g) {
    return gpu_check(g, g->driver->call.stream_wait(g->driver, g->stream), "waiting for the device");
}

static void gpu_close(device *dev) {
    gpu_device *g = (gpu_device *)dev;
    const gpu_driver_table *call = &g->driver->call;
    if (call->bind(g->driver, g->index) == 0) {
        if (g->stream != NULL) call->stream_wait(g->driver, g->stream);
        if (g->staging != 0) call->release(g->driver, g->staging);
        for (int half = 0; half < 2; half++)
            if (g->ring_left[half] != NULL) call->event_destroy(g->driver, g->ring_left[half]);
        if (g->ring != NULL) call->host_release(g->driver, g->ring);
        gpu_pictures_destroy(g);
        if (g->pinned != NULL) gpu_host_destroy(dev, g->pinned);
        g->pinned = NULL;
        for (size_t i = 0; i < g->n_modules; i++) call->module_unload(g->driver, g->modules[i].handle);
        if (g->stream != NULL) call->stream_destroy(g->driver, g->stream);
        call->unbind(g->driver, g->index);
    }
    /* What lies on the host is given back when the device is lost too. */
    gpu_pictures_destroy(g);
    if (g->pinned != NULL) gpu_host_destroy(dev, g->pinned);
    gpu_code_destroy(g);
    call->close(g->driver);
    mem_free(dev->ctx, g);
}

static void gpu_properties(const device *dev, device_properties *out) {
    const gpu_device *g = (const gpu_device *)dev;
    *out =
        (device_properties){.name = g->name, .memory_bytes = g->info.memory_bytes, .threads = g->info.multiprocessors};
    snprintf(out->description, sizeof out->description, "%.90s, %.30s", g->info.name, g->info.arch);
    g->driver->call.version(g->driver, out->driver, sizeof out->driver);
}

static bool gpu_memory(device *dev, uint64_t *free_bytes, uint64_t *total_bytes) {
    gpu_device *g = (gpu_device *)dev;
    return g->driver->call.bind(g->driver, g->index) == 0 &&
           g->driver->call.memory_info(g->driver, free_bytes, total_bytes) == 0;
}

static ol_status gpu_buffer_create(device *dev, size_t bytes, device_buffer **out) {
    gpu_device *g = (gpu_device *)dev;
    ol_status status = bind(g);
    if (status != OL_OK) return status;
    gpu_buffer *b = mem_alloc0(dev->ctx, 1, sizeof *b);
    if (b == NULL) return OL_ERROR_MEMORY;
    b->base = (device_buffer){dev, bytes};
    const size_t room = bytes > 0 ? bytes : 1;
    char what[64];
    snprintf(what, sizeof what, "allocating %s", text_size(room).c);
    status = gpu_check(g, g->driver->call.allocate(g->driver, &b->address, room), what);
    if (status == OL_OK)
        status = gpu_check(g, g->driver->call.fill(g->driver, b->address, 0, room, g->stream), "clearing memory");
    if (status == OL_OK) status = wait(g);
    if (status != OL_OK) {
        if (b->address != 0) g->driver->call.release(g->driver, b->address);
        mem_free(dev->ctx, b);
        return status;
    }
    *out = &b->base;
    return OL_OK;
}

static void gpu_buffer_destroy(device_buffer *base) {
    gpu_device *g = (gpu_device *)base->dev;
    gpu_buffer *b = (gpu_buffer *)base;
    if (g->driver->call.bind(g->driver, g->index) == 0) {
        g->driver->call.stream_wait(g->driver, g->stream);
        g->driver->call.release(g->driver, b->address);
    }
    mem_free(g->base.ctx, b);
}

static ol_status ring_create(gpu_device *g) {
    void *memory = NULL;
    ol_status status = OL_OK;
    g->ring_missing = g->driver->call.host_allocate(g->driver, &memory, 2 * RING_HALF) != 0;
    if (g->ring_missing) return OL_OK;
    g->ring = memory;
    for (int half = 0; half < 2 && status == OL_OK; half++)
        status = gpu_check(g, g->driver->call.event_create(g->driver, &g->ring_left[half]), "creating an event");
    return status;
}

/* Room in the ring, which the host may write: a half is used again when what was copied from it before is there, which
 * it has long been. NULL: there is no page-locked memory. */
static ol_status ring_take(gpu_device *g, size_t bytes, void **room) {
    const gpu_driver_table *call = &g->driver->call;
    ol_status status = g->ring == NULL && !g->ring_missing ? ring_create(g) : OL_OK;
    *room = NULL;
    if (status != OL_OK || g->ring == NULL) return status;
    if (g->ring_used + bytes > RING_HALF) {
        status =
            gpu_check(g, call->event_record(g->driver, g->ring_left[g->ring_half], g->stream), "recording an event");
        g->ring_waiting[g->ring_half] = status == OL_OK;
        g->ring_half = 1 - g->ring_half;
        g->ring_used = 0;
        if (status == OL_OK && g->ring_waiting[g->ring_half])
            status = gpu_check(g, call->event_wait(g->driver, g->ring_left[g->ring_half]), "waiting for the device");
        if (status != OL_OK) return status;
        g->ring_waiting[g->ring_half] = false;
    }
    *room = g->ring + (size_t)g->ring_half * RING_HALF + g->ring_used;
    g->ring_used += (bytes + 255) / 256 * 256;
    return OL_OK;
}

ol_status gpu_copy_in(gpu_device *g, gpu_pointer to, const void *from, size_t bytes) {
    void *room = NULL;
    ol_status status = bind(g);
    if (status == OL_OK && bytes > 0 && bytes <= RING_HALF) status = ring_take(g, bytes, &room);
    if (status == OL_OK && room != NULL) {
        memcpy(room, from, bytes);
        return gpu_check(g, g->driver->call.to_device(g->driver, to, room, bytes, g->stream), "copying to the device");
    }
    if (status == OL_OK && bytes > 0)
        status =
            gpu_check(g, g->driver->call.to_device(g->driver, to, from, bytes, g->stream), "copying to the device");
    return status == OL_OK ? wait(g) : status; /* the caller may reuse `from` at once */
}

ol_status gpu_copy_out(gpu_device *g, void *to, gpu_pointer from, size_t bytes) {
    ol_status status = bind(g);
    if (status == OL_OK && bytes > 0)
        status =
            gpu_check(g, g->driver->call.to_host(g->driver, to, from, bytes, g->stream), "copying from the device");
    return status == OL_OK ? wait(g) : status;
}

static ol_status gpu_buffer_write(device_buffer *b, size_t offset_bytes, const void *host, size_t bytes) {
    return gpu_copy_in((gpu_device *)b->dev, ((gpu_buffer *)b)->address + offset_bytes, host, bytes);
}

static ol_status gpu_buffer_read(const device_buffer *b, size_t offset_bytes, void *host, size_t bytes) {
    return gpu_copy_out((gpu_device *)b->dev, host, ((const gpu_buffer *)b)->address + offset_bytes, bytes);
}

static void *gpu_buffer_address(device_buffer *b) {
    return (void *)(uintptr_t)((gpu_buffer *)b)->address;
}

static void *gpu_buffer_host(device_buffer *b) {
    (void)b;
    return NULL;
}

static bool gpu_supports(const device *dev, op_kind kind) {
    (void)dev;
    return gpu_compile_of(kind) != NULL || op_reference_of(kind)->run != NULL;
}

static bool is_probabilities(const graph *g, tensor_ref t) {
    const int32_t producer = g->tensors[t].producer;
    return producer >= 0 && g->ops[producer].kind == OP_ATTENTION && g->ops[producer].out[1] == t;
}

static bool is_activation(const graph *g, tensor_ref t) {
    const graph_tensor *tensor = &g->tensors[t];
    return tensor->shape.rank == 4 && tensor->type == DTYPE_F32 &&
           (tensor->role == ROLE_TEMP || tensor->role == ROLE_INPUT || tensor->role == ROLE_OUTPUT);
}

static int gpu_block(const device *dev, const graph *g, tensor_ref t) {
    (void)dev;
    if (is_activation(g, t) && !is_probabilities(g, t)) return BLOCK_CHANNELS_LAST;
    /* positions of maxima, one byte a channel of the padded map */
    return g->tensors[t].shape.rank == 4 && g->tensors[t].type == DTYPE_I32 ? 8 : 1;
}

/* A convolution's output that only goes into the detection maps. It stays f32: of all roundings in a half-precision
 * model those of the raw boxes and scores weigh most (they are half of the error that the loss and the assignment of
 * targets see), and these maps are small. */
static bool is_head_map(const graph *g, tensor_ref t) {
    const int32_t producer = g->tensors[t].producer;
    if (producer < 0 || g->tensors[t].n_uses == 0) return false;
    const graph_op *conv = &g->ops[producer];
    if (conv->kind != OP_CONV2D || conv->attr.groups != 1 || conv->n_in > 3) return false;
    for (size_t i = (size_t)producer + 1; i < g->n_ops; i++)
        for (int k = 0; k < g->ops[i].n_in; k++)
            if (g->ops[i].in[k] == t && g->ops[i].kind != OP_FLATTEN_CONCAT) return false;
    return true;
}

static dtype gpu_element(const device *dev, const graph *g, tensor_ref t) {
    (void)dev;
    return is_activation(g, t) && !is_head_map(g, t) ? g->compute : g->tensors[t].type;
}

static size_t gpu_private_bytes(const device *dev, const graph *g, tensor_ref t) {
    if (!is_probabilities(g, t)) return 0;
    const shape *s = graph_shape(g, t);
    return (size_t)(s->dim[0] * s->dim[1] * s->dim[2]) * (size_t)gpu_padded(s->dim[3]) *
           dtype_bytes(gpu_element(dev, g, t));
}

static bool gpu_view(const device *dev, int block, int64_t channels, int64_t begin, int64_t size) {
    (void)dev;
    if (block != BLOCK_CHANNELS_LAST) return begin == 0 && size == channels;
    return begin % 8 == 0 && (size % 8 == 0 || begin + size == channels);
}

static bool gpu_in_place(const device *dev, op_kind kind, int in, int out) {
    (void)dev;
    return out == 0 && ((kind == OP_ADD && in <= 1) ||
                        ((kind == OP_ACTIVATE || kind == OP_ACTIVATE_GRAD || kind == OP_BATCH_NORM_GRAD) && in == 0));
}

static ol_status gpu_run_begin(device *dev) {
    return bind((gpu_device *)dev);
}

static ol_status gpu_run_end(device *dev) {
    return wait((gpu_device *)dev);
}

static ol_status gpu_capture_begin(device *dev) {
    gpu_device *g = (gpu_device *)dev;
    if (g->driver->call.capture_begin == NULL) return OL_ERROR_UNSUPPORTED;
    return gpu_check(g, g->driver->call.capture_begin(g->driver, g->stream), "recording a graph");
}

static ol_status gpu_capture_end(device *dev, void **recording) {
    gpu_device *g = (gpu_device *)dev;
    return gpu_check(g, g->driver->call.capture_end(g->driver, g->stream, recording), "recording a graph");
}

static ol_status gpu_replay(device *dev, void *recording) {
    gpu_device *g = (gpu_device *)dev;
    return gpu_check(g, g->driver->call.graph_launch(g->driver, recording, g->stream), "replaying a graph");
}

static void gpu_recording_destroy(device *dev, void *recording) {
    gpu_device *g = (gpu_device *)dev;
    if (bind(g) == OL_OK && wait(g) == OL_OK) g->driver->call.graph_destroy(g->driver, recording);
}

static ol_status room_ensure(gpu_device *g, gpu_pointer *at, size_t *has, size_t bytes, const char *what) {
    if (bytes <= *has) return OL_OK;
    const ol_status idle = *at != 0 ? wait(g) : OL_OK; /* it may still be read */
    if (idle != OL_OK) return idle;
    if (*at != 0) g->driver->call.release(g->driver, *at);
    *at = 0;
    *has = 0;
    const ol_status status = gpu_check(g, g->driver->call.allocate(g->driver, at, bytes), what);
    if (status == OL_OK) *has = bytes;
    return status;
}

ol_status gpu_staging_ensure(gpu_device *g, size_t bytes) {
    return room_ensure(g, &g->staging, &g->staging_bytes, bytes, "allocating a staging buffer");
}

ol_status gpu_pinned_ensure(gpu_device *g, size_t bytes) {
    if (bytes <= g->pinned_bytes) return OL_OK;
    if (g->pinned != NULL) gpu_host_destroy(&g->base, g->pinned);
    g->pinned = NULL;
    g->pinned_bytes = 0;
    const ol_status status = gpu_host_create(&g->base, bytes, &g->pinned);
    if (status == OL_OK) g->pinned_bytes = bytes;
    return status;
}

static ol_status planes_launch(gpu_device *g, const char *kernel_name, const op_operand *t, gpu_pointer map) {
    planes_args a = {.map = map,
                     .planes = g->staging,
                     .n = (gpu_i32)t->shape.dim[0],
                     .c = (gpu_i32)t->shape.dim[1],
                     .c_padded = gpu_padded(t->shape.dim[1]),
                     .hw = (gpu_i32)(t->shape.dim[2] * t->shape.dim[3]),
                     .ld = t->layout.block,
                     .scale = 1.0f};
    if (t->layout.block == 1) { /* dense: one row */
        a.n = a.c = a.c_padded = a.ld = 1;
        a.hw = (gpu_i32)shape_elements(&t->shape);
    }
    a.length = a.hw;
    char name[32];
    snprintf(name, sizeof name, "%s_%s", kernel_name, gpu_type_suffix(t->type));
    void *function = NULL;
    const ol_status status = gpu_function_find(g, "map", name, &function);
    if (status != OL_OK) return status;
    const int64_t threads = (int64_t)a.n * a.c_padded * a.hw;
    const unsigned grid[3] = {(unsigned)((threads + 255) / 256), 1, 1};
    return gpu_check(g, g->driver->call.launch(g->driver, function, grid, 256, g->stream, &a), "changing a layout");
}

/* Whether the host's copy, dense f32, lies otherwise on the device: channels last, or in half precision. */
static bool differs_on_host(const op_operand *t) {
    const bool half = t->type == DTYPE_F16 || t->type == DTYPE_BF16;
    return t->shape.rank == 4 && (half || (t->type == DTYPE_F32 && t->layout.block > 1));
}

static ol_status gpu_tensor_write(device *dev, void *address, const op_operand *t, const void *host) {
    gpu_device *g = (gpu_device *)dev;
    const size_t count = (size_t)shape_elements(&t->shape);
    if (!differs_on_host(t)) return gpu_copy_in(g, (gpu_pointer)(uintptr_t)address, host, count * dtype_bytes(t->type));
    ol_status status = bind(g);
    if (status == OL_OK) status = gpu_staging_ensure(g, count * sizeof(float));
    if (status == OL_OK) status = gpu_copy_in(g, g->staging, host, count * sizeof(float));
    return status == OL_OK ? planes_launch(g, "from_planes", t, (gpu_pointer)(uintptr_t)address) : status;
}

static ol_status gpu_tensor_read(device *dev, const void *address, const op_operand *t, void *host) {
    gpu_device *g = (gpu_device *)dev;
    const size_t count = (size_t)shape_elements(&t->shape);
    if (!differs_on_host(t))
        return gpu_copy_out(g, host, (gpu_pointer)(uintptr_t)address, count * dtype_bytes(t->type));
    ol_status status = bind(g);
    if (status == OL_OK) status = gpu_staging_ensure(g, count * sizeof(float));
    if (status == OL_OK) status = planes_launch(g, "to_planes", t, (gpu_pointer)(uintptr_t)address);
    return status == OL_OK ? gpu_copy_out(g, host, g->staging, count * sizeof(float)) : status;
}

static const device_api gpu_api = {
    .name = "gpu",
    .queue = true,
    .close = gpu_close,
    .properties = gpu_properties,
    .memory = gpu_memory,
    .code = gpu_code_look,
    .buffer_create = gpu_buffer_create,
    .buffer_destroy = gpu_buffer_destroy,
    .buffer_write = gpu_buffer_write,
    .buffer_read = gpu_buffer_read,
    .buffer_address = gpu_buffer_address,
    .buffer_host = gpu_buffer_host,
    .supports = gpu_supports,
    .block = gpu_block,
    .element = gpu_element,
    .private_bytes = gpu_private_bytes,
    .view = gpu_view,
    .in_place = gpu_in_place,
    .compile = gpu_compile,
    .kernel_destroy = gpu_kernel_destroy,
    .packing_create = gpu_packing_create,
    .packing_run = gpu_packing_run,
    .packing_destroy = gpu_packing_destroy,
    .launch = gpu_launch_all,
    .run_begin = gpu_run_begin,
    .run_end = gpu_run_end,
    .capture_begin = gpu_capture_begin,
    .capture_end = gpu_capture_end,
    .replay = gpu_replay,
    .recording_destroy = gpu_recording_destroy,
    .step_create = gpu_step_create,
    .step_destroy = gpu_step_destroy,
    .step_load = gpu_step_load,
    .step_order = gpu_step_order,
    .step_begin = gpu_step_begin,
    .step_end = gpu_step_end,
    .step_collect = gpu_step_collect,
    .step_outcome = gpu_step_outcome,
    .select = gpu_select,
    .bring_pictures = gpu_bring_pictures,
    .make_pictures = gpu_make_pictures,
    .pictures_bytes = gpu_pictures_bytes,
    .pictures_release = gpu_pictures_release,
    .host_create = gpu_host_create,
    .host_destroy = gpu_host_destroy,
    .tensor_write = gpu_tensor_write,
    .tensor_read = gpu_tensor_read,
};

/* Everything after the driver: the device must exist, its architecture must have device code. */
static ol_status device_start(gpu_device *g) {
    ol_context *ctx = g->base.ctx;
    int count = 0;
    ol_status status = gpu_check(g, g->driver->call.device_count(g->driver, &count), "counting devices");
    if (status != OL_OK) return status;
    if (g->index >= count)
        return ctx_fail(ctx, OL_ERROR_NOT_FOUND, "there is no device %s: %s shows %d device%s", g->name,
                        g->driver->library, count, count == 1 ? "" : "s");
    status = gpu_check(g, g->driver->call.device_info(g->driver, g->index, &g->info), "asking for its properties");
    if (status != OL_OK) return status;
    g->target = kernel_archive_target(&g->archive, g->info.arch);
    if (g->target == NULL) {
        char remedy[256];
        kernel_archive_remedy(&g->archive, g->info.arch, remedy, sizeof remedy);
        return ctx_fail(ctx, OL_ERROR_UNSUPPORTED,
                        "%s (%s) has architecture %s, for which this build carries no code: %s", g->name, g->info.name,
                        g->info.arch, remedy);
    }
    status = bind(g);
    if (status != OL_OK) return status;
    return gpu_check(g, g->driver->call.stream_create(g->driver, &g->stream), "creating a stream");
}

/* `name` is "cuda:N" or "hip:N". */
ol_status gpu_device_open(ol_context *ctx, const char *name, device **out) {
    const bool hip = strncmp(name, "hip", 3) == 0;
    const char *colon = strchr(name, ':');
    gpu_device *g = mem_alloc0(ctx, 1, sizeof *g);
    if (g == NULL) return OL_ERROR_MEMORY;
    g->base = (device){&gpu_api, ctx};
    g->index = colon != NULL ? (int)strtol(colon + 1, NULL, 10) : 0;
    snprintf(g->name, sizeof g->name, "%s:%d", hip ? "hip" : "cuda", g->index);
    ol_status status = kernel_archive_init(&g->archive, ctx);
    if (status == OL_OK) status = hip ? gpu_driver_hip_open(ctx, &g->driver) : gpu_driver_cuda_open(ctx, &g->driver);
    if (status != OL_OK) {
        kernel_archive_deinit(&g->archive);
        mem_free(ctx, g);
        return status;
    }
    status = device_start(g);
    if (status != OL_OK) {
        gpu_close(&g->base);
        return status;
    }
    *out = &g->base;
    return OL_OK;
}
