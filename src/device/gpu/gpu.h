/* The GPU device: written once against the driver table. Activations are channels-last in the graph's compute type,
 * with channels padded to multiples of eight by zeros; parameters, statistics and the loss are f32. Internal to
 * src/device/gpu. */
#ifndef DEVICE_GPU_GPU_H
#define DEVICE_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/drivers/driver.h"
#include "device/gpu/kernel_archive.h"
#include "kernels/args.h"

typedef struct gpu_function {
    char module[16], name[32];
    void *handle; /* NULL: waits to be compiled */
} gpu_function;

typedef struct gpu_module {
    char name[16]; /* "" for kernels that the driver compiled together */
    void *handle;
} gpu_module;

typedef struct gpu_device {
    device base;
    gpu_driver *driver;
    int index; /* of the driver */
    gpu_info info;
    char name[16]; /* "cuda:0", "hip:1" */
    kernel_archive archive;
    const char *target; /* of the archive */
    void *stream;
    gpu_module *modules;
    size_t n_modules, module_capacity;
    gpu_function *functions;
    size_t n_functions, function_capacity, n_waiting;
    gpu_pointer staging; /* device memory for host copies that change layout */
    size_t staging_bytes;
    unsigned char *ring;           /* page-locked: small copies to the device go through it and do not wait */
    size_t ring_used;              /* in its current half */
    int ring_half;                 /* the one that is being filled */
    void *ring_left[2];            /* events: what was copied from this half before it was left is there */
    bool ring_waiting[2];          /* that event was recorded and not waited for */
    bool ring_missing;             /* no page-locked memory: copies wait */
    struct gpu_pictures *pictures; /* gpu_pictures.c; NULL: none were made yet */
    void *pinned;                  /* of gpu_host_create, for what comes back */
    size_t pinned_bytes;
} gpu_device;

/* Turns a driver error into a status with a message: what was attempted, the library's words, the remedy. */
ol_status gpu_check(gpu_device *g, int error, const char *what);
/* gpu_code.c: asks for a kernel, which then is an index of `functions`; its handle is there at once or after
 * gpu_functions_load. `find` does both. */
ol_status gpu_function_want(gpu_device *g, const char *module, const char *name, size_t *index);
ol_status gpu_functions_load(gpu_device *g);
ol_status gpu_function_find(gpu_device *g, const char *module, const char *name, void **handle);
bool gpu_code_look(device *dev, device_code *out);
void gpu_code_destroy(gpu_device *g);

/* --- kernels as lists of launches --- */

typedef enum gpu_slot_kind { SLOT_IN, SLOT_OUT, SLOT_SCRATCH, SLOT_OWN } gpu_slot_kind;

/* Where an address goes into a launch's arguments: operand `index` plus `offset` bytes, at byte `at`. */
typedef struct gpu_slot {
    uint16_t at;
    uint8_t kind, index;
    uint64_t offset;
} gpu_slot;

#define GPU_MAX_SLOTS  16
#define GPU_ARGS_BYTES 256

typedef struct gpu_launch {
    size_t function; /* index */
    unsigned grid[3];
    uint8_t n_slots;
    gpu_slot slots[GPU_MAX_SLOTS];
    _Alignas(16) unsigned char args[GPU_ARGS_BYTES];
} gpu_launch;

/* A packed copy of input `input`, at `own` bytes of the kernel's own memory. */
typedef struct gpu_pack {
    pack_item item; /* but for the addresses and the block */
    int input;
    uint64_t own;
} gpu_pack;

typedef struct gpu_kernel {
    kernel base;
    gpu_launch *launches;
    size_t n_launches, capacity;
    gpu_pack *packs;
    size_t n_packs, pack_capacity;
    gpu_pointer own; /* memory of its own: packed weights */
} gpu_kernel;

/* What a compile function works with. Errors are remembered: later calls do nothing and `status` is checked once. */
typedef struct gpu_builder {
    gpu_device *g;
    const op_record *op;
    gpu_kernel *k;
    ol_status status;
    size_t scratch_bytes, own_bytes;
} gpu_builder;

/* Adds a launch of 256 threads a block; `args` is copied. The name gets the suffix of the element type (_f32, _f16,
 * _bf16) when `typed` names one. The launch is returned for its slots; NULL after an error. */
gpu_launch *gpu_launch_add(gpu_builder *b, const char *module, const char *name, const void *args, size_t args_bytes,
                           unsigned gx, unsigned gy, unsigned gz);
void gpu_slot_add(gpu_launch *l, size_t at, gpu_slot_kind kind, int index, uint64_t offset);
#define GPU_SLOT(launch, type, member, kind, index, offset)                                                            \
    gpu_slot_add(launch, offsetof(type, member), kind, index, offset)
/* Reserves bytes of scratch or of the kernel's own memory; returns the offset. */
uint64_t gpu_scratch_take(gpu_builder *b, size_t bytes);
uint64_t gpu_own_take(gpu_builder *b, size_t bytes);

/* gpu_pack.c: reserves a packed copy and says where it lies in the kernel's own memory; and all copies of a plan's
 * kernels made by one launch. */
uint64_t gpu_pack_add(gpu_builder *b, const pack_item *item, size_t element_bytes, int input);
ol_status gpu_packing_create(device *dev, kernel *const *kernels, const kernel_memory *const *memory, size_t n,
                             void **out);
ol_status gpu_packing_run(device *dev, void *packing);
void gpu_packing_destroy(device *dev, void *packing);

/* gpu_fallback.c: ops without device code run on the host. */
ol_status gpu_host_compile(gpu_device *g, const op_record *op, kernel **out);
ol_status gpu_host_launch(gpu_device *g, gpu_kernel *k, const kernel_memory *m);
void gpu_host_kernel_deinit(gpu_device *g, gpu_kernel *k);

