#include "formats/module_writer.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct module_writer {
    pickle_writer *w;
    const model *m;
    const tensor_list *weights;
    bool half;
} module_writer;

/* --- own attributes, by class --- */

static void put_pair(pickle_writer *w, const char *key, int x) {
    const int64_t pair[2] = {x, x};
    pickle_string(w, key);
    pickle_int_tuple(w, pair, 2);
}

static void conv2d_attributes(pickle_writer *w, const module *m) {
    const int padding = m->kernel / 2;
    pickle_entry_int(w, "in_channels", m->c1);
    pickle_entry_int(w, "out_channels", m->c2);
    put_pair(w, "kernel_size", m->kernel);
    put_pair(w, "stride", m->stride);
    put_pair(w, "padding", padding);
    put_pair(w, "dilation", 1);
    pickle_entry_bool(w, "transposed", false);
    put_pair(w, "output_padding", 0);
    pickle_entry_int(w, "groups", m->groups);
    pickle_entry_string(w, "padding_mode", "zeros");
    pickle_string(w, "_reversed_padding_repeated_twice");
    pickle_op(w, ']');
    pickle_op(w, '(');
    for (int i = 0; i < 4; i++) pickle_int(w, padding);
    pickle_op(w, 'e');
}

static void batch_norm_attributes(pickle_writer *w, const module *m) {
    pickle_entry_int(w, "num_features", m->c2);
    pickle_entry_float(w, "eps", 1e-3);
    pickle_entry_float(w, "momentum", 0.03);
    pickle_entry_bool(w, "affine", true);
    pickle_entry_bool(w, "track_running_stats", true);
}

static void silu_attributes(pickle_writer *w, const module *m) {
    (void)m;
    pickle_entry_bool(w, "inplace", false);
}

static void max_pool_attributes(pickle_writer *w, const module *m) {
    pickle_entry_int(w, "kernel_size", m->kernel);
    pickle_entry_int(w, "stride", m->stride);
    pickle_entry_int(w, "padding", m->kernel / 2);
    pickle_entry_int(w, "dilation", 1);
    pickle_entry_bool(w, "return_indices", false);
    pickle_entry_bool(w, "ceil_mode", false);
}

static void upsample_attributes(pickle_writer *w, const module *m) {
    (void)m;
    pickle_entry_string(w, "name", "Upsample");
    pickle_entry_none(w, "size");
    pickle_entry_float(w, "scale_factor", 2.0);
    pickle_entry_string(w, "mode", "nearest");
    pickle_entry_none(w, "align_corners");
    pickle_entry_none(w, "recompute_scale_factor");
}

static void concat_attributes(pickle_writer *w, const module *m) {
    (void)m;
    pickle_entry_int(w, "d", 1);
}

static void add_attributes(pickle_writer *w, const module *m) {
    pickle_entry_bool(w, "add", m->add);
}

static void hidden_attributes(pickle_writer *w, const module *m) {
    pickle_entry_int(w, "c", m->hidden);
}

static void sppf_attributes(pickle_writer *w, const module *m) {
    pickle_entry_int(w, "n", m->n);
    pickle_entry_bool(w, "add", m->add);
}

static void attention_attributes(pickle_writer *w, const module *m) {
    pickle_entry_int(w, "num_heads", m->heads);
    pickle_entry_int(w, "head_dim", m->head_dim);
    pickle_entry_int(w, "key_dim", m->key_dim);
    pickle_entry_float(w, "scale", 1.0 / sqrt((double)m->key_dim));
}

static void detect_attributes(pickle_writer *w, const module *m) {
    pickle_entry_int(w, "nc", m->nc);
    pickle_entry_int(w, "nl", m->n_levels);
    pickle_entry_int(w, "reg_max", 1);
    pickle_entry_int(w, "no", m->nc + 4);
    pickle_entry_bool(w, "inplace", true);
}

