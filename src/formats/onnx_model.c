#include "formats/onnx_model.h"

#include "base/file.h"

#include <onnx.pb-c.h>

#include <string.h>

#define MAX_MODEL_BYTES ((size_t)1 << 31) /* of a protobuf message */

typedef struct pointer_list {
    void **items;
    size_t count, capacity;
} pointer_list;

struct onnx_model {
    ol_context *ctx;
    arena a;
    ol_status status;
    int opset;
    const char *scope;
    size_t n_values, n_constants;
    pointer_list nodes, initializers, inputs, outputs, metadata;
};

/* The IR version that came with each opset; later readers accept earlier ones. */
static int ir_version(int opset) {
    static const struct { int opset, ir; } rows[] = {{11, 6}, {12, 7}, {15, 8}, {19, 9}, {21, 10}};
    int ir = 4;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (opset >= rows[i].opset) ir = rows[i].ir;
    return ir;
}

ol_status onnx_model_create(ol_context *ctx, int opset, onnx_model **out) {
    onnx_model *o = mem_alloc0(ctx, 1, sizeof *o);
    if (o == NULL) return OL_ERROR_MEMORY;
    o->ctx = ctx;
    o->opset = opset;
    o->scope = "";
    arena_init(&o->a, ctx, 0);
    *out = o;
    return OL_OK;
}

void onnx_model_destroy(onnx_model *o) {
    if (o == NULL) return;
    pointer_list *const lists[] = {&o->nodes, &o->initializers, &o->inputs, &o->outputs, &o->metadata};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) mem_free(o->ctx, lists[i]->items);
    arena_deinit(&o->a);
    mem_free(o->ctx, o);
}

int onnx_model_opset(const onnx_model *o) {
    return o->opset;
}

arena *onnx_model_arena(onnx_model *o) {
    return &o->a;
}

void onnx_model_fail(onnx_model *o, ol_status status) {
    if (o->status == OL_OK) o->status = status;
}

ol_status onnx_model_status(const onnx_model *o) {
    return o->status;
}

void onnx_scope(onnx_model *o, const char *scope) {
    o->scope = scope;
}

/* --- pieces in the arena; NULL after a failure --- */

static void *piece(onnx_model *o, size_t count, size_t size) {
    void *p = o->status == OL_OK ? arena_alloc(&o->a, count, size) : NULL;
    if (p == NULL) onnx_model_fail(o, OL_ERROR_MEMORY);
    return p;
}

static char *copy_text(onnx_model *o, const char *text) {
    char *copy = o->status == OL_OK ? arena_strdup(&o->a, text) : NULL;
    if (copy == NULL) onnx_model_fail(o, OL_ERROR_MEMORY);
    return copy;
}

static void list_add(onnx_model *o, pointer_list *list, void *item) {
    void *block = list->items;
    if (item == NULL || o->status != OL_OK) return;
    onnx_model_fail(o, mem_grow(o->ctx, &block, &list->capacity, list->count + 1, sizeof *list->items));
    list->items = block;
    if (o->status == OL_OK) list->items[list->count++] = item;
}

/* --- nodes --- */

static Onnx__AttributeProto *attribute_proto(onnx_model *o, const onnx_attribute *from) {
    Onnx__AttributeProto *to = piece(o, 1, sizeof *to);
    int64_t *ints = from->ints != NULL ? piece(o, from->n_ints, sizeof *ints) : NULL;
    if (o->status != OL_OK) return NULL;
    onnx__attribute_proto__init(to);
    to->name = copy_text(o, from->name);
    to->has_type = 1;
    if (from->ints != NULL) {
        memcpy(ints, from->ints, from->n_ints * sizeof *ints);
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        to->ints = ints;
        to->n_ints = from->n_ints;
    } else if (from->text != NULL) {
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        to->has_s = 1;
        to->s.data = (uint8_t *)copy_text(o, from->text);
        to->s.len = strlen(from->text);
    } else if (from->is_real) {
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        to->has_f = 1;
        to->f = from->real;
    } else {
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        to->has_i = 1;
        to->i = from->integer;
    }
    return to;
}

