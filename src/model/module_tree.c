/* What modules consist of: children in registration order, with their widths. Model document, section 1.3 and 2. */
#include "model/module.h"

#include <stdio.h>
#include <string.h>

/* Building stops at the first failure: makers return NULL then, and `status` says why. */
typedef struct tree {
    arena *a;
    const model_desc *desc;
    const layer_desc *layer; /* being built, for messages */
    int silu_share;          /* which shared SiLU object new convs refer to */
    ol_status status;
} tree;

static void tree_fail(tree *t, const char *what) {
    if (t->status == OL_OK) t->status = layer_fail(t->a->ctx, t->desc, t->layer, "%s", what);
}

static module *module_add(tree *t, module *parent, const char *name, module_type type) {
    if (t->status != OL_OK) return NULL;
    module *m = arena_alloc(t->a, 1, sizeof *m);
    char *own_name = arena_strdup(t->a, name);
    char *path = m == NULL || own_name == NULL ? NULL
                 : parent == NULL              ? own_name
                                               : arena_printf(t->a, "%s.%s", parent->path, name);
    if (path == NULL) {
        t->status = OL_ERROR_MEMORY;
        return NULL;
    }
    m->kind = module_kind_of(type);
    m->name = own_name;
    m->path = path;
    if (parent == NULL) return m;
    if (parent->n_children == parent->child_capacity) {
        const int capacity = parent->child_capacity > 0 ? 2 * parent->child_capacity : 4;
        module **children = arena_alloc(t->a, (size_t)capacity, sizeof *children);
        if (children == NULL) {
            t->status = OL_ERROR_MEMORY;
            return NULL;
        }
        if (parent->n_children > 0) {
            memcpy(children, parent->children, (size_t)parent->n_children * sizeof *children);
        }
        parent->children = children;
        parent->child_capacity = capacity;
    }
    parent->children[parent->n_children++] = m;
    return m;
}

static module *indexed_add(tree *t, module *parent, int index, module_type type) {
    char name[16];
    snprintf(name, sizeof name, "%d", index);
    return module_add(t, parent, name, type);
}

static module *conv2d_add(tree *t, module *parent, const char *name, int c1, int c2, int kernel, int stride, int groups,
                          bool bias) {
    module *m = module_add(t, parent, name, MODULE_CONV2D);
    if (m == NULL) return NULL;
    m->c1 = c1;
    m->c2 = c2;
    m->kernel = kernel;
    m->stride = stride;
    m->groups = groups;
    m->bias = bias;
    return m;
}

/* Fills a Conv or DWConv node. */
static void conv_fill(tree *t, module *m, int c1, int c2, int kernel, int stride, int groups, bool act) {
    if (t->status != OL_OK) return;
    if (c1 < 1 || c2 < 1) {
        tree_fail(t, "an inner convolution would have no channels: give the layer more");
        return;
    }
    if (c1 % groups != 0 || c2 % groups != 0) {
        tree_fail(t, "groups must divide input and output channels");
        return;
    }
    m->c1 = c1;
    m->c2 = c2;
    m->kernel = kernel;
    m->stride = stride;
    m->groups = groups;
    m->act = act;
    conv2d_add(t, m, "conv", c1, c2, kernel, stride, groups, false);
    module *bn = module_add(t, m, "bn", MODULE_BATCH_NORM);
    if (bn != NULL) bn->c1 = bn->c2 = c2;
    module *activation = module_add(t, m, "act", act ? MODULE_SILU : MODULE_IDENTITY);
    if (activation != NULL) activation->share = t->silu_share;
}

static void conv_add(tree *t, module *parent, const char *name, int c1, int c2, int kernel, bool act) {
    module *m = module_add(t, parent, name, MODULE_CONV);
    if (m != NULL) conv_fill(t, m, c1, c2, kernel, 1, 1, act);
}

