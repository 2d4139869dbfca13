/* What cuda.c and hip.c share: the entry points that mean the same in both libraries and take the same parameters, the
 * table calls that are made of them, and one way to open a library. Each vendor names its entry points in a table and
 * adds the calls that differ. Internal to this folder. */
#ifndef DEVICE_GPU_DRIVERS_ENTRIES_H
#define DEVICE_GPU_DRIVERS_ENTRIES_H

#include "device/gpu/drivers/driver.h"

/* All return the library's error number. */
typedef struct gpu_entries {
    int (*init)(unsigned flags);
    int (*driver_version)(int *version);
    int (*count)(int *count);
    int (*attribute)(int *value, int attribute, int device);
    int (*total_memory)(size_t *bytes, int device);
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    int (*allocate)(gpu_pointer *p, size_t bytes);
    int (*release)(gpu_pointer p);
    int (*host_allocate)(void **p, size_t bytes, unsigned flags);
    int (*host_release)(void *p);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_elapsed)(float *ms, void *from, void *to);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*function_get)(void **function, void *module, const char *name);
    int (*function_attribute)(int *value, int attribute, void *function);
    int (*can_reach)(int *can, int device, int peer);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **parameters, void **extra);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*graph_destroy)(void *graph);
    int (*executable_destroy)(void *executable);
    int (*graph_launch)(void *executable, void *stream);
} gpu_entries;

/* An entry point: its address goes to byte `at` of the vendor's struct. Without one that GPU_NEEDED marks the library
 * is too old; without one of GPU_RECORDS there are no recorded launches. */
typedef enum gpu_need { GPU_NEEDED, GPU_RECORDS, GPU_WANTED } gpu_need;
typedef struct gpu_entry {
    size_t at;
    const char *name;
    gpu_need need;
} gpu_entry;

typedef struct gpu_library_driver gpu_library_driver;

typedef struct gpu_vendor {
    gpu_driver_table own; /* the calls that differ; the others are filled in */
    /* Makes a recording executable. */
    int (*instantiate)(gpu_library_driver *d, void **executable, void *graph);
    const char *what;    /* "the AMD HIP runtime" */
    const char *too_old; /* behind the name of an entry point that is missing */
    size_t driver_bytes; /* of the vendor's struct */
    const gpu_entry *entries;
    size_t n_entries;
} gpu_vendor;

/* A vendor's struct starts with this. */
struct gpu_library_driver {
    gpu_driver base;
    const gpu_vendor *vendor;
    void *library;
    gpu_entries e;
};

/* Opens the library, resolves the entry points, initialises it and counts its devices; for the statuses see driver.h.
 * The vendor must outlive the driver, its list of libraries need not. */
ol_status gpu_vendor_open(ol_context *ctx, const gpu_vendor *v, const char *const *libraries, gpu_driver **out);

/* The marketing name, with the vendor's before it where it does not begin with that. */
void gpu_name_write(gpu_info *info, const char *vendor, const char *name);

/* library.c. Opens the first of the NULL-ended names; NULL with a message when none opens. */
void *gpu_library_open(ol_context *ctx, const char *const *names, const char *what, char *opened, size_t opened_bytes);
/* Writes the entry point's address to the function pointer at `to`; false when there is none. */
bool gpu_library_entry(void *library, const char *name, void *to);
void gpu_library_close(void *library);

#endif
