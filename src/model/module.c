#include "model/module.h"

#include "model/module_forward.h"

#include <stdio.h>
#include <string.h>

#define MANY 32768 /* channels */
#define C1                                                                                                             \
    { "input channels", ARGUMENT_INT, 1, MANY, 0 }
#define C2                                                                                                             \
    { "channels", ARGUMENT_INT, 1, MANY, 0 }
#define REPEATS                                                                                                        \
    { "repeats", ARGUMENT_INT, 1, 1600, 1 }
#define KERNEL(fallback)                                                                                               \
    { "kernel", ARGUMENT_ODD_INT, 1, 31, fallback }
#define STRIDE                                                                                                         \
    { "stride", ARGUMENT_INT, 1, 2, 1 }
#define PADDING                                                                                                        \
    { "padding", ARGUMENT_NULL, 0, 0, 0 }
#define GROUPS                                                                                                         \
    { "groups", ARGUMENT_INT, 1, MANY, 1 }
#define DILATION                                                                                                       \
    { "dilation", ARGUMENT_INT, 1, 1, 1 }
#define ACT                                                                                                            \
    { "activation", ARGUMENT_BOOL, 0, 1, 1 }
#define FLAG(name, fallback)                                                                                           \
    { name, ARGUMENT_BOOL, 0, 1, fallback }
#define RATIO                                                                                                          \
    { "expansion", ARGUMENT_FLOAT, 0.01, 4, 0.5 }

#define HEADS                                                                                                          \
    { "heads", ARGUMENT_INT, 1, MANY, 1 }

static const module_kind kinds[MODULE_TYPE_COUNT] = {
    [MODULE_CONV2D] = {MODULE_CONV2D, NULL, "torch.nn.modules.conv.Conv2d", .forward = conv2d_forward},
    [MODULE_BATCH_NORM] = {.type = MODULE_BATCH_NORM, .global = "torch.nn.modules.batchnorm.BatchNorm2d"},
    [MODULE_SILU] = {.type = MODULE_SILU, .global = "torch.nn.modules.activation.SiLU"},
    [MODULE_IDENTITY] = {.type = MODULE_IDENTITY, .global = "torch.nn.modules.linear.Identity"},
    [MODULE_MAX_POOL] = {MODULE_MAX_POOL, NULL, "torch.nn.modules.pooling.MaxPool2d", .forward = max_pool_forward},
    [MODULE_UPSAMPLE] = {MODULE_UPSAMPLE, "nn.Upsample", "torch.nn.modules.upsampling.Upsample",
                         .arguments = {{"size", ARGUMENT_NULL, 0, 0, 0},
                                       {"scale factor", ARGUMENT_INT, 2, 2, 2},
                                       {"mode", ARGUMENT_NEAREST, 0, 0, 0}},
                         .forward = upsample_forward},
    [MODULE_CONCAT] = {MODULE_CONCAT, "Concat", "ultralytics.nn.modules.conv.Concat",
                       .arguments = {{"dimension", ARGUMENT_INT, 1, 1, 1}}, .forward = concat_forward},
    [MODULE_SEQUENTIAL] = {MODULE_SEQUENTIAL, NULL, "torch.nn.modules.container.Sequential",
                           .forward = sequential_forward},
    [MODULE_LIST] = {.type = MODULE_LIST, .global = "torch.nn.modules.container.ModuleList"},
    [MODULE_CONV] = {MODULE_CONV, "Conv", "ultralytics.nn.modules.conv.Conv", .takes_channels = true,
                     .arguments = {C1, C2, KERNEL(1), STRIDE, PADDING, GROUPS, DILATION, ACT}, .forward = conv_forward},
    [MODULE_DWCONV] = {MODULE_DWCONV, "DWConv", "ultralytics.nn.modules.conv.DWConv", .takes_channels = true,
                       .arguments = {C1, C2, KERNEL(1), STRIDE, DILATION, ACT}, .forward = conv_forward},
    [MODULE_BOTTLENECK] = {MODULE_BOTTLENECK, "Bottleneck", "ultralytics.nn.modules.block.Bottleneck",
                           .takes_channels = true, .arguments = {C1, C2, FLAG("shortcut", 1), GROUPS},
                           .forward = bottleneck_forward},
    [MODULE_C3K] = {MODULE_C3K, "C3k", "ultralytics.nn.modules.block.C3k", .takes_channels = true,
                    .inner_repeats = true, .arguments = {C1, C2, REPEATS, FLAG("shortcut", 1), GROUPS, RATIO},
                    .forward = c3k_forward},
    [MODULE_C3K2] = {MODULE_C3K2, "C3k2", "ultralytics.nn.modules.block.C3k2", .takes_channels = true,
                     .inner_repeats = true,
                     .arguments = {C1, C2, REPEATS, FLAG("c3k", 0), RATIO, FLAG("attention", 0), GROUPS,
                                   FLAG("shortcut", 1)},
                     .forward = c3k2_forward},
    [MODULE_SPPF] = {MODULE_SPPF, "SPPF", "ultralytics.nn.modules.block.SPPF", .takes_channels = true,
                     .arguments = {C1, C2, KERNEL(5), {"poolings", ARGUMENT_INT, 1, 10, 3}, FLAG("shortcut", 0)},
                     .forward = sppf_forward},
    [MODULE_ATTENTION] = {MODULE_ATTENTION, NULL, "ultralytics.nn.modules.block.Attention", .arguments = {C1, HEADS},
                          .forward = attention_forward},
    [MODULE_PSA_BLOCK] = {MODULE_PSA_BLOCK, NULL, "ultralytics.nn.modules.block.PSABlock",
                          .arguments = {C1, HEADS, FLAG("shortcut", 1)}, .forward = psa_block_forward},
    [MODULE_C2PSA] = {MODULE_C2PSA, "C2PSA", "ultralytics.nn.modules.block.C2PSA", .takes_channels = true,
                      .inner_repeats = true, .arguments = {C1, C2, REPEATS, RATIO}, .forward = c2psa_forward},
    [MODULE_DETECT] = {MODULE_DETECT, "Detect", "ultralytics.nn.modules.head.Detect",
                       .arguments = {{"classes", ARGUMENT_INT, 1, 100000, 80},
                                     {"reg_max", ARGUMENT_INT, 1, 1, 1},
                                     FLAG("end2end", 0),
                                     {"widths", ARGUMENT_ANY, 0, 0, 0}}},
};

