/* The optimizer step on the GPU: a few launches behind a plan's, whose numbers stand on a board in device memory
 * (kernels/args.h). The host's orders come through the ring, outcomes go back to page-locked memory; neither waits. */
#include "device/gpu/gpu.h"

#include <string.h>

_Static_assert((int)STEP_GROUPS == STEP_MAX_GROUPS && (int)STEP_ITEMS == (int)LOSS_ITEM_COUNT && STEP_BRANCHES == 2,
               "the kernels and the host agree");

typedef struct gpu_step {
    device_step base;
    step_args args; /* but for the plan's tensors */
    unsigned blocks;
    device_buffer *board, *directions; /* directions: of MuSGD, else NULL */
    gpu_muon *muon;
    void *landing; /* outcomes come here: STEP_AHEAD of them in host memory */
    void *landed[STEP_AHEAD];
} gpu_step;

static gpu_pointer address_of(device_buffer *b) {
    return b != NULL ? (gpu_pointer)(uintptr_t)b->dev->api->buffer_address(b) : 0;
}

static gpu_device *gpu_of(const device_step *s) {
    return (gpu_device *)s->dev;
}

gpu_pointer gpu_step_stopped_at(const device_step *s) {
    return ((const gpu_step *)s)->args.board + offsetof(step_board, state.stopped);
}

void gpu_step_destroy(device_step *base) {
    gpu_step *s = (gpu_step *)base;
    gpu_device *g = gpu_of(base);
    device_buffer_destroy(s->board); /* waits for the device */
    device_buffer_destroy(s->directions);
    gpu_muon_destroy(g, s->muon);
    const bool bound = g->driver->call.bind(g->driver, g->index) == 0;
    for (int i = 0; i < STEP_AHEAD; i++)
        if (bound && s->landed[i] != NULL) g->driver->call.event_destroy(g->driver, s->landed[i]);
    if (s->landing != NULL) gpu_host_destroy(base->dev, s->landing);
    mem_free(base->dev->ctx, s);
}

static void range_add(step_board *board, size_t begin, size_t end, int group, unsigned *blocks) {
    if (begin == end) return;
    board->ranges[board->n_ranges++] =
        (board_range){.begin = begin, .end = end, .group = group, .block = (gpu_i32)*blocks};
    *blocks += (unsigned)((end - begin + STEP_SPAN - 1) / STEP_SPAN);
}

/* Every float belongs to one range: groups, and what lies between and behind them. */
static ol_status ranges_write(gpu_step *s, const step_layout *l) {
    step_board *board = mem_alloc0(s->base.dev->ctx, 1, sizeof *board);
    if (board == NULL) return OL_ERROR_MEMORY;
    size_t at = 0;
    for (int i = 0; i < l->n_groups; i++) {
        const step_group *group = &l->groups[i];
        range_add(board, at, group->begin, -1, &s->blocks);
        range_add(board, group->begin, group->end, i, &s->blocks);
        at = group->end;
        if (group->muon) s->args.muon_groups |= 1 << i;
    }
    range_add(board, at, l->n_values, -1, &s->blocks);
    const ol_status status = device_buffer_write(s->board, 0, board, sizeof *board);
    mem_free(s->base.dev->ctx, board);
    return status;
}

static ol_status memory_create(gpu_step *s, const step_layout *l) {
    device *dev = s->base.dev;
    gpu_device *g = (gpu_device *)dev;
    ol_status status = device_buffer_create(dev, sizeof(step_board), &s->board);
    if (status == OL_OK && l->n_matrices > 0)
        status = device_buffer_create(dev, l->n_trained * sizeof(float), &s->directions);
    if (status == OL_OK && l->n_matrices > 0) status = gpu_muon_create(g, l->matrices, l->n_matrices, &s->muon);
    if (status == OL_OK) status = gpu_host_create(dev, STEP_AHEAD * sizeof(board_outcome), &s->landing);
    for (int i = 0; i < STEP_AHEAD && status == OL_OK; i++)
        status = gpu_check(g, g->driver->call.event_create(g->driver, &s->landed[i]), "creating an event");
    return status;
}

ol_status gpu_step_create(device *dev, const step_layout *l, device_step **out) {
    gpu_step *s = mem_alloc0(dev->ctx, 1, sizeof *s);
    if (s == NULL) return OL_ERROR_MEMORY;
    const bool musgd = l->kind == OPTIMIZER_MUSGD;
    s->base.dev = dev;
    ol_status status = memory_create(s, l);
    if (status == OL_OK) {
        s->args = (step_args){.board = address_of(s->board),
                              .values = address_of(l->values),
                              .grads = address_of(l->grads),
                              .ema = address_of(l->ema),
                              .a = address_of(l->states[musgd ? 1 : 0]),
                              .b = address_of(l->states[1]),
                              .m = address_of(l->states[0]),
                              .u = address_of(s->directions),
                              .n_trained = l->n_trained,
                              .kind = (gpu_i32)l->kind,
                              .n_groups = l->n_groups,
                              .gain_at = LOSS_GAIN_IMAGES,
                              .scale_interval = LOSS_SCALE_INTERVAL,
                              .most_skips = LOSS_SCALE_MAX_SKIPS,
                              .clip_norm = (float)l->clip_norm,
                              .scale_growth = (float)LOSS_SCALE_GROWTH,
                              .scale_backoff = (float)LOSS_SCALE_BACKOFF};
        status = ranges_write(s, l);
    }
    if (status != OL_OK) {
        gpu_step_destroy(&s->base);
        return status;
    }
    *out = &s->base;
    return OL_OK;
}

