/* Named tensors in a fixed order: a state dict. Owns names and data. */
#ifndef TENSOR_TENSOR_LIST_H
#define TENSOR_TENSOR_LIST_H

#include "base/arena.h"
#include "tensor/tensor.h"

typedef struct named_tensor {
    const char *name; /* "model.0.conv.weight" */
    tensor t;
} named_tensor;

typedef struct tensor_list {
    ol_context *ctx;
    arena names;
    named_tensor *items;
    size_t count, capacity;
    void *index; /* hash from name to position, private */
} tensor_list;

void tensor_list_init(tensor_list *list, ol_context *ctx);
void tensor_list_deinit(tensor_list *list);
/* Appends a cleared tensor; a name that exists already is an error (OL_ERROR_FORMAT). `out` (may be NULL) is valid
 * until the next add. */
ol_status tensor_list_add(tensor_list *list, const char *name, dtype type, shape s, tensor **out);
/* NULL when absent. */
tensor *tensor_list_find(const tensor_list *list, const char *name);
/* Position or -1. */
int64_t tensor_list_position(const tensor_list *list, const char *name);
/* Deep copy into an initialised empty list. */
ol_status tensor_list_copy(tensor_list *to, const tensor_list *from);

#endif
