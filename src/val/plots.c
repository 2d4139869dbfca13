#include "val/plots.h"

#include "base/file.h"
#include "draw/curves.h"
#include "draw/matrix.h"

#include <stdio.h>

static void class_mean(const double *curves, int n, double *mean) {
    for (int i = 0; i < METRICS_CURVE; i++) {
        mean[i] = 0;
        for (int k = 0; k < n; k++) mean[i] += curves[k * METRICS_CURVE + i] / n;
    }
}

static ol_status draw_pr(ol_context *ctx, arena *a, const val_report *r, const char *folder) {
    const metrics *m = &r->box;
    double mean[METRICS_CURVE];
    char label[64];
    class_mean(m->pr_curve, m->n, mean);
    snprintf(label, sizeof label, "all classes %.3f mAP@0.5", m->map50);
    const char **names = arena_alloc(a, (size_t)m->n, sizeof *names);
    char *path = path_join(a, folder, "BoxPR_curve.png");
    if (!names || !path) return OL_ERROR_MEMORY;
    for (int k = 0; k < m->n; k++) {
        names[k] = arena_printf(a, "%s %.3f", r->names[m->classes[k]], m->ap[k * VAL_N_IOU]);
        if (!names[k]) return OL_ERROR_MEMORY;
    }
    curve_plot plot = {
        "Precision-Recall Curve", "Recall", "Precision", m->n, METRICS_CURVE, m->x, m->pr_curve, mean, names, label};
    return draw_curves(ctx, path, &plot);
}

static ol_status draw_over_confidence(ol_context *ctx, arena *a, const val_report *r, const char *folder,
                                      const char *file, const char *what, const double *curves) {
    const metrics *m = &r->box;
    double mean[METRICS_CURVE], smooth[METRICS_CURVE];
    class_mean(curves, m->n, mean);
    ol_status status = curve_smooth(ctx, mean, METRICS_CURVE, 0.1, smooth);
    if (status) return status;
    int best = 0;
    for (int i = 1; i < METRICS_CURVE; i++) {
        if (smooth[i] > smooth[best]) best = i;
    }
    char title[64], label[64];
    snprintf(title, sizeof title, "%s-Confidence Curve", what);
    snprintf(label, sizeof label, "all classes %.2f at %.3f", smooth[best], m->x[best]);
    const char **names = arena_alloc(a, (size_t)m->n, sizeof *names);
    char *path = path_join(a, folder, file);
    if (!names || !path) return OL_ERROR_MEMORY;
    for (int k = 0; k < m->n; k++) names[k] = r->names[m->classes[k]];
    curve_plot plot = {title, "Confidence", what, m->n, METRICS_CURVE, m->x, curves, smooth, names, label};
    return draw_curves(ctx, path, &plot);
}

ol_status val_draw_plots(ol_context *ctx, const val_report *r, const char *folder) {
    arena a;
    arena_init(&a, ctx, 0);
    ol_status status = OL_OK;
    if (r->box.n) {
        const struct {
            const char *file, *what;
            const double *curves;
        } curves[] = {{"BoxF1_curve.png", "F1", r->box.f1_curve},
                      {"BoxP_curve.png", "Precision", r->box.p_curve},
                      {"BoxR_curve.png", "Recall", r->box.r_curve}};
        status = draw_pr(ctx, &a, r, folder);
        for (size_t i = 0; i < sizeof curves / sizeof *curves && !status; i++)
            status = draw_over_confidence(ctx, &a, r, folder, curves[i].file, curves[i].what, curves[i].curves);
    }
    for (int normalized = 0; normalized < 2 && r->confusion && !status; normalized++) {
        char *path = path_join(&a, folder, normalized ? "confusion_matrix_normalized.png" : "confusion_matrix.png");
        status = path ? draw_confusion(ctx, path, r->confusion, r->nc, r->names, normalized) : OL_ERROR_MEMORY;
    }
    arena_deinit(&a);
    return status;
}
