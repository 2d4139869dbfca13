/* A data set's split opened for a run: description, pictures, loader. */
#ifndef API_VAL_H
#define API_VAL_H

#include "api/model.h"
#include "val/val.h"

typedef struct val_split {
    data_config config;
    bool has_config;
    dataset *dataset;
    loader *loader; /* made by the caller, closed with the rest */
} val_split;

/* Reads the description and scans the split, with `classes`, `fraction` and `single_cls` of the settings. Pictures come
 * with `channels`, which the model takes, whatever the description says: 1 or 3. */
ol_status split_open(ol_context *ctx, const settings *s, const char *data, data_split split, int channels,
                     val_split *out);
void split_close(val_split *v);

/* Side of the square pictures of train and val: the longer side of imgsz raised to a multiple of the stride, with a
 * warning. */
int square_size(ol_context *ctx, const settings *s, int stride);

#endif
