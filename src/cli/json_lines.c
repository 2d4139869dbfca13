#include "json_lines.h"

#include <stdio.h>

static void print_string(const char *s) {
    putchar('"');
    for (; *s != '\0'; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 32)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

ol_status json_line_print(void *user, const ol_result *r) {
    (void)user;
    printf("{\"path\":");
    print_string(r->path);
    printf(",\"shape\":[%d,%d],\"boxes\":[", r->height, r->width);
    for (size_t i = 0; i < r->n_boxes; i++) {
        const ol_box *b = &r->boxes[i];
        printf("%s{\"name\":", i > 0 ? "," : "");
        print_string(b->class_id >= 0 && b->class_id < r->n_classes ? r->class_names[b->class_id] : "");
        printf(",\"class\":%d,\"confidence\":%.5f,\"box\":{\"x1\":%.5f,\"y1\":%.5f,\"x2\":%.5f,\"y2\":%.5f}}",
               b->class_id, (double)b->confidence, (double)b->x1, (double)b->y1, (double)b->x2, (double)b->y2);
    }
    printf("],\"speed\":{\"preprocess\":%.2f,\"inference\":%.2f,\"postprocess\":%.2f}}\n", r->preprocess_ms,
           r->inference_ms, r->postprocess_ms);
    return fflush(stdout) == 0 ? OL_OK : OL_ERROR_IO;
}
