#include "device/plan_memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct planner {
    ol_context *ctx;
    device *dev;
    const graph *g;
    placement *at;
    bool *op_is_view;
} planner;

/* Channels of a map; tensors of other ranks count as one indivisible channel. */
static int64_t channels_of(const planner *p, tensor_ref t) {
    const shape *s = graph_shape(p->g, t);
    return s->rank == 4 ? s->dim[1] : 1;
}

static void lifetimes_find(planner *p) {
    const graph *g = p->g;
    for (size_t t = 0; t < g->n_tensors; t++) {
        const graph_tensor *tensor = &g->tensors[t];
        const tensor_role role = tensor->role;
        p->at[t] = (placement){.root = (tensor_ref)t, .next = TENSOR_NONE, .over = TENSOR_NONE};
        p->at[t].bound = role == ROLE_PARAM || role == ROLE_BUFFER || role == ROLE_GRAD;
        p->at[t].block = p->dev->api->block(p->dev, g, (tensor_ref)t);
        p->at[t].element = p->dev->api->element != NULL ? p->dev->api->element(p->dev, g, (tensor_ref)t) : tensor->type;
        p->at[t].defined = tensor->producer;
        p->at[t].last = role == ROLE_INPUT || role == ROLE_OUTPUT ? (int32_t)g->n_ops : tensor->producer;
    }
    for (size_t i = 0; i < g->n_ops; i++) {
        for (int k = 0; k < g->ops[i].n_in; k++) {
            const tensor_ref t = g->ops[i].in[k];
            if (t != TENSOR_NONE && p->at[t].last < (int32_t)i) p->at[t].last = (int32_t)i;
        }
    }
}

/* Does op `k`, which makes `t`, write the channels that `u` (of the same root) occupies? A view op writes nothing; a
 * concatenation only the inputs that are not in place yet. */
static bool op_writes(const planner *p, tensor_ref t, tensor_ref u) {
    const int64_t begin = p->at[u].begin, end = begin + channels_of(p, u);
    const graph_op *op = &p->g->ops[p->at[t].defined];
    if (op->kind == OP_SLICE || op->kind == OP_DETACH) {
        if (p->at[op->in[0]].root == p->at[t].root) return false;
    } else if (op->kind == OP_CONCAT) {
        int64_t from = p->at[t].begin;
        for (int i = 0; i < op->n_in; i++) {
            const int64_t size = channels_of(p, op->in[i]);
            const bool placed = p->at[op->in[i]].root == p->at[t].root && p->at[op->in[i]].begin == from;
            if (!placed && begin < from + size && from < end) return true;
            from += size;
        }
        return false;
    }
    return begin < p->at[t].begin + channels_of(p, t) && p->at[t].begin < end;
}

/* No op may write what another tensor of the same storage still needs. */
static bool storage_valid(const planner *p, tensor_ref root) {
    const placement *at = p->at;
    for (tensor_ref t = root; t != TENSOR_NONE; t = at[t].next) {
        if (!p->dev->api->view(p->dev, at[t].block, channels_of(p, root), at[t].begin, channels_of(p, t))) return false;
        if (at[t].defined < 0) continue;
        for (tensor_ref u = root; u != TENSOR_NONE; u = at[u].next) {
            if (u == t || at[u].defined > at[t].defined || at[u].last < at[t].defined) continue;
            if (at[t].over == u && at[u].last == at[t].defined && at[u].begin == at[t].begin) continue;
            if (op_writes(p, t, u)) return false;
        }
    }
    return true;
}

static bool may_share(const planner *p, tensor_ref a, tensor_ref b) {
    const graph_tensor *ta = &p->g->tensors[a], *tb = &p->g->tensors[b];
    if (p->at[a].bound || p->at[b].bound || p->at[a].element != p->at[b].element || p->at[a].block != p->at[b].block)
        return false;
    if (ta->shape.rank != 4 || tb->shape.rank != 4) return shape_equal(&ta->shape, &tb->shape);
    return ta->shape.dim[0] == tb->shape.dim[0] && ta->shape.dim[2] == tb->shape.dim[2] &&
           ta->shape.dim[3] == tb->shape.dim[3];
}

/* Makes the whole storage of `child` part of that of `into`, so that child's channel 0 lies at channel `begin` of
 * `into`. Undone when that is impossible. */
