/* Files that a validation writes beside its plots: predictions.json in the COCO form and label files of detections. */
#ifndef VAL_FILES_H
#define VAL_FILES_H

#include "base/arena.h"
#include "base/text.h"
#include "model/postprocess.h"

/* The published COCO category id of a class 0..79; class + 1 beyond. */
int coco_category(int class_id);
/* True for the lists whose categories are COCO's: …coco…val2017.txt or …test-dev2017.txt. */
bool coco_list(const char *split_path);

/* Appends one record a detection to the text of a JSON list (without the brackets): rows in source pixels, three
 * decimals, score five (data document, section 3.7). `coco`: COCO category ids, else class + 1. */
ol_status predictions_append(text *out, const char *path, const detection *rows, size_t n, bool coco);
/* Writes "[…]"; nothing when no record was appended. */
ol_status predictions_write(ol_context *ctx, const char *path, const text *records);

/* "a/b/c.jpg" below folder "a" of `depth_bytes` characters (with its slash): "b_c". */
char *label_file_stem(arena *a, const char *path, size_t root_bytes);
/* Length of the longest folder prefix (with its slash) that all paths share; 0 when there is none. */
size_t common_folder(const char *prefix, size_t prefix_bytes, const char *path);
/* Rows `class cx cy w h [score]` as fractions of the source picture, "%g". The old file goes first; none is made when
 * there is no row. */
ol_status label_file_write(ol_context *ctx, const char *path, const detection *rows, size_t n, int height, int width,
                           bool scores);

#endif
