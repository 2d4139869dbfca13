/* The modes: arguments to options, then one call of the library. */
#include "commands.h"

#include <stdio.h>
#include <string.h>

/* Sets all pairs; cfg goes first so that its values are defaults to the rest. */
static ol_status fill_options(program *p, ol_options *options) {
    const command *c = &p->command;
    ol_status status = OL_OK;
    if (c->task != NULL) status = ol_options_set(options, "task", c->task);
    if (status == OL_OK && c->mode != NULL) status = ol_options_set(options, "mode", c->mode);
    for (size_t i = 0; status == OL_OK && i < c->n_pairs; i++)
        status = ol_options_set(options, c->pairs[i].key, c->pairs[i].value);
    const char *cfg = command_value(c, "cfg");
    if (status == OL_OK && cfg != NULL) {
        char line[1024];
        snprintf(line, sizeof line, "Overriding the defaults with %.900s", cfg);
        terminal_log(&p->terminal, OL_LOG_INFO, line);
        status = ol_options_read(options, cfg);
    }
    return status;
}

int command_run_mode(program *p) {
    ol_options *options = NULL;
    ol_status status = ol_options_create(p->context, &options);
    if (status == OL_OK) status = fill_options(p, options);
    int code = 1;
    if (status != OL_OK) {
        code = command_fail(p, status);
    } else {
        char line[256];
        snprintf(line, sizeof line, "this build cannot run '%s' yet", ol_options_get(options, "mode"));
        terminal_log(&p->terminal, OL_LOG_ERROR, line);
    }
    ol_options_destroy(options);
    return code;
}
