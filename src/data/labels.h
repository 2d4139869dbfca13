/* Labels of one picture: reading a label file by the rules of the field (data document, section 1.3).
 * Knows nothing of pictures or folders. Thread-safe: no state. */
#ifndef DATA_LABELS_H
#define DATA_LABELS_H

#include "base/arena.h"

/* The objects of one picture; a view, owned by an arena. Coordinates are fractions of the picture's width and height.
 */
typedef struct label_rows {
    int n;
    const float *rows;          /* (n,5): class, cx, cy, w, h */
    const float *points;        /* (…,2): polygon vertices x, y, all polygons one after another; NULL: boxes only */
    const int32_t *first_point; /* (n+1): polygon i is points first_point[i] … first_point[i+1]-1; NULL: boxes only */
} label_rows;

typedef struct label_rules {
    int nc;          /* classes of the set; 0: not checked */
    bool any_class;  /* classes are not compared with nc (single_cls) */
    int pose_fields; /* numbers after the box in sets that declare key points (rows of 5+this are cut to 5); 0: none */
} label_rules;

typedef struct label_verdict {
    bool rejected;    /* the picture and its labels are left out */
    int line;         /* 1-based line of the first offending row, 0: the file as a whole */
    int n_duplicates; /* equal rows that were removed */
    char reason[200]; /* "non-normalized or out of bounds coordinates [1.25]" */
} label_verdict;

/* Parses a label file's text. On a broken rule the verdict says which and `out` is empty; fails only for want of
 * memory. */
ol_status labels_parse(arena *a, const char *text, size_t length, const label_rules *rules, label_rows *out,
                       label_verdict *verdict);

/* ".../images/x/y.jpg" to ".../labels/x/y.txt": the last "/images/" is replaced; without one the text lies beside the
 * picture. */
char *label_path(arena *a, const char *picture_path);

#endif
