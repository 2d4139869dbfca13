/* A training run set up for a test as the library does it: settings, data set, loader, model, device. */
#ifndef TESTS_TRAIN_CASE_H
#define TESTS_TRAIN_CASE_H

#include "scratch.h"

#include "data/loader.h"
#include "train/trainer.h"

typedef struct train_case {
    ol_context *ctx; /* its own */
    arena arena;
    settings s;
    data_config config;
    dataset *set;
    loader *loader;
    device *dev;
    model *model;
    int64_t class_counts[128];
    train_setup setup; /* callbacks are the test's to fill */
} train_case;

/* "name=value" settings, NULL at the end, over the defaults; `data` is the data file; `m` (with its device not yet
 * open) is taken over. Warnings go to stderr, or to `log` where given. Fails the test when it cannot be made. */
typedef struct train_case_options {
    const char *data, *save_dir;
    const char *const *settings;
    const value *map;         /* settings as a map, before `settings`; may be NULL */
    const checkpoint *resume; /* may be NULL: then settings come from here too */
    const char *resume_path;
    dtype compute; /* of train_setup */
    int n_threads; /* 0: one */
    ol_log_fn log;
    void *log_user;
    ol_realloc_fn realloc_block; /* NULL: the C library's */
    void *realloc_user;
} train_case_options;

/* Makes everything but the model: to be followed by train_case_model. */
train_case train_case_open(const train_case_options *options);
/* Takes over the model (made on case's context) and fills the setup. */
void train_case_model(train_case *c, model *m);
void train_case_close(train_case *c);

#endif
