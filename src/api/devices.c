/* The public questions about devices. */
#include "device/devices.h"
#include "base/numbers.h"

#include "api/device_choice.h"
#include "api/model.h"

#include <stdio.h>
#include <string.h>

int ol_device_count(ol_context *ctx) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    device_entry list[DEVICES_MAX];
    return (int)devices_list(ctx, false, list, NULL);
}

ol_status ol_device_get_info(ol_context *ctx, int index, ol_device_info *info) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    device_entry list[DEVICES_MAX];
    const size_t n = devices_list(ctx, true, list, NULL);
    if (index < 0 || (size_t)index >= n)
        return ctx_fail(ctx, OL_ERROR_NOT_FOUND,
                        "there is no GPU number %d: this machine shows %zu ('yolo checks' tells why)", index, n);
    const device_entry *e = &list[index];
    ol_device_info filled = {.memory_bytes = e->memory_bytes,
                             .free_bytes = e->free_bytes,
                             .is_integrated = e->integrated,
                             .is_usable = e->has_code};
    snprintf(filled.name, sizeof filled.name, "%s", e->name);
    snprintf(filled.title, sizeof filled.title, "%s", e->title);
    snprintf(filled.vendor, sizeof filled.vendor, "%s", strncmp(e->name, "hip", 3) == 0 ? "AMD" : "NVIDIA");
    snprintf(filled.architecture, sizeof filled.architecture, "%s", e->arch);
    snprintf(filled.driver, sizeof filled.driver, "%s", e->driver);
    return copy_out(ctx, info, &filled, sizeof filled);
}

bool ol_is_available(ol_context *ctx, const char *device) {
    NUMBERS_WITH_POINT();
    ctx_clear(ctx);
    char name[16];
    if (device == NULL) device = "";
    if (device_choose_text(ctx, device, false, name) != OL_OK) return false;
    if (strcmp(name, "cpu") == 0) {
        if (device_names_cpu(ctx, device)) return true;
        ctx_fail(ctx, OL_ERROR_DEVICE, "no GPU can be used; 'yolo checks' tells why");
        return false;
    }
    device_entry list[DEVICES_MAX];
    const size_t n = devices_list(ctx, true, list, NULL);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) != 0 || (list[i].has_code && !list[i].silent)) continue;
        if (list[i].has_code) {
            ctx_fail(ctx, OL_ERROR_DEVICE, "%s does not answer; 'yolo checks' tells more", name);
            return false;
        }
        ctx_fail(ctx, OL_ERROR_UNSUPPORTED, "this build has no code for %s (%s); 'yolo checks' tells more", name,
                 list[i].arch);
        return false;
    }
    return true;
}
