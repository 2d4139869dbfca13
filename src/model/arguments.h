/* Typed reading of a layer's yaml arguments by a table of rows. Owns nothing; any thread. */
#ifndef MODEL_ARGUMENTS_H
#define MODEL_ARGUMENTS_H

#include "model/description.h"

typedef enum argument_type {
    ARGUMENT_INT,
    ARGUMENT_ODD_INT,
    ARGUMENT_FLOAT,
    ARGUMENT_BOOL,
    ARGUMENT_NULL,    /* must be null or left out */
    ARGUMENT_NEAREST, /* the word "nearest" */
    ARGUMENT_ANY      /* filled by us, not by the yaml */
} argument_type;

typedef struct argument_row {
    const char *name;
    argument_type type;
    double min, max, fallback; /* fallback: when left out */
} argument_row;

#define LAYER_MAX_ARGUMENTS 8

/* Sets the message "file:line: layer i (Module): …" and returns OL_ERROR_FORMAT. */
ol_status layer_fail(ol_context *ctx, const model_desc *desc, const layer_desc *layer, const char *format, ...)
    CTX_PRINTF(4, 5);

/* Checks `args` against the rows of the layer's module. */
ol_status arguments_check(ol_context *ctx, const model_desc *desc, const layer_desc *layer, const value *args);
/* The argument of that name of a checked layer, or its fallback; booleans as 0 and 1. */
double argument_of(const layer_desc *layer, const char *name);
static inline int argument_int(const layer_desc *layer, const char *name) {
    return (int)argument_of(layer, name);
}

#endif
