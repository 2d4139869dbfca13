/* The tree of modules of a model. State-dict names, shapes and order, the graph, the leaf count and what a .pt writer
 * has to say about every module all come from this one tree. Owned by the model's arena; read-only once built but for
 * `frozen`. */
#ifndef MODEL_MODULE_H
#define MODEL_MODULE_H

#include "graph/graph.h"
#include "model/arguments.h"
#include "tensor/tensor_list.h"

typedef enum module_type {
    MODULE_CONV2D, /* leaves first */
    MODULE_BATCH_NORM,
    MODULE_SILU,
    MODULE_IDENTITY,
    MODULE_MAX_POOL,
    MODULE_UPSAMPLE,
    MODULE_CONCAT,
    MODULE_SEQUENTIAL,
    MODULE_LIST,
    MODULE_CONV,
    MODULE_DWCONV,
    MODULE_BOTTLENECK,
    MODULE_C3K,
    MODULE_C3K2,
    MODULE_SPPF,
    MODULE_ATTENTION,
    MODULE_PSA_BLOCK,
    MODULE_C2PSA,
    MODULE_DETECT,
    MODULE_TYPE_COUNT
} module_type;

typedef struct module module;
typedef struct builder builder; /* src/model/builder.h */

/* A row of the module table: how a layer's yaml arguments are read and how the module runs. */
typedef struct module_kind {
    module_type type;
    const char *yaml_name; /* "C3k2"; NULL when it cannot be a layer */
    const char *global;    /* "ultralytics.nn.modules.block.C3k2": the layer table and .pt files name it so */
    bool takes_channels;   /* first yaml argument is an unscaled channel count */
    bool inner_repeats;    /* the repeat count becomes an argument instead of a row of modules */
    argument_row arguments[LAYER_MAX_ARGUMENTS]; /* of the resolved list: input channels first */
    tensor_ref (*forward)(builder *b, const module *m, const tensor_ref *in, int n_in);
} module_kind;

const module_kind *module_kind_of(module_type type);
/* NULL when there is no such layer. */
const module_kind *module_kind_find(const char *yaml_name);

struct module {
    const module_kind *kind;
    const char *name; /* within its parent: "cv1", "0" */
    const char *path; /* "model.2.m.0.cv1" */
    module **children;
    int n_children, child_capacity;
    int c1, c2;                   /* channels in and out */
    int kernel, stride, groups;   /* Conv, Conv2d, MaxPool2d; padding is kernel / 2, dilation 1 */
    bool act;                     /* Conv: SiLU or nothing */
    bool bias;                    /* Conv2d */
    bool add;                     /* Bottleneck, PSABlock, SPPF: the input is added */
    int n;                        /* inner repeats; poolings of SPPF */
    int hidden;                   /* the reference's c / c_ */
    int heads, head_dim, key_dim; /* Attention */
    bool frozen;                  /* BatchNorm2d: keeps its statistics in training */
    int share;                    /* SiLU: leaves of equal number are one object in the reference */
    int nc, n_levels;             /* Detect */
    bool end2end;
    int level_channels[OP_MAX_LEVELS], level_stride[OP_MAX_LEVELS];
    int box_width, class_width;
};

/* NULL when absent. */
module *module_child(const module *m, const char *name);

/* Builds the tree of a description; the root is the Sequential "model", one child a layer. */
ol_status module_tree_build(arena *a, const model_desc *desc, module **root);

/* Calls `visit` for every module, parents first, children in registration (state-dict) order; stops at the first
 * failure. */
typedef ol_status (*module_visit_fn)(void *user, module *m);
ol_status module_walk(module *root, module_visit_fn visit, void *user);

/* Trainable numbers of the tree. */
int64_t module_parameters(const module *m);
/* Appends the state-dict entries of the tree (cleared) in the reference's order. */
ol_status module_state(module *root, tensor_list *state);
/* Folds batch norms: see model_fold in model.h. */
ol_status module_fold(module *root, const tensor_list *state, tensor_list *folded);

#endif