static void (*const attribute_writers[MODULE_TYPE_COUNT])(pickle_writer *, const module *) = {
    [MODULE_CONV2D] = conv2d_attributes,     [MODULE_BATCH_NORM] = batch_norm_attributes,
    [MODULE_SILU] = silu_attributes,         [MODULE_MAX_POOL] = max_pool_attributes,
    [MODULE_UPSAMPLE] = upsample_attributes, [MODULE_CONCAT] = concat_attributes,
    [MODULE_BOTTLENECK] = add_attributes,    [MODULE_PSA_BLOCK] = add_attributes,
    [MODULE_C3K2] = hidden_attributes,       [MODULE_C2PSA] = hidden_attributes,
    [MODULE_SPPF] = sppf_attributes,         [MODULE_ATTENTION] = attention_attributes,
    [MODULE_DETECT] = detect_attributes,
};

/* --- parameters and buffers, by class --- */

typedef struct tensor_row {
    module_type type;
    const char *name;
    bool buffer;
} tensor_row;

static const tensor_row tensor_rows[] = {
    {MODULE_CONV2D, "weight", false},
    {MODULE_CONV2D, "bias", false},
    {MODULE_BATCH_NORM, "weight", false},
    {MODULE_BATCH_NORM, "bias", false},
    {MODULE_BATCH_NORM, "running_mean", true},
    {MODULE_BATCH_NORM, "running_var", true},
    {MODULE_BATCH_NORM, "num_batches_tracked", true},
};

static void put_tensor(module_writer *mw, const module *m, const tensor_row *row) {
    pickle_writer *w = mw->w;
    char key[256];
    pickle_string(w, row->name);
    if (m->kind->type == MODULE_CONV2D && !m->bias && strcmp(row->name, "bias") == 0) {
        pickle_none(w);
        return;
    }
    snprintf(key, sizeof key, "%s.%s", m->path, row->name);
    const tensor *t = tensor_list_find(mw->weights, key);
    if (t == NULL) {
        w->status = ctx_fail(w->ctx, OL_ERROR_ARGUMENT,
                             "the weights lack '%s': only unfused models can be written as .pt", key);
    } else if (row->buffer) {
        pickle_tensor(w, t, mw->half);
    } else {
        pickle_parameter(w, t, mw->half);
    }
}

static void put_tensors(module_writer *mw, const module *m, bool buffers) {
    pickle_op(mw->w, '}');
    pickle_op(mw->w, '(');
    for (size_t i = 0; i < sizeof tensor_rows / sizeof *tensor_rows; i++)
        if (m != NULL && tensor_rows[i].type == m->kind->type && tensor_rows[i].buffer == buffers)
            put_tensor(mw, m, &tensor_rows[i]);
    pickle_op(mw->w, 'u');
}

/* --- modules --- */

/* Class, and the entries that every module has, up to the open dict of its children. `m` NULL: one without tensors. */
static void begin_module(module_writer *mw, const char *class, const module *m) {
    static const char *const hooks[] = {"_backward_pre_hooks", "_backward_hooks",   "_forward_hooks",
                                        "_forward_pre_hooks",  "_state_dict_hooks", "_load_state_dict_pre_hooks"};
    pickle_writer *w = mw->w;
    pickle_global_path(w, class);
    pickle_op(w, ')');
    pickle_op(w, '\x81');
    pickle_op(w, '}');
    pickle_op(w, '(');
    pickle_entry_bool(w, "training", false);
    pickle_string(w, "_parameters");
    put_tensors(mw, m, false);
    pickle_string(w, "_buffers");
    put_tensors(mw, m, true);
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) pickle_entry_ordered_dict(w, hooks[i]);
    pickle_string(w, "_modules");
    pickle_op(w, '}');
    pickle_op(w, '(');
}

static void end_children(pickle_writer *w) {
    pickle_op(w, 'u');
}

static void end_module(pickle_writer *w) {
    pickle_op(w, 'u');
    pickle_op(w, 'b');
}

