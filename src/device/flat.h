/* A place in a buffer of f32 numbers on a device. */
#ifndef DEVICE_FLAT_H
#define DEVICE_FLAT_H

#include "graph/plan.h"

typedef struct flat {
    device_buffer *buffer;
    size_t offset; /* floats */
} flat;
static inline flat flat_at(device_buffer *buffer, size_t offset) {
    return (flat){buffer, offset};
}

#endif
