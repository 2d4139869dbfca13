#include "api/batch_choice.h"

#include "base/text.h"
#include "train/trainer.h"

#define SIZE(bytes) text_size((uint64_t)(bytes)).c
/* Not to be given away: other programs' allocations move, and memory is handed out in pages. */
static const double usable_share = 0.95, default_share = 0.6;

/* Some drivers do not say what is free (0 then), some nothing at all: the size of the card is known still. False for
 * CPUs. */
static bool memory_known(device *dev, uint64_t *free_bytes, uint64_t *total_bytes) {
    device_description d;
    if (device_memory(dev, free_bytes, total_bytes) && *total_bytes > 0) return true;
    device_describe(dev, &d);
    *free_bytes = 0;
    *total_bytes = d.memory_bytes;
    return d.is_gpu && d.memory_bytes > 0;
}

static size_words free_size(uint64_t free_bytes) {
    return free_bytes > 0 ? text_size(free_bytes) : (size_words){"an unknown number of bytes"};
}

ol_status batch_choose(const train_fit *f, const settings *s, int *batch) {
    uint64_t free_bytes = 0, total = 0, one = 0;
    if (s->batch >= 1.0 || !memory_known(f->dev, &free_bytes, &total)) {
        *batch = train_batch_size(f->ctx, s);
        return OL_OK;
    }
    const double share = s->batch > 0.0 ? s->batch : default_share;
    const double usable = free_bytes > 0 ? usable_share * (double)free_bytes : (double)total; /* 0: not told */
    const double wanted = share * (double)total;
    int found = 0;
    ol_status status = train_fit_batch(f, (uint64_t)(wanted < usable ? wanted : usable), &found);
    if (status == OL_OK) status = train_fit_bytes(f, found > 0 ? found : 1, &one);
    if (status != OL_OK) return status;
    if (found == 0)
        return ctx_fail(f->ctx, OL_ERROR_MEMORY,
                        "batch=%g allows %s (%s of %s are free), and one picture at imgsz=%d needs %s; use"
                        " a larger share, a smaller imgsz or a smaller model",
                        s->batch, SIZE(wanted < usable ? wanted : usable), free_size(free_bytes).c, SIZE(total),
                        f->size, SIZE(one));
    ctx_log(f->ctx, OL_LOG_INFO, "AutoBatch: batch=%d at imgsz=%d takes %s of %s (%s free), by the sizes of the plans",
            found, f->size, SIZE(one), SIZE(total), free_size(free_bytes).c);
    *batch = found;
    return OL_OK;
}

ol_status batch_explain(const train_fit *f, int batch) {
    char message[768];
    uint64_t free_bytes = 0, total = 0, needed = 0;
    int largest = 0;
    ctx_message(f->ctx, message, sizeof message);
    if (!memory_known(f->dev, &free_bytes, &total)) return OL_ERROR_MEMORY;
    ctx_clear(f->ctx);
    ol_status status = train_fit_bytes(f, batch, &needed);
    if (status == OL_OK)
        status = train_fit_batch(f, (uint64_t)(usable_share * (double)(free_bytes > 0 ? free_bytes : total)), &largest);
    ctx_clear(f->ctx);
    if (status != OL_OK) return ctx_fail(f->ctx, OL_ERROR_MEMORY, "%s", message);
    if (largest == 0)
        return ctx_fail(f->ctx, OL_ERROR_MEMORY,
                        "%s. Training at imgsz=%d needs %s with batch=%d, %s are free: not even one picture "
                        "fits; use a smaller imgsz or model",
                        message, f->size, SIZE(needed), batch, free_size(free_bytes).c);
    return ctx_fail(f->ctx, OL_ERROR_MEMORY,
                    "%s. Training at imgsz=%d needs %s with batch=%d, %s are free; the largest batch that fits "
                    "is batch=%d",
                    message, f->size, SIZE(needed), batch, free_size(free_bytes).c, largest);
}