static int greatest_common_divisor(int a, int b) {
    while (b != 0) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void depthwise_fill(tree *t, module *m, int c1, int c2, int kernel, int stride, bool act) {
    conv_fill(t, m, c1, c2, kernel, stride, greatest_common_divisor(c1, c2), act);
}

static void bottleneck_fill(tree *t, module *m, int c1, int c2, bool shortcut, int groups, double e) {
    if (t->status != OL_OK) return;
    m->c1 = c1;
    m->c2 = c2;
    m->hidden = (int)((double)c2 * e);
    m->add = shortcut && c1 == c2;
    conv_add(t, m, "cv1", c1, m->hidden, 3, true);
    module *cv2 = module_add(t, m, "cv2", MODULE_CONV);
    if (cv2 != NULL) conv_fill(t, cv2, m->hidden, c2, 3, 1, groups, true);
}

static void c3k_fill(tree *t, module *m, int c1, int c2, int n, bool shortcut, int groups, double e) {
    if (t->status != OL_OK) return;
    m->c1 = c1;
    m->c2 = c2;
    m->n = n;
    m->hidden = (int)((double)c2 * e);
    conv_add(t, m, "cv1", c1, m->hidden, 1, true);
    conv_add(t, m, "cv2", c1, m->hidden, 1, true);
    conv_add(t, m, "cv3", 2 * m->hidden, c2, 1, true);
    module *row = module_add(t, m, "m", MODULE_SEQUENTIAL);
    for (int i = 0; i < n; i++) {
        module *block = indexed_add(t, row, i, MODULE_BOTTLENECK);
        if (block == NULL) return;
        bottleneck_fill(t, block, m->hidden, m->hidden, shortcut, groups, 1.0);
    }
}

static void attention_fill(tree *t, module *m, int dim, int heads) {
    if (t->status != OL_OK) return;
    if (dim % heads != 0 || dim / heads < 2) {
        tree_fail(t, "attention needs hidden channels that its heads (one per 64) divide");
        return;
    }
    m->c1 = m->c2 = dim;
    m->heads = heads;
    m->head_dim = dim / heads;
    m->key_dim = m->head_dim / 2;
    conv_add(t, m, "qkv", dim, dim + 2 * m->key_dim * heads, 1, false);
    conv_add(t, m, "proj", dim, dim, 1, false);
    module *pe = module_add(t, m, "pe", MODULE_CONV);
    if (pe != NULL) conv_fill(t, pe, dim, dim, 3, 1, dim, false);
}

static void psa_block_fill(tree *t, module *m, int c, int heads, bool shortcut) {
    if (t->status != OL_OK) return;
    m->c1 = m->c2 = c;
    m->add = shortcut;
    module *attention = module_add(t, m, "attn", MODULE_ATTENTION);
    if (attention != NULL) attention_fill(t, attention, c, heads);
    module *ffn = module_add(t, m, "ffn", MODULE_SEQUENTIAL);
    if (ffn == NULL) return;
    conv_add(t, ffn, "0", c, 2 * c, 1, true);
    conv_add(t, ffn, "1", 2 * c, c, 1, false);
}

static int heads_for(int channels) {
    return channels / 64 > 1 ? channels / 64 : 1;
}

static void c3k2_fill(tree *t, module *m, const layer_desc *l) {
    const bool c3k = argument_int(l, "c3k") != 0, attention = argument_int(l, "attention") != 0;
    const bool shortcut = argument_int(l, "shortcut") != 0;
    const int groups = argument_int(l, "groups");
    m->c1 = argument_int(l, "input channels");
    m->c2 = argument_int(l, "channels");
    m->n = argument_int(l, "repeats");
    m->hidden = (int)((double)m->c2 * argument_of(l, "expansion"));
    conv_add(t, m, "cv1", m->c1, 2 * m->hidden, 1, true);
    conv_add(t, m, "cv2", (2 + m->n) * m->hidden, m->c2, 1, true);
    module *list = module_add(t, m, "m", MODULE_LIST);
    for (int i = 0; i < m->n && t->status == OL_OK; i++) {
        if (attention) {
            module *row = indexed_add(t, list, i, MODULE_SEQUENTIAL);
            module *block = indexed_add(t, row, 0, MODULE_BOTTLENECK);
            if (block != NULL) bottleneck_fill(t, block, m->hidden, m->hidden, shortcut, groups, 0.5);
            module *psa = indexed_add(t, row, 1, MODULE_PSA_BLOCK);
            if (psa != NULL) psa_block_fill(t, psa, m->hidden, heads_for(m->hidden), true);
        } else if (c3k) {
            module *block = indexed_add(t, list, i, MODULE_C3K);
            if (block != NULL) c3k_fill(t, block, m->hidden, m->hidden, 2, shortcut, groups, 0.5);
        } else {
            module *block = indexed_add(t, list, i, MODULE_BOTTLENECK);
            if (block != NULL) bottleneck_fill(t, block, m->hidden, m->hidden, shortcut, groups, 0.5);
        }
    }
}

static void sppf_fill(tree *t, module *m, const layer_desc *l) {
    m->c1 = argument_int(l, "input channels");
    m->c2 = argument_int(l, "channels");
    m->n = argument_int(l, "poolings");
    m->hidden = m->c1 / 2;
    m->add = argument_int(l, "shortcut") != 0 && m->c1 == m->c2;
    /* The older three-argument form has an activation there (section 1.3). */
    conv_add(t, m, "cv1", m->c1, m->hidden, 1, l->args->as.list.count <= 3);
    conv_add(t, m, "cv2", (m->n + 1) * m->hidden, m->c2, 1, true);
    module *pool = module_add(t, m, "m", MODULE_MAX_POOL);
    if (pool == NULL) return;
    pool->c1 = pool->c2 = m->hidden;
    pool->kernel = argument_int(l, "kernel");
    pool->stride = 1;
}

static void c2psa_fill(tree *t, module *m, const layer_desc *l) {
    m->c1 = argument_int(l, "input channels");
    m->c2 = argument_int(l, "channels");
    m->n = argument_int(l, "repeats");
    m->hidden = (int)((double)m->c1 * argument_of(l, "expansion"));
    if (m->c1 != m->c2) {
        tree_fail(t, "input and output must have equally many channels");
        return;
    }
    conv_add(t, m, "cv1", m->c1, 2 * m->hidden, 1, true);
    conv_add(t, m, "cv2", 2 * m->hidden, m->c1, 1, true);
    module *row = module_add(t, m, "m", MODULE_SEQUENTIAL);
    for (int i = 0; i < m->n && t->status == OL_OK; i++) {
        module *block = indexed_add(t, row, i, MODULE_PSA_BLOCK);
        if (block != NULL) psa_block_fill(t, block, m->hidden, heads_for(m->hidden), true);
    }
}

static void box_branch_add(tree *t, module *head, const char *name) {
    module *list = module_add(t, head, name, MODULE_LIST);
    for (int level = 0; level < head->n_levels && t->status == OL_OK; level++) {
        module *row = indexed_add(t, list, level, MODULE_SEQUENTIAL);
        if (row == NULL) return;
        conv_add(t, row, "0", head->level_channels[level], head->box_width, 3, true);
        conv_add(t, row, "1", head->box_width, head->box_width, 3, true);
        conv2d_add(t, row, "2", head->box_width, 4, 1, 1, 1, true);
    }
}

static void class_stage_add(tree *t, module *row, int index, int c1, int c2) {
    module *stage = indexed_add(t, row, index, MODULE_SEQUENTIAL);
    module *depthwise = stage == NULL ? NULL : module_add(t, stage, "0", MODULE_DWCONV);
    if (depthwise == NULL) return;
    depthwise_fill(t, depthwise, c1, c1, 3, 1, true);
    conv_add(t, stage, "1", c1, c2, 1, true);
}

static void class_branch_add(tree *t, module *head, const char *name) {
    module *list = module_add(t, head, name, MODULE_LIST);
    for (int level = 0; level < head->n_levels && t->status == OL_OK; level++) {
        module *row = indexed_add(t, list, level, MODULE_SEQUENTIAL);
        if (row == NULL) return;
        class_stage_add(t, row, 0, head->level_channels[level], head->class_width);
        class_stage_add(t, row, 1, head->class_width, head->class_width);
        conv2d_add(t, row, "2", head->class_width, head->nc, 1, 1, 1, true);
    }
}

static int largest(int a, int b) {
    return a > b ? a : b;
}

static void detect_fill(tree *t, module *m, const layer_desc *l) {
    m->nc = t->desc->nc;
    m->n_levels = l->n_from;
    m->end2end = t->desc->end2end;
    for (int i = 0; i < l->n_from; i++) {
        const layer_desc *input = &t->desc->layers[l->resolved[i]];
        m->level_channels[i] = input->c_out;
        m->level_stride[i] = input->stride;
    }
    m->box_width = largest(16, m->level_channels[0] / 4);
    m->class_width = largest(m->level_channels[0], m->nc < 100 ? m->nc : 100);
    if (t->desc->class_width > 0) m->class_width = t->desc->class_width;
    box_branch_add(t, m, "cv2");
    class_branch_add(t, m, "cv3");
    module_add(t, m, "dfl", MODULE_IDENTITY);
    if (!m->end2end) return;
    t->silu_share = 1; /* deep copies, each with a SiLU object of its own */
    box_branch_add(t, m, "one2one_cv2");
    t->silu_share = 2;
    class_branch_add(t, m, "one2one_cv3");
    t->silu_share = 0;
}

static void conv_layer(tree *t, module *m, const layer_desc *l) {
    conv_fill(t, m, argument_int(l, "input channels"), argument_int(l, "channels"), argument_int(l, "kernel"),
              argument_int(l, "stride"), argument_int(l, "groups"), argument_int(l, "activation") != 0);
}

static void depthwise_layer(tree *t, module *m, const layer_desc *l) {
    depthwise_fill(t, m, argument_int(l, "input channels"), argument_int(l, "channels"), argument_int(l, "kernel"),
                   argument_int(l, "stride"), argument_int(l, "activation") != 0);
}

static void bottleneck_layer(tree *t, module *m, const layer_desc *l) {
    bottleneck_fill(t, m, argument_int(l, "input channels"), argument_int(l, "channels"),
                    argument_int(l, "shortcut") != 0, argument_int(l, "groups"), 0.5);
}

static void c3k_layer(tree *t, module *m, const layer_desc *l) {
    c3k_fill(t, m, argument_int(l, "input channels"), argument_int(l, "channels"), argument_int(l, "repeats"),
             argument_int(l, "shortcut") != 0, argument_int(l, "groups"), argument_of(l, "expansion"));
}

static void attention_layer(tree *t, module *m, const layer_desc *l) {
    attention_fill(t, m, argument_int(l, "input channels"), argument_int(l, "heads"));
}

static void psa_block_layer(tree *t, module *m, const layer_desc *l) {
    psa_block_fill(t, m, argument_int(l, "input channels"), argument_int(l, "heads"), argument_int(l, "shortcut") != 0);
}

/* Upsample and Concat have nothing inside. */
static void plain_layer(tree *t, module *m, const layer_desc *l) {
    (void)t;
    m->c1 = m->c2 = l->c_out;
}

typedef void (*fill_fn)(tree *t, module *m, const layer_desc *l);
static const fill_fn fills[MODULE_TYPE_COUNT] = {
    [MODULE_UPSAMPLE] = plain_layer,
    [MODULE_CONCAT] = plain_layer,
    [MODULE_CONV] = conv_layer,
    [MODULE_DWCONV] = depthwise_layer,
    [MODULE_BOTTLENECK] = bottleneck_layer,
    [MODULE_C3K] = c3k_layer,
    [MODULE_ATTENTION] = attention_layer,
    [MODULE_PSA_BLOCK] = psa_block_layer,
    [MODULE_C3K2] = c3k2_fill,
    [MODULE_SPPF] = sppf_fill,
    [MODULE_C2PSA] = c2psa_fill,
    [MODULE_DETECT] = detect_fill,
};

ol_status module_tree_build(arena *a, const model_desc *desc, module **root) {
    tree t = {.a = a, .desc = desc};
    module *top = module_add(&t, NULL, "model", MODULE_SEQUENTIAL);
    for (int i = 0; i < desc->n_layers && t.status == OL_OK; i++) {
        const layer_desc *l = &desc->layers[i];
        t.layer = l;
        if (l->repeats == 1) {
            module *m = indexed_add(&t, top, i, l->kind->type);
            if (m != NULL) fills[l->kind->type](&t, m, l);
            continue;
        }
        module *row = indexed_add(&t, top, i, MODULE_SEQUENTIAL);
        if (row != NULL && l->kind->takes_channels && argument_int(l, "input channels") != l->c_out) {
            tree_fail(&t, "a module repeated in a row must keep its channel count");
        }
        for (int k = 0; k < l->repeats && t.status == OL_OK; k++) {
            module *m = indexed_add(&t, row, k, l->kind->type);
            if (m != NULL) fills[l->kind->type](&t, m, l);
        }
    }
    if (t.status == OL_OK) *root = top;
    return t.status;
}
