/* Where text goes: plain on a pipe, coloured and with a rewritten progress line on a terminal. One thread at a time
 * (the library never logs from two threads at once). */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "onelook.h"

typedef struct terminal {
    bool is_terminal; /* stdout is one: colours and rewritten lines */
    bool quiet;       /* YOLO_VERBOSE=false: errors only */
    bool to_stderr;   /* stdout is kept for data (--json) */
    bool line_open;   /* the progress line stands on the terminal without its newline */
} terminal;

void terminal_init(terminal *t);
/* An ol_log_fn; `user` is the terminal. */
void terminal_log(void *user, ol_log_level level, const char *line);
void terminal_logf(terminal *t, ol_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends an open progress line. */
void terminal_flush(terminal *t);
void terminal_print(terminal *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
