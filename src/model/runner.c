#include "model/runner.h"

#include <string.h>

#define DEFAULT_PLANS   8
#define KEPT_PLAN_BYTES ((size_t)384 << 20) /* beyond it the least recently used plans go before a new one is made */
#define WEIGHT_ALIGN    ((size_t)64)

typedef struct cached_plan {
    int n, h, w, max_targets;
    uint64_t last_use;
    graph *g;
    plan *p;
    model_graph_refs refs;
} cached_plan;

typedef struct host_block {
    float *data;
    size_t elements;
} host_block;

struct runner {
    ol_context *ctx;
    device *dev;
    const model *m;
    runner_options options;
    int branch, loss_branch; /* 0 one-to-many, 1 one-to-one */
    tensor_list slots;       /* byte offset in `weights` of every folded tensor, by name: i64 scalars */
    device_buffer *weights;
    cached_plan *plans;
    int n_plans;
    uint64_t clock;
    const cached_plan *last; /* of the last run; NULL: none */
    host_block decoded, boxes, scores, targets;
};

static void cached_plan_deinit(cached_plan *c) {
    plan_destroy(c->p);
    graph_destroy(c->g);
}

static int64_t slot_offset(const tensor_list *slots, const char *name) {
    const tensor *slot = tensor_list_find(slots, name);
    return slot != NULL ? *(const int64_t *)slot->data : -1;
}

static size_t weight_bytes(const tensor *t) {
    return (size_t)shape_elements(&t->shape) * sizeof(float);
}

