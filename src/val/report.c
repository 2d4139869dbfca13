#include "val/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void val_report_deinit(val_report *r) {
    if (r->arena.ctx) arena_deinit(&r->arena);
    *r = (val_report){0};
}

double val_fitness(const val_report *r) {
    return isnan(r->box.map) ? 0 : r->box.map;
}

void val_print_header(text *out) {
    text_printf(out, "%22s%11s%11s%11s%11s%11s%11s", "Class", "Images", "Instances", "Box(P", "R", "mAP50",
                "mAP50-95)");
}

static void print_row(text *out, const char *name, int64_t images, int64_t instances, const double values[4]) {
    text_printf(out, "%22s%11lld%11lld", name, (long long)images, (long long)instances);
    for (int i = 0; i < 4; i++) {
        if (isnan(values[i]))
            text_printf(out, "%11s", "none");
        else
            text_printf(out, "%11.3g", values[i]);
    }
}

static double class_map(const val_report *r, int k) {
    double sum = 0;
    for (int t = 0; t < VAL_N_IOU; t++) sum += r->box.ap[k * VAL_N_IOU + t];
    return sum / VAL_N_IOU;
}

void val_print_all(text *out, const val_report *r) {
    const double values[4] = {r->box.mp, r->box.mr, r->box.map50, r->box.map};
    print_row(out, "all", r->n_images, r->n_instances, values);
}

void val_print_class(text *out, const val_report *r, int k) {
    int id = r->box.classes[k];
    const double values[4] = {r->box.p[k], r->box.r[k], r->box.ap[k * VAL_N_IOU], class_map(r, k)};
    print_row(out, r->names[id], r->images_per_class[id], r->instances_per_class[id], values);
}

void val_print_speed(text *out, const val_report *r) {
    text_printf(out, "Speed: %.1fms preprocess, %.1fms inference, %.1fms loss, %.1fms postprocess per image",
                r->speed_ms[VAL_PREPROCESS], r->speed_ms[VAL_INFERENCE], r->speed_ms[VAL_LOSS],
                r->speed_ms[VAL_POSTPROCESS]);
}