/* gpu_build.c: the entries of the device table that compile and run. */
ol_status gpu_compile(device *dev, const op_record *op, kernel **out);
void gpu_kernel_destroy(device *dev, kernel *base);
ol_status gpu_launch_all(device *dev, kernel *base, const kernel_memory *m);

/* gpu.c: memory for host copies that change layout or come back at once; copies that wait. */
ol_status gpu_staging_ensure(gpu_device *g, size_t bytes);
ol_status gpu_pinned_ensure(gpu_device *g, size_t bytes);
ol_status gpu_copy_in(gpu_device *g, gpu_pointer to, const void *from, size_t bytes);
ol_status gpu_copy_out(gpu_device *g, void *to, gpu_pointer from, size_t bytes);

/* gpu_build.c: one launch of 256 threads a block at once, outside of a kernel's list; `what` for the message. */
ol_status gpu_launch_now(gpu_device *g, const char *module, const char *name, const void *args, unsigned gx,
                         unsigned gy, unsigned gz, const char *what);

/* gpu_step.c: device/step.h on the GPU. */
ol_status gpu_step_create(device *dev, const step_layout *layout, device_step **out);
void gpu_step_destroy(device_step *s);
ol_status gpu_step_load(device_step *s, const step_numbers *numbers);
ol_status gpu_step_order(device_step *s, const step_orders *orders);
ol_status gpu_step_begin(device_step *s, const step_places *at);
ol_status gpu_step_end(device_step *s, const step_places *at);
ol_status gpu_step_collect(device_step *s);
ol_status gpu_step_outcome(device_step *s, step_outcome *out);
/* Where the device notes that a run has stopped. */
gpu_pointer gpu_step_stopped_at(const device_step *s);

/* gpu_muon.c: MuSGD's matrices, all at once. */
typedef struct gpu_muon gpu_muon;
ol_status gpu_muon_create(gpu_device *g, const step_matrix *list, int n, gpu_muon **out);
void gpu_muon_destroy(gpu_device *g, gpu_muon *m); /* NULL: nothing */
/* Orthogonalises the directions u (Newton-Schulz, section 5.3) and moves the values, when the board says so. */
ol_status gpu_muon_launch(gpu_device *g, gpu_muon *m, gpu_pointer board, gpu_pointer u, gpu_pointer values);

/* gpu_select.c: device/select.h on the GPU. */
ol_status gpu_select(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows);

/* gpu_pictures.c: device/pictures.h on the GPU. */
ol_status gpu_bring_pictures(device *dev, const picture_batch *batch);
void gpu_pictures_destroy(gpu_device *g);
ol_status gpu_make_pictures(device *dev, const picture_batch *batch, const device_step *step, device_buffer *out,
                            size_t offset_bytes);
size_t gpu_pictures_bytes(pictures_kind kind, int n, size_t most_pixel_bytes);
void gpu_pictures_release(device *dev);
ol_status gpu_host_create(device *dev, size_t bytes, void **out);
void gpu_host_destroy(device *dev, void *memory);

/* "f32", "f16", "bf16" of the maps of this op. */
const char *gpu_type_suffix(dtype type);
/* Channels as they lie in memory. */
static inline int gpu_padded(int64_t channels) {
    return (int)((channels + 7) / 8 * 8);
}

/* gpu_norm_ops.c: a map's pixels cut into rows of blocks so that there are about four a multiprocessor, which are all
 * resident, each with at least four rows a thread; a thread has four channels. */
typedef struct gpu_rows_split {
    int rows, groups, rows_per_block, blocks, channel_blocks;
} gpu_rows_split;
gpu_rows_split gpu_split_rows(const gpu_builder *b, const op_operand *t);

/* gpu_conv_ops.c: n / d by a product and a shift, for n below 2^31 (args.h). */
gpu_divisor gpu_divisor_of(int d);
bool gpu_is_depthwise(const op_attr *attr, const shape *weight);
/* True when a convolution of this form can run; else the builder's status says why not. */
bool gpu_conv_supported(gpu_builder *b, const op_attr *attr, const shape *weight);

/* One compile function a kind of op; the table is in gpu_ops.c. */
typedef void (*gpu_compile_fn)(gpu_builder *b);
gpu_compile_fn gpu_compile_of(op_kind kind);
void gpu_compile_image_float(gpu_builder *b);
void gpu_compile_conv2d(gpu_builder *b);
void gpu_compile_conv2d_grad_x(gpu_builder *b);
void gpu_compile_conv2d_grad_w(gpu_builder *b);
void gpu_compile_conv2d_grad_bias(gpu_builder *b);
void gpu_compile_batch_norm(gpu_builder *b);
void gpu_compile_batch_norm_grad(gpu_builder *b);
void gpu_compile_activate(gpu_builder *b);
void gpu_compile_activate_grad(gpu_builder *b);
void gpu_compile_add(gpu_builder *b);
void gpu_compile_concat(gpu_builder *b);
void gpu_compile_slice(gpu_builder *b);
void gpu_compile_slice_grad(gpu_builder *b);
void gpu_compile_detach(gpu_builder *b);
void gpu_compile_upsample2(gpu_builder *b);
void gpu_compile_upsample2_grad(gpu_builder *b);
void gpu_compile_max_pool(gpu_builder *b);
void gpu_compile_max_pool_grad(gpu_builder *b);
void gpu_compile_attention(gpu_builder *b);
void gpu_compile_attention_grad(gpu_builder *b);
void gpu_compile_flatten_concat(gpu_builder *b);
void gpu_compile_flatten_concat_grad(gpu_builder *b);
void gpu_compile_detect_decode(gpu_builder *b);
void gpu_compile_detect_loss(gpu_builder *b);

#endif