const module_kind *module_kind_of(module_type type) {
    return &kinds[type];
}

const module_kind *module_kind_find(const char *yaml_name) {
    if (strcmp(yaml_name, "Upsample") == 0) return &kinds[MODULE_UPSAMPLE];
    for (int i = 0; i < MODULE_TYPE_COUNT; i++) {
        if (kinds[i].yaml_name != NULL && strcmp(kinds[i].yaml_name, yaml_name) == 0) return &kinds[i];
    }
    return NULL;
}

module *module_child(const module *m, const char *name) {
    for (int i = 0; i < m->n_children; i++) {
        if (strcmp(m->children[i]->name, name) == 0) return m->children[i];
    }
    return NULL;
}

ol_status module_walk(module *root, module_visit_fn visit, void *user) {
    ol_status status = visit(user, root);
    for (int i = 0; i < root->n_children && status == OL_OK; i++) status = module_walk(root->children[i], visit, user);
    return status;
}

/* Appends the state entries of one leaf, in the reference's registration order. */
static ol_status state_visit(void *user, module *m) {
    tensor_list *state = user;
    char name[400];
    ol_status status = OL_OK;
    if (m->kind->type == MODULE_CONV2D) {
        snprintf(name, sizeof name, "%s.weight", m->path);
        status =
            tensor_list_add(state, name, DTYPE_F32, shape_4d(m->c2, m->c1 / m->groups, m->kernel, m->kernel), NULL);
        if (status == OL_OK && m->bias) {
            snprintf(name, sizeof name, "%s.bias", m->path);
            status = tensor_list_add(state, name, DTYPE_F32, shape_1d(m->c2), NULL);
        }
    } else if (m->kind->type == MODULE_BATCH_NORM) {
        static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
        for (size_t i = 0; i < sizeof parts / sizeof *parts && status == OL_OK; i++) {
            snprintf(name, sizeof name, "%s.%s", m->path, parts[i]);
            status = tensor_list_add(state, name, DTYPE_F32, shape_1d(m->c2), NULL);
        }
        snprintf(name, sizeof name, "%s.num_batches_tracked", m->path);
        if (status == OL_OK) status = tensor_list_add(state, name, DTYPE_I64, (shape){.rank = 0}, NULL);
    }
    return status;
}

ol_status module_state(module *root, tensor_list *state) {
    return module_walk(root, state_visit, state);
}

int64_t module_parameters(const module *m) {
    int64_t n = 0;
    if (m->kind->type == MODULE_CONV2D) {
        n = (int64_t)m->c2 * (m->c1 / m->groups) * m->kernel * m->kernel + (m->bias ? m->c2 : 0);
    } else if (m->kind->type == MODULE_BATCH_NORM) {
        n = 2 * (int64_t)m->c2;
    }
    for (int i = 0; i < m->n_children; i++) n += module_parameters(m->children[i]);
    return n;
}
