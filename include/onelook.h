/* Onelook: train, validate, run and export YOLO26 on CPUs and GPUs. The only public header (C17, usable from C++).
 *
 * Every handle is created by ol_<thing>_create and released by ol_<thing>_destroy. A context may be used from one
 * thread at a time; several contexts may be used side by side in one process. The library never prints, exits or
 * aborts. */
#ifndef ONELOOK_H
#define ONELOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(ONELOOK_BUILDING_LIBRARY) || defined(__GNUC__)
#define OL_API __attribute__((visibility("default")))
#else
#define OL_API
#endif

/* Outcome of a fallible call. The context's message says what, where and what to do. */
typedef enum ol_status {
    OL_OK = 0,
    OL_ERROR_ARGUMENT,    /* an argument or a setting has a wrong name, type or value */
    OL_ERROR_NOT_FOUND,   /* a file, folder, device or name does not exist */
    OL_ERROR_IO,          /* the operating system refused a read or a write */
    OL_ERROR_FORMAT,      /* a file's content is not what its name promises */
    OL_ERROR_MEMORY,      /* host or device memory is exhausted */
    OL_ERROR_UNSUPPORTED, /* valid, but this build or device cannot do it */
    OL_ERROR_NUMERIC,     /* a loss or gradient is NaN or infinite */
    OL_ERROR_DEVICE,      /* a device or its driver failed */
    OL_ERROR_INTERRUPTED, /* the caller asked to stop */
    OL_ERROR_INTERNAL     /* a bug of ours */
} ol_status;

typedef struct ol_context ol_context;

typedef enum ol_log_level { OL_LOG_INFO = 0, OL_LOG_WARNING, OL_LOG_ERROR, OL_LOG_PROGRESS } ol_log_level;

/* Receives one line without its newline. OL_LOG_PROGRESS lines replace each other on a terminal
 * and are worth nothing elsewhere: the last state of each row of them comes once more as OL_LOG_INFO.
 * May be called from any thread, never from two at once for one context. Control characters come as '?'. During every
 * call of the library, callbacks included, the calling thread prints and reads numbers with a decimal point; the
 * program's locale is back when the call returns. */
typedef void (*ol_log_fn)(void *user, ol_log_level level, const char *line);

/* Resizes `block` to `bytes` (NULL: allocates; 0: frees and returns NULL). Returns NULL when memory is out.
 * Thread-safe. */
typedef void *(*ol_realloc_fn)(void *user, void *block, size_t bytes);

typedef struct ol_context_options {
    size_t struct_bytes; /* sizeof(ol_context_options); lets the struct grow */
    ol_log_fn log;       /* NULL: silent */
    void *log_user;
    ol_realloc_fn realloc_block; /* NULL: the C library's */
    void *realloc_user;
    int n_threads; /* compute threads; 0: one a physical core of the process's affinity mask */
} ol_context_options;

/* `options` may be NULL. Fails only for want of memory, with *context untouched. */
OL_API ol_status ol_context_create(const ol_context_options *options, ol_context **context);
OL_API void ol_context_destroy(ol_context *context);
/* The message of the last failed call on this context, "" when there was none. Valid until the next call. */
OL_API const char *ol_context_message(const ol_context *context);
/* Asks a running call on this context to finish its step, leave its files whole and return OL_ERROR_INTERRUPTED.
 * The one function that may be called from a signal handler or another thread meanwhile. */
OL_API void ol_context_interrupt(ol_context *context);

/* "0.1.0" */
OL_API const char *ol_version(void);
OL_API const char *ol_status_name(ol_status status);

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

/* The arguments of all modes have the names, defaults and meanings of the command line (docs/cli.md). */
typedef struct ol_argument {
    const char *name;         /* "epochs" */
    const char *default_text; /* as typed: "100", "None", "auto" */
    const char *accepts;      /* "int >= 1", "0 to 1", … */
    const char *words;        /* allowed words "a|b|c", "" where any text goes */
    const char *group;        /* heading of a help page: "Training" */
    const char *about;        /* one line */
    bool is_flag;             /* may be given on the command line without a value */
} ol_argument;

/* Argument number `index` in the order of args.yaml; false past the last. */
OL_API bool ol_argument_at(size_t index, ol_argument *argument);

/* A set of arguments, all at their defaults at first. Remembers which were set. One thread at a time. */
typedef struct ol_options ol_options;
OL_API ol_status ol_options_create(ol_context *context, ol_options **options);
OL_API void ol_options_destroy(ol_options *options);
/* Sets one from text in the grammar of the command line: "0.5", "None", "[0, 2]", "abc". OL_ERROR_ARGUMENT for an
 * unknown name (the message gives the closest ones), a wrong type or a value out of range; nothing is changed then. */
