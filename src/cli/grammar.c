#include "grammar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const tasks[] = {"detect", "segment", "semantic", "depth", "classify", "pose", "obb", NULL};
static const char *const modes[] = {"train", "val", "predict", "export", "track", "benchmark", NULL};
/* Old spellings that are booleans too. */
static const char *const old_flags[] = {"half", "int8", "end2end", "boxes", "hide_labels", "hide_conf", NULL};

/* Special words with their short forms; "--help", "-h" and the like reach here without dashes. */
static const struct special {
    const char *word, *singular;
    char letter;
} specials[] = {{"help", "help", 'h'},          {"checks", "check", '\0'},
                {"version", "version", 'v'},    {"settings", "setting", 's'},
                {"cfg", "cfg", '\0'},           {"copy-cfg", "copy-cfg", 'c'},
                {"shapes", "shape", '\0'},      {"selftest", "selftests", '\0'},
                {"login", "login", '\0'},       {"logout", "logout", 'l'},
                {"solutions", "solution", '\0'}};

static const char *find_word(const char *const *words, const char *x) {
    for (; *words != NULL; words++) {
        if (strcmp(*words, x) == 0) return *words;
    }
    return NULL;
}

static const char *find_special(const char *x) {
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const struct special *s = &specials[i];
        if (strcmp(x, s->word) == 0 || strcmp(x, s->singular) == 0 ||
            (s->letter != '\0' && x[0] == s->letter && x[1] == '\0'))
            return s->word;
    }
    return NULL;
}

static bool find_argument(const char *name, ol_argument *argument) {
    for (size_t i = 0; ol_argument_at(i, argument); i++) {
        if (strcmp(argument->name, name) == 0) return true;
    }
    return false;
}

