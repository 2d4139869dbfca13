/* Builds an ONNX model node by node and writes it (protobuf-c underneath). Values are known by name. A failure is
 * remembered and later calls do nothing, so that callers check once, in onnx_model_save. Knows nothing of our graphs
 * (onnx_graph.h). */
#ifndef FORMATS_ONNX_MODEL_H
#define FORMATS_ONNX_MODEL_H

#include "base/arena.h"
#include "base/value.h"
#include "tensor/tensor.h"

typedef struct onnx_model onnx_model;

typedef enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10
} onnx_type; /* of the schema */

/* An attribute: `ints` when it is not NULL, else `text`, else `real` when is_real, else `integer`. */
typedef struct onnx_attribute {
    const char *name;
    const int64_t *ints;
    size_t n_ints;
    const char *text;
    bool is_real;
    float real;
    int64_t integer;
} onnx_attribute;

/* A dimension with a name is free at run time. */
typedef struct onnx_dim {
    int64_t size;
    const char *name;
} onnx_dim;

ol_status onnx_model_create(ol_context *ctx, int opset, onnx_model **out);
void onnx_model_destroy(onnx_model *o);
int onnx_model_opset(const onnx_model *o);
arena *onnx_model_arena(onnx_model *o); /* lives as long as the model */

/* Prefix of the node names that follow, e.g. a layer's path; "" for none. Must outlive the model. */
void onnx_scope(onnx_model *o, const char *scope);
/* Adds a node with one output, whose new name is returned. Empty strings among the inputs stand for left-out ones. */
const char *onnx_node(onnx_model *o, const char *op, const char *const *in, size_t n_in,
                      const onnx_attribute *attributes, size_t n_attributes);
/* The same with several outputs. */
void onnx_node_multi(onnx_model *o, const char *op, const char *const *in, size_t n_in,
                     const onnx_attribute *attributes, size_t n_attributes, const char **out, size_t n_out);

/* Constants. */
const char *onnx_ints(onnx_model *o, const int64_t *x, size_t n); /* shape (n) */
const char *onnx_int(onnx_model *o, int64_t x);                   /* shape () */
const char *onnx_real(onnx_model *o, float x, bool half);         /* shape () */
const char *onnx_reals(onnx_model *o, const float *x, const shape *s);
/* A weight under its own name. `half`: stored in half precision. */
const char *onnx_weight(onnx_model *o, const char *name, const tensor *t, bool half);

void onnx_input(onnx_model *o, const char *name, onnx_type type, const onnx_dim *dims, size_t n_dims);
/* Gives the value `from`, which no node may use, the public name `name`. */
void onnx_output(onnx_model *o, const char *from, const char *name, onnx_type type, const onnx_dim *dims,
                 size_t n_dims);
void onnx_metadata(onnx_model *o, const char *key, const char *text);

/* Remembers `status` if nothing failed before. */
void onnx_model_fail(onnx_model *o, ol_status status);
ol_status onnx_model_status(const onnx_model *o);
/* Atomic. */
ol_status onnx_model_save(onnx_model *o, const char *path);

#endif
