/* Starting a training from another model's weights. Model document, section 3.2. */
#include "model/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct transfer {
    ol_context *ctx;
    model *m;
    const model_source *source;
    bool *done;     /* target entries that are transferred */
    int *class_map; /* source row of each target class, -1: none; NULL: no remapping */
    transfer_report report;
} transfer;

static bool same_class(const char *a, const char *b) {
    size_t n = strlen(a), k = strlen(b);
    while (n > 0 && isspace((unsigned char)*a)) a++, n--;
    while (k > 0 && isspace((unsigned char)*b)) b++, k--;
    while (n > 0 && isspace((unsigned char)a[n - 1])) n--;
    while (k > 0 && isspace((unsigned char)b[k - 1])) k--;
    if (n != k) return false;
    for (size_t i = 0; i < n; i++) {
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return false;
    }
    return true;
}

/* Fills class_map when names are worth matching: both real, at least one in common, and not the identity. */
static ol_status map_classes(transfer *t, const char *const *names) {
    const model_source *s = t->source;
    const int nc = t->m->desc.nc;
    if (names == NULL || s->names == NULL || !names_are_real(names, nc) || !names_are_real(s->names, s->n_names)) {
        return OL_OK;
    }
    int *map = mem_alloc(t->ctx, (size_t)nc, sizeof *map), matched = 0;
    bool identity = nc == s->n_names;
    if (map == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < nc; i++) {
        map[i] = -1;
        for (int k = 0; k < s->n_names && map[i] < 0; k++) {
            if (same_class(names[i], s->names[k])) map[i] = k;
        }
        matched += map[i] >= 0;
        identity = identity && map[i] == i;
    }
    if (matched == 0 || identity) {
        mem_free(t->ctx, map);
        return OL_OK;
    }
    t->class_map = map;
    t->report.n_remapped = matched;
    return OL_OK;
}

/* Rows of one final class tensor, weight or bias. */
static bool remap_rows(transfer *t, const char *name) {
    const int64_t at = tensor_list_position(&t->m->state, name);
    const tensor *from = tensor_list_find(t->source->state, name);
    if (at < 0 || from == NULL || from->type != DTYPE_F32) return false;
    tensor *to = &t->m->state.items[at].t;
    if (from->shape.rank != to->shape.rank || from->shape.dim[0] != t->source->n_names) return false;
    const size_t row = (size_t)(shape_elements(&to->shape) / to->shape.dim[0]);
    if (row * (size_t)from->shape.dim[0] != (size_t)shape_elements(&from->shape)) return false;
    for (int i = 0; i < t->m->desc.nc; i++) {
        if (t->class_map[i] < 0) continue;
        memcpy(tensor_f32(to) + (size_t)i * row, tensor_f32(from) + (size_t)t->class_map[i] * row, row * sizeof(float));
    }
    t->done[at] = true;
    return true;
}

static void remap_head(transfer *t) {
    static const char *const branches[2] = {"cv3", "one2one_cv3"}, *const suffixes[2] = {"weight", "bias"};
    bool any = false;
    for (int k = 0; k < 2; k++) {
        for (int level = 0; level < t->m->n_levels; level++) {
            for (int i = 0; i < 2; i++) {
                char name[128];
                snprintf(name, sizeof name, "%s.%s.%d.2.%s", t->m->head->path, branches[k], level, suffixes[i]);
                any = remap_rows(t, name) || any;
            }
        }
    }
    if (!any) t->report.n_remapped = 0;
}

/* Entries of equal key and shape. */
static void copy_equal(transfer *t) {
    for (size_t i = 0; i < t->m->state.count; i++) {
        named_tensor *to = &t->m->state.items[i];
        const tensor *from = tensor_list_find(t->source->state, to->name);
        if (t->done[i] || from == NULL || from->type != to->t.type || !shape_equal(&from->shape, &to->t.shape))
            continue;
        memcpy(to->t.data, from->data, (size_t)shape_elements(&from->shape) * dtype_bytes(from->type));
        t->done[i] = true;
    }
}

/* A first convolution of another channel count: what overlaps is copied; one target channel gets the sum over the
 * source's. */
