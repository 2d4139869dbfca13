/* What is said of an epoch in which training waited for its pictures. */
#include "data/loader.h"

#include <math.h>
#include <stdio.h>

#define WAIT_SECONDS 5.0 /* of waiting that are worth a line, when they are also */
#define WAIT_SHARE   0.2 /* this part of the epoch */

bool loader_describe_wait(const loader_stats *s, const char *name, int workers, char *line, size_t bytes) {
    if (s->waited_s < WAIT_SECONDS || s->waited_s < WAIT_SHARE * s->elapsed_s) return false;
    const double share = fmin(s->waited_s / s->elapsed_s, 1.0);
    snprintf(line, bytes,
             "%s: waiting for data %.0f%% of the epoch (%.1f s): workers=%d; more of them or cache=ram help", name,
             100 * share, s->waited_s, workers);
    return true;
}
