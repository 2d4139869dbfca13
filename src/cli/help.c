/* The usage text and the reference of all arguments. */
#include "commands.h"

#include <string.h>

static const struct special_help {
    const char *call, *about;
} special_words[] = {
    {"help", "this text; 'help --markdown' prints the whole reference"},
    {"version", "the version number"},
    {"checks", "CPU, memory, disk, libraries, and the devices found or why not"},
    {"selftest", "compares a device with plain C code, op by op, and writes onelook-selftest.txt (device=0)"},
    {"cfg", "all arguments with their defaults, as yaml"},
    {"copy-cfg", "the same into default_copy.yaml, to edit and pass as cfg=default_copy.yaml"},
    {"settings", "folders of runs, data sets and weights; 'settings runs_dir=…' changes one, 'settings reset' all"},
    {"shapes", "'shapes dir=…' draws a small data set to try things with (n_train=64 n_val=16 size=192 seed=0)"}};

static const char usage[] = "usage: yolo [TASK] MODE [argument=value …]   in any order\n"
                            "\n"
                            "  TASK   detect (more tasks follow)\n"
                            "  MODE   train | val | predict | export\n"
                            "\n"
                            "  yolo detect train data=coco8.yaml model=yolo26n.pt epochs=10 lr0=0.01\n"
                            "  yolo predict model=yolo26n.pt source=bus.jpg imgsz=320\n"
                            "  yolo val model=yolo26n.pt data=coco8.yaml batch=1\n"
                            "  yolo export model=yolo26n.pt format=onnx\n"
                            "\n"
                            "special words:\n";

void help_usage(terminal *t) {
    terminal_print(t, "%s", usage);
    for (size_t i = 0; i < sizeof special_words / sizeof *special_words; i++)
        terminal_print(t, "  yolo %-9s %s\n", special_words[i].call, special_words[i].about);
    terminal_print(t, "\n'yolo cfg' lists every argument; docs/cli.md explains them.\n");
}

/* "|" would end a table cell. */
static void print_words(terminal *t, const ol_argument *a) {
    terminal_print(t, "%s", a->accepts);
    for (const char *at = a->words; *at != '\0';) {
        const size_t n = strcspn(at, "|");
        terminal_print(t, "%s`%.*s`", at == a->words ? (strcmp(a->accepts, "text") == 0 ? ": " : ", ") : ", ", (int)n,
                       at);
        at += n + (at[n] == '|');
    }
}

static void print_group(terminal *t, const char *group) {
    terminal_print(t, "\n## %s\n\n| argument | default | accepts | meaning |\n|---|---|---|---|\n", group);
    ol_argument a;
    for (size_t i = 0; ol_argument_at(i, &a); i++) {
        if (strcmp(a.group, group) != 0) continue;
        terminal_print(t, "| `%s` | `%s` | ", a.name, a.default_text);
        print_words(t, &a);
        terminal_print(t, " | %s |\n", a.about);
    }
}

static const char introduction[] =
    "# Command line\n"
    "\n"
    "Written by `yolo help --markdown` from the program's own table of arguments; a test keeps this file equal to it.\n"
    "\n"
    "    yolo [TASK] MODE [argument=value …]\n"
    "\n"
    "TASK is `detect` (and may be left out), MODE one of `train`, `val`, `predict`, `export`; words come in any "
    "order.\n"
    "\n"
    "* `argument = value`, `argument= value` and `argument =value` mean the same; a value with `[` goes on to its `]`\n"
    "  (`device=[0, 1]`).\n"
    "* An argument that is true or false may stand alone: `save_txt` is `save_txt=True`.\n"
    "* Values: `None`, `True`, `False` in any case, numbers, lists `[0, 2]`, pairs `(0.8, 1.2)`, quoted texts; "
    "anything else\n"
    "  is plain text. `imgsz=480,640` is a pair of height and width.\n"
    "* `cfg=file.yaml` replaces the defaults by those of a yaml file; arguments on the command line win.\n"
    "* Every argument is checked in every mode; one that changes nothing in the mode at hand, or belongs to another "
    "task,\n"
    "  is answered with a warning.\n"
    "* `--json` (predict) prints one JSON object a picture on stdout and everything else on stderr:\n"
    "  "
    "`{\"path\":…,\"shape\":[height,width],\"boxes\":[{\"name\":…,\"class\":…,\"confidence\":…,\"box\":{\"x1\":…,"
    "\"y1\":…,\"x2\":…,\"y2\":…}}],`\n"
    "  `\"speed\":{\"preprocess\":…,\"inference\":…,\"postprocess\":…}}`, boxes in pixels, speeds in milliseconds.\n"
    "* The exit code is 0 on success, 1 after an error, 130 when interrupted.\n"
    "* `YOLO_VERBOSE=false` leaves only errors; `NO_COLOR=1` keeps a terminal plain.\n"
    "\n"
    "## Special words\n"
    "\n"
    "| word | what it does |\n"
    "|---|---|\n";

void help_markdown(terminal *t) {
    terminal_print(t, "%s", introduction);
    for (size_t i = 0; i < sizeof special_words / sizeof *special_words; i++)
        terminal_print(t, "| `%s` | %s |\n", special_words[i].call, special_words[i].about);
    ol_argument a, b;
    for (size_t i = 0; ol_argument_at(i, &a); i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++) seen = ol_argument_at(j, &b) && strcmp(a.group, b.group) == 0;
        if (!seen) print_group(t, a.group);
    }
}