static bool storage_merge(planner *p, tensor_ref child, tensor_ref into, int64_t begin) {
    placement *at = p->at;
    const tensor_ref from = at[child].root, to = at[into].root;
    const int64_t shift = at[into].begin + begin - at[child].begin;
    if (from == to) return shift == 0;
    if (!may_share(p, from, to) || p->g->tensors[from].role == ROLE_INPUT) return false;
    if (shift < 0 || shift + channels_of(p, from) > channels_of(p, to)) return false;
    tensor_ref tail = to;
    while (at[tail].next != TENSOR_NONE) tail = at[tail].next;
    at[tail].next = from;
    for (tensor_ref t = from; t != TENSOR_NONE; t = at[t].next) {
        at[t].root = to;
        at[t].begin += shift;
    }
    if (storage_valid(p, to)) return true;
    at[tail].next = TENSOR_NONE;
    for (tensor_ref t = from; t != TENSOR_NONE; t = at[t].next) {
        at[t].root = from;
        at[t].begin -= shift;
    }
    return false;
}

/* A concatenation whose inputs already lie side by side is a view of where they are; else each input is moved into the
 * output's storage where possible. */
static void concat_place(planner *p, const graph_op *op, size_t index) {
    placement *at = p->at;
    const tensor_ref root = at[op->in[0]].root;
    int64_t next = at[op->in[0]].begin;
    bool side_by_side = true;
    for (int i = 0; i < op->n_in; i++) {
        side_by_side = side_by_side && at[op->in[i]].root == root && at[op->in[i]].begin == next;
        next += channels_of(p, op->in[i]);
    }
    if (side_by_side && storage_merge(p, op->out[0], op->in[0], 0)) {
        p->op_is_view[index] = true;
        return;
    }
    int64_t begin = 0;
    bool all = true;
    for (int i = 0; i < op->n_in; i++) {
        all = storage_merge(p, op->in[i], op->out[0], begin) && all;
        begin += channels_of(p, op->in[i]);
    }
    p->op_is_view[index] = all;
}

static void in_place_try(planner *p, const graph_op *op) {
    for (int o = 0; o < op->n_out; o++) {
        const tensor_ref out = op->out[o];
        for (int i = 0; i < op->n_in; i++) {
            const tensor_ref in = op->in[i];
            if (in == TENSOR_NONE || !p->dev->api->in_place(p->dev, op->kind, i, o)) continue;
            if (!shape_equal(graph_shape(p->g, in), graph_shape(p->g, out)) || p->at[in].bound) continue;
            p->at[out].over = in;
            if (storage_merge(p, out, in, 0)) break;
            p->at[out].over = TENSOR_NONE;
        }
    }
}

static void views_find(planner *p) {
    for (size_t i = 0; i < p->g->n_ops; i++) {
        const graph_op *op = &p->g->ops[i];
        if (op->kind == OP_CONCAT)
            concat_place(p, op, i);
        else if (op->kind == OP_DETACH || (op->kind == OP_SLICE && op->attr.groups == 1))
            p->op_is_view[i] = storage_merge(p, op->out[0], op->in[0], op->kind == OP_SLICE ? op->attr.begin : 0);
        else
            in_place_try(p, op);
    }
}

/* The block in memory: for channels-last maps the padded channels of the root. */
static int block_of(const planner *p, tensor_ref t) {
    if (p->at[t].block != BLOCK_CHANNELS_LAST) return p->at[t].block;
    return (int)((channels_of(p, p->at[t].root) + 7) / 8 * 8);
}

typedef struct storage {
    tensor_ref root;
    int32_t defined, last;
    size_t bytes, offset;
} storage;

/* Largest first; equal ones in order of definition, so that plans are the same every time. */
static int storage_order(const void *a, const void *b) {
    const storage *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->root < y->root ? -1 : x->root > y->root;
}

static int offset_order(const void *a, const void *b) {
    const storage *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset) return (*x)->offset < (*y)->offset ? -1 : 1;
    return (*x)->root < (*y)->root ? -1 : (*x)->root > (*y)->root;
}

