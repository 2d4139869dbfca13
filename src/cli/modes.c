/* The modes: arguments to options, then one call of the library. */
#include "commands.h"
#include "json_lines.h"

#include <stdio.h>
#include <string.h>

/* Sets all pairs first: what a cfg file says is a default to them. */
static ol_status fill_options(program *p, ol_options *options) {
    const command *c = &p->command;
    ol_status status = OL_OK;
    if (c->task != NULL) status = ol_options_set(options, "task", c->task);
    if (status == OL_OK && c->mode != NULL) status = ol_options_set(options, "mode", c->mode);
    for (size_t i = 0; status == OL_OK && i < c->n_pairs; i++)
        status = ol_options_set(options, c->pairs[i].key, c->pairs[i].value);
    const char *cfg = status == OL_OK ? ol_options_get(options, "cfg") : "None";
    if (status == OL_OK && ol_options_is_set(options, "cfg") && strcmp(cfg, "None") != 0) {
        terminal_logf(&p->terminal, OL_LOG_INFO, "Overriding the defaults with %s", cfg);
        status = ol_options_read(options, cfg);
    }
    return status;
}

/* The value of a text argument, NULL for None. */
static const char *text_of(ol_options *options, const char *name) {
    const char *shown = ol_options_get(options, name);
    return strcmp(shown, "None") == 0 || strcmp(shown, "False") == 0 || strcmp(shown, "True") == 0 ? NULL : shown;
}

static ol_status set_unless_given(ol_options *options, const char *name, const char *typed) {
    return ol_options_is_set(options, name) ? OL_OK : ol_options_set(options, name, typed);
}

static ol_status run_predict(program *p, ol_model *model, ol_options *options) {
    if (text_of(options, "source") == NULL) {
        terminal_log(&p->terminal, OL_LOG_ERROR,
                     "'source' is missing: name a picture, a folder, a glob or a list file, i.e. 'source=bus.jpg'");
        return OL_ERROR_ARGUMENT;
    }
    ol_status status = set_unless_given(options, "save", p->command.json ? "False" : "True");
    if (status == OL_OK) status = ol_predict(model, options, p->command.json ? json_line_print : NULL, NULL);
    return status == OL_OK ? OL_OK : command_report(p, status);
}

static ol_status run_val(program *p, ol_model *model, ol_options *options) {
    return command_report(p, ol_val(model, options, NULL));
}

static ol_status run_train(program *p, ol_model *model, ol_options *options) {
    return command_report(p, ol_train(model, options, NULL));
}

static ol_status run_export(program *p, ol_model *model, ol_options *options) {
    if (!ol_options_is_set(options, "format"))
        terminal_log(&p->terminal, OL_LOG_WARNING, "'format' is missing, using 'format=onnx'");
    ol_status status = set_unless_given(options, "format", "onnx");
    const char *path = NULL;
    if (status == OL_OK) status = ol_export(model, options, &path);
    return command_report(p, status);
}

static const struct mode_row {
    const char *mode;
    ol_status (*run)(program *p, ol_model *model, ol_options *options); /* reports its errors itself */
} modes[] = {{"train", run_train}, {"val", run_val}, {"predict", run_predict}, {"export", run_export}};

/* What to load: the argument, else the checkpoint to resume, else the field's default. */
static const char *model_of(program *p, ol_options *options) {
    const char *path = text_of(options, "model");
    if (path == NULL) path = text_of(options, "resume");
    if (path != NULL) return path;
    if (p->command.task == NULL)
        terminal_log(&p->terminal, OL_LOG_WARNING, "'model' is missing, using 'model=yolo26n.pt'");
    return "yolo26n.pt";
}

int command_run_mode(program *p) {
    ol_options *options = NULL;
    ol_model *model = NULL;
    ol_status status = ol_options_create(p->context, &options);
    if (status == OL_OK) status = fill_options(p, options);
    command_report(p, status);
    const struct mode_row *row = NULL;
    if (status == OL_OK) {
        const char *mode = ol_options_get(options, "mode");
        if (!ol_options_is_set(options, "mode"))
            terminal_log(&p->terminal, OL_LOG_WARNING, "'mode' is missing, using 'mode=train'");
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            row = strcmp(modes[i].mode, mode) == 0 ? &modes[i] : row;
        if (row == NULL) {
            terminal_logf(&p->terminal, OL_LOG_ERROR,
                          "'%s' is not supported yet; there are train, val, predict and export", mode);
            status = OL_ERROR_UNSUPPORTED;
        }
    }
    if (status == OL_OK && text_of(options, "model") == NULL && text_of(options, "resume") == NULL &&
        strcmp(ol_options_get(options, "task"), "detect") != 0) {
        terminal_logf(&p->terminal, OL_LOG_ERROR, "'task=%s' is not supported yet; there is detect",
                      ol_options_get(options, "task"));
        status = OL_ERROR_UNSUPPORTED;
    }
    if (status == OL_OK) {
        status = ol_model_load(p->context, model_of(p, options), &model);
        command_report(p, status);
    }
    if (status == OL_OK) status = row->run(p, model, options);
    ol_model_destroy(model);
    ol_options_destroy(options);
    return status == OL_OK ? 0 : status == OL_ERROR_INTERRUPTED ? 130 : 1;
}
