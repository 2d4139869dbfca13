#include "model/summary.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

ol_status model_log_layers(const model *m) {
    text args;
    text_init(&args, m->ctx);
    ctx_log(m->ctx, OL_LOG_INFO, "%s", "");
    ctx_log(m->ctx, OL_LOG_INFO, "%3s%20s%3s%10s  %-45s%-30s", "", "from", "n", "params", "module", "arguments");
    for (int i = 0; i < m->desc.n_layers && !args.failed; i++) {
        const layer_desc *l = &m->desc.layers[i];
        char from[LAYER_MAX_FROM * 8];
        int used = snprintf(from, sizeof from, l->n_from > 1 ? "[%d" : "%d", l->from[0]);
        for (int k = 1; k < l->n_from && used < (int)sizeof from; k++) {
            used += snprintf(from + used, sizeof from - (size_t)used, ", %d", l->from[k]);
        }
        if (l->n_from > 1 && used < (int)sizeof from) snprintf(from + used, sizeof from - (size_t)used, "]");
        text_clear(&args);
        literal_write(&args, l->args);
        ctx_log(m->ctx, OL_LOG_INFO, "%3d%20s%3d%10lld  %-45s%-30s", i, from, l->table_repeats,
                (long long)module_parameters(m->root->children[i]), l->kind->global, text_c(&args));
    }
    const ol_status status = args.failed ? OL_ERROR_MEMORY : OL_OK;
    text_deinit(&args);
    return status;
}

#define MAX_SHARED 4

typedef struct leaf_count {
    const model *m;
    bool fused, keep[2];
    bool seen[MAX_SHARED]; /* SiLU objects that stand in several places count once */
    int leaves;
    int64_t parameters;
} leaf_count;

static bool dropped(const leaf_count *u, const module *m) {
    const char *head = u->m->head->path;
    const size_t n = strlen(head);
    if (strncmp(m->path, head, n) != 0 || m->path[n] != '.') return false;
    const char *rest = m->path + n + 1;
    if (strncmp(rest, "one2one_", 8) == 0) return !u->keep[1];
    return (strncmp(rest, "cv2.", 4) == 0 || strncmp(rest, "cv3.", 4) == 0) && !u->keep[0];
}

static ol_status leaf_visit(void *user, module *m) {
    leaf_count *u = user;
    const module_type type = m->kind->type;
    if (type >= MODULE_SEQUENTIAL || dropped(u, m)) return OL_OK;
    if (type == MODULE_BATCH_NORM && u->fused) { /* its bias lives on in the convolution */
        u->parameters += m->c2;
        return OL_OK;
    }
    if (type == MODULE_SILU) {
        if (m->share < MAX_SHARED && u->seen[m->share]) return OL_OK;
        if (m->share < MAX_SHARED) u->seen[m->share] = true;
    }
    u->leaves++;
    u->parameters += module_parameters(m);
    return OL_OK;
}

/* The reference's figure: two operations a multiply-add of convolutions and attention products, eight an element of a
 * batch norm (seen over five scales, class counts and image sizes). */
static double counted_flops(const graph *g) {
    double total = graph_flops(g);
    for (size_t i = 0; i < g->n_ops; i++) {
        if (g->ops[i].kind == OP_BATCH_NORM) total += 8.0 * (double)shape_elements(graph_shape(g, g->ops[i].out[0]));
    }
    return total;
}

ol_status model_summarize(const model *m, bool fused, model_branch kept, int height, int width, model_summary *out) {
    const bool both = !fused;
    leaf_count u = {.m = m, .fused = fused};
    u.keep[0] = m->has_one2many && (both || (kept & MODEL_ONE2MANY) != 0 || !m->has_one2one);
    u.keep[1] = m->has_one2one && (both || (kept & MODEL_ONE2ONE) != 0 || !m->has_one2many);
    const model_graph_options options = {
        .mode = fused ? MODEL_EVAL : MODEL_TRAIN,
        .batch = 1,
        .height = height,
        .width = width,
        .branches = (u.keep[0] ? MODEL_ONE2MANY : 0) | (u.keep[1] ? MODEL_ONE2ONE : 0),
    };
    model_graph_refs refs;
    graph *g = NULL;
    ol_status status = graph_create(m->ctx, &g);
    if (status == OL_OK) status = model_build(m, g, &options, &refs);
    if (status == OL_OK) status = module_walk(m->root, leaf_visit, &u);
    model_summary found = {.leaf_modules = u.leaves, .parameters = u.parameters};
    if (status == OL_OK) found.gflops = counted_flops(g) / 1e9;
    for (size_t i = 0; i < m->state.count && !fused; i++) {
        if (model_is_param(m, i) && !m->frozen[i]) found.gradients += shape_elements(&m->state.items[i].t.shape);
    }
    graph_destroy(g);
    if (status == OL_OK) *out = found;
    return status;
}

/* 2572280 -> "2,572,280" */
static void print_grouped(int64_t n, char *out, size_t out_bytes) {
    char digits[24];
    size_t used = 0;
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (int i = 0; i < length && used + 2 < out_bytes; i++) {
        if (i > 0 && (length - i) % 3 == 0) out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
}

ol_status model_log_summary(const model *m, bool fused, model_branch kept) {
    model_summary s;
    const ol_status status = model_summarize(m, fused, kept, 640, 640, &s);
    if (status != OL_OK) return status;
    char parameters[32], gradients[32], name[80];
    const value *file = value_get(m->desc.yaml, "yaml_file");
    const char *stem = file != NULL && file->kind == VALUE_STRING ? path_name(file->as.string) : "Model";
    const char *suffix = path_suffix(stem);
    const int length = (int)(strlen(stem) - strlen(suffix));
    if (strncmp(stem, "yolo", 4) == 0)
        snprintf(name, sizeof name, "YOLO%.*s", length - 4, stem + 4);
    else
        snprintf(name, sizeof name, "%.*s", length, stem);
    print_grouped(s.parameters, parameters, sizeof parameters);
    print_grouped(s.gradients, gradients, sizeof gradients);
    ctx_log(m->ctx, OL_LOG_INFO, "%s summary%s: %d layers, %s parameters, %s gradients, %.1f GFLOPs", name,
            fused ? " (fused)" : "", s.leaf_modules, parameters, gradients, s.gflops);
    return OL_OK;
}
