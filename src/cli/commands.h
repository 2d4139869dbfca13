/* What the program can be asked to do: one function a special word, one for the modes. Each returns the exit code. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "grammar.h"
#include "terminal.h"

typedef struct program {
    terminal terminal;
    ol_context *context;
    command command;
} program;

/* The special word of the command; reports errors itself. */
int command_run_special(program *p);
/* The mode of the command (train when none is given). */
int command_run_mode(program *p);
/* Logs the context's message as an error unless `status` is OL_OK; returns `status`. */
ol_status command_report(program *p, ol_status status);

/* First of all, before anything is printed: starts the program anew with a short GOMP_SPINCOUNT when a mode is asked
 * for and the user chose nothing. OpenMP's runtime reads this at load time only. Threads that spin for long while they
 * wait take the processor from the loader's and from other programs': on two cores with other work a training step took
 * four times as long. */
void threads_wait_briefly(int argc, char **argv);

void help_usage(terminal *t);
/* The whole reference of arguments: docs/cli.md. */
void help_markdown(terminal *t);

#endif
