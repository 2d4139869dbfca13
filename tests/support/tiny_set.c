#include "tiny_set.h"

#include "base/file.h"
#include "base/rng.h"
#include "data/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

const char *tiny_picture(scratch *s, const char *name, int height, int width, unsigned seed) {
    const char *path = scratch_bytes(s, name, "", 0); /* makes the folders */
    rng r = rng_stream(seed, RNG_TEST, 0, 0);
    uint8_t palette[16][3];
    image im = {0};
    for (int i = 0; i < 48; i++) palette[i / 3][i % 3] = (uint8_t)rng_below(&r, 256);
    if (image_reserve(s->ctx, &im, height, width, 3) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    for (int i = 0; i < height * width * 3; i++) {
        const int y = i / 3 / width, x = i / 3 % width;
        im.pixels[i] = palette[(y / 8 * 5 + x / 8 * 3) % 16][i % 3];
    }
    if (image_write(s->ctx, path, &im) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    image_deinit(s->ctx, &im);
    return path;
}

const char *tiny_yaml(scratch *s) {
    return scratch_text(s, "data.yaml", "path: .\ntrain: images/train\nval: images/val\nnames: [ant, bee, cat]\n");
}

static void add_split(scratch *s, const char *split, int n) {
    static const int sizes[][2] = {{48, 64}, {64, 48}, {64, 64}, {40, 100}, {90, 60}, {32, 33}, {128, 96}};
    for (int i = 0; i < n; i++) {
        const int *hw = sizes[i % 7];
        char rows[400] = "";
        int length = 0;
        tiny_picture(s, arena_printf(&s->arena, "images/%s/%03d.png", split, i), hw[0], hw[1], (unsigned)i);
        for (int k = 0; k <= i % 4; k++)
            length += snprintf(rows + length, sizeof rows - (size_t)length, "%d %.4f %.4f %.4f %.4f\n", (i + k) % 3,
                               0.2 + 0.15 * k, 0.3 + 0.01 * (i % 30), 0.1 + 0.01 * k, 0.2);
        scratch_text(s, arena_printf(&s->arena, "labels/%s/%03d.txt", split, i), rows);
    }
}

const char *tiny_set(scratch *s, int n_train, int n_val) {
    add_split(s, "train", n_train);
    add_split(s, "val", n_val);
    return tiny_yaml(s);
}
