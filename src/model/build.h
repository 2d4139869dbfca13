/* Graphs of a model: training form and evaluation form. Owns neither model nor graph; the graph borrows tensor names
 * from the model, which must outlive it. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "model/model.h"

typedef enum model_mode { MODEL_TRAIN, MODEL_EVAL } model_mode;
typedef enum model_branch { MODEL_ONE2MANY = 1, MODEL_ONE2ONE = 2, MODEL_BOTH = 3 } model_branch;

typedef struct model_graph_options {
    model_mode mode;
    int batch, height, width;   /* height and width multiples of the largest stride */
    dtype compute;              /* of activations, on devices that have more than one: F32 (0), F16, BF16 */
    bool image_u8;              /* image is u8 0..255 (N,C,H,W), divided by 255 in the graph; else f32 0..1 */
    model_branch branches;      /* TRAIN: the branches that exist among these */
    bool decode;                /* add detect_decode outputs of the chosen branches */
    bool loss;                  /* add detect_loss of the branches in loss_branches */
    model_branch loss_branches; /* 0: same as branches */
    int max_targets;            /* M of the targets input when `loss` */
    bool layer_outputs;         /* make every layer's output readable as OUTPUT "layer.<i>" (tests, search for NaN) */
} model_graph_options;

/* Index 0: one-to-many, 1: one-to-one. TENSOR_NONE where not asked for. */
typedef struct model_graph_refs {
    tensor_ref image;         /* INPUT "image" (N,channels,H,W) */
    tensor_ref boxes[2];      /* OUTPUT "one2many.boxes" …: (N,4,A) raw */
    tensor_ref scores[2];     /* OUTPUT "one2many.scores" …: (N,nc,A) raw */
    tensor_ref decoded[2];    /* OUTPUT "one2many.decoded" (cx,cy,w,h), "one2one.decoded" (corners): (N,4+nc,A) */
    tensor_ref targets;       /* INPUT "targets" (N,M,5) class,cx,cy,w,h normalised */
    tensor_ref target_count;  /* INPUT "target_count" (N) i32 */
    tensor_ref gains[2];      /* INPUT "one2many.gains" … (5+nc), see detect_loss in graph/ops.def */
    tensor_ref loss_items[2]; /* OUTPUT "one2many.items" … (3) */
    tensor_ref boxes_grad[2], scores_grad[2]; /* seeds for graph_backward: from boxes[i], scores[i] */
    int anchors;                              /* A */
    int n_levels, level_h[OP_MAX_LEVELS], level_w[OP_MAX_LEVELS];
} model_graph_refs;

/* TRAIN: conv2d + batch_norm ops with parameters and buffers named by their state-dict keys; the one-to-one branch
 * behind `detach`. EVAL: conv2d with bias, activation and residual fused; parameters named as model_fold names them. */
ol_status model_build(const model *m, graph *g, const model_graph_options *options, model_graph_refs *refs);

#endif
