/* Finds the YAML file behind `data=…`: a path, a bare name, a folder, or a set that the program knows by name.
 * Reads nothing but folders. Not thread-safe. */
#ifndef DATA_DATA_FIND_H
#define DATA_DATA_FIND_H

#include "base/value.h"

typedef struct data_found {
    const char *path;  /* of a file; NULL for a built-in set */
    const char *known; /* "coco8.yaml" of a built-in set */
} data_found;

/* OL_ERROR_NOT_FOUND names every place that was tried. */
ol_status data_find(arena *a, const char *name, data_found *out);

/* The known sets that travel with the program: a map by file name ("coco8.yaml"). */
ol_status known_datasets(arena *a, const value **out);

#endif
