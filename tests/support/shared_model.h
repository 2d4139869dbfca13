/* A model read from the shared folder, with the device it runs on. */
#ifndef TESTS_SHARED_MODEL_H
#define TESTS_SHARED_MODEL_H

#include "formats/checkpoint.h"
#include "model/runner.h"

typedef struct shared_model {
    checkpoint file;
    model *model;
    device *dev;
} shared_model;

/* `name` is relative to the shared folder. Fails the test when unreadable. */
shared_model shared_model_open(ol_context *ctx, const char *name);
void shared_model_close(shared_model *m);

#endif
