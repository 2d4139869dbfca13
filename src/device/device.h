/* The seam between plans and devices: one table of functions that every device fills. Only src/device includes this;
 * the rest of the program sees graph/plan.h. A device serves one thread at a time. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "device/pictures.h"
#include "device/select.h"
#include "device/step.h"
#include "graph/plan.h"

/* How a tensor lies in device memory. Maps (N,C,H,W) are stored as channel blocks: element (n,c,y,x) is at
 *   n*batch_stride + (c/block)*H*W*block + (y*W + x)*block + c%block   (elements, from the tensor's address)
 * with channels padded to whole blocks by zeros that every kernel keeps. block 1 is plain (N,C,H,W), block C is
 * channels last; a block that is larger than the channels is the pixel stride of the wider channels-last map that this
 * tensor is a part of. Tensors of other ranks are dense in logical order (block 1). */
typedef struct tensor_layout {
    int block;
    int64_t batch_stride; /* larger than dense for a view into a concatenation */
} tensor_layout;

/* What device_api.block answers for channels-last maps: the plan then sets the block to the channels of the tensor that
 * holds the storage, rounded up to a multiple of 8. */
#define BLOCK_CHANNELS_LAST 0

/* What a kernel is compiled for. */
typedef struct op_operand {
    bool present; /* false: TENSOR_NONE */
    dtype type;
    shape shape;
    tensor_role role;
    tensor_layout layout;
    bool in_place; /* inputs of concat: already where the output has them */
    bool unused;   /* outputs that nothing reads */
} op_operand;

typedef struct op_record {
    op_kind kind;
    const char *name;
    const op_attr *attr;
    int n_in, n_out;
    op_operand in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    bool params_fixed; /* bound parameters change only when plan_params_changed says so: they may be packed once */
} op_record;

/* A resolved kernel: made by compile, run by launch. The device's own struct starts with this one. */
typedef struct kernel {
    size_t scratch_bytes;    /* working memory that launch wants; shared between the kernels of a plan */
    bool on_host;            /* runs on the host: cannot be part of a recording */
    size_t persistent_bytes; /* what the kernel holds itself (packed weights, tables), for the accounts */
} kernel;

typedef struct kernel_memory {
    void *in[OP_MAX_INPUTS]; /* device addresses; NULL where absent */
    void *out[OP_MAX_OUTPUTS];
    void *scratch;
    bool params_changed; /* packed copies are out of date (always true when not params_fixed) */
} kernel_memory;

/* A plan's tensors that a step works with: device addresses, NULL where there is no branch. */
typedef struct step_places {
    void *gains[STEP_BRANCHES], *items[STEP_BRANCHES];
} step_places;

typedef struct device_properties {
    const char *name;      /* "cpu" */
    char description[128]; /* for people: model, instruction set */
    char driver[64];       /* versions, of GPUs */
    size_t memory_bytes;   /* total */
    int threads;
    bool host_memory; /* buffers are host addresses */
} device_properties;

