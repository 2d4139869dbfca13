/* Predict on pictures and print the boxes: predict MODEL SOURCE [argument=value …]
 * cc predict.c -lonelook */
#include <onelook.h>
#include <stdio.h>
#include <string.h>

static ol_status print_boxes(void *user, const ol_result *r) {
    (void)user;
    printf("%s: %zu boxes\n", r->path, r->n_boxes);
    for (size_t i = 0; i < r->n_boxes; i++) {
        const ol_box *b = &r->boxes[i];
        printf("  %-12s %.2f  %.1f %.1f %.1f %.1f\n", r->class_names[b->class_id], (double)b->confidence, (double)b->x1,
               (double)b->y1, (double)b->x2, (double)b->y2);
    }
    return OL_OK;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: predict MODEL SOURCE [argument=value ...]\n");
        return 2;
    }
    ol_context *context = NULL;
    ol_options *options = NULL;
    ol_model *model = NULL;
    ol_status status = ol_context_create(NULL, &context);
    if (status != OL_OK) return 1;
    status = ol_options_create(context, &options);
    if (status == OL_OK) status = ol_options_set(options, "source", argv[2]);
    for (int i = 3; status == OL_OK && i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value != NULL) *value++ = '\0';
        status = ol_options_set(options, argv[i], value != NULL ? value : "True");
    }
    if (status == OL_OK) status = ol_model_load(context, argv[1], &model);
    if (status == OL_OK) status = ol_predict(model, options, print_boxes, NULL);
    if (status != OL_OK) fprintf(stderr, "predict: %s\n", ol_context_message(context));
    ol_model_destroy(model);
    ol_options_destroy(options);
    ol_context_destroy(context);
    return status == OL_OK ? 0 : 1;
}