OL_API ol_status ol_options_set(ol_options *options, const char *name, const char *text);
/* Defaults from a yaml file of "name: value" lines; arguments that were set already keep their values. */
OL_API ol_status ol_options_read(ol_options *options, const char *path);
/* The value as text ("None", "True", "[0, 2]", "0.5"); NULL for an unknown name. Valid until the next call with
 * `options`. */
OL_API const char *ol_options_get(ol_options *options, const char *name);
OL_API bool ol_options_is_set(const ol_options *options, const char *name);
/* All arguments as yaml, in the order of args.yaml. Replaces the file in one step. */
OL_API ol_status ol_options_write(ol_options *options, const char *path);

/* ---- This machine and the user's folders ------------------------------------------------------------------------ */

/* Calls `line` with label and value of everything a bug report needs: version, CPU, instruction sets, cores, threads,
 * memory, disk, devices found or why not, versions of libraries. */
typedef void (*ol_report_fn)(void *user, const char *label, const char *text);
OL_API void ol_system_report(ol_context *context, ol_report_fn line, void *user);

/* A GPU. Index 0 is the one that `device=0` and an empty `device` take: discrete cards come before integrated ones. */
typedef struct ol_device_info {
    size_t struct_bytes;   /* sizeof(ol_device_info), set by the caller */
    char name[16];         /* what `device` takes: "cuda:0", "hip:0" */
    char title[128];       /* "AMD Radeon RX 7900 XTX" */
    char vendor[16];       /* "AMD", "NVIDIA" */
    char architecture[32]; /* "gfx1100", "sm_90" */
    char driver[64];       /* versions of runtime and driver */
    uint64_t memory_bytes; /* in all */
    uint64_t free_bytes;   /* 0 where the driver does not say */
    bool is_integrated;    /* shares the main memory */
    bool is_usable;        /* this build carries code for the architecture */
} ol_device_info;

/* How many GPUs the installed drivers show; 0 without any (ol_system_report says why). Each of these three calls asks
 * the drivers anew. */
OL_API int ol_device_count(ol_context *context);
/* OL_ERROR_NOT_FOUND past the last one. */
OL_API ol_status ol_device_get_info(ol_context *context, int index, ol_device_info *info);
/* Could a run use `device` ("0", "cuda:0", "hip:1", "cpu", "" for any GPU)? When not, the context's message says why.
 */
OL_API bool ol_is_available(ol_context *context, const char *device);

typedef struct ol_selftest_options {
    size_t struct_bytes; /* sizeof(ol_selftest_options) */
    const char *device;  /* as the argument `device`; NULL or "": the first GPU, else the CPU */
    const char *model;   /* what the short training run trains; NULL: yolo26n.yaml; "": no training run */
    const char *report;  /* file that receives everything, to attach to a report; NULL or "": none */
} ol_selftest_options;
/* Compares the device with plain C code: every operation in every number format that it has, forward and backward, then
 * a few training steps on a drawn batch against the CPU. Calls `line` with each row ("conv2d f16", "error …") and the
 * verdict last. OL_ERROR_DEVICE when something is wrong. Takes seconds. The report is written from the start on, so
 * that it also says how far a run came that ended early. */
OL_API ol_status ol_selftest(ol_context *context, const ol_selftest_options *options, ol_report_fn line, void *user);

/* The user's settings: runs_dir, datasets_dir, weights_dir. Kept in ${ONELOOK_CONFIG_DIR}/settings.json, else
 * ${YOLO_CONFIG_DIR}/Onelook/…, else ${XDG_CONFIG_HOME:-~/.config}/Onelook/…; without a file the defaults hold. */
OL_API ol_status ol_preferences_list(ol_context *context, ol_report_fn line, void *user);
OL_API ol_status ol_preferences_set(ol_context *context, const char *name, const char *text);
OL_API ol_status ol_preferences_reset(ol_context *context);

/* ---- Models ----------------------------------------------------------------------------------------------------- */

/* A model with its weights. Uses the context it was loaded with, which must outlive it; one thread at a time. */
typedef struct ol_model ol_model;

/* `path`: trained weights (.pt of the YOLO family, .safetensors) or an architecture (.yaml; yolo26n.yaml to
 * yolo26x.yaml travel with the library) with fresh weights of seed 0. A name that does not exist is also looked for in
 * the user's weights_dir. Nothing is ever downloaded, and nothing in a file is ever executed. OL_ERROR_NOT_FOUND,
 * OL_ERROR_FORMAT. */
OL_API ol_status ol_model_load(ol_context *context, const char *path, ol_model **model);
OL_API void ol_model_destroy(ol_model *model);

typedef struct ol_model_info {
    size_t struct_bytes;            /* sizeof(ol_model_info), set by the caller; here and in the structs below */
    const char *path;               /* the file it came from */
    const char *task;               /* "detect" */
    const char *const *class_names; /* n_classes of them */
    int n_classes;
    int channels;         /* of the picture: 3 */
    int stride;           /* network sizes are multiples of it: 32 */
    int64_t n_parameters; /* of both head branches */
} ol_model_info;
/* Texts belong to the model and live as long as it does. */
OL_API ol_status ol_model_get_info(const ol_model *model, ol_model_info *info);

