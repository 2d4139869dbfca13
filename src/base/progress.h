/* The bar that follows a line's description while something runs: ": 50% ━━━━━━────── 4/8 1.9it/s 2.1s<2.1s". Formats
 * only. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/text.h"

/* `done` of `total` steps after elapsed_s seconds (data document, section 5.4). The rest time is left out when done. */
void progress_bar(text *out, int64_t done, int64_t total, double elapsed_s);
/* "0.5s", "1:05", "2:00:01" */
void progress_duration(text *out, double seconds);
/* Seconds of a clock that never jumps. */
double progress_clock(void);

#endif
