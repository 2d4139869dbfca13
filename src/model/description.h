/* A model as data: the layer table of a yaml file with scales, widths and repeats resolved. Owns no weights and builds
 * no graph. Read-only after description_parse; any thread may read it. */
#ifndef MODEL_DESCRIPTION_H
#define MODEL_DESCRIPTION_H

#include "base/value.h"

#define LAYER_MAX_FROM 12 /* as many as a concat op takes */

struct module_kind;

/* One row of `backbone` or `head`. */
typedef struct layer_desc {
    int index; /* over backbone and head together */
    int line;  /* in the yaml text, 0 when unknown */
    int n_from;
    int from[LAYER_MAX_FROM]; /* as written: -1 the previous layer, else an index; resolved[] has indices (-1: the
                                 image) */
    int resolved[LAYER_MAX_FROM];
    int repeats;       /* modules in a row; inner repeats are in `args` */
    int table_repeats; /* scaled repeats of either kind, as the layer table prints them */
    const struct module_kind *kind;
    const value *args; /* as the layer table prints them: scaled, input channels first */
    int c_out;         /* channels of the output; 0 for the head */
    int stride;        /* image pixels a cell of the output spans */
} layer_desc;

typedef struct model_desc {
    const char *source; /* "yolo26n.yaml" or the path given, for messages */
    const value *yaml;  /* the root map, with nc, channels and scale as they are used */
    char scale;         /* 'n', 's', …; 0 when the yaml has no scales */
    double depth, width;
    int max_channels;
    int nc, channels, reg_max;
    bool end2end;
    int class_width; /* hidden width of the class branches; 0: by the rule of section 2 */
    layer_desc *layers;
    int n_layers;
} model_desc;

/* What is to be described. Zero fields take what the yaml says. */
typedef struct model_spec {
    const char *name;  /* "yolo26n.yaml" (embedded unless such a file exists), or a path; also gives the scale letter */
    const value *yaml; /* the parsed root, e.g. from a checkpoint; NULL: read by `name` */
    char scale;
    int nc, channels, class_width;
} model_spec;

/* The scale letter of a file name: "yolo", optional "v", digits, one of n s m l x; 0 when there is none. */
char scale_letter(const char *name);

/* Everything lives in `a`. One line on error: file, line, layer, what is wrong and what is accepted. Model document,
 * section 1. Logs the reference's "Overriding model.yaml nc=80 with nc=3" and the warning for a missing scale letter.
 */
ol_status description_parse(arena *a, const model_spec *spec, model_desc *out);
/* The yaml root for a model name: a file of that name, or the embedded yolo26.yaml for yolo26[nsmlx].yaml. */
ol_status description_read_yaml(arena *a, const char *name, const value **root);

#endif
