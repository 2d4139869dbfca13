/* Checks one picture and its label file. The result is what the label cache keeps. Thread-safe: no state. */
#ifndef DATA_SCAN_H
#define DATA_SCAN_H

#include "data/file_stamp.h"
#include "data/labels.h"

typedef enum label_state { LABEL_FOUND, LABEL_EMPTY, LABEL_MISSING } label_state;

typedef struct scan_record {
    const char *path, *label_path;
    file_stamp picture, label; /* taken before the files were read */
    label_state state;
    int h, w;
    label_rows rows;
    label_verdict verdict; /* rejected: reason, and line when it is the label's fault */
} scan_record;

/* `path` and `label_path` of the record are set; everything else is filled in. Fails only for want of memory. */
ol_status scan_picture(arena *a, const label_rules *rules, scan_record *record);

#endif
