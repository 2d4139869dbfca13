#include "model/description.h"

#include "base/file.h"
#include "model/module.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_LAYERS   1000
#define MAX_REPEATS  100
#define MAX_CHANNELS 32768
#define MAX_CLASSES  100000

extern const char embedded_yolo26_yaml[];

char scale_letter(const char *name) {
    for (const char *p = path_name(name); (p = strstr(p, "yolo")) != NULL; p++) {
        const char *q = p + 4;
        if (*q == 'v') q++;
        if (!isdigit((unsigned char)*q)) continue;
        while (isdigit((unsigned char)*q)) q++;
        if (*q != '\0' && strchr("nsmlx", *q) != NULL) return *q;
    }
    return 0;
}

/* "yolo26.yaml", "yolo26n.yaml", …: the names of the embedded description. */
static bool is_embedded_name(const char *name) {
    if (strncmp(name, "yolo26", 6) != 0) return false;
    const char *rest = name + 6;
    if (*rest != '\0' && strchr("nsmlx", *rest) != NULL) rest++;
    return strcmp(rest, ".yaml") == 0 || strcmp(rest, ".yml") == 0;
}

ol_status description_read_yaml(arena *a, const char *name, const value **root) {
    if (file_exists(name)) return yaml_read(a, name, root);
    if (is_embedded_name(name)) {
        return yaml_parse(a, name, embedded_yolo26_yaml, strlen(embedded_yolo26_yaml), root);
    }
    return ctx_fail(a->ctx, OL_ERROR_NOT_FOUND,
                    "model '%s' does not exist; give a file, or one of yolo26n.yaml, yolo26s.yaml, yolo26m.yaml, "
                    "yolo26l.yaml, yolo26x.yaml",
                    name);
}

static ol_status desc_fail(arena *a, const model_desc *desc, const value *at, const char *format, ...) CTX_PRINTF(4, 5);
static ol_status desc_fail(arena *a, const model_desc *desc, const value *at, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (at != NULL && at->line > 0) {
        return ctx_fail(a->ctx, OL_ERROR_FORMAT, "%s:%d: %s", desc->source, at->line, what);
    }
    return ctx_fail(a->ctx, OL_ERROR_FORMAT, "%s: %s", desc->source, what);
}

/* An integer of the root map; `fallback` when the key is absent. */
static ol_status root_int(arena *a, const model_desc *desc, const value *root, const char *key, int64_t min,
                          int64_t max, int fallback, int *out) {
    const value *v = value_get(root, key);
    int64_t n;
    if (v == NULL || v->kind == VALUE_NULL) {
        *out = fallback;
        return OL_OK;
    }
    if (!value_as_int(v, &n) || n < min || n > max) {
        return desc_fail(a, desc, v, "'%s' must be an integer from %lld to %lld", key, (long long)min, (long long)max);
    }
    *out = (int)n;
    return OL_OK;
}

static void list_scales(const value *scales, char *out, size_t out_bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < scales->as.map.count && used + 8 < out_bytes; i++) {
        const value *key = scales->as.map.keys[i];
        if (key->kind != VALUE_STRING) continue;
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%.3s", used > 0 ? ", " : "", key->as.string);
    }
}