static void set_error(command *c, bool show_usage, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void set_error(command *c, bool show_usage, const char *format, ...) {
    if (c->error[0] != '\0') return;
    va_list args;
    va_start(args, format);
    vsnprintf(c->error, sizeof c->error, format, args);
    va_end(args);
    c->show_usage = show_usage;
}

/* Depth of open '[' minus ']'. */
static int open_brackets(const char *word) {
    int depth = 0;
    for (; *word != '\0'; word++) depth += *word == '[' ? 1 : *word == ']' ? -1 : 0;
    return depth;
}

static char *joined(const char *a, const char *gap, const char *b) {
    const size_t bytes = strlen(a) + strlen(gap) + strlen(b) + 1;
    char *both = malloc(bytes);
    if (both != NULL) snprintf(both, bytes, "%s%s%s", a, gap, b);
    return both;
}

/* Appends `b` to the allocated `*word`. */
static bool extend(char **word, const char *gap, const char *b) {
    char *both = joined(*word, gap, b);
    if (both == NULL) return false;
    free(*word);
    *word = both;
    return true;
}

/* Takes one word from args[*at], joining "k = v", "k= v", "k =v" and values whose bracket is still open. */
static char *next_word(command *c, int argc, char **argv, int *at) {
    char *word = joined(argv[*at], "", "");
    *at += 1;
    if (word == NULL) return NULL;
    const bool may_be_key = find_word(tasks, word) == NULL && find_word(modes, word) == NULL;
    if (*at < argc && argv[*at][0] == '=' && strchr(word, '=') == NULL && may_be_key) {
        if (!extend(&word, "", argv[*at])) goto fail;
        *at += 1;
    }
    const char *equals = strchr(word, '=');
    if (equals != NULL && equals[1] == '\0' && *at < argc && strchr(argv[*at], '=') == NULL) {
        if (!extend(&word, "", argv[*at])) goto fail;
        *at += 1;
    }
    if (strchr(word, '=') != NULL && open_brackets(word) != 0) {
        while (open_brackets(word) > 0 && *at < argc) {
            if (!extend(&word, " ", argv[*at])) goto fail;
            *at += 1;
        }
        if (open_brackets(word) != 0) set_error(c, false, "'%.200s' has an unmatched '[' or ']' bracket.", word);
    }
    return word;
fail:
    free(word);
    return NULL;
}

static bool add_pair(command *c, const char *key, size_t key_length, const char *value) {
    command_pair *grown = realloc(c->pairs, (c->n_pairs + 1) * sizeof *grown);
    if (grown == NULL) return false;
    c->pairs = grown;
    command_pair pair = {malloc(key_length + 1), joined(value, "", "")};
    if (pair.key != NULL) snprintf(pair.key, key_length + 1, "%.*s", (int)key_length, key);
    grown[c->n_pairs++] = pair;
    return pair.key != NULL && pair.value != NULL;
}

static bool add_word(command *c, const char *word) {
    char **grown = realloc(c->words, (c->n_words + 1) * sizeof *grown);
    if (grown == NULL) return false;
    c->words = grown;
    grown[c->n_words] = joined(word, "", "");
    return grown[c->n_words++] != NULL;
}

static void warn(ol_log_fn log, void *user, const char *format, const char *word, const char *mark, const char *now) {
    char line[1024];
    snprintf(line, sizeof line, format, word, mark, now);
    log(user, OL_LOG_WARNING, line);
}

/* Strips leading dashes and a trailing comma, with a warning each; `word` is changed in place. Returns its start. */
static char *stripped(char *word, ol_log_fn log, void *user) {
    static const char dashes[] = "argument '%.200s' does not require leading dashes '%s', updating to '%.200s'.",
                      comma[] = "argument '%.200s' does not require trailing comma '%s', updating to '%.200s'.";
    char *start = word;
    if (start[0] == '-' && start[1] == '-') {
        start += 2;
        warn(log, user, dashes, word, "--", start);
    }
    const size_t n = strlen(start);
    if (n > 0 && start[n - 1] == ',') {
        char *now = joined(start, "", "");
        if (now == NULL) return start;
        now[n - 1] = '\0';
        warn(log, user, comma, start, ",", now);
        free(now);
        start[n - 1] = '\0';
    }
    return start;
}

static bool take_word(command *c, char *raw, ol_log_fn log, void *user) {
    const char *plain = raw + strspn(raw, "-");
    if (plain != raw && strcmp(plain, "json") == 0) return c->json = true;
    if (plain != raw && strcmp(plain, "markdown") == 0) return c->markdown = true;
    if (strchr(raw, '=') == NULL && c->special == NULL && find_special(plain) != NULL) {
        c->special = find_special(plain);
        return true;
    }
    char *word = stripped(raw, log, user);
    const char *equals = strchr(word, '=');
    ol_argument argument;
    if (equals == word) {
        set_error(c, true, "'%.200s' has no argument name before its '='", word);
        return true;
    }
    if (equals != NULL) {
        const char *value = equals + 1 + strspn(equals + 1, " ");
        while (equals > word && equals[-1] == ' ') equals--;
        return add_pair(c, word, (size_t)(equals - word), value);
    }
    if (c->special != NULL) return add_word(c, word);
    if (find_word(tasks, word) != NULL) {
        c->task = find_word(tasks, word);
    } else if (find_word(modes, word) != NULL) {
        c->mode = find_word(modes, word);
    } else if ((find_argument(word, &argument) && argument.is_flag) || find_word(old_flags, word) != NULL) {
        return add_pair(c, word, strlen(word), "True");
    } else if (find_argument(word, &argument)) {
        const bool has_default = strcmp(argument.default_text, "None") != 0;
        set_error(c, true,
                  "'%s' is a valid YOLO argument but is missing an '=' sign to set its value, i.e. try '%s=%s'", word,
                  word, has_default ? argument.default_text : "…");
    } else {
        return add_pair(c, word, strlen(word), ""); /* the library names what is closest to it */
    }
    return true;
}

bool command_parse(int argc, char **argv, ol_log_fn log, void *log_user, command *out) {
    memset(out, 0, sizeof *out);
    for (int at = 1; at < argc;) {
        char *word = next_word(out, argc, argv, &at);
        if (word == NULL) return false;
        const bool fine = take_word(out, word, log, log_user);
        free(word);
        if (!fine) return false;
    }
    return true;
}

void command_free(command *c) {
    for (size_t i = 0; i < c->n_pairs; i++) {
        free(c->pairs[i].key);
        free(c->pairs[i].value);
    }
    for (size_t i = 0; i < c->n_words; i++) free(c->words[i]);
    free(c->pairs);
    free(c->words);
    memset(c, 0, sizeof *c);
}

const char *command_value(const command *c, const char *key) {
    for (size_t i = c->n_pairs; i-- > 0;) {
        if (strcmp(c->pairs[i].key, key) == 0) return c->pairs[i].value;
    }
    return NULL;
}
