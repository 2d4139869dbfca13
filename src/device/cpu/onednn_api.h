/* The differences between oneDNN 2.x and 3.x behind one set of names: memory descriptors and how primitives are
 * described. Included by the onednn_*.c files only. */
#ifndef DEVICE_CPU_ONEDNN_API_H
#define DEVICE_CPU_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>

#include "device/cpu/onednn.h"

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* A memory descriptor that is released by desc_release. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;
typedef const_dnnl_memory_desc_t desc_view;
#else
typedef struct desc_box *desc;
typedef const dnnl_memory_desc_t *desc_view;
#endif

typedef struct conv_geometry {
    int n_dims; /* of the weights: 5 with groups, else 4 */
    dnnl_dims_t src, weights, bias, dst, strides, dilates, pads_begin, pads_end;
} conv_geometry;

typedef enum conv_pass { CONV_FORWARD_EVAL, CONV_FORWARD, CONV_GRAD_X, CONV_GRAD_W } conv_pass;

dnnl_status_t desc_create(ol_context *ctx, desc *out, int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag);
void desc_release(ol_context *ctx, desc d); /* NULL is fine */
desc_view desc_look(desc d);
size_t desc_bytes(desc_view d);
bool desc_same(desc_view a, desc_view b);
dnnl_status_t desc_memory(onednn *d, desc_view v, dnnl_memory_t *out); /* without storage */
/* What a primitive descriptor chose for an argument; valid as long as it. */
desc_view conv_chosen_weights(dnnl_primitive_desc_t pd, conv_pass pass);
desc_view conv_scratchpad(dnnl_primitive_desc_t pd);

/* `bias` may be NULL; `hint` is the forward descriptor, for the gradients. */
dnnl_status_t conv_describe(onednn *d, conv_pass pass, const conv_geometry *g, desc src, desc weights, desc bias,
                            desc dst, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out);
dnnl_status_t reorder_describe(onednn *d, desc_view from, desc_view to, dnnl_primitive_attr_t attr,
                               dnnl_primitive_desc_t *out);
dnnl_status_t post_op_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind);
dnnl_status_t post_op_add(dnnl_post_ops_t ops, desc_view what);
dnnl_status_t post_op_sum(dnnl_post_ops_t ops);

#endif