void onnx_node_multi(onnx_model *o, const char *op, const char *const *in, size_t n_in,
                     const onnx_attribute *attributes, size_t n_attributes, const char **out, size_t n_out) {
    const size_t number = o->nodes.count;
    const char *slash = o->scope[0] != '\0' ? "/" : "";
    for (size_t i = 0; i < n_out; i++) out[i] = "";
    Onnx__NodeProto *node = piece(o, 1, sizeof *node);
    if (node == NULL) return;
    onnx__node_proto__init(node);
    node->op_type = copy_text(o, op);
    node->name = arena_printf(&o->a, "%s%s%s_%zu", o->scope, slash, op, number);
    node->input = piece(o, n_in, sizeof *node->input);
    node->output = piece(o, n_out, sizeof *node->output);
    node->attribute = piece(o, n_attributes, sizeof *node->attribute);
    if (o->status != OL_OK) return;
    for (size_t i = 0; i < n_in; i++) node->input[i] = copy_text(o, in[i]);
    for (size_t i = 0; i < n_out; i++) {
        node->output[i] = arena_printf(&o->a, "%s%s%s_%zu.%zu", o->scope, slash, op, number, i);
        if (node->output[i] == NULL) onnx_model_fail(o, OL_ERROR_MEMORY);
    }
    for (size_t i = 0; i < n_attributes; i++) node->attribute[i] = attribute_proto(o, &attributes[i]);
    node->n_input = n_in;
    node->n_output = n_out;
    node->n_attribute = n_attributes;
    list_add(o, &o->nodes, node);
    if (o->status == OL_OK)
        for (size_t i = 0; i < n_out; i++) out[i] = node->output[i];
}

const char *onnx_node(onnx_model *o, const char *op, const char *const *in, size_t n_in,
                      const onnx_attribute *attributes, size_t n_attributes) {
    const char *out;
    onnx_node_multi(o, op, in, n_in, attributes, n_attributes, &out, 1);
    return out;
}

/* --- constants --- */

/* `bytes` must already be in the arena, or outlive the model. */
static const char *initializer(onnx_model *o, const char *name, onnx_type type, const shape *s, const void *bytes,
                               size_t n_bytes) {
    Onnx__TensorProto *t = piece(o, 1, sizeof *t);
    int64_t *dims = piece(o, (size_t)s->rank, sizeof *dims);
    if (o->status != OL_OK) return "";
    onnx__tensor_proto__init(t);
    memcpy(dims, s->dim, (size_t)s->rank * sizeof *dims);
    t->name = name != NULL ? copy_text(o, name) : arena_printf(&o->a, "constant_%zu", o->n_constants++);
    t->dims = dims;
    t->n_dims = (size_t)s->rank;
    t->has_data_type = 1;
    t->data_type = (int32_t)type;
    t->has_raw_data = 1;
    t->raw_data.data = (uint8_t *)(uintptr_t)bytes;
    t->raw_data.len = n_bytes;
    list_add(o, &o->initializers, t);
    return o->status == OL_OK ? t->name : "";
}

static const char *constant(onnx_model *o, onnx_type type, const shape *s, const void *from, size_t n_bytes) {
    void *bytes = piece(o, n_bytes, 1);
    if (bytes == NULL) return "";
    memcpy(bytes, from, n_bytes);
    return initializer(o, NULL, type, s, bytes, n_bytes);
}

const char *onnx_ints(onnx_model *o, const int64_t *x, size_t n) {
    const shape s = shape_1d((int64_t)n);
    return constant(o, ONNX_INT64, &s, x, n * sizeof *x);
}

const char *onnx_int(onnx_model *o, int64_t x) {
    return constant(o, ONNX_INT64, &(shape){0}, &x, sizeof x);
}

const char *onnx_real(onnx_model *o, float x, bool half) {
    const uint16_t bits = float_to_half(x);
    return half ? constant(o, ONNX_FLOAT16, &(shape){0}, &bits, sizeof bits)
                : constant(o, ONNX_FLOAT, &(shape){0}, &x, sizeof x);
}

const char *onnx_reals(onnx_model *o, const float *x, const shape *s) {
    return constant(o, ONNX_FLOAT, s, x, (size_t)shape_elements(s) * sizeof *x);
}

const char *onnx_weight(onnx_model *o, const char *name, const tensor *t, bool half) {
    const size_t n = (size_t)shape_elements(&t->shape);
    if (!half) return initializer(o, name, ONNX_FLOAT, &t->shape, t->data, n * sizeof(float));
    uint16_t *bits = piece(o, n, sizeof *bits);
    if (bits == NULL) return "";
    for (size_t i = 0; i < n; i++) bits[i] = float_to_half(tensor_f32(t)[i]);
    return initializer(o, name, ONNX_FLOAT16, &t->shape, bits, n * sizeof *bits);
}

/* --- inputs, outputs, metadata --- */

