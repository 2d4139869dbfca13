/* Adding ops while a module tree is walked: keeps the first failure so that forward functions read as formulas. Used
 * inside the model room only; one thread. */
#ifndef MODEL_BUILDER_H
#define MODEL_BUILDER_H

#include "model/build.h"

struct builder {
    graph *g;
    model_mode mode;
    ol_status status; /* of the first failure; later calls do nothing and give TENSOR_NONE */
};

/* First output of a new op; its name is the path of `m`. */
tensor_ref builder_op(builder *b, const module *m, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in);
/* A bound tensor "<path of m><suffix>". */
tensor_ref builder_bound(builder *b, const module *m, const char *suffix, tensor_role role, shape s);
tensor_ref builder_concat(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref builder_add(builder *b, const module *m, tensor_ref x, tensor_ref y);
/* Channels [begin, begin+size) of each of `groups` equal groups. */
tensor_ref builder_slice(builder *b, const module *m, tensor_ref x, int groups, int begin, int size);

#endif
