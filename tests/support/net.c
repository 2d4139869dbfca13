#include "net.h"

#include "golden.h"
#include "guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const net *n, ol_status status) {
    if (status != OL_OK) fail_msg("%s", ol_context_message(n->ctx));
}

/* What net_device_keep has opened: opening a GPU anew for every net takes longer than running it. */
static net kept;

static void open_device(net *n) {
    n->ctx = test_context();
    check(n, device_open(n->ctx, test_device_name(), &n->dev));
    guard_device(n->dev);
}

static void close_device(net *n) {
    device_close(n->dev);
    ol_context_destroy(n->ctx);
}

void net_device_keep(void) {
    open_device(&kept);
}

void net_device_release(void) {
    close_device(&kept);
    kept = (net){0};
}

net *net_create(void) {
    net *n = calloc(1, sizeof *n);
    if (kept.dev != NULL) {
        n->ctx = kept.ctx;
        n->dev = kept.dev;
    } else {
        open_device(n);
    }
    check(n, graph_create(n->ctx, &n->g));
    return n;
}

void net_destroy(net *n) {
    plan_destroy(n->p);
    device_buffer_destroy(n->memory);
    graph_destroy(n->g);
    for (size_t t = 0; t < NET_MAX_TENSORS; t++) free(n->value[t]);
    if (n->dev != kept.dev) close_device(n);
    free(n);
}

size_t net_count(const net *n, tensor_ref t) {
    return (size_t)shape_elements(graph_shape(n->g, t));
}

tensor_ref net_tensor(net *n, const char *name, tensor_role role, shape s, double lo, double hi) {
    return net_tensor_typed(n, name, role, DTYPE_F32, s, lo, hi);
}

tensor_ref net_tensor_typed(net *n, const char *name, tensor_role role, dtype type, shape s, double lo, double hi) {
    tensor_ref t = TENSOR_NONE;
    check(n, graph_tensor_add(n->g, name, role, type, s, &t));
    assert_true(t < NET_MAX_TENSORS);
    const size_t count = net_count(n, t);
    float *values = malloc(count * sizeof *values + 1);
    golden_hash(name, values, count, lo, hi);
    for (size_t i = 0; i < count; i++) {
        const float v = values[i]; /* narrower or equal types: written behind what is read next */
        if (type == DTYPE_I32) ((int32_t *)(void *)values)[i] = (int32_t)v;
        if (type == DTYPE_U8) ((uint8_t *)values)[i] = (uint8_t)v;
    }
    n->value[t] = values;
    return t;
}

tensor_ref net_op(net *n, op_kind kind, const op_attr *attr, const tensor_ref *in, int n_in) {
    tensor_ref out[OP_MAX_OUTPUTS];
    n->g->scope = op_info_of(kind)->name;
    check(n, graph_op_add(n->g, kind, attr, in, n_in, out));
    return out[0];
}

tensor_ref net_derive(net *n, tensor_ref y) {
    bool wanted[NET_MAX_TENSORS];
    for (size_t t = 0; t < n->g->n_tensors; t++)
        wanted[t] = n->g->tensors[t].role == ROLE_PARAM || n->g->tensors[t].role == ROLE_INPUT;
    graph_output_mark(n->g, y, "y");
    const tensor_ref gy = net_tensor(n, "gy", ROLE_INPUT, *graph_shape(n->g, y), -1.0, 1.0);
    wanted[gy] = false;
    check(n, graph_backward(n->g, &y, &gy, 1, wanted, n->grad));
    assert_true(n->g->n_tensors < NET_MAX_TENSORS);
    return gy;
}

static bool is_bound(const net *n, size_t t) {
    const tensor_role role = n->g->tensors[t].role;
    return role == ROLE_PARAM || role == ROLE_BUFFER || role == ROLE_GRAD;
}

void net_plan(net *n) {
    size_t bytes = 0;
    for (size_t t = 0; t < n->g->n_tensors; t++) {
        n->offset[t] = bytes;
        if (is_bound(n, t)) bytes += net_count(n, (tensor_ref)t) * sizeof(float) + GUARD_BYTES;
    }
    check(n, device_buffer_create(n->dev, bytes, &n->memory));
    check(n, plan_create(n->ctx, n->dev, n->g, &n->p));
    for (size_t t = 0; t < n->g->n_tensors; t++)
        if (is_bound(n, t)) check(n, plan_bind(n->p, (tensor_ref)t, n->memory, n->offset[t]));
}

static void zeros_write(net *n, size_t offset, size_t bytes) {
    void *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    check(n, device_buffer_write(n->memory, offset, zeros, bytes));
    free(zeros);
}

void net_run(net *n) {
    for (size_t t = 0; t < n->g->n_tensors; t++) {
        const size_t bytes = net_count(n, (tensor_ref)t) * dtype_bytes(n->g->tensors[t].type);
        if (n->g->tensors[t].role == ROLE_GRAD)
            zeros_write(n, n->offset[t], bytes);
        else if (is_bound(n, t))
            check(n, device_buffer_write(n->memory, n->offset[t], n->value[t], bytes));
        else if (n->value[t] != NULL)
            check(n, plan_write(n->p, (tensor_ref)t, n->value[t], bytes));
    }
    plan_params_changed(n->p);
    check(n, plan_run(n->p));
}

float *net_read(net *n, tensor_ref t) {
    const size_t bytes = net_count(n, t) * sizeof(float);
    float *copy = malloc(bytes);
    if (is_bound(n, (size_t)t))
        check(n, device_buffer_read(n->memory, n->offset[t], copy, bytes));
    else
        check(n, plan_read(n->p, t, copy, bytes));
    return copy;
}
