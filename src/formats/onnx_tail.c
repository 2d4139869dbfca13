/* Selection of detections inside an exported graph. */
#include "formats/onnx_graph.h"

/* (N,4+nc,A) -> boxes (N,A,4) and scores (N,A,nc). One Split, since OpenVINO 2026.4 takes a Slice away when it begins
 * at 0 and feeds a GatherElements. */
static void split_rows(onnx_model *o, const char *decoded, int nc, const char **boxes, const char **scores) {
    const char *rows = onnx_node(o, "Transpose", ONNX_IN(decoded), ONNX_ATTR({"perm", ONNX_INTS(0, 2, 1)}));
    const char *parts[2];
    onnx_split(o, rows, 2, (int64_t[]){4, nc}, parts, 2);
    *boxes = parts[0];
    *scores = parts[1];
}

/* The k largest along the last axis; out[0] values, out[1] int64 indices. */
static void top_k(onnx_model *o, const char *x, int k, const char *out[2]) {
    const int64_t count = k;
    onnx_node_multi(o, "TopK", ONNX_IN(x, onnx_ints(o, &count, 1)),
                    ONNX_ATTR({"axis", .integer = -1}, {"largest", .integer = 1}, {"sorted", .integer = 1}), out, 2);
}

/* Rows of x (N,A,width) chosen by index (N,k): (N,k,width). */
static const char *gather_rows(onnx_model *o, const char *x, const char *index, int64_t width) {
    const char *wide = onnx_ints(o, (int64_t[]){1, 1, width}, 3);
    index = onnx_node(o, "Expand", ONNX_IN(onnx_unsqueeze(o, index, 2), wide), ONNX_NONE);
    return onnx_node(o, "GatherElements", ONNX_IN(x, index), ONNX_ATTR({"axis", .integer = 1}));
}

const char *onnx_emit_topk(onnx_model *o, const char *decoded, int nc, int k) {
    const char *boxes, *scores, *anchor[2], *best[2];
    onnx_scope(o, "topk");
    split_rows(o, decoded, nc, &boxes, &scores);
    top_k(o, onnx_reduce_max(o, scores, 2), k, anchor);
    boxes = gather_rows(o, boxes, anchor[1], 4);
    scores = gather_rows(o, scores, anchor[1], nc);
    top_k(o, onnx_reshape(o, scores, (int64_t[]){0, -1}, 2), k, best);
    const char *classes = onnx_int(o, nc);
    const char *row = onnx_node(o, "Div", ONNX_IN(best[1], classes), ONNX_NONE);
    const char *class_id = onnx_node(o, "Mod", ONNX_IN(best[1], classes), ONNX_NONE);
    const char *parts[3] = {gather_rows(o, boxes, row, 4), onnx_unsqueeze(o, best[0], 2),
                            onnx_unsqueeze(o, onnx_cast(o, class_id, ONNX_FLOAT), 2)};
    return onnx_concat(o, parts, 3, 2);
}

/* cx,cy,w,h -> x1,y1,x2,y2 along the last axis. */
static const char *corners(onnx_model *o, const char *boxes) {
    const char *centre = onnx_slice(o, boxes, 2, 0, 2);
    const char *half = onnx_node(o, "Div", ONNX_IN(onnx_slice(o, boxes, 2, 2, 4), onnx_real(o, 2, false)), ONNX_NONE);
    const char *parts[2] = {onnx_node(o, "Sub", ONNX_IN(centre, half), ONNX_NONE),
                            onnx_node(o, "Add", ONNX_IN(centre, half), ONNX_NONE)};
    return onnx_concat(o, parts, 2, 2);
}

