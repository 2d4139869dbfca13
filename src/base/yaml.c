#include "base/value.h"

#include "base/file.h"
#include "base/scalar.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define MAX_DEPTH ((size_t)64)
#define MAX_NODES ((size_t)2000000)
#define MAX_KEYS  ((ptrdiff_t)70000) /* of one map; each new key is compared with those before it */

typedef struct reader {
    arena *a;
    const char *name;
    yaml_document_t *doc;
    size_t n_nodes; /* visited; aliases are visited again, so a "billion laughs" file ends here */
} reader;

static ol_status too_large(ol_context *ctx, const char *name, size_t line) {
    return ctx_fail(ctx, OL_ERROR_FORMAT, "%s:%zu: nested too deeply or too large", name, line);
}

static ol_status convert(reader *r, yaml_node_t *node, size_t depth, const value **out);

static ol_status convert_scalar(reader *r, const yaml_node_t *node, const value **out) {
    const char *text = (const char *)node->data.scalar.value;
    const bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    value *v = plain ? scalar_parse(r->a, text, SCALAR_YAML) : value_string(r->a, text);
    if (v == NULL) return OL_ERROR_MEMORY;
    v->line = (int)node->start_mark.line + 1;
    *out = v;
    return OL_OK;
}

static ol_status convert_sequence(reader *r, const yaml_node_t *node, size_t depth, const value **out) {
    value *list = value_list(r->a);
    if (list == NULL) return OL_ERROR_MEMORY;
    list->line = (int)node->start_mark.line + 1;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        const value *item = NULL;
        ol_status status = convert(r, yaml_document_get_node(r->doc, *i), depth + 1, &item);
        if (status == OL_OK) status = value_append(r->a, list, item);
        if (status != OL_OK) return status;
    }
    *out = list;
    return OL_OK;
}

static ol_status convert_mapping(reader *r, const yaml_node_t *node, size_t depth, const value **out) {
    if (node->data.mapping.pairs.top - node->data.mapping.pairs.start > MAX_KEYS)
        return ctx_fail(r->a->ctx, OL_ERROR_FORMAT, "%s:%zu: a map of more than %td keys", r->name,
                        node->start_mark.line + 1, MAX_KEYS);
    value *map = value_map(r->a);
    if (map == NULL) return OL_ERROR_MEMORY;
    map->line = (int)node->start_mark.line + 1;
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const value *key = NULL, *item = NULL;
        ol_status status = convert(r, yaml_document_get_node(r->doc, pair->key), depth + 1, &key);
        if (status == OL_OK) status = convert(r, yaml_document_get_node(r->doc, pair->value), depth + 1, &item);
        if (status == OL_OK) status = value_set_key(r->a, map, key, item);
        if (status != OL_OK) return status;
    }
    *out = map;
    return OL_OK;
}

static ol_status convert(reader *r, yaml_node_t *node, size_t depth, const value **out) {
    if (node == NULL) {
        *out = &value_null;
        return OL_OK;
    }
    if (depth > MAX_DEPTH || ++r->n_nodes > MAX_NODES) return too_large(r->a->ctx, r->name, node->start_mark.line + 1);
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return convert_scalar(r, node, out);
    case YAML_SEQUENCE_NODE:
        return convert_sequence(r, node, depth, out);
    case YAML_MAPPING_NODE:
        return convert_mapping(r, node, depth, out);
    default:
        *out = &value_null;
        return OL_OK;
    }
}

static ol_status not_yaml(ol_context *ctx, const char *name, const yaml_parser_t *parser) {
    return ctx_fail(ctx, OL_ERROR_FORMAT, "%s:%zu: not valid YAML: %s%s%s", name, parser->problem_mark.line + 1,
                    parser->problem != NULL ? parser->problem : "unreadable text", parser->context != NULL ? " " : "",
                    parser->context != NULL ? parser->context : "");
}

/* Reads the first document's events alone: libyaml's time grows with the square of the nesting, so that a deep file
 * must be refused where it becomes deep. */
static ol_status check_depth(ol_context *ctx, const char *name, const char *text, size_t length) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return ctx_fail(ctx, OL_ERROR_MEMORY, "out of memory while reading %s", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    ol_status status = OL_OK;
    size_t depth = 0, n = 0;
    for (bool ended = false; status == OL_OK && !ended;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = not_yaml(ctx, name, &parser);
            break;
        }
        const yaml_event_type_t type = event.type;
        if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) depth++;
        if (type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT) depth--;
        if (depth > MAX_DEPTH || ++n > 2 * MAX_NODES) status = too_large(ctx, name, event.start_mark.line + 1);
        ended = type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

ol_status yaml_parse(arena *a, const char *name, const char *text, size_t length, const value **out) {
    yaml_parser_t parser;
    yaml_document_t doc;
    const ol_status depth_status = check_depth(a->ctx, name, text, length);
    if (depth_status != OL_OK) return depth_status;
    if (!yaml_parser_initialize(&parser))
        return ctx_fail(a->ctx, OL_ERROR_MEMORY, "out of memory while reading %s", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    if (!yaml_parser_load(&parser, &doc)) {
        const ol_status status = not_yaml(a->ctx, name, &parser);
        yaml_parser_delete(&parser);
        return status;
    }
    reader r = {a, name, &doc, 0};
    const value *root = NULL;
    const ol_status status = convert(&r, yaml_document_get_root_node(&doc), 0, &root);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    if (status == OL_OK) *out = root;
    return status;
}

ol_status yaml_read(arena *a, const char *path, const value **out) {
    char *bytes = NULL;
    size_t n = 0;
    ol_status status = file_read(a->ctx, path, (size_t)64 << 20, &bytes, &n);
    if (status != OL_OK) return status;
    status = yaml_parse(a, path, bytes, n, out);
    mem_free(a->ctx, bytes);
    return status;
}

static void write_scalar(text *out, const value *v) {
    static const value_spelling spelling = {.null = "null",
                                            .yes = "true",
                                            .no = "false",
                                            .comma = ", ",
                                            .colon = ": ",
                                            .real = scalar_print_float,
                                            .string = scalar_print_yaml_string};
    value_spell(out, v, &spelling);
}

static size_t child_count(const value *v) {
    return v->kind == VALUE_LIST ? v->as.list.count : v->kind == VALUE_MAP ? v->as.map.count : 0;
}

static void write_node(text *out, const value *v, int indent) {
    for (size_t i = 0; i < child_count(v); i++) {
        const value *item = v->kind == VALUE_LIST ? v->as.list.items[i] : v->as.map.items[i];
        text_printf(out, "%*s", indent, "");
        if (v->kind == VALUE_LIST) {
            text_printf(out, "-");
        } else {
            write_scalar(out, v->as.map.keys[i]);
            text_printf(out, ":");
        }
        if (child_count(item) > 0) {
            text_printf(out, "\n");
            write_node(out, item, indent + 2);
        } else {
            text_printf(out, " ");
            write_scalar(out, item);
            text_printf(out, "\n");
        }
    }
}

ol_status yaml_write(text *out, const value *v) {
    if (child_count(v) > 0) {
        write_node(out, v, 0);
    } else {
        write_scalar(out, v);
        text_printf(out, "\n");
    }
    return out->failed ? OL_ERROR_MEMORY : OL_OK;
}