static Onnx__TensorShapeProto *shape_proto(onnx_model *o, const onnx_dim *dims, size_t n_dims) {
    Onnx__TensorShapeProto *s = piece(o, 1, sizeof *s);
    Onnx__TensorShapeProto__Dimension **pointers = piece(o, n_dims, sizeof *pointers),
                                      *list = piece(o, n_dims, sizeof *list);
    if (o->status != OL_OK) return NULL;
    onnx__tensor_shape_proto__init(s);
    for (size_t i = 0; i < n_dims; i++) {
        onnx__tensor_shape_proto__dimension__init(&list[i]);
        if (dims[i].name != NULL) {
            list[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            list[i].dim_param = copy_text(o, dims[i].name);
        } else {
            list[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            list[i].dim_value = dims[i].size;
        }
        pointers[i] = &list[i];
    }
    s->dim = pointers;
    s->n_dim = n_dims;
    return s;
}

static void value_info(onnx_model *o, pointer_list *list, const char *name, onnx_type type, const onnx_dim *dims,
                       size_t n_dims) {
    Onnx__ValueInfoProto *info = piece(o, 1, sizeof *info);
    Onnx__TypeProto *wrapper = piece(o, 1, sizeof *wrapper);
    Onnx__TypeProto__Tensor *t = piece(o, 1, sizeof *t);
    if (o->status != OL_OK) return;
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(wrapper);
    onnx__type_proto__tensor__init(t);
    t->has_elem_type = 1;
    t->elem_type = (int32_t)type;
    t->shape = shape_proto(o, dims, n_dims);
    wrapper->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    wrapper->tensor_type = t;
    info->name = copy_text(o, name);
    info->type = wrapper;
    list_add(o, list, info);
}

void onnx_input(onnx_model *o, const char *name, onnx_type type, const onnx_dim *dims, size_t n_dims) {
    value_info(o, &o->inputs, name, type, dims, n_dims);
}

void onnx_output(onnx_model *o, const char *from, const char *name, onnx_type type, const onnx_dim *dims,
                 size_t n_dims) {
    for (size_t i = 0; o->status == OL_OK && i < o->nodes.count; i++) {
        Onnx__NodeProto *node = o->nodes.items[i];
        for (size_t k = 0; k < node->n_output; k++)
            if (strcmp(node->output[k], from) == 0) node->output[k] = copy_text(o, name);
    }
    value_info(o, &o->outputs, name, type, dims, n_dims);
}

void onnx_metadata(onnx_model *o, const char *key, const char *text) {
    Onnx__StringStringEntryProto *entry = piece(o, 1, sizeof *entry);
    if (entry == NULL) return;
    onnx__string_string_entry_proto__init(entry);
    entry->key = copy_text(o, key);
    entry->value = copy_text(o, text);
    list_add(o, &o->metadata, entry);
}

/* --- the file --- */

static ol_status pack(onnx_model *o, const Onnx__ModelProto *model, const char *path) {
    const size_t n = onnx__model_proto__get_packed_size(model);
    if (n >= MAX_MODEL_BYTES)
        return ctx_fail(o->ctx, OL_ERROR_UNSUPPORTED, "'%s' would need %zu MiB; an ONNX file holds at most 2 GiB", path,
                        n >> 20);
    uint8_t *bytes = mem_alloc(o->ctx, n, 1);
    if (bytes == NULL) return OL_ERROR_MEMORY;
    onnx__model_proto__pack(model, bytes);
    const ol_status status = file_write_atomic(o->ctx, path, bytes, n);
    mem_free(o->ctx, bytes);
    return status;
}

ol_status onnx_model_save(onnx_model *o, const char *path) {
    if (o->status != OL_OK) return o->status;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[1] = {&opset};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    char no_domain[] = "", graph_name[] = "main_graph", producer[] = "onelook";
    opset.domain = no_domain;
    opset.has_version = 1;
    opset.version = o->opset;
    graph.name = graph_name;
    graph.node = (Onnx__NodeProto **)o->nodes.items;
    graph.n_node = o->nodes.count;
    graph.initializer = (Onnx__TensorProto **)o->initializers.items;
    graph.n_initializer = o->initializers.count;
    graph.input = (Onnx__ValueInfoProto **)o->inputs.items;
    graph.n_input = o->inputs.count;
    graph.output = (Onnx__ValueInfoProto **)o->outputs.items;
    graph.n_output = o->outputs.count;
    model.has_ir_version = 1;
    model.ir_version = ir_version(o->opset);
    model.opset_import = opsets;
    model.n_opset_import = 1;
    model.producer_name = producer;
    model.producer_version = copy_text(o, ol_version());
    model.graph = &graph;
    model.metadata_props = (Onnx__StringStringEntryProto **)o->metadata.items;
    model.n_metadata_props = o->metadata.count;
    return o->status == OL_OK ? pack(o, &model, path) : o->status;
}
