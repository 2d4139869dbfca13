/* Validate a model on a data set and print one line a class: val MODEL DATA [IMGSZ]
 * cc val.c -lonelook */
#include <onelook.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: val MODEL DATA [IMGSZ]\n");
        return 2;
    }
    ol_context *context = NULL;
    ol_options *options = NULL;
    ol_model *model = NULL;
    ol_metrics metrics = {.struct_bytes = sizeof metrics};
    ol_status status = ol_context_create(NULL, &context);
    if (status != OL_OK) return 1;
    status = ol_options_create(context, &options);
    if (status == OL_OK) status = ol_options_set(options, "data", argv[2]);
    if (status == OL_OK) status = ol_options_set(options, "plots", "False");
    if (status == OL_OK && argc > 3) status = ol_options_set(options, "imgsz", argv[3]);
    if (status == OL_OK) status = ol_model_load(context, argv[1], &model);
    if (status == OL_OK) status = ol_val(model, options, &metrics);
    if (status != OL_OK) {
        fprintf(stderr, "val: %s\n", ol_context_message(context));
    } else {
        printf("%-12s %8s %8s %8s %8s\n", "class", "P", "R", "mAP50", "mAP50-95");
        for (size_t i = 0; i < metrics.n_classes; i++) {
            const ol_class_metrics *c = &metrics.classes[i];
            printf("%-12s %8.4f %8.4f %8.4f %8.4f\n", c->name, c->precision, c->recall, c->map50, c->map50_95);
        }
        printf("%-12s %8.4f %8.4f %8.4f %8.4f\n", "all", metrics.precision, metrics.recall, metrics.map50,
               metrics.map50_95);
    }
    ol_model_destroy(model);
    ol_options_destroy(options);
    ol_context_destroy(context);
    return status == OL_OK ? 0 : 1;
}
