#include "device/cpu/onednn_api.h"

size_t desc_bytes(desc_view d) {
    return d != NULL ? dnnl_memory_desc_get_size(d) : 0;
}

bool desc_same(desc_view a, desc_view b) {
    return dnnl_memory_desc_equal(a, b) != 0;
}

dnnl_status_t desc_memory(onednn *d, desc_view v, dnnl_memory_t *out) {
    return dnnl_memory_create(out, v, d->engine, DNNL_MEMORY_NONE);
}

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t desc_create(ol_context *ctx, desc *out, int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    (void)ctx;
    return dnnl_memory_desc_create_with_tag(out, n_dims, dims, dnnl_f32, tag);
}

void desc_release(ol_context *ctx, desc d) {
    (void)ctx;
    if (d != NULL) dnnl_memory_desc_destroy(d);
}

desc_view desc_look(desc d) {
    return d;
}

dnnl_status_t conv_describe(onednn *d, conv_pass pass, const conv_geometry *g, desc src, desc weights, desc bias,
                            desc dst, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out) {
    switch (pass) {
    case CONV_GRAD_X:
        return dnnl_convolution_backward_data_primitive_desc_create(out, d->engine, dnnl_convolution_direct, src,
                                                                    weights, dst, g->strides, g->dilates, g->pads_begin,
                                                                    g->pads_end, hint, attr);
    case CONV_GRAD_W:
        return dnnl_convolution_backward_weights_primitive_desc_create(out, d->engine, dnnl_convolution_direct, src,
                                                                       weights, NULL, dst, g->strides, g->dilates,
                                                                       g->pads_begin, g->pads_end, hint, attr);
    default:
        return dnnl_convolution_forward_primitive_desc_create(
            out, d->engine, pass == CONV_FORWARD_EVAL ? dnnl_forward_inference : dnnl_forward_training,
            dnnl_convolution_direct, src, weights, bias, dst, g->strides, g->dilates, g->pads_begin, g->pads_end, attr);
    }
}

dnnl_status_t post_op_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind) {
    return dnnl_post_ops_append_eltwise(ops, kind, kind == dnnl_eltwise_swish ? 1.0f : 0.0f, 0.0f);
}

dnnl_status_t post_op_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

#else

/* One struct a descriptor, so that both versions hand out pointers. */
struct desc_box {
    dnnl_memory_desc_t md;
};

dnnl_status_t desc_create(ol_context *ctx, desc *out, int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    desc d = mem_alloc0(ctx, 1, sizeof *d);
    if (d == NULL) return dnnl_out_of_memory;
    const dnnl_status_t status = dnnl_memory_desc_init_by_tag(&d->md, n_dims, dims, dnnl_f32, tag);
    if (status == dnnl_success)
        *out = d;
    else
        mem_free(ctx, d);
    return status;
}

void desc_release(ol_context *ctx, desc d) {
    mem_free(ctx, d);
}

desc_view desc_look(desc d) {
    return &d->md;
}

dnnl_status_t conv_describe(onednn *d, conv_pass pass, const conv_geometry *g, desc src, desc weights, desc bias,
                            desc dst, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out) {
    dnnl_convolution_desc_t op;
    dnnl_status_t status;
    switch (pass) {
    case CONV_GRAD_X:
        status = dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &src->md, &weights->md,
                                                                  &dst->md, g->strides, g->dilates, g->pads_begin,
                                                                  g->pads_end);
        break;
    case CONV_GRAD_W:
        status = dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &src->md,
                                                                     &weights->md, NULL, &dst->md, g->strides,
                                                                     g->dilates, g->pads_begin, g->pads_end);
        break;
    default:
        status = dnnl_dilated_convolution_forward_desc_init(
            &op, pass == CONV_FORWARD_EVAL ? dnnl_forward_inference : dnnl_forward_training, dnnl_convolution_direct,
            &src->md, &weights->md, bias != NULL ? &bias->md : NULL, &dst->md, g->strides, g->dilates, g->pads_begin,
            g->pads_end);
    }
    return status != dnnl_success ? status : dnnl_primitive_desc_create(out, &op, attr, d->engine, hint);
}

dnnl_status_t post_op_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind) {
    return dnnl_post_ops_append_eltwise(ops, 1.0f, kind, kind == dnnl_eltwise_swish ? 1.0f : 0.0f, 0.0f);
}

dnnl_status_t post_op_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

#endif

desc_view conv_chosen_weights(dnnl_primitive_desc_t pd, conv_pass pass) {
    return dnnl_primitive_desc_query_md(pd, pass == CONV_GRAD_W ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
                                        0);
}

desc_view conv_scratchpad(dnnl_primitive_desc_t pd) {
    return dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
}

dnnl_status_t reorder_describe(onednn *d, desc_view from, desc_view to, dnnl_primitive_attr_t attr,
                               dnnl_primitive_desc_t *out) {
    return dnnl_reorder_primitive_desc_create(out, from, d->engine, to, d->engine, attr);
}

dnnl_status_t post_op_add(dnnl_post_ops_t ops, desc_view what) {
    return dnnl_post_ops_append_binary(ops, dnnl_binary_add, what);
}