/* Position of each selected row within its picture. `picture` (S) int64, ascending; `rows` (N,A,6) gives the batch. */
static const char *rank_in_picture(onnx_model *o, const char *picture, const char *rows) {
    const char *n = onnx_squeeze(o, onnx_slice(o, onnx_node(o, "Shape", ONNX_IN(rows), ONNX_NONE), 0, 0, 1), 0);
    const char *pictures = onnx_node(o, "Range", ONNX_IN(onnx_int(o, 0), n, onnx_int(o, 1)), ONNX_NONE);
    const char *is_of =
        onnx_node(o, "Equal", ONNX_IN(onnx_unsqueeze(o, picture, 1), onnx_unsqueeze(o, pictures, 0)), ONNX_NONE);
    const char *marks = onnx_cast(o, is_of, ONNX_FLOAT); /* (S,N); counts stay far below 2^24 */
    const char *running = onnx_node(o, "CumSum", ONNX_IN(marks, onnx_int(o, 0)), ONNX_NONE);
    const char *index = onnx_unsqueeze(o, picture, 1);
    const char *own = onnx_node(o, "GatherElements", ONNX_IN(running, index), ONNX_ATTR({"axis", .integer = 1}));
    const char *from_zero = onnx_node(o, "Sub", ONNX_IN(own, onnx_real(o, 1, false)), ONNX_NONE);
    return onnx_cast(o, from_zero, ONNX_INT64); /* (S,1) */
}

const char *onnx_emit_nms(onnx_model *o, const char *decoded, int nc, int max_det, double conf, double iou) {
    const char *boxes, *scores, *zero = onnx_int(o, 0), *two = onnx_int(o, 2);
    onnx_scope(o, "nms");
    split_rows(o, decoded, nc, &boxes, &scores);
    boxes = corners(o, boxes);
    const char *best = onnx_unsqueeze(o, onnx_reduce_max(o, scores, 2), 2); /* (N,A,1) */
    const char *class_id =
        onnx_node(o, "ArgMax", ONNX_IN(scores), ONNX_ATTR({"axis", .integer = 2}, {"keepdims", .integer = 1}));
    class_id = onnx_cast(o, class_id, ONNX_FLOAT);
    const char *rows = onnx_concat(o, (const char *const[]){boxes, best, class_id}, 3, 2); /* (N,A,6) */
    /* Boxes of different classes are moved apart, so that one pass suppresses within classes. */
    const char *apart = onnx_node(o, "Mul", ONNX_IN(class_id, onnx_real(o, 7680, false)), ONNX_NONE);
    apart = onnx_node(o, "Add", ONNX_IN(boxes, apart), ONNX_NONE);
    const char *ranked = onnx_node(o, "Transpose", ONNX_IN(best), ONNX_ATTR({"perm", ONNX_INTS(0, 2, 1)}));
    const float iou_value = (float)iou, conf_value = (float)conf;
    const shape one = shape_1d(1);
    const char *limits[3] = {onnx_ints(o, (int64_t[]){max_det}, 1), onnx_reals(o, &iou_value, &one),
                             onnx_reals(o, &conf_value, &one)};
    const char *chosen =
        onnx_node(o, "NonMaxSuppression", ONNX_IN(apart, ranked, limits[0], limits[1], limits[2]), ONNX_NONE);
    const char *picture = onnx_node(o, "Gather", ONNX_IN(chosen, zero), ONNX_ATTR({"axis", .integer = 1}));
    const char *anchor = onnx_node(o, "Gather", ONNX_IN(chosen, two), ONNX_ATTR({"axis", .integer = 1}));
    const char *column = onnx_unsqueeze(o, picture, 1);
    const char *source = onnx_concat(o, (const char *const[]){column, onnx_unsqueeze(o, anchor, 1)}, 2, 1);
    const char *target = onnx_concat(o, (const char *const[]){column, rank_in_picture(o, picture, rows)}, 2, 1);
    const char *found = onnx_node(o, "GatherND", ONNX_IN(rows, source), ONNX_NONE); /* (S,6) */
    const char *batch = onnx_slice(o, onnx_node(o, "Shape", ONNX_IN(rows), ONNX_NONE), 0, 0, 1);
    const char *size = onnx_concat(o, (const char *const[]){batch, onnx_ints(o, (int64_t[]){max_det, 6}, 2)}, 2, 0);
    const char *empty = onnx_node(o, "ConstantOfShape", ONNX_IN(size), ONNX_NONE); /* zeros, f32 */
    return onnx_node(o, "ScatterND", ONNX_IN(empty, target, found), ONNX_NONE);
}