static void copy_first_conv(transfer *t) {
    static const char name[] = "model.0.conv.weight";
    const int64_t at = tensor_list_position(&t->m->state, name);
    const tensor *from = tensor_list_find(t->source->state, name);
    if (at < 0 || t->done[at] || from == NULL || from->type != DTYPE_F32 || from->shape.rank != 4) return;
    tensor *to = &t->m->state.items[at].t;
    const int64_t *a = from->shape.dim, *b = to->shape.dim;
    if (a[0] != b[0] || a[2] != b[2] || a[3] != b[3]) return;
    const int64_t area = a[2] * a[3], shared = a[1] < b[1] ? a[1] : b[1];
    for (int64_t k = 0; k < a[0]; k++) {
        for (int64_t c = 0; c < (b[1] == 1 ? a[1] : shared); c++) {
            const float *x = tensor_f32(from) + (k * a[1] + c) * area;
            float *y = tensor_f32(to) + (k * b[1] + (b[1] == 1 ? 0 : c)) * area;
            for (int64_t i = 0; i < area; i++) y[i] = b[1] == 1 && c > 0 ? y[i] + x[i] : x[i];
        }
    }
    t->done[at] = true;
}

/* The class-branch width the target must take over so that the source's class branch fits; 0: keep its own. */
static int inherited_class_width(const model *target, const model_source *source) {
    char name[128];
    snprintf(name, sizeof name, "%s.cv3.0.2.weight", target->head->path);
    const tensor *last = tensor_list_find(source->state, name);
    if (last == NULL || last->shape.rank != 4 || last->shape.dim[1] == target->head->class_width) return 0;
    for (int level = 0; level < target->n_levels; level++) { /* the head must see equal inputs, level by level */
        snprintf(name, sizeof name, "%s.cv2.%d.0.conv.weight", target->head->path, level);
        const tensor *input = tensor_list_find(source->state, name);
        if (input == NULL || input->shape.rank != 4 || input->shape.dim[1] != target->head->level_channels[level])
            return 0;
    }
    return (int)last->shape.dim[1];
}

static ol_status create_target(ol_context *ctx, const model_spec *spec, const model_source *source, bool fused,
                               model **out) {
    model *m;
    ol_status status = model_create(ctx, spec, &m);
    if (status != OL_OK) return status;
    const int width = fused ? 0 : inherited_class_width(m, source);
    if (width > 0) { /* built anew from the resolved description: nothing is reported twice */
        model *again = NULL;
        model_spec wider = *spec;
        wider.yaml = m->desc.yaml;
        wider.scale = m->desc.scale;
        wider.nc = m->desc.nc;
        wider.class_width = width;
        status = model_create(ctx, &wider, &again);
        model_destroy(m);
        m = again;
    }
    if (status == OL_OK) *out = m;
    return status;
}

static ol_status transfer_run(transfer *t, const char *const *names, bool cls_remap, bool fused) {
    ol_status status = names != NULL ? model_set_names(t->m, names, t->m->desc.nc) : OL_OK;
    if (status == OL_OK && cls_remap && !fused) status = map_classes(t, names);
    if (status != OL_OK) return status;
    if (t->class_map != NULL) remap_head(t);
    copy_equal(t);
    copy_first_conv(t);
    transfer_report *r = &t->report;
    r->n_total = (int)t->m->state.count;
    r->n_classes = t->m->desc.nc;
    for (size_t i = 0; i < t->m->state.count; i++) r->n_transferred += t->done[i];
    if (r->n_transferred == r->n_total && names == NULL && t->source->names != NULL &&
        t->source->n_names == t->m->desc.nc) {
        status = model_set_names(t->m, t->source->names, t->source->n_names);
    }
    if (fused) {
        ctx_log(t->ctx, OL_LOG_WARNING,
                "%s holds fused weights (batch norm folded into the convolutions): little of it can be trained from; "
                "use the unfused file",
                t->source->name);
    }
    if (r->n_remapped > 0) {
        ctx_log(t->ctx, OL_LOG_INFO, "Remapped %d/%d cls head rows from pretrained weights by class name",
                r->n_remapped, r->n_classes);
    }
    ctx_log(t->ctx, OL_LOG_INFO, "Transferred %d/%d items from pretrained weights", r->n_transferred, r->n_total);
    return status;
}

ol_status model_create_transferred(ol_context *ctx, const model_spec *spec, const char *const *names,
                                   const model_source *source, bool cls_remap, uint64_t seed, model **out,
                                   transfer_report *report) {
    transfer t = {.ctx = ctx, .source = source};
    const bool fused = source_is_fused(source);
    ol_status status = create_target(ctx, spec, source, fused, &t.m);
    if (status != OL_OK) return status;
    model_initialize(t.m, seed);
    t.done = mem_alloc0(ctx, t.m->state.count, sizeof *t.done);
    status = t.done == NULL ? OL_ERROR_MEMORY : transfer_run(&t, names, cls_remap, fused);
    mem_free(ctx, t.done);
    mem_free(ctx, t.class_map);
    if (status != OL_OK) {
        model_destroy(t.m);
        return status;
    }
    if (report != NULL) *report = t.report;
    *out = t.m;
    return OL_OK;
}