static void put_strides(pickle_writer *w, const tensor *stride) {
    pickle_string(w, "stride");
    pickle_tensor(w, stride, false);
}

static void put_module(module_writer *mw, const module *m, const layer_desc *layer, const tensor *stride) {
    pickle_writer *w = mw->w;
    char shared[32];
    const bool may_share = m->kind->type == MODULE_SILU;
    snprintf(shared, sizeof shared, "silu\n%d", m->share);
    if (may_share && pickle_reuse(w, shared)) return;
    begin_module(mw, m->kind->global, m);
    for (int i = 0; i < m->n_children; i++) {
        pickle_string(w, m->children[i]->name);
        put_module(mw, m->children[i], NULL, NULL);
    }
    end_children(w);
    if (attribute_writers[m->kind->type] != NULL) attribute_writers[m->kind->type](w, m);
    if (m->kind->type == MODULE_DETECT) put_strides(w, stride);
    if (layer != NULL) {
        pickle_entry_int(w, "i", layer->index);
        pickle_string(w, "f");
        if (layer->n_from == 1) {
            pickle_int(w, layer->from[0]);
        } else {
            pickle_op(w, ']');
            pickle_op(w, '(');
            for (int i = 0; i < layer->n_from; i++) pickle_int(w, layer->from[i]);
            pickle_op(w, 'e');
        }
        pickle_entry_string(w, "type", layer->kind->global);
    }
    end_module(w);
    if (may_share) pickle_keep(w, shared);
}

/* Layers whose output a later one takes by index. */
static void put_save_list(pickle_writer *w, const model_desc *desc) {
    pickle_string(w, "save");
    pickle_op(w, ']');
    pickle_op(w, '(');
    for (int at = 0; at < desc->n_layers; at++) {
        bool kept = false;
        for (int i = 0; i < desc->n_layers; i++)
            for (int k = 0; k < desc->layers[i].n_from; k++)
                kept = kept || (desc->layers[i].from[k] != -1 && desc->layers[i].resolved[k] == at);
        if (kept) pickle_int(w, at);
    }
    pickle_op(w, 'e');
}

/* The description, without what a source file may have added to it. */
static void put_yaml(pickle_writer *w, const value *yaml) {
    static const char *const kept[] = {"nc",           "end2end",    "reg_max",   "scales",         "scale",
                                       "channels",     "activation", "kpt_shape", "depth_multiple", "width_multiple",
                                       "max_channels", "backbone",   "head"};
    const value *file = value_get(yaml, "yaml_file");
    pickle_string(w, "yaml");
    pickle_op(w, '}');
    pickle_op(w, '(');
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (value_get(yaml, kept[i]) != NULL) pickle_entry_value(w, kept[i], value_get(yaml, kept[i]));
    if (file != NULL && file->kind == VALUE_STRING) pickle_entry_string(w, "yaml_file", path_name(file->as.string));
    pickle_op(w, 'u');
}

ol_status module_write_model(pickle_writer *w, const model *m, const tensor_list *weights, const value *names,
                             const tensor *stride, bool half) {
    module_writer mw = {w, m, weights, half};
    begin_module(&mw, "ultralytics.nn.tasks.DetectionModel", NULL);
    pickle_string(w, "model");
    begin_module(&mw, m->root->kind->global, NULL);
    for (int i = 0; i < m->root->n_children; i++) {
        pickle_string(w, m->root->children[i]->name);
        put_module(&mw, m->root->children[i], i < m->desc.n_layers ? &m->desc.layers[i] : NULL, stride);
    }
    end_children(w);
    end_module(w);
    end_children(w);
    put_yaml(w, m->desc.yaml);
    put_save_list(w, &m->desc);
    pickle_entry_value(w, "names", names);
    pickle_entry_bool(w, "inplace", true);
    put_strides(w, stride);
    pickle_entry_int(w, "nc", m->desc.nc);
    pickle_entry_string(w, "task", "detect");
    end_module(w);
    return w->status;
}
