#include "device/pictures.h"

#include "device/device.h"

bool device_makes_pictures(const device *dev) {
    return dev != NULL && dev->api->make_pictures != NULL;
}

ol_status device_bring_pictures(device *dev, const picture_batch *b) {
    return dev->api->bring_pictures(dev, b);
}

bool picture_batch_is_whole(const picture_batch *b) {
    const picture_recipe *recipes = b->recipes;
    for (int i = 0; i < b->n && b->kind == PICTURES_SAMPLES; i++)
        if (recipes[i].n_layers == 0) return false;
    return true;
}

ol_status device_make_pictures(device *dev, const picture_batch *b, const device_step *step, device_buffer *out,
                               size_t offset_bytes) {
    size_t bytes, end;
    if (!size_mul((size_t)b->n * (size_t)b->channels, (size_t)b->h * (size_t)b->w, &bytes) ||
        !size_add(bytes, offset_bytes, &end) || end > out->bytes)
        return ctx_fail(dev->ctx, OL_ERROR_INTERNAL, "%d pictures of %dx%d do not fit a device buffer", b->n, b->w,
                        b->h);
    return dev->api->make_pictures(dev, b, step, out, offset_bytes);
}

size_t device_pictures_bytes(const device *dev, pictures_kind kind, int n, size_t most_pixel_bytes) {
    return device_makes_pictures(dev) ? dev->api->pictures_bytes(kind, n, most_pixel_bytes) : 0;
}

void device_pictures_release(device *dev) {
    if (device_makes_pictures(dev)) dev->api->pictures_release(dev);
}

ol_status device_host_create(device *dev, size_t bytes, void **out) {
    return dev->api->host_create(dev, bytes, out);
}

void device_host_destroy(device *dev, void *memory) {
    if (memory != NULL) dev->api->host_destroy(dev, memory);
}
