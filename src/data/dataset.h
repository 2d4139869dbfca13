/* The pictures of one split with their sizes and labels, checked once and read-only afterwards (so any thread may
 * read). Owns paths and labels; holds no pixels. The data set's folders are never written to. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "data/data_config.h"
#include "data/labels.h"

typedef struct data_item {
    const char *path;       /* of the picture */
    const char *label_path; /* whether or not it exists */
    int h, w;               /* as decoded: EXIF orientation applied */
    uint64_t identity;      /* hash of path, size, times and inode of the picture: names it in pixel caches */
    label_rows labels;      /* after single_cls and the class filter */
} data_item;

typedef struct dataset_options {
    data_split split;
    bool training;      /* no labels at all is an error (otherwise a warning) */
    bool single_cls;    /* one class "item" */
    const int *classes; /* keep only these class ids (not renumbered); NULL: all */
    int n_classes;
    int model_classes;        /* >0: objects of classes from this on are dropped with a warning (validation) */
    double fraction;          /* (0,1]: that share of the sorted list; >1: that many pictures; 0 stands for 1 */
    int n_threads;            /* for the scan; 0: as many as the context computes with */
    const char *cache_folder; /* NULL: dataset_cache_folder; "": no cache */
} dataset_options;

typedef struct dataset {
    ol_context *ctx;
    arena arena;
    const char *name; /* "train" */
    data_item *items; /* in byte order of the paths */
    int n;
    int nc;
    const char **names;
    int channels;
    bool polygons;  /* every label file that has objects has outlines */
    int max_labels; /* largest count of one picture */
    int64_t n_labels;
    int n_found, n_missing, n_empty, n_corrupt, n_duplicates; /* of label files; the summary line's numbers */
    bool from_cache;                                          /* no file had to be read */
} dataset;

/* Lists, scans (in parallel) and logs one summary line and one warning a dropped picture (the first 20 and a count).
 * `*out` is to be destroyed with dataset_destroy, after every loader over it. */
ol_status dataset_open(ol_context *ctx, const data_config *config, const dataset_options *options, dataset **out);
void dataset_destroy(dataset *d);

/* Counts of objects by class, (nc). For class weights and the labels plot. */
void dataset_class_counts(const dataset *d, int64_t *counts);

/* "${XDG_CACHE_HOME:-~/.cache}/onelook", NULL when neither variable is set. */
char *dataset_cache_folder(arena *a);

#endif
