/* The user's settings file: where runs, data sets and weights lie. Read afresh by each call; written only on request.
 */
#ifndef API_PREFERENCES_H
#define API_PREFERENCES_H

#include "base/arena.h"

typedef struct preferences {
    const char *runs_dir;     /* "runs" */
    const char *datasets_dir; /* "datasets" */
    const char *weights_dir;  /* "weights" */
} preferences;

/* Texts live in `a`. An unreadable file is a warning and the defaults. */
ol_status preferences_read(arena *a, preferences *out);

#endif
