/* Shorthands for nodes that are used in several places, with the differences between opsets. */
#include "formats/onnx_graph.h"

const char *onnx_slice(onnx_model *o, const char *x, int64_t axis, int64_t begin, int64_t end) {
    const char *starts = onnx_ints(o, &begin, 1), *ends = onnx_ints(o, &end, 1), *axes = onnx_ints(o, &axis, 1);
    return onnx_node(o, "Slice", ONNX_IN(x, starts, ends, axes), ONNX_NONE);
}

void onnx_split(onnx_model *o, const char *x, int64_t axis, const int64_t *sizes, const char **parts, size_t n) {
    if (onnx_model_opset(o) >= 13) /* sizes were an attribute before they became an input */
        onnx_node_multi(o, "Split", ONNX_IN(x, onnx_ints(o, sizes, n)), ONNX_ATTR({"axis", .integer = axis}), parts, n);
    else
        onnx_node_multi(o, "Split", ONNX_IN(x),
                        ONNX_ATTR({"axis", .integer = axis}, {"split", .ints = sizes, .n_ints = n}), parts, n);
}

const char *onnx_concat(onnx_model *o, const char *const *x, size_t n, int64_t axis) {
    return onnx_node(o, "Concat", x, n, ONNX_ATTR({"axis", .integer = axis}));
}

const char *onnx_reshape(onnx_model *o, const char *x, const int64_t *dims, size_t n_dims) {
    return onnx_node(o, "Reshape", ONNX_IN(x, onnx_ints(o, dims, n_dims)), ONNX_NONE);
}

const char *onnx_cast(onnx_model *o, const char *x, onnx_type type) {
    return onnx_node(o, "Cast", ONNX_IN(x), ONNX_ATTR({"to", .integer = type}));
}

/* Axes were an attribute before they became an input. */
static const char *with_axis(onnx_model *o, const char *op, const char *x, int64_t axis, int input_since) {
    if (onnx_model_opset(o) >= input_since) return onnx_node(o, op, ONNX_IN(x, onnx_ints(o, &axis, 1)), ONNX_NONE);
    return onnx_node(o, op, ONNX_IN(x), ONNX_ATTR({"axes", .ints = &axis, .n_ints = 1}));
}

const char *onnx_unsqueeze(onnx_model *o, const char *x, int64_t axis) {
    return with_axis(o, "Unsqueeze", x, axis, 13);
}

const char *onnx_squeeze(onnx_model *o, const char *x, int64_t axis) {
    return with_axis(o, "Squeeze", x, axis, 13);
}

/* Drops the axis: keepdims would be 1 by default, so a Squeeze follows. */
const char *onnx_reduce_max(onnx_model *o, const char *x, int64_t axis) {
    return onnx_squeeze(o, with_axis(o, "ReduceMax", x, axis, 18), axis);
}
