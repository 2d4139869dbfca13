/* The pictures that a split names: folders (recursive), .txt lists and single files (data document, section 1.2).
 * Opens no picture. Not thread-safe. */
#ifndef DATA_PICTURE_LIST_H
#define DATA_PICTURE_LIST_H

#include "data/data_config.h"

typedef struct picture_list {
    const char **paths; /* absolute, in byte order */
    size_t n;
} picture_list;

/* `split` is for messages. An empty result is an error that names the formats. `fraction` as in dataset_options. */
ol_status picture_list_read(arena *a, const char *split, const data_paths *from, double fraction, picture_list *out);

#endif
