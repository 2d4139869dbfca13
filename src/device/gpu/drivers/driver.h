/* One table of driver calls that mean the same in the CUDA driver API and in HIP, filled by cuda.c and hip.c from the
 * library that the loader finds; nothing is linked. Calls return the library's own error number (0: fine). A driver
 * belongs to one device object and is used by one thread at a time, after `bind`. */
#ifndef DEVICE_GPU_DRIVER_H
#define DEVICE_GPU_DRIVER_H

#include "base/context.h"

typedef uint64_t gpu_pointer; /* device address */

typedef struct gpu_driver gpu_driver;

typedef struct gpu_info {
    char name[256]; /* marketing name */
    char arch[64];  /* "sm_90", "gfx942": without feature suffixes */
    uint64_t memory_bytes;
    int multiprocessors, wave_width, shared_bytes;
    bool integrated;
} gpu_info;

typedef struct gpu_function_info {
    int registers, local_bytes, shared_bytes; /* a thread's, a thread's, a block's */
} gpu_function_info;

typedef struct gpu_driver_table {
    const char *name;   /* "cuda", "hip": the prefix of device strings */
    const char *vendor; /* "NVIDIA", "AMD" */

    void (*close)(gpu_driver *d);
    const char *(*error_text)(gpu_driver *d, int error);
    int (*device_count)(gpu_driver *d, int *count);
    int (*device_info)(gpu_driver *d, int index, gpu_info *info);
    int (*version)(gpu_driver *d, char *text, size_t bytes); /* of driver and runtime, for people */

    int (*bind)(gpu_driver *d, int index); /* makes the device current for the calling thread */
    int (*unbind)(gpu_driver *d, int index);
    int (*memory_info)(gpu_driver *d, uint64_t *free_bytes, uint64_t *total_bytes);
    int (*allocate)(gpu_driver *d, gpu_pointer *p, size_t bytes);
    int (*release)(gpu_driver *d, gpu_pointer p);
    int (*host_allocate)(gpu_driver *d, void **p, size_t bytes); /* page-locked */
    int (*host_release)(gpu_driver *d, void *p);
    int (*fill)(gpu_driver *d, gpu_pointer p, int byte, size_t bytes, void *stream);
    int (*to_device)(gpu_driver *d, gpu_pointer to, const void *from, size_t bytes, void *stream);
    int (*to_host)(gpu_driver *d, void *to, gpu_pointer from, size_t bytes, void *stream);

    int (*stream_create)(gpu_driver *d, void **stream);
    int (*stream_destroy)(gpu_driver *d, void *stream);
    int (*stream_wait)(gpu_driver *d, void *stream);
    int (*event_create)(gpu_driver *d, void **event);
    int (*event_destroy)(gpu_driver *d, void *event);
    int (*event_record)(gpu_driver *d, void *event, void *stream);
    int (*event_wait)(gpu_driver *d, void *event);
    int (*event_elapsed)(gpu_driver *d, float *ms, void *from, void *to);

    int (*module_load)(gpu_driver *d, void **module, const void *image);
    int (*module_unload)(gpu_driver *d, void *module);
    int (*function_get)(gpu_driver *d, void **function, void *module, const char *name);
    /* `args` points to one struct that is the kernel's only parameter. */
    int (*launch)(gpu_driver *d, void *function, const unsigned grid[3], unsigned threads, void *stream, void *args);

    /* Optional (NULL members): what a compiled kernel needs; whether a device's kernels can use another's memory. */
    int (*function_info)(gpu_driver *d, void *function, gpu_function_info *info);
    int (*can_reach)(gpu_driver *d, int *can, int index, int peer);
    /* Optional: recorded launches. Without them plans are launched op by op. */
    int (*capture_begin)(gpu_driver *d, void *stream);
    int (*capture_end)(gpu_driver *d, void *stream, void **graph);
    int (*graph_launch)(gpu_driver *d, void *graph, void *stream);
    int (*graph_destroy)(gpu_driver *d, void *graph);
} gpu_driver_table;

struct gpu_driver {
    gpu_driver_table call; /* a copy: optional members are cleared when the library lacks them */
    ol_context *ctx;
    char library[128]; /* name that was opened */
};

/* Opens the library and initialises it. OL_ERROR_NOT_FOUND with the reason in the message when there is none (all names
 * that were tried, and the loader's complaint), OL_ERROR_DEVICE when it finds no device, OL_ERROR_UNSUPPORTED when it
 * is too old. */
ol_status gpu_driver_cuda_open(ol_context *ctx, gpu_driver **out);
ol_status gpu_driver_hip_open(ol_context *ctx, gpu_driver **out);

#endif
