#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    ol_status (*open)(ol_context *ctx, device **out);
} registry[] = {{"cpu", cpu_device_open}};

ol_status device_open(ol_context *ctx, const char *name, device **out) {
    for (size_t i = 0; i < sizeof registry / sizeof registry[0]; i++)
        if (strcmp(registry[i].name, name) == 0) return registry[i].open(ctx, out);
    if (strncmp(name, "cuda:", 5) == 0 || strncmp(name, "hip:", 4) == 0) return gpu_device_open(ctx, name, out);
    return ctx_fail(ctx, OL_ERROR_NOT_FOUND, "device '%s' is not known to this build; use device=cpu", name);
}

void device_close(device *dev) {
    if (dev != NULL) dev->api->close(dev);
}

void device_describe(const device *dev, device_description *out) {
    device_properties p = {0};
    dev->api->properties(dev, &p);
    *out = (device_description){.is_gpu = !p.host_memory, .memory_bytes = p.memory_bytes};
    snprintf(out->title, sizeof out->title, "%s", p.description);
    snprintf(out->driver, sizeof out->driver, "%s", p.driver);
    for (size_t i = 0; i + 1 < sizeof out->label && p.name[i] != '\0'; i++)
        out->label[i] = (char)toupper((unsigned char)p.name[i]);
}

bool device_has_queue(const device *dev) {
    return dev->api->queue;
}

bool device_memory(device *dev, uint64_t *free_bytes, uint64_t *total_bytes) {
    return dev->api->memory != NULL && dev->api->memory(dev, free_bytes, total_bytes);
}

bool device_code_look(device *dev, device_code *out) {
    return dev->api->code != NULL && dev->api->code(dev, out);
}

ol_status device_buffer_create(device *dev, size_t bytes, device_buffer **out) {
    return dev->api->buffer_create(dev, bytes, out);
}

void device_buffer_destroy(device_buffer *b) {
    if (b != NULL) b->dev->api->buffer_destroy(b);
}

static ol_status range_check(const device_buffer *b, size_t offset_bytes, size_t bytes) {
    size_t end;
    if (size_add(offset_bytes, bytes, &end) && end <= b->bytes) return OL_OK;
    return ctx_fail(b->dev->ctx, OL_ERROR_INTERNAL, "bytes %zu+%zu are outside a device buffer of %zu", offset_bytes,
                    bytes, b->bytes);
}

ol_status device_buffer_write(device_buffer *b, size_t offset_bytes, const void *host, size_t bytes) {
    ol_status status = range_check(b, offset_bytes, bytes);
    return status != OL_OK ? status : b->dev->api->buffer_write(b, offset_bytes, host, bytes);
}

ol_status device_buffer_read(const device_buffer *b, size_t offset_bytes, void *host, size_t bytes) {
    ol_status status = range_check(b, offset_bytes, bytes);
    return status != OL_OK ? status : b->dev->api->buffer_read(b, offset_bytes, host, bytes);
}

void *device_buffer_host(device_buffer *b) {
    return b->dev->api->buffer_host(b);
}

int64_t layout_image_elements(const shape *s, int block) {
    if (s->rank != 4) return shape_elements(s);
    return (s->dim[1] + block - 1) / block * block * s->dim[2] * s->dim[3];
}
