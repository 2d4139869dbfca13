#include "device/devices.h"
#include "device/gpu/drivers/driver.h"
#include "device/gpu/kernel_archive.h"

#include <stdio.h>
#include <string.h>

typedef ol_status (*open_fn)(ol_context *ctx, gpu_driver **out);

/* The message of the pending failure moves into `message`. */
static void note_failure(ol_context *ctx, char *message, size_t message_bytes) {
    ctx_message(ctx, message, message_bytes);
    ctx_clear(ctx);
}

/* A device that does not answer is not passed over in silence. */
static void note_silence(gpu_driver *d, int index, int error, devices_driver *said) {
    const size_t at = strlen(said->message);
    snprintf(said->message + at, sizeof said->message - at, "%s%.100s shows %s:%d, which does not answer (%.200s)",
             at > 0 ? "; " : "", d->library, d->call.name, index, d->call.error_text(d, error));
}

static uint64_t peers_of(gpu_driver *d, int index, int count) {
    uint64_t reached = 0;
    for (int peer = 0; peer < count && peer < DEVICES_MAX && d->call.can_reach != NULL; peer++) {
        int can = 0;
        if (peer != index && d->call.can_reach(d, &can, index, peer) == 0 && can != 0) reached |= UINT64_C(1) << peer;
    }
    return reached;
}

/* The driver's error: with `silent` the rest of the entry is known all the same. */
static int entry_fill(gpu_driver *d, int index, int count, bool in_full, device_entry *e) {
    gpu_info info;
    uint64_t total = 0;
    *e = (device_entry){.silent = false};
    int error = d->call.device_info(d, index, &info);
    if (error != 0) return error;
    *e = (device_entry){.memory_bytes = info.memory_bytes, .integrated = info.integrated};
    snprintf(e->name, sizeof e->name, "%s:%d", d->call.name, index);
    snprintf(e->title, sizeof e->title, "%.127s", info.name);
    snprintf(e->arch, sizeof e->arch, "%.31s", info.arch);
    d->call.version(d, e->driver, sizeof e->driver);
    if (!in_full) return 0;
    error = d->call.bind(d, index);
    e->silent = error != 0;
    if (error != 0) return error;
    d->call.memory_info(d, &e->free_bytes, &total);
    e->reaches = peers_of(d, index, count);
    d->call.unbind(d, index);
    return 0;
}

static size_t driver_list(ol_context *ctx, open_fn open, const kernel_archive *archive, bool in_full,
                          device_entry *list, size_t room, devices_driver *said) {
    gpu_driver *d = NULL;
    int count = 0;
    size_t n = 0;
    const ol_status status = open(ctx, &d);
    said->found = status != OL_ERROR_NOT_FOUND;
    if (status != OL_OK) {
        note_failure(ctx, said->message, sizeof said->message);
        return 0;
    }
    d->call.device_count(d, &count);
    for (int i = 0; i < count && n < room; i++) {
        device_entry *e = &list[n];
        const int error = entry_fill(d, i, count, in_full, e);
        if (error != 0) note_silence(d, i, error, said);
        if (error != 0 && !e->silent) continue; /* nothing is known of it */
        e->has_code = archive != NULL && kernel_archive_target(archive, e->arch) != NULL;
        n++;
    }
    d->call.close(d);
    said->n_devices = (int)n;
    return n;
}

static int rank_of(const device_entry *e) {
    return (e->has_code ? 0 : 2) + (e->integrated ? 1 : 0);
}

/* Insertion sort: few entries, and equal ones keep their order. */
static void sort_by_preference(device_entry *list, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const device_entry moved = list[i];
        size_t at = i;
        for (; at > 0 && rank_of(&list[at - 1]) > rank_of(&moved); at--) list[at] = list[at - 1];
        list[at] = moved;
    }
}

void devices_look(ol_context *ctx, bool in_full, devices_survey *out) {
    kernel_archive archive;
    *out = (devices_survey){.n = 0};
    const bool has_archive = kernel_archive_init(&archive, ctx) == OL_OK;
    if (!has_archive) note_failure(ctx, out->no_code, sizeof out->no_code);
    const kernel_archive *code = has_archive ? &archive : NULL;
    out->n = driver_list(ctx, gpu_driver_cuda_open, code, in_full, out->list, DEVICES_MAX, &out->cuda);
    out->n += driver_list(ctx, gpu_driver_hip_open, code, in_full, out->list + out->n, DEVICES_MAX - out->n, &out->hip);
    sort_by_preference(out->list, out->n);
    if (has_archive) kernel_archive_deinit(&archive);
}

size_t devices_list(ol_context *ctx, bool in_full, device_entry list[DEVICES_MAX], text *absent) {
    devices_survey s;
    devices_look(ctx, in_full, &s);
    const char *const reasons[] = {s.no_code, s.cuda.message, s.hip.message};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons && absent != NULL; i++)
        if (reasons[i][0] != '\0') text_printf(absent, "%s%s", absent->length > 0 ? "\n" : "", reasons[i]);
    memcpy(list, s.list, s.n * sizeof *list);
    return s.n;
}
