/* Loader options from the arguments of a run. */
#include "data/loader.h"

static loader_cache cache_from(const settings *s) {
    static const loader_cache by_setting[] = {[SETTING_CACHE_OFF] = LOADER_CACHE_AUTO,
                                              [SETTING_CACHE_RAM] = LOADER_CACHE_RAM,
                                              [SETTING_CACHE_DISK] = LOADER_CACHE_DISK};
    return by_setting[settings_cache(s)];
}

static augment_settings augment_from(const settings *s, int imgsz) {
    augment_settings a = augment_defaults(imgsz);
    a.mosaic = s->mosaic;
    a.mixup = s->mixup;
    a.cutmix = s->cutmix;
    a.copy_paste = s->copy_paste;
    a.copy_paste_mixup = s->copy_paste_mode != NULL && s->copy_paste_mode[0] == 'm';
    a.degrees = s->degrees;
    a.translate = s->translate;
    settings_range(s->scale, &a.scale_low, &a.scale_high);
    a.shear = s->shear;
    a.perspective = s->perspective;
    a.hsv_h = s->hsv_h;
    a.hsv_s = s->hsv_s;
    a.hsv_v = s->hsv_v;
    a.flipud = s->flipud;
    a.fliplr = s->fliplr;
    a.bgr = s->bgr;
    return a;
}

loader_options loader_options_train(const settings *s, int batch, int imgsz, int stride) {
    return (loader_options){.training = true,
                            .batch = batch,
                            .imgsz = imgsz,
                            .stride = stride,
                            .rect = s->rect,
                            .workers = s->workers,
                            .seed = (uint64_t)s->seed,
                            .cache = cache_from(s),
                            .augment = augment_from(s, imgsz),
                            .multi_scale = s->multi_scale};
}

loader_options loader_options_val(const settings *s, int batch, int imgsz, int stride) {
    return (loader_options){.batch = batch,
                            .imgsz = imgsz,
                            .stride = stride,
                            .rect = s->given[SETTING_ID_rect] ? s->rect : true,
                            .workers = s->workers,
                            .seed = (uint64_t)s->seed,
                            .cache = cache_from(s),
                            .augment = augment_defaults(imgsz)};
}