/* Gives each storage the smallest gap between those that are alive at the same time and placed already. */
static size_t offsets_assign(storage *all, size_t n, storage **live) {
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_live = 0, end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
        for (size_t k = 0; k < i; k++)
            if (all[k].defined <= all[i].last && all[i].defined <= all[k].last) live[n_live++] = &all[k];
        qsort(live, n_live, sizeof(storage *), offset_order);
        for (size_t k = 0; k < n_live; k++) {
            const size_t gap = live[k]->offset > end ? live[k]->offset - end : 0;
            if (gap >= all[i].bytes && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
            if (live[k]->offset + live[k]->bytes > end) end = live[k]->offset + live[k]->bytes;
        }
        all[i].offset = best != SIZE_MAX ? best : end;
        if (all[i].offset + all[i].bytes > total) total = all[i].offset + all[i].bytes;
    }
    return total;
}

static storage storage_of(const planner *p, tensor_ref root) {
    const graph_tensor *t = &p->g->tensors[root];
    const int64_t images = t->shape.rank == 4 ? t->shape.dim[0] : 1;
    const int64_t elements = images * layout_image_elements(&t->shape, block_of(p, root));
    size_t bytes = (size_t)elements * dtype_bytes(p->at[root].element);
    const size_t private_bytes =
        p->dev->api->private_bytes != NULL ? p->dev->api->private_bytes(p->dev, p->g, root) : 0;
    if (private_bytes > 0) bytes = private_bytes;
    storage s = {.root = root, .defined = INT32_MAX, .last = -1};
    s.bytes = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    for (tensor_ref m = root; m != TENSOR_NONE; m = p->at[m].next) {
        if (p->at[m].defined < s.defined) s.defined = p->at[m].defined;
        if (p->at[m].last > s.last) s.last = p->at[m].last;
    }
    return s;
}

static void members_place(planner *p, const storage *s) {
    const shape *shape = graph_shape(p->g, s->root);
    const size_t element = dtype_bytes(p->at[s->root].element);
    const int64_t plane = shape->rank == 4 ? shape->dim[2] * shape->dim[3] : 0;
    for (tensor_ref t = s->root; t != TENSOR_NONE; t = p->at[t].next) {
        const int block = block_of(p, t);
        p->at[t].block = block;
        const int64_t skip = p->at[t].begin / block * plane * block + p->at[t].begin % block;
        p->at[t].offset_bytes = s->offset + (size_t)skip * element;
        p->at[t].batch_stride = layout_image_elements(shape, block);
    }
}

static ol_status arena_lay_out(planner *p, size_t *arena_bytes) {
    const graph *g = p->g;
    storage *all = mem_alloc(p->ctx, g->n_tensors, sizeof *all);
    storage **live = mem_alloc(p->ctx, g->n_tensors, sizeof(storage *));
    ol_status status = OL_ERROR_MEMORY;
    if (all == NULL || live == NULL) goto fail;
    size_t n = 0;
    for (size_t t = 0; t < g->n_tensors; t++) {
        if (p->at[t].bound) p->at[t].batch_stride = layout_image_elements(&g->tensors[t].shape, p->at[t].block);
        if (p->at[t].root == (tensor_ref)t && !p->at[t].bound) all[n++] = storage_of(p, (tensor_ref)t);
    }
    qsort(all, n, sizeof *all, storage_order);
    *arena_bytes = offsets_assign(all, n, live);
    for (size_t i = 0; i < n; i++) members_place(p, &all[i]);
    status = OL_OK;
fail:
    mem_free(p->ctx, live);
    mem_free(p->ctx, all);
    return status;
}

ol_status memory_map_create(ol_context *ctx, device *dev, const graph *g, memory_map *out) {
    planner p = {.ctx = ctx, .dev = dev, .g = g};
    size_t arena_bytes = 0;
    p.at = mem_alloc0(ctx, g->n_tensors, sizeof *p.at);
    p.op_is_view = mem_alloc0(ctx, g->n_ops, sizeof *p.op_is_view);
    if (p.at == NULL || p.op_is_view == NULL) goto fail;
    lifetimes_find(&p);
    views_find(&p);
    if (arena_lay_out(&p, &arena_bytes) != OL_OK) goto fail;
    *out = (memory_map){p.at, p.op_is_view, arena_bytes};
    return OL_OK;
fail:
    mem_free(ctx, p.op_is_view);
    mem_free(ctx, p.at);
    return OL_ERROR_MEMORY;
}

void memory_map_destroy(ol_context *ctx, memory_map *m) {
    mem_free(ctx, m->op_is_view);
    mem_free(ctx, m->tensors);
    *m = (memory_map){0};
}