typedef struct device_api {
    const char *name;
    bool queue; /* launches return before they are done, and run in their order */
    void (*close)(device *dev);
    void (*properties)(const device *dev, device_properties *out);
    bool (*memory)(device *dev, uint64_t *free_bytes, uint64_t *total_bytes); /* NULL: not known */
    bool (*code)(device *dev, device_code *out);                              /* NULL: not known */

    ol_status (*buffer_create)(device *dev, size_t bytes, device_buffer **out); /* cleared */
    void (*buffer_destroy)(device_buffer *b);
    ol_status (*buffer_write)(device_buffer *b, size_t offset_bytes, const void *host, size_t bytes);
    ol_status (*buffer_read)(const device_buffer *b, size_t offset_bytes, void *host, size_t bytes);
    void *(*buffer_address)(device_buffer *b); /* device address */
    void *(*buffer_host)(device_buffer *b);    /* NULL when not host memory */

    bool (*supports)(const device *dev, op_kind kind);
    /* The layout the device wants for a tensor of the graph; batch_stride is filled by the plan. */
    int (*block)(const device *dev, const graph *g, tensor_ref t);
    /* The element type that it is stored in; NULL: the graph's own. Host copies convert. */
    dtype (*element)(const device *dev, const graph *g, tensor_ref t);
    /* Bytes of a tensor whose form only the device's own kernels know (attention's probabilities); 0 or NULL: as laid
     * out. */
    size_t (*private_bytes)(const device *dev, const graph *g, tensor_ref t);
    /* May `size` channels from `begin` on of a map with `channels` channels be a tensor of their own? */
    bool (*view)(const device *dev, int block, int64_t channels, int64_t begin, int64_t size);
    /* May output `out` share memory with input `in` (both with the same layout)? */
    bool (*in_place)(const device *dev, op_kind kind, int in, int out);

    ol_status (*compile)(device *dev, const op_record *op, kernel **out);
    void (*kernel_destroy)(device *dev, kernel *k);
    /* Packed copies of parameters, where a device makes those of all kernels of a plan at once (else NULL, and launch
     * looks at params_changed). Kernels that are NULL are passed over; addresses must not change afterwards. */
    ol_status (*packing_create)(device *dev, kernel *const *kernels, const kernel_memory *const *memory, size_t n,
                                void **packing);
    ol_status (*packing_run)(device *dev, void *packing);
    void (*packing_destroy)(device *dev, void *packing);
    ol_status (*launch)(device *dev, kernel *k, const kernel_memory *memory);
    /* Around a run: claim threads or a stream, wait for the end. May be NULL. */
    ol_status (*run_begin)(device *dev);
    ol_status (*run_end)(device *dev);
    /* A recorded run that is replayed at once; NULL where a device has none. */
    ol_status (*capture_begin)(device *dev);
    ol_status (*capture_end)(device *dev, void **recording);
    ol_status (*replay)(device *dev, void *recording);
    void (*recording_destroy)(device *dev, void *recording);

    /* device/step.h. step_begin comes before a plan's ops and step_end behind them, in recordings too; step_collect
     * follows each run, outside of recordings, and step_outcome reads what it brought, in that order. */
    ol_status (*step_create)(device *dev, const step_layout *layout, device_step **out);
    void (*step_destroy)(device_step *s);
    ol_status (*step_load)(device_step *s, const step_numbers *numbers);
    ol_status (*step_order)(device_step *s, const step_orders *orders);
    ol_status (*step_begin)(device_step *s, const step_places *at);
    ol_status (*step_end)(device_step *s, const step_places *at);
    ol_status (*step_collect)(device_step *s);
    ol_status (*step_outcome)(device_step *s, step_outcome *out);

    /* device/select.h; sizes and limits are checked. */
    ol_status (*select)(device *dev, const decoded_batch *batch, const nms_options *options, detection_list *rows);

    /* device/pictures.h; NULL where memory is the host's. */
    ol_status (*bring_pictures)(device *dev, const picture_batch *batch);
    ol_status (*make_pictures)(device *dev, const picture_batch *batch, const device_step *step, device_buffer *out,
                               size_t offset_bytes);
    size_t (*pictures_bytes)(pictures_kind kind, int n, size_t most_pixel_bytes);
    void (*pictures_release)(device *dev);
    ol_status (*host_create)(device *dev, size_t bytes, void **out);
    void (*host_destroy)(device *dev, void *memory);

    /* Copies between a device tensor and dense host memory in logical order. */
    ol_status (*tensor_write)(device *dev, void *address, const op_operand *t, const void *host);
    ol_status (*tensor_read)(device *dev, const void *address, const op_operand *t, void *host);
} device_api;

struct device {
    const device_api *api;
    ol_context *ctx;
};

struct device_buffer {
    device *dev;
    size_t bytes;
};

/* The device's own struct starts with this one. */
struct device_step {
    device *dev;
    unsigned n_run, n_read; /* runs that were collected; outcomes that were read */
};
ol_status device_step_collect(device_step *s);

/* Elements that a tensor of this layout occupies from its first to its last image, dense. */
int64_t layout_image_elements(const shape *s, int block);

/* The registry: device names and how they are opened. */
ol_status cpu_device_open(ol_context *ctx, device **out);
ol_status gpu_device_open(ol_context *ctx, const char *name, device **out);

#endif
