#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [DTYPE_F32] = {"f32", 4}, [DTYPE_F16] = {"f16", 2},   [DTYPE_BF16] = {"bf16", 2}, [DTYPE_F64] = {"f64", 8},
    [DTYPE_U8] = {"u8", 1},   [DTYPE_BOOL] = {"bool", 1}, [DTYPE_I8] = {"i8", 1},     [DTYPE_I16] = {"i16", 2},
    [DTYPE_I32] = {"i32", 4}, [DTYPE_I64] = {"i64", 8}};

size_t dtype_bytes(dtype type) {
    return dtypes[type].bytes;
}

const char *dtype_name(dtype type) {
    return dtypes[type].name;
}

shape shape_1d(int64_t a) {
    return (shape){1, {a}};
}

shape shape_3d(int64_t a, int64_t b, int64_t c) {
    return (shape){3, {a, b, c}};
}

shape shape_4d(int64_t n, int64_t c, int64_t h, int64_t w) {
    return (shape){4, {n, c, h, w}};
}

bool shape_equal(const shape *a, const shape *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

bool shape_count(const shape *s, int64_t *count) {
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0 || __builtin_mul_overflow(n, s->dim[i], &n)) return false;
    }
    *count = n;
    return true;
}

int64_t shape_elements(const shape *s) {
    int64_t n = 0;
    return shape_count(s, &n) ? n : 0;
}

void shape_print(const shape *s, char *buffer, size_t buffer_bytes) {
    size_t used = 0;
    if (buffer_bytes == 0) return;
    buffer[0] = '\0';
    for (int i = 0; i < s->rank && used < buffer_bytes; i++)
        used +=
            (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%lld", i == 0 ? "(" : ",", (long long)s->dim[i]);
    if (used < buffer_bytes) snprintf(buffer + used, buffer_bytes - used, s->rank == 0 ? "()" : ")");
}

ol_status tensor_init(ol_context *ctx, tensor *t, dtype type, shape s) {
    int64_t count;
    if (!shape_count(&s, &count)) return ctx_fail(ctx, OL_ERROR_MEMORY, "a tensor's shape overflows");
    void *data = mem_alloc_aligned(ctx, (size_t)count, dtype_bytes(type));
    if (data == NULL) return OL_ERROR_MEMORY;
    memset(data, 0, (size_t)count * dtype_bytes(type));
    *t = (tensor){type, s, data, true};
    return OL_OK;
}

void tensor_deinit(ol_context *ctx, tensor *t) {
    if (t->owned) mem_free_aligned(ctx, t->data);
    *t = (tensor){0};
}

tensor tensor_view(dtype type, shape s, void *data) {
    return (tensor){type, s, data, false};
}

static float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 0x1Fu, mantissa = half & 0x3FFu;
    if (exponent == 0x1F) return float_of_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent > 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    const float magnitude = (float)mantissa * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
}

uint16_t float_to_half(float x) {
    const uint32_t bits = bits_of_float(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* rounds past 65504 */
    if (magnitude < 0x38800000u) {                                   /* below 2^-14: subnormal, scaled by 2^24 */
        const float scaled = float_of_bits(magnitude) * 0x1p24f;
        uint32_t n = (uint32_t)scaled;
        const float rest = scaled - (float)n;
        if (rest > 0.5f || (rest == 0.5f && (n & 1u))) n++;
        return (uint16_t)(sign | n);
    }
    const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

float bf16_to_float(uint16_t bits) {
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t float_to_bf16(float x) {
    const uint32_t bits = bits_of_float(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

#define CONVERT(c_type, expression)                                                                                    \
    do {                                                                                                               \
        const c_type *p = from;                                                                                        \
        for (size_t i = 0; i < n; i++) to[i] = (float)(expression);                                                    \
    } while (0)

void convert_to_f32(dtype type, const void *from, float *to, size_t n) {
    switch (type) {
    case DTYPE_F32:
        memcpy(to, from, n * sizeof *to);
        break;
    case DTYPE_F16:
        CONVERT(uint16_t, half_to_float(p[i]));
        break;
    case DTYPE_BF16:
        CONVERT(uint16_t, bf16_to_float(p[i]));
        break;
    case DTYPE_F64:
        CONVERT(double, p[i]);
        break;
    case DTYPE_U8:
    case DTYPE_BOOL:
        CONVERT(uint8_t, p[i]);
        break;
    case DTYPE_I8:
        CONVERT(int8_t, p[i]);
        break;
    case DTYPE_I16:
        CONVERT(int16_t, p[i]);
        break;
    case DTYPE_I32:
        CONVERT(int32_t, p[i]);
        break;
    case DTYPE_I64:
        CONVERT(int64_t, p[i]);
        break;
    }
}
