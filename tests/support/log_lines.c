#include "log_lines.h"

#include <stdio.h>

void log_lines_keep(void *user, ol_log_level level, const char *line) {
    log_lines *l = user;
    if (level == OL_LOG_PROGRESS) return;
    const int n = snprintf(l->text + l->length, sizeof l->text - l->length, "%s\n", line);
    if (n > 0 && l->length + (size_t)n < sizeof l->text) l->length += (size_t)n;
}
