/* The files of the shapes data set. */
#include "base/file.h"
#include "base/text.h"
#include "data/shapes.h"

static const char data_yaml[] = "# Coloured shapes, drawn by `yolo shapes`\n"
                                "train: images/train\n"
                                "val: images/val\n"
                                "names:\n"
                                "  0: circle\n"
                                "  1: square\n"
                                "  2: triangle\n"
                                "  3: star\n";

/* part / whole with six decimals, rounded, in whole numbers. */
static void print_share(text *t, int64_t part, int64_t whole) {
    const int64_t millionths = (part * 1000000 + whole / 2) / whole;
    text_printf(t, " %lld.%06lld", (long long)(millionths / 1000000), (long long)(millionths % 1000000));
}

static void print_rows(text *t, const image *im, const shapes_object *objects, int n) {
    const int64_t width = (int64_t)im->width * 512, height = (int64_t)im->height * 512; /* twice, in 1/256 pixel */
    for (int i = 0; i < n; i++) {
        const shapes_object *o = &objects[i];
        text_printf(t, "%d", o->cls);
        print_share(t, o->x1 + o->x2, width);
        print_share(t, o->y1 + o->y2, height);
        print_share(t, 2 * (o->x2 - o->x1), width);
        print_share(t, 2 * (o->y2 - o->y1), height);
        text_printf(t, "\n");
    }
}

static ol_status write_one(ol_context *ctx, const char *folder, int split, int index, int size_px, uint64_t seed,
                           image *im, text *rows) {
    static const char *const names[] = {"train", "val"};
    shapes_object objects[SHAPES_MAX_OBJECTS];
    int n = 0;
    uint8_t *png = NULL;
    size_t n_png = 0;
    arena a;
    arena_init(&a, ctx, 0);
    const char *picture = arena_printf(&a, "%s/images/%s/%03d.png", folder, names[split], index);
    const char *label = arena_printf(&a, "%s/labels/%s/%03d.txt", folder, names[split], index);
    ol_status status = picture == NULL || label == NULL ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK && index == 0) status = folder_create(ctx, path_parent(&a, picture));
    if (status == OL_OK && index == 0) status = folder_create(ctx, path_parent(&a, label));
    if (status == OL_OK) status = shapes_draw(ctx, size_px, seed, split, index, im, objects, &n);
    if (status == OL_OK) status = image_encode_png(ctx, im, &png, &n_png);
    if (status == OL_OK) status = file_write(ctx, picture, png, n_png);
    mem_free(ctx, png);
    text_clear(rows);
    print_rows(rows, im, objects, n);
    if (status == OL_OK && rows->failed) status = OL_ERROR_MEMORY;
    if (status == OL_OK) status = file_write(ctx, label, text_c(rows), rows->length);
    arena_deinit(&a);
    return status;
}

ol_status shapes_write(ol_context *ctx, const char *folder, int n_train, int n_val, int size_px, uint64_t seed) {
    const int counts[] = {n_train, n_val};
    if (n_train < 1 || n_val < 1 || n_train > 1000000 || n_val > 1000000)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT,
                        "%d training and %d validation pictures: at least one of each is needed", n_train, n_val);
    arena a;
    image im = {0};
    text rows;
    ol_status status = OL_OK;
    arena_init(&a, ctx, 0);
    text_init(&rows, ctx);
    for (int split = 0; split < 2; split++)
        for (int i = 0; status == OL_OK && i < counts[split]; i++)
            status = write_one(ctx, folder, split, i, size_px, seed, &im, &rows);
    const char *yaml = path_join(&a, folder, "data.yaml");
    if (status == OL_OK && yaml == NULL) status = OL_ERROR_MEMORY;
    if (status == OL_OK) status = file_write_atomic(ctx, yaml, data_yaml, sizeof data_yaml - 1);
    text_deinit(&rows);
    image_deinit(ctx, &im);
    arena_deinit(&a);
    return status;
}
