/* What a context says, kept as text for a test to look at; lines of progress are left out. */
#ifndef TESTS_LOG_LINES_H
#define TESTS_LOG_LINES_H

#include "onelook.h"

#include <stddef.h>

typedef struct log_lines {
    char text[16384]; /* a newline behind each line; what has no room is lost */
    size_t length;    /* 0 starts anew */
} log_lines;

/* For ol_context_options: .log = log_lines_keep, .log_user = the log_lines. */
void log_lines_keep(void *user, ol_log_level level, const char *line);

#endif
