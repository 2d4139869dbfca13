/* The two tables behind ops.def: shape rules (used by graph_op_add) and backward rules (used by graph_backward).
 * Internal to the graph room. */
#ifndef GRAPH_RULES_H
#define GRAPH_RULES_H

#include "graph/graph.h"

/* What a shape rule reads and fills. `in[i]` is NULL where TENSOR_NONE was given. */
typedef struct shape_query {
    const op_attr *attr;
    int n_in;
    const shape *in[OP_MAX_INPUTS];
    dtype in_type[OP_MAX_INPUTS];
    shape out[OP_MAX_OUTPUTS];
    dtype out_type[OP_MAX_OUTPUTS]; /* f32 unless the rule says otherwise */
} shape_query;

/* Returns NULL, or what is wrong with the inputs. */
typedef const char *(*shape_rule)(shape_query *q);
shape_rule shape_rule_of(op_kind kind);

/* Multiply-adds * 2 of one op. */
double op_flops(const graph *g, const graph_op *op);

#endif
