#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool is_false(const char *text) {
    static const char *const words[] = {"0", "false", "no", "off", "n", "f"};
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0) return true;
    }
    return false;
}

void terminal_init(terminal *t) {
    const char *plain = getenv("NO_COLOR"), *kind = getenv("TERM");
    memset(t, 0, sizeof *t);
    t->is_terminal =
        isatty(STDOUT_FILENO) != 0 && (plain == NULL || *plain == '\0') && (kind == NULL || strcmp(kind, "dumb") != 0);
    t->quiet = is_false(getenv("YOLO_VERBOSE"));
}

static FILE *stream_of(const terminal *t, ol_log_level level) {
    return t->to_stderr || level == OL_LOG_ERROR ? stderr : stdout;
}

void terminal_flush(terminal *t) {
    FILE *out = stream_of(t, OL_LOG_PROGRESS);
    if (t->line_open) fputc('\n', out);
    t->line_open = false;
    fflush(out);
}

/* On a terminal each line replaces the one before; elsewhere only the finished line counts, which comes as an ordinary
 * one. */
static void show_progress(terminal *t, const char *line) {
    if (!t->is_terminal) return;
    FILE *out = stream_of(t, OL_LOG_PROGRESS);
    fprintf(out, "\r\033[K%s", line);
    fflush(out);
    t->line_open = true;
}

/* An argument may hold anything; what is said about it is one line all the same. */
static void print_one_line(FILE *out, const char *line) {
    for (; *line != '\0'; line++) fputc((unsigned char)*line < 32 && *line != '\t' ? '?' : *line, out);
    fputc('\n', out);
}

void terminal_log(void *user, ol_log_level level, const char *line) {
    static const struct {
        const char *plain, *coloured;
    } prefixes[] = {[OL_LOG_INFO] = {"", ""},
                    [OL_LOG_WARNING] = {"WARNING ⚠️ ", "\033[33mWARNING ⚠️ \033[0m"},
                    [OL_LOG_ERROR] = {"ERROR ❌ ", "\033[31mERROR ❌ \033[0m"}};
    terminal *t = user;
    if (t->quiet && level != OL_LOG_ERROR) return;
    if (level == OL_LOG_PROGRESS) {
        show_progress(t, line);
        return;
    }
    if (t->line_open) fputs("\r\033[K", stream_of(t, OL_LOG_PROGRESS));
    t->line_open = false;
    fflush(stream_of(t, OL_LOG_PROGRESS));
    FILE *out = stream_of(t, level);
    const bool colour =
        level == OL_LOG_ERROR ? isatty(STDERR_FILENO) && t->is_terminal : t->is_terminal && !t->to_stderr;
    fputs(colour ? prefixes[level].coloured : prefixes[level].plain, out);
    print_one_line(out, line);
    fflush(out);
}

void terminal_logf(terminal *t, ol_log_level level, const char *format, ...) {
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    terminal_log(t, level, line);
}

void terminal_print(terminal *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    terminal_flush(t);
    vfprintf(stream_of(t, OL_LOG_INFO), format, args);
    va_end(args);
}
