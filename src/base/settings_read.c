/* Settings whose value has more than one form, read as what they mean. */
#include "base/settings.h"

#include <strings.h>

void settings_image_size(const settings *s, int hw[2]) {
    const value *v = s->imgsz;
    if (v->kind == VALUE_INT) {
        hw[0] = hw[1] = (int)v->as.integer;
        return;
    }
    for (size_t i = 0; i < 2; i++) hw[i] = (int)value_as_double(v->as.list.items[i < v->as.list.count ? i : 0]);
}

setting_cache settings_cache(const settings *s) {
    if (s->cache->kind == VALUE_STRING)
        return strcasecmp(s->cache->as.string, "disk") == 0 ? SETTING_CACHE_DISK : SETTING_CACHE_RAM;
    return s->cache->as.boolean ? SETTING_CACHE_RAM : SETTING_CACHE_OFF;
}

bool settings_switch_on(const value *v) {
    return v->kind == VALUE_STRING || (v->kind == VALUE_BOOL && v->as.boolean);
}

const char *settings_switch_text(const value *v) {
    return v->kind == VALUE_STRING ? v->as.string : NULL;
}

ol_status settings_ints(arena *a, const value *v, int **items, size_t *count) {
    const size_t n = v->kind == VALUE_LIST ? v->as.list.count : v->kind == VALUE_NULL ? 0 : 1;
    int *made = n > 0 ? arena_alloc(a, n, sizeof *made) : NULL;
    if (n > 0 && made == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) made[i] = (int)value_as_double(v->kind == VALUE_LIST ? v->as.list.items[i] : v);
    *items = made;
    *count = n;
    return OL_OK;
}

void settings_range(const value *v, double *low, double *high) {
    if (v->kind == VALUE_LIST) {
        *low = value_as_double(v->as.list.items[0]);
        *high = value_as_double(v->as.list.items[1]);
    } else {
        *low = 1.0 - value_as_double(v);
        *high = 1.0 + value_as_double(v);
    }
}

void settings_fraction(const settings *s, int split, double *share, int64_t *count) {
    const value *v = s->fraction;
    static const value whole = {.kind = VALUE_FLOAT, .as.real = 1.0};
    if (v->kind == VALUE_LIST)
        v = (size_t)split < v->as.list.count ? v->as.list.items[split] : &whole;
    else if (split != 0)
        v = &whole; /* a single number is about the training pictures */
    *share = 1.0;
    *count = 0;
    if (v->kind == VALUE_INT && v->as.integer > 1)
        *count = v->as.integer;
    else
        *share = value_as_double(v);
}