static ol_status read_scale(arena *a, const model_spec *spec, const value *root, model_desc *desc) {
    desc->depth = desc->width = 1.0;
    desc->max_channels = MAX_CHANNELS;
    const value *scales = value_get(root, "scales");
    if (scales == NULL || scales->kind == VALUE_NULL) {
        const value *d = value_get(root, "depth_multiple"), *w = value_get(root, "width_multiple");
        if (d != NULL && value_is_number(d)) desc->depth = value_as_double(d);
        if (w != NULL && value_is_number(w)) desc->width = value_as_double(w);
    } else {
        if (scales->kind != VALUE_MAP || scales->as.map.count == 0) {
            return desc_fail(a, desc, scales, "'scales' must map letters to [depth, width, max_channels]");
        }
        const value *stored = value_get(root, "scale");
        desc->scale = spec->scale;
        if (desc->scale == 0 && stored != NULL && stored->kind == VALUE_STRING) desc->scale = stored->as.string[0];
        if (desc->scale == 0) desc->scale = scale_letter(desc->source);
        if (desc->scale == 0) {
            const value *first = scales->as.map.keys[0];
            if (first->kind != VALUE_STRING || first->as.string[0] == '\0') {
                return desc_fail(a, desc, first, "'scales' must map letters to [depth, width, max_channels]");
            }
            desc->scale = first->as.string[0];
            ctx_log(a->ctx, OL_LOG_WARNING, "no model scale passed. Assuming scale='%c'.", desc->scale);
        }
        const char letter[2] = {desc->scale, '\0'};
        const value *row = value_get(scales, letter);
        char known[80];
        list_scales(scales, known, sizeof known);
        if (row == NULL) return desc_fail(a, desc, scales, "no scale '%s'; there are: %s", letter, known);
        if (row->kind != VALUE_LIST || row->as.list.count != 3 || !value_is_number(row->as.list.items[0]) ||
            !value_is_number(row->as.list.items[1]) || !value_is_number(row->as.list.items[2])) {
            return desc_fail(a, desc, row, "scale '%s' must be [depth, width, max_channels]", letter);
        }
        desc->depth = value_as_double(row->as.list.items[0]);
        desc->width = value_as_double(row->as.list.items[1]);
        const double max_channels = value_as_double(row->as.list.items[2]);
        desc->max_channels = max_channels >= MAX_CHANNELS ? MAX_CHANNELS : max_channels < 1 ? 0 : (int)max_channels;
    }
    if (!(desc->depth > 0 && desc->depth <= 16 && desc->width > 0 && desc->width <= 16) || desc->max_channels < 1) {
        return desc_fail(a, desc, scales, "depth and width must be above 0 and at most 16, max_channels at least 1");
    }
    return OL_OK;
}

/* C(c) = 8 * ceil(min(c, M) * w / 8), model document, section 1.1. */
static int scaled_channels(const model_desc *desc, int64_t c) {
    const double limited = c < desc->max_channels ? (double)c : (double)desc->max_channels;
    return 8 * (int)ceil(limited * desc->width / 8.0);
}

/* The argument with the words of the field's yaml files replaced: nc, None, True, False. */
static const value *resolve_word(arena *a, const model_desc *desc, const value *v) {
    if (v->kind != VALUE_STRING) return v;
    if (strcmp(v->as.string, "nc") == 0) return value_int(a, desc->nc);
    if (strcmp(v->as.string, "None") == 0) return &value_null;
    if (strcmp(v->as.string, "True") == 0 || strcmp(v->as.string, "False") == 0) {
        return value_bool(a, v->as.string[0] == 'T');
    }
    return v;
}

static ol_status read_from(arena *a, model_desc *desc, layer_desc *layer, const value *from) {
    const value *const *items = &from;
    size_t count = 1;
    if (from->kind == VALUE_LIST) {
        items = from->as.list.items;
        count = from->as.list.count;
    }
    if (count == 0 || count > LAYER_MAX_FROM) {
        return layer_fail(a->ctx, desc, layer, "'from' must name 1 to %d layers", LAYER_MAX_FROM);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t n;
        if (!value_as_int(items[i], &n) || n >= layer->index || n < -layer->index - 1 ||
            (n < -1 && n + layer->index < 0)) {
            return layer_fail(a->ctx, desc, layer,
                              "'from' must hold indices of earlier layers (0 to %d) or -1 for the previous one",
                              layer->index - 1);
        }
        layer->from[i] = (int)n;
        layer->resolved[i] = n < 0 ? layer->index + (int)n : (int)n;
    }
    layer->n_from = (int)count;
    return OL_OK;
}

static int input_channels(const model_desc *desc, int resolved) {
    return resolved < 0 ? desc->channels : desc->layers[resolved].c_out;
}

static int input_stride(const model_desc *desc, int resolved) {
    return resolved < 0 ? 1 : desc->layers[resolved].stride;
}

static ol_status append_channels(arena *a, const model_desc *desc, const layer_desc *layer, value *args) {
    value *list = value_list(a);
    if (list == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < layer->n_from; i++) {
        const value *c = value_int(a, input_channels(desc, layer->resolved[i]));
        const ol_status status = value_append(a, list, c);
        if (status != OL_OK) return status;
    }
    return value_append(a, args, list);
}