ol_status gpu_step_load(device_step *base, const step_numbers *n) {
    const board_state state = {.scale = n->scaler.scale,
                               .mu_product = n->mu_product,
                               .n_good = n->scaler.n_good,
                               .step = n->step,
                               .ema_updates = n->ema_updates,
                               .n_skipped = n->scaler.n_skipped,
                               .scaled = n->scaler.on,
                               .skips = n->scaler.skips};
    return device_buffer_write(((gpu_step *)base)->board, offsetof(step_board, state), &state, sizeof state);
}

ol_status gpu_step_order(device_step *base, const step_orders *o) {
    board_orders orders = {.beta2 = o->beta2, .images = o->images, .take = o->take};
    memcpy(orders.lr, o->lr, sizeof orders.lr);
    memcpy(orders.momentum, o->momentum, sizeof orders.momentum);
    memcpy(orders.decay, o->weight_decay, sizeof orders.decay);
    return device_buffer_write(((gpu_step *)base)->board, offsetof(step_board, orders), &orders, sizeof orders);
}

static ol_status launch(gpu_step *s, const char *module, const char *name, const step_args *args, unsigned blocks) {
    return gpu_launch_now(gpu_of(&s->base), module, name, args, blocks, 1, 1, "stepping the optimizer");
}

static step_args args_for(const gpu_step *s, const step_places *at) {
    step_args a = s->args;
    for (int branch = 0; branch < STEP_BRANCHES; branch++) {
        a.gains[branch] = (gpu_pointer)(uintptr_t)at->gains[branch];
        a.items[branch] = (gpu_pointer)(uintptr_t)at->items[branch];
    }
    return a;
}

ol_status gpu_step_begin(device_step *base, const step_places *at) {
    gpu_step *s = (gpu_step *)base;
    gpu_device *g = gpu_of(base);
    const step_args a = args_for(s, at);
    const ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    return status == OL_OK ? launch(s, "step", "step_scale", &a, 1) : status;
}

ol_status gpu_step_end(device_step *base, const step_places *at) {
    gpu_step *s = (gpu_step *)base;
    const step_args a = args_for(s, at);
    ol_status status = launch(s, "step", "step_squares", &a, STEP_PARTIALS);
    if (status == OL_OK) status = launch(s, "step", "step_decide", &a, 1);
    if (status == OL_OK && s->muon != NULL) {
        status = launch(s, "optim", "muon_momentum", &a, s->blocks);
        if (status == OL_OK) status = gpu_muon_launch(gpu_of(base), s->muon, a.board, a.u, a.values);
    }
    return status == OL_OK ? launch(s, "optim", "step_update", &a, s->blocks) : status;
}

ol_status gpu_step_collect(device_step *base) {
    gpu_step *s = (gpu_step *)base;
    gpu_device *g = gpu_of(base);
    const unsigned slot = base->n_run % STEP_AHEAD;
    const gpu_pointer from = s->args.board + offsetof(step_board, outcome);
    ol_status status = gpu_check(
        g,
        g->driver->call.to_host(g->driver, (board_outcome *)s->landing + slot, from, sizeof(board_outcome), g->stream),
        "copying from the device");
    if (status == OL_OK)
        status =
            gpu_check(g, g->driver->call.event_record(g->driver, s->landed[slot], g->stream), "recording an event");
    return status;
}

ol_status gpu_step_outcome(device_step *base, step_outcome *out) {
    gpu_step *s = (gpu_step *)base;
    gpu_device *g = gpu_of(base);
    const unsigned slot = base->n_read % STEP_AHEAD;
    ol_status status = gpu_check(g, g->driver->call.bind(g->driver, g->index), "selecting the device");
    if (status == OL_OK)
        status = gpu_check(g, g->driver->call.event_wait(g->driver, s->landed[slot]), "waiting for the device");
    if (status != OL_OK) return status;
    const board_outcome *o = (const board_outcome *)s->landing + slot;
    *out = (step_outcome){.norm = o->norm,
                          .scale = o->scale,
                          .skipped = o->skipped != 0,
                          .stopped = o->state.stopped != 0,
                          .numbers = {.scaler = {.on = o->state.scaled != 0,
                                                 .skips = o->state.skips != 0,
                                                 .scale = o->state.scale,
                                                 .n_good = o->state.n_good,
                                                 .n_skipped = o->state.n_skipped},
                                      .step = o->state.step,
                                      .ema_updates = o->state.ema_updates,
                                      .mu_product = o->state.mu_product}};
    memcpy(out->items, o->items, sizeof out->items);
    return OL_OK;
}
