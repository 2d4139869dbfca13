/* The command line's grammar: `yolo [TASK] MODE [key=value …]` in any order (data document, section 5.1). Splits and
 * joins words; values are checked by the library. */
#ifndef CLI_GRAMMAR_H
#define CLI_GRAMMAR_H

#include "onelook.h"

typedef struct command_pair {
    char *key, *value;
} command_pair;

typedef struct command {
    const char *task, *mode; /* NULL when not given */
    const char *special;     /* "help", "checks" …; NULL when none */
    command_pair *pairs;     /* in the order given */
    size_t n_pairs;
    char **words; /* of a special command: what is neither a pair nor the special word itself */
    size_t n_words;
    bool json, markdown; /* --json, --markdown */
    bool show_usage;     /* the error is about the grammar: the usage text helps */
    char error[1024];    /* "" when the line was understood */
} command;

/* Warnings (stripped dashes and commas) go through `log`. Returns false for want of memory. */
bool command_parse(int argc, char **argv, ol_log_fn log, void *log_user, command *out);
void command_free(command *c);
const char *command_value(const command *c, const char *key); /* the last one given; NULL when absent */

#endif
