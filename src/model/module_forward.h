/* How each module runs, as ops of a graph. Signature of module_kind.forward; one tensor out. */
#ifndef MODEL_MODULE_FORWARD_H
#define MODEL_MODULE_FORWARD_H

#include "model/builder.h"

tensor_ref conv2d_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref conv_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref max_pool_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref upsample_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref concat_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref sequential_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref bottleneck_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref c3k_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref c3k2_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref sppf_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref attention_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref psa_block_forward(builder *b, const module *m, const tensor_ref *in, int n_in);
tensor_ref c2psa_forward(builder *b, const module *m, const tensor_ref *in, int n_in);

/* Runs any module on one tensor. */
tensor_ref module_forward(builder *b, const module *m, tensor_ref x);

/* Raw maps of a head branch (0 one-to-many, 1 one-to-one): boxes (N,4,A), scores (N,nc,A); model document, section 2.
 * In training form the one-to-one branch sees its inputs through `detach`. */
void detect_forward(builder *b, const module *head, int branch, const tensor_ref *features, tensor_ref *boxes,
                    tensor_ref *scores);

#endif
