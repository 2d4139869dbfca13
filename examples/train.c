/* Train a model from an architecture or from weights: train MODEL DATA [argument=value …]
 * cc train.c -lonelook */
#include <onelook.h>
#include <stdio.h>
#include <string.h>

static void show(void *user, ol_log_level level, const char *line) {
    (void)user;
    if (level != OL_LOG_PROGRESS) puts(line);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: train MODEL DATA [argument=value ...]\n");
        return 2;
    }
    ol_context *context = NULL;
    ol_options *options = NULL;
    ol_model *model = NULL;
    ol_train_result result = {.struct_bytes = sizeof result};
    const ol_context_options show_lines = {.struct_bytes = sizeof show_lines, .log = show};
    ol_status status = ol_context_create(&show_lines, &context);
    if (status != OL_OK) return 1;
    status = ol_options_create(context, &options);
    if (status == OL_OK) status = ol_options_set(options, "data", argv[2]);
    for (int i = 3; status == OL_OK && i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value != NULL) *value++ = '\0';
        status = ol_options_set(options, argv[i], value != NULL ? value : "True");
    }
    if (status == OL_OK) status = ol_model_load(context, argv[1], &model);
    if (status == OL_OK) status = ol_train(model, options, &result);
    if (status == OL_OK)
        printf("%d epochs, mAP50 %.3f, weights: %s\n", result.epochs, result.map50, result.best);
    else
        fprintf(stderr, "train: %s\n", ol_context_message(context));
    ol_model_destroy(model);
    ol_options_destroy(options);
    ol_context_destroy(context);
    return status == OL_OK ? 0 : 1;
}
