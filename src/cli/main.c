/* The program: parse, call the library, print. */
#include "commands.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one object a signal handler can reach. */
static ol_context *interruptible;

static void on_signal(int number) {
    /* one atomic store: the header promises that a handler may call it;
     * NOLINTNEXTLINE(bugprone-signal-handler,cert-sig30-c) */
    if (interruptible != NULL) ol_context_interrupt(interruptible);
    signal(number, SIG_DFL); /* a second Ctrl-C ends the program at once */
}

ol_status command_report(program *p, ol_status status) {
    if (status == OL_OK) return status;
    const char *message = ol_context_message(p->context);
    terminal_log(&p->terminal, status == OL_ERROR_INTERRUPTED ? OL_LOG_INFO : OL_LOG_ERROR,
                 *message != '\0' ? message : ol_status_name(status));
    return status;
}

static int dispatch(program *p, int argc) {
    if (p->command.error[0] != '\0') {
        if (p->command.show_usage) help_usage(&p->terminal);
        terminal_log(&p->terminal, OL_LOG_ERROR, p->command.error);
        return 1;
    }
    if (argc == 1) {
        help_usage(&p->terminal);
        return 0;
    }
    return p->command.special != NULL ? command_run_special(p) : command_run_mode(p);
}

/* A standard stream that the caller has closed would lend its number to the next file that is opened, and lines
 * printed later would land in that file. */
static void keep_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDWR); /* takes the lowest free number, which is fd */
}

int main(int argc, char **argv) {
    keep_standard_streams();
    threads_wait_briefly(argc, argv);
    program p = {0};
    terminal_init(&p.terminal);
    const ol_context_options options = {.struct_bytes = sizeof options, .log = terminal_log, .log_user = &p.terminal};
    if (!command_parse(argc, argv, terminal_log, &p.terminal, &p.command) ||
        ol_context_create(&options, &p.context) != OL_OK) {
        terminal_log(&p.terminal, OL_LOG_ERROR, "out of memory");
        return 1;
    }
    p.terminal.to_stderr = p.command.json;
    interruptible = p.context;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error like a full disk, not the end */
    int code = dispatch(&p, argc);
    terminal_flush(&p.terminal);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) { /* a full disk behind `yolo … > file` */
        terminal_log(&p.terminal, OL_LOG_ERROR, "the output could not be written: make room where stdout goes");
        code = 1;
    }
    interruptible = NULL;
    ol_context_destroy(p.context);
    command_free(&p.command);
    return code;
}
