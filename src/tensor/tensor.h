/* Shapes, element types and dense host tensors in logical (N,C,H,W) order. No arithmetic here. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "base/context.h"

#define SHAPE_MAX_RANK 6

typedef enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F64,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_I8,
    DTYPE_I16,
    DTYPE_I32,
    DTYPE_I64
} dtype;

size_t dtype_bytes(dtype type);
const char *dtype_name(dtype type); /* "f32", … */

typedef struct shape {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
} shape;

shape shape_1d(int64_t a);
shape shape_3d(int64_t a, int64_t b, int64_t c);
shape shape_4d(int64_t n, int64_t c, int64_t h, int64_t w);
bool shape_equal(const shape *a, const shape *b);
/* Product of the dimensions (1 for rank 0). False when one is negative or the product overflows. */
bool shape_count(const shape *s, int64_t *count);
/* The same for shapes already known to be valid. */
int64_t shape_elements(const shape *s);
/* "(2,3,64,96)" */
void shape_print(const shape *s, char *buffer, size_t buffer_bytes);

/* Dense, row-major. `data` is 64-byte aligned when owned. */
typedef struct tensor {
    dtype type;
    shape shape;
    void *data;
    bool owned; /* false: a view that borrows */
} tensor;

ol_status tensor_init(ol_context *ctx, tensor *t, dtype type, shape s); /* cleared */
void tensor_deinit(ol_context *ctx, tensor *t);
tensor tensor_view(dtype type, shape s, void *data);
static inline float *tensor_f32(const tensor *t) {
    return (float *)t->data;
}

float half_to_float(uint16_t bits);
uint16_t float_to_half(float x); /* round to nearest even; beyond the range: infinity */
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float x); /* round to nearest even */
/* Converts n elements of any number type to float32. */
void convert_to_f32(dtype type, const void *from, float *to, size_t n);

#endif
