/* The special words: help, checks, version, settings, cfg, copy-cfg, and answers to those of the field that are not
 * ours. */
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_help(program *p) {
    if (p->command.markdown)
        help_markdown(&p->terminal);
    else
        help_usage(&p->terminal);
    return 0;
}

static int run_version(program *p) {
    terminal_print(&p->terminal, "%s\n", ol_version());
    return 0;
}

static void print_row(void *user, const char *label, const char *text) {
    terminal_print(user, "%-23s%s\n", label, text);
}

static int run_checks(program *p) {
    terminal_print(&p->terminal, "%-23s%s\n", "Onelook", ol_version());
    ol_system_report(p->context, print_row, &p->terminal);
    return 0;
}

/* `yolo cfg`: a yaml text of the defaults, with the meaning of each. */
static int run_cfg(program *p) {
    ol_argument a;
    for (size_t i = 0; ol_argument_at(i, &a); i++) {
        const char *shown = strcmp(a.default_text, "None") == 0    ? ""
                            : strcmp(a.default_text, "True") == 0  ? "true"
                            : strcmp(a.default_text, "False") == 0 ? "false"
                                                                   : a.default_text;
        terminal_print(&p->terminal, "%s:%s%s # %s\n", a.name, *shown != '\0' ? " " : "", shown, a.about);
    }
    return 0;
}

static int run_copy_cfg(program *p) {
    static const char path[] = "default_copy.yaml";
    ol_options *options = NULL;
    ol_status status = ol_options_create(p->context, &options);
    if (status == OL_OK) status = ol_options_write(options, path);
    ol_options_destroy(options);
    if (command_report(p, status) != OL_OK) return 1;
    terminal_print(&p->terminal, "all arguments are in %s; edit it and use it as in: yolo detect train cfg=%s\n", path,
                   path);
    return 0;
}

/* Errors about settings are warnings and leave the exit code 0, as in the field's program. */
static int run_settings(program *p) {
    ol_status status = OL_OK;
    for (size_t i = 0; status == OL_OK && i < p->command.n_words; i++) {
        if (strcmp(p->command.words[i], "reset") == 0) {
            status = ol_preferences_reset(p->context);
        } else {
            terminal_logf(&p->terminal, OL_LOG_WARNING,
                          "settings: '%.200s' is neither 'reset' nor of the form name=folder", p->command.words[i]);
        }
    }
    for (size_t i = 0; status == OL_OK && i < p->command.n_pairs; i++)
        status = ol_preferences_set(p->context, p->command.pairs[i].key, p->command.pairs[i].value);
    if (status != OL_OK) {
        terminal_logf(&p->terminal, OL_LOG_WARNING, "settings: %s", ol_context_message(p->context));
    }
    ol_preferences_list(p->context, print_row, &p->terminal);
    return 0;
}

/* A whole number of the command's pairs, or `fallback`; false with an error when it is something else. */
static bool number_of(program *p, const char *name, long fallback, long low, long high, long *out) {
    const char *typed = command_value(&p->command, name);
    char *end = NULL;
    *out = typed != NULL ? strtol(typed, &end, 10) : fallback;
    if (typed == NULL || (end != typed && *end == '\0' && *out >= low && *out <= high)) return true;
    terminal_logf(&p->terminal, OL_LOG_ERROR, "'%s=%.100s' must be a whole number from %ld to %ld", name, typed, low,
                  high);
    return false;
}

/* Refuses arguments that are none of the word's own, and words without a name: 'yolo selftest hip:0' must not test
 * another device. `listed` says which there are. */
static bool only_own_arguments(program *p, const char *word, const char *const *names, size_t n, const char *listed) {
    if (p->command.n_words > 0) {
        terminal_logf(&p->terminal, OL_LOG_ERROR,
                      "'%.100s' means nothing to 'yolo %s'; arguments have the form %s=…, there are %s",
                      p->command.words[0], word, names[0], listed);
        return false;
    }
    for (size_t i = 0; i < p->command.n_pairs; i++) {
        size_t known = 0;
        while (known < n && strcmp(names[known], p->command.pairs[i].key) != 0) known++;
        if (known < n) continue;
        terminal_logf(&p->terminal, OL_LOG_ERROR, "'%.100s' is not an argument of 'yolo %s'; there are %s",
                      p->command.pairs[i].key, word, listed);
        return false;
    }
    return true;
}

static int run_shapes(program *p) {
    static const char *const names[] = {"dir", "n_train", "n_val", "size", "seed"};
    if (!only_own_arguments(p, "shapes", names, 5, "dir, n_train, n_val, size and seed")) return 1;
    const char *folder = command_value(&p->command, "dir");
    if (folder == NULL || *folder == '\0') {
        terminal_log(&p->terminal, OL_LOG_ERROR,
                     "'yolo shapes' needs a folder to write to, i.e. 'yolo shapes dir=datasets/shapes'");
        return 1;
    }
    long n_train, n_val, size, seed;
    if (!number_of(p, "n_train", 64, 1, 100000, &n_train) || !number_of(p, "n_val", 16, 1, 100000, &n_val) ||
        !number_of(p, "size", 192, 64, 2048, &size) || !number_of(p, "seed", 0, 0, 2147483647, &seed))
        return 1;
    const ol_status status = ol_shapes_write(p->context, folder, (int)n_train, (int)n_val, (int)size, (uint64_t)seed);
    if (command_report(p, status) != OL_OK) return 1;
    terminal_print(&p->terminal,
                   "%ld train and %ld val pictures of coloured shapes are in %s; train on them with: yolo detect train "
                   "data=%s/data.yaml model=yolo26n.yaml\n",
                   n_train, n_val, folder, folder);
    return 0;
}

/* The exit code is 1 when the device computes anything wrongly. */
static int run_selftest(program *p) {
    static const char *const names[] = {"device", "model", "report"};
    if (!only_own_arguments(p, "selftest", names, 3, "device, model and report")) return 1;
    const char *report = command_value(&p->command, "report"), *model = command_value(&p->command, "model");
    const ol_selftest_options options = {.struct_bytes = sizeof options,
                                         .device = command_value(&p->command, "device"),
                                         .model = model != NULL && strcmp(model, "None") == 0 ? "" : model,
                                         .report = report == NULL                ? "onelook-selftest.txt"
                                                   : strcmp(report, "None") == 0 ? ""
                                                                                 : report};
    const ol_status status = ol_selftest(p->context, &options, print_row, &p->terminal);
    if (command_report(p, status) != OL_OK) return status == OL_ERROR_INTERRUPTED ? 130 : 1;
    if (options.report[0] != '\0') terminal_print(&p->terminal, "%-23s%s\n", "Report", options.report);
    return 0;
}

static int run_not_ours(program *p) {
    terminal_logf(&p->terminal, OL_LOG_ERROR,
                  "'%s' is not part of Onelook: it has no accounts and sends nothing; 'yolo help' shows what there is",
                  p->command.special);
    return 1;
}

static const struct special_row {
    const char *word;
    int (*run)(program *p);
} rows[] = {{"help", run_help},         {"version", run_version},   {"checks", run_checks},     {"cfg", run_cfg},
            {"selftest", run_selftest}, {"copy-cfg", run_copy_cfg}, {"settings", run_settings}, {"shapes", run_shapes},
            {"login", run_not_ours},    {"logout", run_not_ours},   {"solutions", run_not_ours}};

int command_run_special(program *p) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].word, p->command.special) == 0) return rows[i].run(p);
    }
    return run_not_ours(p);
}