/* The arguments a module is made with: input channels, scaled output channels and inner repeats put in front. */
static ol_status resolve_args(arena *a, model_desc *desc, layer_desc *layer, const value *raw, int repeats) {
    const module_kind *kind = layer->kind;
    value *args = value_list(a);
    if (args == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    size_t next = 0;
    layer->c_out = input_channels(desc, layer->resolved[0]);
    if (kind->takes_channels) {
        int64_t c = 0;
        const value *first = raw->as.list.count > 0 ? resolve_word(a, desc, raw->as.list.items[0]) : &value_null;
        if (first == NULL) return OL_ERROR_MEMORY;
        if (!value_as_int(first, &c) || c < 1 || c > MAX_CHANNELS) {
            return layer_fail(a->ctx, desc, layer, "the first argument must be a channel count from 1 to %d",
                              MAX_CHANNELS);
        }
        next = 1;
        status = value_append(a, args, value_int(a, layer->c_out));
        layer->c_out = scaled_channels(desc, c);
        if (layer->c_out > MAX_CHANNELS)
            return layer_fail(a->ctx, desc, layer, "%d channels are too many", layer->c_out);
        if (status == OL_OK) status = value_append(a, args, value_int(a, layer->c_out));
    }
    layer->repeats = layer->table_repeats = repeats;
    if (kind->inner_repeats) {
        layer->repeats = 1;
        if (status == OL_OK) status = value_append(a, args, value_int(a, repeats));
    }
    for (; next < raw->as.list.count && status == OL_OK; next++) {
        const value *item = resolve_word(a, desc, raw->as.list.items[next]);
        /* The larger scales use C3k blocks in every C3k2, whatever the table says (section 1.1). */
        if (kind->type == MODULE_C3K2 && args->as.list.count == 3 && desc->scale != 0 &&
            strchr("mlx", desc->scale) != NULL) {
            item = value_bool(a, true);
        }
        status = item == NULL ? OL_ERROR_MEMORY : value_append(a, args, item);
    }
    if (kind->type == MODULE_C3K2 && args->as.list.count == 3 && desc->scale != 0 &&
        strchr("mlx", desc->scale) != NULL && status == OL_OK) {
        status = value_append(a, args, value_bool(a, true));
    }
    if (kind->type == MODULE_DETECT && status == OL_OK) {
        status = value_append(a, args, value_int(a, desc->reg_max));
        if (status == OL_OK) status = value_append(a, args, value_bool(a, desc->end2end));
        if (status == OL_OK) status = append_channels(a, desc, layer, args);
        layer->c_out = 0;
    }
    if (status == OL_OK) status = arguments_check(a->ctx, desc, layer, args);
    if (status == OL_OK) layer->args = args;
    return status;
}

static ol_status resolve_stride(arena *a, const model_desc *desc, layer_desc *layer) {
    layer->stride = input_stride(desc, layer->resolved[0]);
    switch (layer->kind->type) {
    case MODULE_CONV:
    case MODULE_DWCONV:
        for (int i = 0; i < layer->repeats && layer->stride <= 256; i++) layer->stride *= argument_int(layer, "stride");
        if (layer->stride > 256) return layer_fail(a->ctx, desc, layer, "the picture is reduced more than 256 times");
        return OL_OK;
    case MODULE_UPSAMPLE:
        if (layer->stride % 2 != 0)
            return layer_fail(a->ctx, desc, layer, "the input has the picture's full size already");
        layer->stride /= 2;
        return OL_OK;
    case MODULE_CONCAT:
        layer->c_out = 0;
        for (int i = 0; i < layer->n_from; i++) {
            const int other = input_stride(desc, layer->resolved[i]);
            if (other != layer->stride) {
                return layer_fail(a->ctx, desc, layer, "inputs %d and %d have sizes 1/%d and 1/%d of the picture",
                                  layer->resolved[0], layer->resolved[i], layer->stride, other);
            }
            layer->c_out += input_channels(desc, layer->resolved[i]);
        }
        if (layer->c_out > MAX_CHANNELS)
            return layer_fail(a->ctx, desc, layer, "%d channels are too many", layer->c_out);
        return OL_OK;
    default:
        return OL_OK;
    }
}

static ol_status read_layer(arena *a, model_desc *desc, layer_desc *layer, const value *row) {
    layer->line = row->line;
    if (row->kind != VALUE_LIST || row->as.list.count != 4) {
        return layer_fail(a->ctx, desc, layer, "a layer is [from, repeats, module, [arguments]]");
    }
    const value *name = row->as.list.items[2], *raw = row->as.list.items[3];
    if (name->kind != VALUE_STRING) return layer_fail(a->ctx, desc, layer, "the module must be a name such as Conv");
    layer->kind = module_kind_find(name->as.string);
    if (layer->kind == NULL) {
        return layer_fail(a->ctx, desc, layer,
                          "unknown module '%.60s'; there are Conv, DWConv, Bottleneck, C3k, C3k2, SPPF, C2PSA, "
                          "nn.Upsample, Concat, Detect",
                          name->as.string);
    }
    ol_status status = read_from(a, desc, layer, row->as.list.items[0]);
    if (status != OL_OK) return status;
    if (layer->kind->type != MODULE_CONCAT && layer->kind->type != MODULE_DETECT && layer->n_from != 1) {
        return layer_fail(a->ctx, desc, layer, "takes one input, not %d", layer->n_from);
    }
    for (int i = 0; i < layer->n_from; i++) {
        if (layer->resolved[i] >= 0 && desc->layers[layer->resolved[i]].kind->type == MODULE_DETECT) {
            return layer_fail(a->ctx, desc, layer, "Detect must be the last layer");
        }
    }
    int64_t repeats;
    if (!value_as_int(row->as.list.items[1], &repeats) || repeats < 1 || repeats > MAX_REPEATS) {
        return layer_fail(a->ctx, desc, layer, "repeats must be an integer from 1 to %d", MAX_REPEATS);
    }
    if (raw->kind != VALUE_LIST) return layer_fail(a->ctx, desc, layer, "the arguments must be a list");
    int n = (int)repeats;
    if (n > 1) n = (int)fmax(nearbyint((double)n * desc->depth), 1.0);
    if (layer->kind->type == MODULE_CONCAT || layer->kind->type == MODULE_DETECT) n = 1;
    status = resolve_args(a, desc, layer, raw, n);
    return status == OL_OK ? resolve_stride(a, desc, layer) : status;
}

static ol_status read_section(arena *a, model_desc *desc, const value *rows) {
    for (size_t i = 0; i < rows->as.list.count; i++) {
        layer_desc *layer = &desc->layers[desc->n_layers];
        layer->index = desc->n_layers;
        const ol_status status = read_layer(a, desc, layer, rows->as.list.items[i]);
        if (status != OL_OK) return status;
        desc->n_layers++;
    }
    return OL_OK;
}

static ol_status check_head(arena *a, const model_desc *desc) {
    const layer_desc *head = &desc->layers[desc->n_layers - 1];
    if (head->kind->type != MODULE_DETECT) return layer_fail(a->ctx, desc, head, "the last layer must be Detect");
    if (head->n_from > OP_MAX_LEVELS) {
        return layer_fail(a->ctx, desc, head, "at most %d levels are supported, not %d", OP_MAX_LEVELS, head->n_from);
    }
    for (int i = 0; i < head->n_from; i++) {
        if (head->resolved[i] < 0) return layer_fail(a->ctx, desc, head, "an input must be a layer, not the picture");
        if (i > 0 && input_stride(desc, head->resolved[i]) <= input_stride(desc, head->resolved[i - 1])) {
            return layer_fail(a->ctx, desc, head, "inputs must go from the finest map to the coarsest");
        }
    }
    return OL_OK;
}

/* The stored description: the source's keys with nc, channels, scale and yaml_file as used, in the reference's order.
 */
static ol_status keep_yaml(arena *a, const value *root, model_desc *desc) {
    value *kept = value_map(a);
    if (kept == NULL) return OL_ERROR_MEMORY;
    ol_status status = OL_OK;
    for (size_t i = 0; i < root->as.map.count && status == OL_OK; i++) {
        status = value_set_key(a, kept, root->as.map.keys[i], root->as.map.items[i]);
    }
    const char letter[2] = {desc->scale, '\0'};
    if (status == OL_OK) status = value_set(a, kept, "nc", value_int(a, desc->nc));
    if (status == OL_OK) status = value_set(a, kept, "scale", value_string(a, letter));
    const value *file = value_get(root, "yaml_file"); /* a stored description knows the yaml that it came from */
    const bool known = file != NULL && file->kind == VALUE_STRING;
    const char *name = path_name(known ? file->as.string : desc->source);
    if (status == OL_OK) status = value_set(a, kept, "yaml_file", value_string(a, name));
    if (status == OL_OK) status = value_set(a, kept, "channels", value_int(a, desc->channels));
    desc->yaml = kept;
    return status;
}

static ol_status read_root(arena *a, const model_spec *spec, const value *root, model_desc *desc) {
    const value *end2end = value_get(root, "end2end");
    ol_status status = read_scale(a, spec, root, desc);
    if (status == OL_OK) status = root_int(a, desc, root, "nc", 1, MAX_CLASSES, 80, &desc->nc);
    if (status == OL_OK) status = root_int(a, desc, root, "channels", 1, MAX_CHANNELS, 3, &desc->channels);
    if (status == OL_OK) status = root_int(a, desc, root, "reg_max", 1, 1024, 16, &desc->reg_max);
    if (status != OL_OK) return status;
    if (desc->reg_max != 1) {
        return desc_fail(a, desc, value_get(root, "reg_max"),
                         "'reg_max: 1' is required: box distributions (reg_max %d) are not supported", desc->reg_max);
    }
    if (end2end != NULL && end2end->kind != VALUE_BOOL && end2end->kind != VALUE_NULL) {
        return desc_fail(a, desc, end2end, "'end2end' must be True or False");
    }
    const value *act = value_get(root, "activation");
    if (act != NULL && act->kind != VALUE_NULL) {
        return desc_fail(a, desc, act, "'activation' is not supported: the family uses SiLU; leave it out");
    }
    desc->end2end = end2end != NULL && end2end->kind == VALUE_BOOL && end2end->as.boolean;
    if (spec->nc > 0 && spec->nc != desc->nc) {
        if (spec->nc > MAX_CLASSES) return desc_fail(a, desc, NULL, "%d classes are too many", spec->nc);
        ctx_log(a->ctx, OL_LOG_INFO, "Overriding model.yaml nc=%d with nc=%d", desc->nc, spec->nc);
        desc->nc = spec->nc;
    }
    if (spec->channels > 0) desc->channels = spec->channels;
    desc->class_width = spec->class_width;
    return OL_OK;
}

/* A copy that outlives the source's arena. */
static const value *deep_copy(arena *a, const value *v) {
    value *copy = arena_alloc(a, 1, sizeof *copy);
    if (copy == NULL) return NULL;
    copy->kind = v->kind;
    copy->line = v->line;
    if (v->kind == VALUE_LIST) {
        for (size_t i = 0; i < v->as.list.count; i++) {
            if (value_append(a, copy, deep_copy(a, v->as.list.items[i])) != OL_OK) return NULL;
        }
    } else if (v->kind == VALUE_MAP) {
        for (size_t i = 0; i < v->as.map.count; i++) {
            const value *key = deep_copy(a, v->as.map.keys[i]), *item = deep_copy(a, v->as.map.items[i]);
            if (value_set_key(a, copy, key, item) != OL_OK) return NULL;
        }
    } else if (v->kind == VALUE_STRING) {
        copy->as.string = arena_strdup(a, v->as.string);
        if (copy->as.string == NULL) return NULL;
    } else {
        copy->as = v->as;
    }
    return copy;
}

ol_status description_parse(arena *a, const model_spec *spec, model_desc *out) {
    model_desc desc = {.source = arena_strdup(a, spec->name != NULL ? spec->name : "model")};
    if (desc.source == NULL) return OL_ERROR_MEMORY;
    const value *root = NULL;
    ol_status status = OL_OK;
    if (spec->yaml == NULL) {
        if (spec->name == NULL)
            return ctx_fail(a->ctx, OL_ERROR_ARGUMENT, "no model given: name a file or hand over a description");
        status = description_read_yaml(a, spec->name, &root);
    } else {
        root = deep_copy(a, spec->yaml);
        if (root == NULL) status = OL_ERROR_MEMORY;
    }
    if (status != OL_OK || root == NULL) return status;
    if (root->kind != VALUE_MAP) {
        return desc_fail(a, &desc, root, "a model description is a map with nc, backbone and head, not a %s",
                         value_kind_name(root));
    }
    status = read_root(a, spec, root, &desc);
    if (status != OL_OK) return status;
    const value *backbone = value_get(root, "backbone"), *head = value_get(root, "head");
    if (backbone == NULL || backbone->kind != VALUE_LIST || head == NULL || head->kind != VALUE_LIST) {
        return desc_fail(a, &desc, root, "'backbone' and 'head' must be lists of layers");
    }
    const size_t n = backbone->as.list.count + head->as.list.count;
    if (n == 0 || n > MAX_LAYERS) return desc_fail(a, &desc, head, "%zu layers; 1 to %d are supported", n, MAX_LAYERS);
    desc.layers = arena_alloc(a, n, sizeof *desc.layers);
    if (desc.layers == NULL) return OL_ERROR_MEMORY;
    status = read_section(a, &desc, backbone);
    if (status == OL_OK) status = read_section(a, &desc, head);
    if (status == OL_OK) status = check_head(a, &desc);
    if (status == OL_OK) status = keep_yaml(a, root, &desc);
    if (status == OL_OK) *out = desc;
    return status;
}
