/* A data set's description: the YAML file of the field (data document, section 1.1) read, checked and resolved to
 * paths. Does not look at pictures. Not thread-safe. */
#ifndef DATA_DATA_CONFIG_H
#define DATA_DATA_CONFIG_H

#include "base/arena.h"
#include "base/value.h"

typedef enum data_split {
    DATA_SPLIT_TRAIN,
    DATA_SPLIT_VAL,
    DATA_SPLIT_TEST,
    DATA_SPLIT_MINIVAL,
    DATA_N_SPLITS
} data_split;
extern const char *const data_split_names[DATA_N_SPLITS]; /* "train", "val", "test", "minival" */
/* DATA_N_SPLITS when it is none of them. */
data_split data_split_by_name(const char *name);

typedef struct data_paths {
    const char **items; /* absolute: folders, .txt lists or single pictures */
    size_t count;
} data_paths;

typedef struct data_config {
    arena arena;
    const char *file; /* absolute path of the YAML file; "(built-in) coco8.yaml" for an embedded one */
    const char *root; /* absolute */
    data_paths split[DATA_N_SPLITS];
    int nc;
    const char **names;   /* nc of them */
    int channels;         /* 3 unless the file says otherwise */
    int kpt_fields;       /* product of kpt_shape; 0 when the set has no key points */
    const char *download; /* NULL when the file names none; never followed here */
} data_config;

/* `datasets_folder` is where sets lie whose `path` is relative and does not exist as such (NULL: the default of
 * data_datasets_folder). `name` is a path, a bare name ("coco8"), a folder or the name of a known set. The paths of
 * `need` (DATA_N_SPLITS: none) must exist: otherwise OL_ERROR_NOT_FOUND says where it looked. */
ol_status data_config_read(ol_context *ctx, const char *name, const char *datasets_folder, data_split need,
                           data_config *out);
void data_config_deinit(data_config *config);

/* ${ONELOOK_DATASETS}, else the first of ./datasets, ../datasets that exists, else ./datasets. */
char *data_datasets_folder(arena *a);

#endif
