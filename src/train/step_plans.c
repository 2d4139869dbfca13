#include "train/step_plans.h"

#define STEP_PLANS_MAX 4

struct step_plans {
    ol_context *ctx;
    device *dev;
    const model *model;
    const optimizer *opt;
    int max_targets;
    dtype compute;
    int64_t clock;
    step_plan slots[STEP_PLANS_MAX];
};

static void slot_clear(step_plan *s) {
    plan_destroy(s->plan);
    graph_destroy(s->graph);
    *s = (step_plan){0};
}

ol_status step_plans_create(ol_context *ctx, device *dev, const model *m, const optimizer *opt, int max_targets,
                            dtype compute, step_plans **out) {
    step_plans *p = mem_alloc0(ctx, 1, sizeof *p);
    if (!p) return OL_ERROR_MEMORY;
    p->ctx = ctx;
    p->dev = dev;
    p->model = m;
    p->opt = opt;
    p->max_targets = max_targets > 0 ? max_targets : 1;
    p->compute = compute;
    *out = p;
    return OL_OK;
}

/* All but `kept` (NULL: all). Whether there was any. */
static bool drop_others(step_plans *p, const step_plan *kept) {
    bool any = false;
    for (int i = 0; i < STEP_PLANS_MAX; i++) {
        if (&p->slots[i] == kept || !p->slots[i].graph) continue;
        slot_clear(&p->slots[i]);
        any = true;
    }
    return any;
}

bool step_plans_drop(step_plans *p) {
    return drop_others(p, NULL);
}

void step_plans_destroy(step_plans *p) {
    if (!p) return;
    step_plans_drop(p);
    mem_free(p->ctx, p);
}

/* Which parameters get a gradient: those that are not frozen. Biases that change nothing rest where maps are rounded:
 * what rounding leaves of their gradient is above the eps of Adam's rule, which would move them by the whole rate to
 * either side; validation, with averages of values and statistics, sees that. */
static ol_status wanted_of(const step_plans *p, const graph *g, bool **out) {
    bool *wanted = mem_alloc0(p->ctx, g->n_tensors, sizeof *wanted);
    if (!wanted) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].role != ROLE_PARAM) continue;
        const int64_t at = tensor_list_position(&p->model->state, g->tensors[i].name);
        wanted[i] = at >= 0 && !p->model->frozen[at];
        if (p->compute != DTYPE_F32 && wanted[i]) wanted[i] = !graph_ignores_shift(g, (tensor_ref)i);
    }
    *out = wanted;
    return OL_OK;
}

static ol_status derive(const step_plans *p, step_plan *s) {
    tensor_ref from[4], seed[4], *grads = NULL;
    int n = 0;
    bool *wanted = NULL;
    for (int branch = 0; branch < 2; branch++) {
        if (s->refs.boxes[branch] == TENSOR_NONE) continue;
        from[n] = s->refs.boxes[branch];
        seed[n++] = s->refs.boxes_grad[branch];
        from[n] = s->refs.scores[branch];
        seed[n++] = s->refs.scores_grad[branch];
    }
    ol_status status = wanted_of(p, s->graph, &wanted);
    if (status != OL_OK) return status;
    grads = mem_alloc(p->ctx, s->graph->n_tensors, sizeof *grads);
    status = grads ? graph_backward(s->graph, from, seed, n, wanted, grads) : OL_ERROR_MEMORY;
    mem_free(p->ctx, grads);
    mem_free(p->ctx, wanted);
    return status;
}

static ol_status slot_graph(const step_plans *p, step_plan *s, int n, int h, int w) {
    const model_graph_options options = {.mode = MODEL_TRAIN,
                                         .batch = n,
                                         .height = h,
                                         .width = w,
                                         .compute = p->compute,
                                         .image_u8 = true,
                                         .branches = MODEL_BOTH,
                                         .loss = true,
                                         .max_targets = p->max_targets};
    *s = (step_plan){.n = n, .h = h, .w = w};
    ol_status status = graph_create(p->ctx, &s->graph);
    if (status == OL_OK) status = model_build(p->model, s->graph, &options, &s->refs);
    return status == OL_OK ? derive(p, s) : status;
}

/* Plans that are only kept for later give way where memory is short. */
static ol_status slot_place(step_plans *p, step_plan *s) {
    const ol_status status = plan_create(p->ctx, p->dev, s->graph, &s->plan);
    if (status != OL_ERROR_MEMORY || !drop_others(p, s)) return status;
    ctx_clear(p->ctx);
    return plan_create(p->ctx, p->dev, s->graph, &s->plan);
}

static ol_status slot_build(step_plans *p, step_plan *s, int n, int h, int w) {
    ol_status status = slot_graph(p, s, n, h, w);
    if (status == OL_OK) status = slot_place(p, s);
    if (status == OL_OK) status = param_store_bind(p->opt->store, s->graph, s->plan);
    if (status == OL_OK) status = plan_take_step(s->plan, p->opt->step, s->refs.gains, s->refs.loss_items);
    if (status != OL_OK) {
        slot_clear(s);
        ctx_annotate(p->ctx, status, "training graph for %d pictures of %dx%d", n, h, w);
    }
    return status;
}

static step_plan *slot_find(step_plans *p, int n, int h, int w) {
    for (int i = 0; i < STEP_PLANS_MAX; i++) {
        step_plan *s = &p->slots[i];
        if (s->graph && s->n == n && s->h == h && s->w == w) return s;
    }
    return NULL;
}

bool step_plans_has(const step_plans *p, int n, int h, int w) {
    return slot_find((step_plans *)p, n, h, w) != NULL;
}

ol_status step_plans_get(step_plans *p, int n, int h, int w, step_plan **out) {
    step_plan *oldest = &p->slots[0], *found = slot_find(p, n, h, w);
    if (found) {
        found->last_use = ++p->clock;
        *out = found;
        return OL_OK;
    }
    for (int i = 1; i < STEP_PLANS_MAX; i++)
        if (p->slots[i].last_use < oldest->last_use) oldest = &p->slots[i];
    if (oldest->graph) slot_clear(oldest);
    const ol_status status = slot_build(p, oldest, n, h, w);
    if (status != OL_OK) return status;
    oldest->last_use = ++p->clock;
    *out = oldest;
    return OL_OK;
}

ol_status step_plans_measure(const step_plans *p, int n, int h, int w, size_t *bytes) {
    step_plan s;
    ol_status status = slot_graph(p, &s, n, h, w);
    if (status == OL_OK) status = plan_measure(p->ctx, p->dev, s.graph, bytes);
    slot_clear(&s);
    return status;
}
