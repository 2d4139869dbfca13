/* Emits the ops of an evaluation graph as ONNX nodes, and the tails that follow the decoded head. Used by
 * onnx_export.c. */
#ifndef FORMATS_ONNX_GRAPH_H
#define FORMATS_ONNX_GRAPH_H

#include "formats/onnx_model.h"
#include "graph/graph.h"
#include "tensor/tensor_list.h"

typedef struct onnx_graph_options {
    bool free_batch; /* the batch is not fixed */
    bool free_size;  /* height and width are not fixed: anchors are computed in the graph */
    bool half;       /* weights and all up to the raw head maps in half precision */
} onnx_graph_options;

/* Emits what `output` (a detect_decode's) needs. `image` is the INPUT tensor of the graph, known as "images". PARAM
 * tensors are looked up in `weights` by name. Returns the decoded value, f32 (N,4+nc,A); "" after a failure. */
const char *onnx_emit_graph(onnx_model *o, const graph *g, tensor_ref image, tensor_ref output,
                            const tensor_list *weights, const onnx_graph_options *options);

/* Appends the selection of the best k anchors and classes: decoded corners (N,4+nc,A) -> (N,k,6)
 * x1,y1,x2,y2,score,class, with k <= A. Model document, section 2. */
const char *onnx_emit_topk(onnx_model *o, const char *decoded, int nc, int k);

/* Appends class-aware suppression: decoded centres (N,4+nc,A) -> (N,max_det,6), unused rows zero. Rows as nms_run gives
 * them without multi_label. Data document, section 3.8. */
const char *onnx_emit_nms(onnx_model *o, const char *decoded, int nc, int max_det, double conf, double iou);

/* Shorthands of the emitting files. */
#define ONNX_IN(...)                                                                                                   \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
#define ONNX_ATTR(...)                                                                                                 \
    (const onnx_attribute[]){__VA_ARGS__}, sizeof((const onnx_attribute[]){__VA_ARGS__}) / sizeof(onnx_attribute)
#define ONNX_NONE NULL, 0
#define ONNX_INTS(...)                                                                                                 \
    .ints = (const int64_t[]){__VA_ARGS__}, .n_ints = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

/* A slice [begin, end) along one axis, as a node. */
const char *onnx_slice(onnx_model *o, const char *x, int64_t axis, int64_t begin, int64_t end);
/* n parts of the given sizes along one axis. */
void onnx_split(onnx_model *o, const char *x, int64_t axis, const int64_t *sizes, const char **parts, size_t n);
const char *onnx_concat(onnx_model *o, const char *const *x, size_t n, int64_t axis);
const char *onnx_reshape(onnx_model *o, const char *x, const int64_t *dims,
                         size_t n_dims); /* 0 copies, -1 is inferred */
const char *onnx_cast(onnx_model *o, const char *x, onnx_type type);
/* The rules of Unsqueeze, Squeeze and the reductions changed with the opsets. */
const char *onnx_unsqueeze(onnx_model *o, const char *x, int64_t axis);
const char *onnx_squeeze(onnx_model *o, const char *x, int64_t axis);
const char *onnx_reduce_max(onnx_model *o, const char *x, int64_t axis);

#endif