/* Gives every folded tensor its place, each on a cache line of its own. */
static ol_status slots_assign(runner *r, const tensor_list *folded, size_t *total) {
    *total = 0;
    for (size_t i = 0; i < folded->count; i++) {
        tensor *slot;
        const ol_status status =
            tensor_list_add(&r->slots, folded->items[i].name, DTYPE_I64, (shape){.rank = 0}, &slot);
        if (status != OL_OK) return status;
        *(int64_t *)slot->data = (int64_t)*total;
        *total += (weight_bytes(&folded->items[i].t) + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN;
    }
    return OL_OK;
}

/* Folds `state` and hands it to the device; the host's copy goes again. */
static ol_status weights_upload(runner *r, const tensor_list *state) {
    tensor_list folded;
    tensor_list_init(&folded, r->ctx);
    ol_status status = model_fold(r->m, state, &folded);
    if (status == OL_OK && r->weights == NULL) {
        size_t total = 0;
        status = slots_assign(r, &folded, &total);
        if (status == OL_OK) status = device_buffer_create(r->dev, total, &r->weights);
    }
    for (size_t i = 0; i < folded.count && status == OL_OK; i++) {
        const named_tensor *item = &folded.items[i];
        const size_t offset = (size_t)slot_offset(&r->slots, item->name);
        status = device_buffer_write(r->weights, offset, item->t.data, weight_bytes(&item->t));
    }
    tensor_list_deinit(&folded);
    for (int i = 0; i < r->n_plans; i++) plan_params_changed(r->plans[i].p);
    return status;
}

static void choose_branches(runner *r) {
    const model *m = r->m;
    r->branch = r->options.decode == MODEL_ONE2ONE ? 1 : 0;
    if (r->branch == 1 && !m->has_one2one) {
        ctx_log(r->ctx, OL_LOG_WARNING, "%s has no one-to-one head: the one-to-many head and NMS are used instead",
                m->desc.source);
        r->branch = 0;
    } else if (r->branch == 0 && !m->has_one2many) {
        ctx_log(r->ctx, OL_LOG_WARNING, "%s has no one-to-many head: the one-to-one head (nms=False) is used instead",
                m->desc.source);
        r->branch = 1;
    }
    r->loss_branch = m->has_one2one ? 1 : 0;
}

ol_status runner_create(ol_context *ctx, device *dev, const model *m, const runner_options *options, runner **out) {
    runner *r = mem_alloc0(ctx, 1, sizeof *r);
    if (r == NULL) return OL_ERROR_MEMORY;
    r->ctx = ctx;
    r->dev = dev;
    r->m = m;
    if (options != NULL) r->options = *options;
    if (r->options.max_plans < 1) r->options.max_plans = DEFAULT_PLANS;
    tensor_list_init(&r->slots, ctx);
    choose_branches(r);
    ol_status status = OL_ERROR_MEMORY;
    r->plans = mem_alloc0(ctx, (size_t)r->options.max_plans, sizeof *r->plans);
    if (r->plans == NULL) goto fail;
    status = weights_upload(r, &m->state);
    if (status != OL_OK) goto fail;
    *out = r;
    return OL_OK;
fail:
    runner_destroy(r);
    return status;
}

void runner_destroy(runner *r) {
    if (r == NULL) return;
    ol_context *ctx = r->ctx;
    for (int i = 0; r->plans != NULL && i < r->n_plans; i++) cached_plan_deinit(&r->plans[i]);
    if (r->weights != NULL) device_buffer_destroy(r->weights);
    mem_free_aligned(ctx, r->decoded.data);
    mem_free_aligned(ctx, r->boxes.data);
    mem_free_aligned(ctx, r->scores.data);
    mem_free_aligned(ctx, r->targets.data);
    mem_free(ctx, r->plans);
    tensor_list_deinit(&r->slots);
    mem_free(ctx, r);
}

ol_status runner_set_weights(runner *r, const tensor_list *state) {
    return weights_upload(r, state);
}

static void evict_oldest(runner *r) {
    int oldest = 0;
    for (int i = 1; i < r->n_plans; i++) {
        if (r->plans[i].last_use < r->plans[oldest].last_use) oldest = i;
    }
    cached_plan_deinit(&r->plans[oldest]);
    r->plans[oldest] = r->plans[--r->n_plans];
}

static void make_room(runner *r, size_t most) {
    for (;;) {
        size_t bytes = 0;
        for (int i = 0; i < r->n_plans; i++) bytes += plan_memory_bytes(r->plans[i].p);
        if (r->n_plans == 0 || (r->n_plans < r->options.max_plans && bytes <= most)) return;
        evict_oldest(r);
    }
}

/* Plans that are only kept for later give way where memory is short. */
static ol_status plan_place(runner *r, cached_plan *c) {
    const ol_status status = plan_create(r->ctx, r->dev, c->g, &c->p);
    if (status != OL_ERROR_MEMORY || r->n_plans == 0) return status;
    ctx_clear(r->ctx);
    make_room(r, 0);
    return plan_create(r->ctx, r->dev, c->g, &c->p);
}

bool runner_drop_plans(runner *r) {
    const bool any = r->n_plans > 0;
    r->last = NULL;
    make_room(r, 0);
    return any;
}

static ol_status bind_weights(runner *r, cached_plan *c) {
    for (size_t i = 0; i < c->g->n_tensors; i++) {
        const graph_tensor *t = &c->g->tensors[i];
        if (t->role != ROLE_PARAM) continue;
        const int64_t offset = slot_offset(&r->slots, t->name);
        if (offset < 0) return ctx_fail(r->ctx, OL_ERROR_INTERNAL, "no folded weights for '%s'", t->name);
        const ol_status status = plan_bind(c->p, (tensor_ref)i, r->weights, (size_t)offset);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static ol_status plan_for(runner *r, int n, int h, int w, int max_targets, cached_plan **out) {
    for (int i = 0; i < r->n_plans; i++) {
        cached_plan *c = &r->plans[i];
        if (c->n != n || c->h != h || c->w != w || c->max_targets != max_targets) continue;
        c->last_use = ++r->clock;
        *out = c;
        return OL_OK;
    }
    r->last = NULL;
    make_room(r, KEPT_PLAN_BYTES);
    cached_plan c = {.n = n, .h = h, .w = w, .max_targets = max_targets, .last_use = ++r->clock};
    const model_graph_options options = {
        .mode = MODEL_EVAL,
        .batch = n,
        .height = h,
        .width = w,
        .compute = r->options.compute,
        .image_u8 = true,
        .branches = r->branch == 0 ? MODEL_ONE2MANY : MODEL_ONE2ONE,
        .decode = true,
        .loss = r->options.loss,
        .loss_branches = r->loss_branch == 0 ? MODEL_ONE2MANY : MODEL_ONE2ONE,
        .max_targets = max_targets,
    };
    ol_status status = graph_create(r->ctx, &c.g);
    if (status == OL_OK) status = model_build(r->m, c.g, &options, &c.refs);
    if (status == OL_OK) status = plan_place(r, &c);
    if (status == OL_OK) status = bind_weights(r, &c);
    if (status != OL_OK) {
        cached_plan_deinit(&c);
        return status;
    }
    r->plans[r->n_plans] = c;
    *out = &r->plans[r->n_plans++];
    return OL_OK;
}

static ol_status block_reserve(runner *r, host_block *b, size_t elements) {
    if (elements <= b->elements) return OL_OK;
    float *data = mem_alloc_aligned(r->ctx, elements, sizeof *data);
    if (data == NULL) return OL_ERROR_MEMORY;
    mem_free_aligned(r->ctx, b->data);
    *b = (host_block){data, elements};
    return OL_OK;
}

static ol_status read_output(runner *r, cached_plan *c, tensor_ref t, host_block *b) {
    const size_t elements = (size_t)shape_elements(graph_shape(c->g, t));
    const ol_status status = block_reserve(r, b, elements);
    return status == OL_OK ? plan_read(c->p, t, b->data, elements * sizeof(float)) : status;
}

/* Room for targets grows in powers of two, so that batches of similar content share a plan. */
static int target_room(const runner_targets *targets) {
    int room = 16;
    while (room < targets->max_targets) room *= 2;
    return room;
}

static ol_status write_targets(runner *r, cached_plan *c, const runner_targets *targets) {
    const size_t row = 5 * (size_t)targets->max_targets, wide = 5 * (size_t)c->max_targets, n = (size_t)c->n;
    ol_status status = block_reserve(r, &r->targets, n * wide);
    if (status != OL_OK) return status;
    memset(r->targets.data, 0, n * wide * sizeof(float));
    for (size_t i = 0; i < n && row > 0; i++) {
        memcpy(r->targets.data + i * wide, targets->rows + i * row, row * sizeof(float));
    }
    status = plan_write(c->p, c->refs.targets, r->targets.data, n * wide * sizeof(float));
    if (status == OL_OK) status = plan_write(c->p, c->refs.target_count, targets->count, n * sizeof(int32_t));
    if (status == OL_OK) {
        const size_t n_gains = 5 + (size_t)r->m->desc.nc;
        status = plan_write(c->p, c->refs.gains[r->loss_branch], targets->gains, n_gains * sizeof(float));
    }
    return status;
}

static ol_status write_images(runner *r, const cached_plan *c, const uint8_t *images, const picture_batch *pictures) {
    if (pictures == NULL)
        return plan_write(c->p, c->refs.image, images, (size_t)shape_elements(graph_shape(c->g, c->refs.image)));
    device_buffer *buffer;
    size_t offset;
    const ol_status status = plan_locate(c->p, c->refs.image, &buffer, &offset);
    return status == OL_OK ? device_make_pictures(r->dev, pictures, NULL, buffer, offset) : status;
}

/* From `images`, or from `pictures` where they are given. */
static ol_status run(runner *r, const uint8_t *images, const picture_batch *pictures, int n, int h, int w,
                     const runner_targets *targets, runner_result *out) {
    cached_plan *c;
    const bool loss = r->options.loss;
    if (loss && targets == NULL) return ctx_fail(r->ctx, OL_ERROR_INTERNAL, "losses need targets");
    ol_status status = plan_for(r, n, h, w, loss ? target_room(targets) : 0, &c);
    if (status != OL_OK) return status;
    const int k = r->branch;
    status = write_images(r, c, images, pictures);
    if (status == OL_OK && loss) status = write_targets(r, c, targets);
    if (status == OL_OK) status = plan_run(c->p);
    if (status == OL_OK && r->options.decoded) status = read_output(r, c, c->refs.decoded[k], &r->decoded);
    if (status == OL_OK && r->options.raw) status = read_output(r, c, c->refs.boxes[k], &r->boxes);
    if (status == OL_OK && r->options.raw) status = read_output(r, c, c->refs.scores[k], &r->scores);
    runner_result result = {.n = n,
                            .rows = 4 + r->m->desc.nc,
                            .anchors = c->refs.anchors,
                            .branch = k == 0 ? MODEL_ONE2MANY : MODEL_ONE2ONE,
                            .decoded = r->options.decoded ? r->decoded.data : NULL,
                            .boxes = r->options.raw ? r->boxes.data : NULL,
                            .scores = r->options.raw ? r->scores.data : NULL};
    if (status == OL_OK && loss) {
        status = plan_read(c->p, c->refs.loss_items[r->loss_branch], result.loss_items, sizeof result.loss_items);
    }
    r->last = status == OL_OK ? c : NULL;
    if (status == OL_OK) *out = result;
    return status;
}

ol_status runner_run(runner *r, const uint8_t *images, int n, int h, int w, const runner_targets *targets,
                     runner_result *out) {
    return run(r, images, NULL, n, h, w, targets, out);
}

bool runner_scales_pictures(const runner *r) {
    return device_makes_pictures(r->dev);
}

ol_status runner_run_pictures(runner *r, const picture_batch *pictures, runner_result *out) {
    return run(r, NULL, pictures, pictures->n, pictures->h, pictures->w, NULL, out);
}

ol_status runner_host_create(runner *r, size_t bytes, void **out) {
    return device_host_create(r->dev, bytes, out);
}

void runner_host_destroy(runner *r, void *memory) {
    device_host_destroy(r->dev, memory);
}

ol_status runner_select(runner *r, const nms_options *options, detection_list *rows) {
    const cached_plan *c = r->last;
    if (c == NULL) return ctx_fail(r->ctx, OL_ERROR_INTERNAL, "rows are asked for before a run");
    device_buffer *buffer;
    size_t offset;
    const ol_status status = plan_locate(c->p, c->refs.decoded[r->branch], &buffer, &offset);
    if (status != OL_OK) return status;
    const decoded_batch batch = {.at = flat_at(buffer, offset / sizeof(float)),
                                 .n = c->n,
                                 .nc = r->m->desc.nc,
                                 .anchors = c->refs.anchors,
                                 .corners = r->branch == 1};
    return device_select(r->dev, &batch, options, rows);
}