/* ---- Predict ---------------------------------------------------------------------------------------------------- */

/* Corners in pixels of the source picture, x to the right, y down. */
typedef struct ol_box {
    float x1, y1, x2, y2;
    float confidence; /* 0..1 */
    int32_t class_id;
} ol_box;

/* What was found in one picture; valid during the callback only. */
typedef struct ol_result {
    size_t struct_bytes;
    const char *path;          /* of the picture; the name given for pictures in memory */
    const uint8_t *pixels;     /* (height,width,3) B,G,R rows without gaps */
    int height, width;         /* px */
    int net_height, net_width; /* size the network saw, px */
    size_t index, count;       /* 0-based number of the picture and how many there are */
    const ol_box *boxes;       /* n_boxes, best first */
    size_t n_boxes;
    const char *const *class_names; /* n_classes */
    int n_classes;
    double preprocess_ms, inference_ms, postprocess_ms; /* of this picture (its share of the batch) */
    const char *save_dir;                               /* run folder, NULL when nothing is saved */
} ol_result;

/* Called once a picture, in order. Anything but OL_OK ends the call, which then returns that status. */
typedef ol_status (*ol_result_fn)(void *user, const ol_result *result);

/* Predicts on the pictures of the argument `source` (file, folder, glob, list file) with the arguments conf, iou,
 * max_det, classes, agnostic_nms, nms, imgsz, batch, rect, save, save_txt, save_conf, save_crop and those of drawing.
 * Unlike the command line it saves pictures only when `save` was set. Unreadable pictures are warnings. `result` may be
 * NULL. */
OL_API ol_status ol_predict(ol_model *model, const ol_options *options, ol_result_fn result, void *user);

/* A picture in memory: (height,width,3) B,G,R, rows without gaps. */
typedef struct ol_picture {
    const char *name; /* for results and saved files; NULL: "image0", "image1", … */
    const uint8_t *pixels;
    int height, width;
} ol_picture;
/* The same for pictures in memory, which must stay unchanged during the call; `source` is not used. */
OL_API ol_status ol_predict_pictures(ol_model *model, const ol_options *options, const ol_picture *pictures,
                                     size_t n_pictures, ol_result_fn result, void *user);

/* ---- Validate --------------------------------------------------------------------------------------------------- */

typedef struct ol_class_metrics {
    int class_id;
    const char *name;
    int64_t n_images, n_instances;             /* pictures with the class, its labels */
    double precision, recall, map50, map50_95; /* 0..1 */
} ol_class_metrics;

typedef struct ol_metrics {
    size_t struct_bytes;
    double precision, recall, map50, map75, map50_95,
        fitness; /* means over the labelled classes, 0..1; NAN: no labels */
    int64_t n_images, n_instances;
    const ol_class_metrics *classes; /* n_classes: the labelled ones, by id */
    size_t n_classes;
    double preprocess_ms, inference_ms, loss_ms, postprocess_ms; /* a picture */
    const char *save_dir;                                        /* run folder */
} ol_metrics;

/* Validates on the split of the argument `data` (by default the data set the model was trained on). The texts and
 * arrays of `metrics` (may be NULL) belong to the model until its next call. */
OL_API ol_status ol_val(ol_model *model, const ol_options *options, ol_metrics *metrics);

/* ---- Train ------------------------------------------------------------------------------------------------------ */

typedef struct ol_train_result {
    size_t struct_bytes;
    int epochs;       /* completed in this run folder */
    double hours;     /* of this call */
    const char *best; /* weights of the best epoch; "" when nothing was saved */
    const char *last; /* of the last one */
    const char *save_dir;
    double precision, recall, map50, map50_95, fitness; /* of the best weights */
} ol_train_result;

/* Trains from `model`, which is a start (weights are transferred to the classes of `data`), an architecture, or with
 * `resume` an interrupted run's last.pt. Afterwards the handle holds the best weights. Interrupting leaves a last.pt
 * that resumes. OL_ERROR_NUMERIC when a loss is not finite. Texts belong to the model until its next call. */
OL_API ol_status ol_train(ol_model *model, const ol_options *options, ol_train_result *result);

/* ---- Export ----------------------------------------------------------------------------------------------------- */

/* Writes the model in the argument `format` ("onnx", "safetensors", "pt") beside its file. *path belongs to the model
 * until its next call. */
OL_API ol_status ol_export(ol_model *model, const ol_options *options, const char **path);

/* ---- A data set to try things with ------------------------------------------------------------------------------ */

/* Draws `folder`/data.yaml with pictures and labels of coloured shapes; the same for the same seed. size_px 64..2048.
 */
OL_API ol_status ol_shapes_write(ol_context *context, const char *folder, int n_train, int n_val, int size_px,
                                 uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
