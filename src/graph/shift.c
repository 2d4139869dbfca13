/* Parameters that add a constant to each channel of a map where everything behind takes constants out again. */
#include "graph/graph.h"

/* What becomes of a constant in an op's input: it matters, it goes on into output 0 as a constant, or it is gone. */
typedef enum shift_fate { SHIFT_MATTERS, SHIFT_PASSES, SHIFT_VANISHES } shift_fate;

static const shift_fate fates[OP_KIND_COUNT] = {
    [OP_ADD] = SHIFT_PASSES,          [OP_CONCAT] = SHIFT_PASSES,   [OP_SLICE] = SHIFT_PASSES,
    [OP_UPSAMPLE2] = SHIFT_PASSES,    [OP_MAX_POOL] = SHIFT_PASSES, [OP_CONV2D] = SHIFT_PASSES,
    [OP_DETACH] = SHIFT_VANISHES, /* no gradient comes back */
    [OP_BATCH_NORM] = SHIFT_VANISHES,
};

static shift_fate fate_of(const graph_op *op, int input) {
    const op_attr *a = &op->attr;
    if (op->kind == OP_CONV2D && (input != 0 || a->pad[0] != 0 || a->pad[1] != 0 || a->act != ACT_NONE))
        return SHIFT_MATTERS; /* at a padded border the constant ends */
    if (op->kind == OP_BATCH_NORM && (input != 0 || a->frozen)) return SHIFT_MATTERS;
    return fates[op->kind];
}

static bool shift_vanishes(const graph *g, tensor_ref t) {
    const graph_tensor *tensor = &g->tensors[t];
    if (tensor->role != ROLE_TEMP) return false;
    for (size_t i = (size_t)tensor->producer + 1; i < g->n_ops; i++) {
        for (int k = 0; k < g->ops[i].n_in; k++) {
            if (g->ops[i].in[k] != t) continue;
            const shift_fate fate = fate_of(&g->ops[i], k);
            if (fate == SHIFT_MATTERS || (fate == SHIFT_PASSES && !shift_vanishes(g, g->ops[i].out[0]))) return false;
        }
    }
    return true;
}

bool graph_ignores_shift(const graph *g, tensor_ref param) {
    int n_uses = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        const graph_op *op = &g->ops[i];
        for (int k = 0; k < op->n_in; k++) {
            if (op->in[k] != param) continue;
            const bool adds = k == 2 && (op->kind == OP_BATCH_NORM || op->kind == OP_CONV2D);
            if (!adds || op->attr.act != ACT_NONE || !shift_vanishes(g, op->out[0])) return false;
            n_uses++;
        }
    }
    return n_uses > 0;
}
