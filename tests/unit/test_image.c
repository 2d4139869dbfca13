/* Decoders against OpenCV's pixels (tests/golden/images), size probes, damaged files, encoders. */
#include "golden.h"

#include "base/file.h"
#include "data/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FOLDER TESTS_GOLDEN_DIR "/images/"

static ol_context *ctx;

static int setup(void **state) {
    (void)state;
    ctx = test_context();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ol_context_destroy(ctx);
    return 0;
}

static void read_file(const char *name, uint8_t **bytes, size_t *n) {
    char path[1024];
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (file_read(ctx, path, 0, (char **)bytes, n) != OL_OK) fail_msg("%s", ol_context_message(ctx));
}

static void expect_message(const char *what, ol_status got, ol_status expected, const char *part) {
    if (got != expected || strstr(ol_context_message(ctx), part) == NULL)
        fail_msg("%s: status %s, message '%s', expected %s with '%s'", what, ol_status_name(got),
                 ol_context_message(ctx), ol_status_name(expected), part);
    if (strstr(ol_context_message(ctx), what) == NULL)
        fail_msg("the message '%s' does not name %s", ol_context_message(ctx), what);
    ctx_clear(ctx);
}

static void pixels_and_sizes_equal_opencv(void **state) {
    (void)state;
    golden_pack pack = golden_open("images/images");
    for (size_t i = 0; i < pack.index->as.list.count; i++) {
        const char *name = value_get(pack.index->as.list.items[i], "name")->as.string;
        const tensor expected = golden_tensor(&pack, name);
        uint8_t *bytes;
        size_t n, off = 0;
        image im = {0};
        image_info info;
        read_file(name, &bytes, &n);
        if (image_decode(ctx, name, bytes, n, 3, &im) != OL_OK) fail_msg("%s", ol_context_message(ctx));
        if (image_probe(ctx, name, bytes, n, &info) != OL_OK) fail_msg("%s", ol_context_message(ctx));
        assert_int_equal(im.height, expected.shape.dim[0]);
        assert_int_equal(im.width, expected.shape.dim[1]);
        assert_int_equal(info.height, im.height);
        assert_int_equal(info.width, im.width);
        const uint8_t *e = expected.data;
        int worst = 0;
        for (size_t k = 0; k < image_bytes(&im); k++) {
            off += im.pixels[k] != e[k];
            if (abs(im.pixels[k] - e[k]) > worst) worst = abs(im.pixels[k] - e[k]);
        }
        const bool rounded = strcmp(name, "wide.tif") == 0; /* OpenCV rounds here, the field's rule is a shift */
        if (rounded ? worst > 1 : off > 0) fail_msg("%s: %zu samples differ, by up to %d", name, off, worst);
        mem_free(ctx, bytes);
        image_deinit(ctx, &im);
    }
    golden_close(&pack);
}

static void alpha_is_dropped_not_applied(void **state) {
    (void)state;
    static const char *const names[] = {"rgba.png", "rgba.tif", "rgba.bmp", "rgb.bmp", "rgb.tif", "lossless.webp"};
    image im = {0}, rgb = {0};
    assert_int_equal(image_read(ctx, FOLDER "rgb.png", 3, &rgb), OL_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint8_t *bytes;
        size_t n;
        read_file(names[i], &bytes, &n);
        assert_int_equal(image_decode(ctx, names[i], bytes, n, 3, &im), OL_OK);
        assert_memory_equal(im.pixels, rgb.pixels, image_bytes(&rgb));
        mem_free(ctx, bytes);
    }
    image_deinit(ctx, &im);
    image_deinit(ctx, &rgb);
}

/* Every format cut anywhere fails without a crash, and says so; a JPEG that only lacks its end marker is cut too. */
static void cut_files_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"420.jpg",     "progressive.jpg", "cmyk.jpg",      "rgb.png",
                                        "palette.png", "lossy.webp",      "lossless.webp", "turned8.webp",
                                        "rgb.bmp",     "palette.bmp",     "rgb.tif",       "bit.tif"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint8_t *bytes;
        size_t n;
        read_file(names[i], &bytes, &n);
        for (size_t keep = 0; keep < n; keep += keep + 3 < n ? 3 : 1) {
            uint8_t *part = malloc(keep > 0 ? keep : 1); /* of its own size, so that an overrun is seen */
            memcpy(part, bytes, keep);
            image im = {0};
            image_info info;
            const ol_status status = image_decode(ctx, names[i], part, keep, 3, &im);
            if (status == OL_OK &&
                (strstr(names[i], "jpg") != NULL || keep + 4 <= n)) /* elsewhere the last 4 bytes may say nothing */
                fail_msg("%s cut to %zu of %zu bytes was decoded", names[i], keep, n);
            if (status != OL_OK && strstr(ol_context_message(ctx), names[i]) == NULL)
                fail_msg("%s", ol_context_message(ctx));
            ctx_clear(ctx);
            (void)image_probe(ctx, names[i], part, keep, &info);
            ctx_clear(ctx);
            image_deinit(ctx, &im);
            free(part);
        }
        mem_free(ctx, bytes);
    }
    uint8_t *bytes;
    size_t n;
    image im = {0};
    read_file("420.jpg", &bytes, &n);
    expect_message("a.jpg", image_decode(ctx, "a.jpg", bytes, n - 2, 3, &im), OL_ERROR_FORMAT,
                   "image file is truncated");
    expect_message("a.jpg", image_decode(ctx, "a.jpg", bytes, n - 40, 3, &im), OL_ERROR_FORMAT,
                   "image file is truncated");
    uint8_t *longer = malloc(n + 100);
    memcpy(longer, bytes, n);
    memset(longer + n, 0xA5, 100);
    assert_int_equal(image_decode(ctx, "junk.jpg", longer, n + 100, 3, &im), OL_OK); /* junk after the end is fine */
    free(longer);
    mem_free(ctx, bytes);
    image_deinit(ctx, &im);
}

static void hostile_headers_cost_nothing(void **state) {
    (void)state;
    image im = {0};
    image_info info;
    uint8_t png[64] = "\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\x08\2\0\0\0";
    expect_message("bomb.png", image_probe(ctx, "bomb.png", png, sizeof png, &info), OL_ERROR_FORMAT, "limits");
    expect_message("bomb.png", image_decode(ctx, "bomb.png", png, sizeof png, 3, &im), OL_ERROR_FORMAT, "limits");
    uint8_t *bytes;
    size_t n;
    read_file("420.jpg", &bytes, &n);
    for (size_t i = 0; i + 9 < n; i++)
        if (bytes[i] == 0xFF && bytes[i + 1] == 0xC0) memcpy(bytes + i + 5, "\x30\x00\x30\x00", 4);
    expect_message("b.jpg", image_decode(ctx, "b.jpg", bytes, n, 3, &im), OL_ERROR_FORMAT, "image file is truncated");
    mem_free(ctx, bytes);
    uint8_t bmp[54] = "BM";
    bmp[10] = 54, bmp[14] = 40, bmp[20] = 1, bmp[24] = 1, bmp[26] = 1, bmp[28] = 24; /* 65536 x 65536 */
    expect_message("b.bmp", image_probe(ctx, "b.bmp", bmp, sizeof bmp, &info), OL_ERROR_FORMAT, "limits");
    bmp[20] = 0, bmp[18] = 9, bmp[24] = 0, bmp[22] = 0;
    expect_message("b.bmp", image_probe(ctx, "b.bmp", bmp, sizeof bmp, &info), OL_ERROR_FORMAT, "header says");
    assert_null(im.pixels); /* nothing was allocated on the way */
}

static void what_is_no_picture_is_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        ol_status status;
        const char *part;
    } cases[] = {{"", 0, OL_ERROR_FORMAT, "empty"},
                 {"<html></html>", 13, OL_ERROR_FORMAT, "not a picture"},
                 {"\xFF\xD8\xFF\xD9", 4, OL_ERROR_FORMAT, "no frame header"},
                 {"\0\0\0\x18"
                  "ftypheic\0\0\0\0",
                  16, OL_ERROR_UNSUPPORTED, "HEIF"},
                 {"\0\0\0\x18"
                  "ftypavif\0\0\0\0",
                  16, OL_ERROR_UNSUPPORTED, "AVIF"},
                 {"\0\0\0\x0CjP  \r\n\x87\n", 12, OL_ERROR_UNSUPPORTED, "JPEG 2000"},
                 {"GIF89a\1\0\1\0", 10, OL_ERROR_UNSUPPORTED, "GIF"},
                 {"II*\0\x08\0\0\0", 8, OL_ERROR_FORMAT, "TIFF"},
                 {"BM\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 26, OL_ERROR_FORMAT, "BMP"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        image im = {0};
        image_info info;
        const uint8_t *bytes = (const uint8_t *)cases[i].bytes;
        expect_message("x.jpg", image_decode(ctx, "x.jpg", bytes, cases[i].n, 3, &im), cases[i].status, cases[i].part);
        expect_message("x.jpg", image_probe(ctx, "x.jpg", bytes, cases[i].n, &info), cases[i].status, cases[i].part);
    }
}

/* Deterministic damage of every fixture: any answer but a crash, a leak or an overrun is right (run under sanitizers).
 */
/* What decoding refuses a look at the header refuses too: a data set's scan must leave such pictures out. */
static void headers_of_unsupported_kinds_are_refused(void **state) {
    (void)state;
    static const uint8_t animated[] = "RIFF\x24\0\0\0WEBPVP8X\x0A\0\0\0\x02\0\0\0\x1F\0\0\x1F\0\0"
                                      "ANIM\x06\0\0\0\0\0\0\0\0\0";
    uint8_t jpeg[] = "\xFF\xD8\xFF\xC1\0\x11\x0C\0\x20\0\x20\x03\1\x11\0\2\x11\0\3\x11\0\xFF\xD9";
    image_info info;
    expect_message("a.webp", image_probe(ctx, "a.webp", animated, sizeof animated - 1, &info), OL_ERROR_UNSUPPORTED,
                   "animated WebP");
    expect_message("j.jpg", image_probe(ctx, "j.jpg", jpeg, sizeof jpeg - 1, &info), OL_ERROR_UNSUPPORTED, "12 bits");
    jpeg[6] = 8;
    assert_int_equal(image_probe(ctx, "j.jpg", jpeg, sizeof jpeg - 1, &info), OL_OK);
    jpeg[11] = 2;
    expect_message("j.jpg", image_probe(ctx, "j.jpg", jpeg, sizeof jpeg - 1, &info), OL_ERROR_UNSUPPORTED,
                   "2 components");
    /* a TIFF of 32-bit samples: width, height, bits, photometric, strip, samples, rows, bytes */
    static const uint16_t entries[][2] = {{256, 16}, {257, 16}, {258, 32}, {259, 1},    {262, 1},
                                          {273, 8},  {277, 1},  {278, 16}, {279, 1024}, {339, 3}};
    uint8_t tiff[2048] = "II*\0";
    const size_t n = sizeof entries / sizeof entries[0], at = 1032;
    tiff[4] = (uint8_t)(at & 255), tiff[5] = (uint8_t)(at >> 8);
    tiff[at] = (uint8_t)n;
    for (size_t i = 0; i < n; i++) {
        uint8_t *e = tiff + at + 2 + 12 * i;
        e[0] = (uint8_t)(entries[i][0] & 255), e[1] = (uint8_t)(entries[i][0] >> 8);
        e[2] = 3, e[4] = 1;
        e[8] = (uint8_t)(entries[i][1] & 255), e[9] = (uint8_t)(entries[i][1] >> 8);
    }
    expect_message("f.tif", image_probe(ctx, "f.tif", tiff, sizeof tiff, &info), OL_ERROR_UNSUPPORTED,
                   "32-bit samples");
}

static void damaged_bytes_never_crash(void **state) {
    (void)state;
    golden_pack pack = golden_open("images/images");
    uint32_t x = 1;
    for (size_t i = 0; i < pack.index->as.list.count; i++) {
        const char *name = value_get(pack.index->as.list.items[i], "name")->as.string;
        uint8_t *bytes;
        size_t n;
        read_file(name, &bytes, &n);
        for (int round = 0; round < 60; round++) {
            image im = {0};
            for (int k = 0; k < 3; k++) {
                x = x * 1664525u + 1013904223u;
                bytes[(x >> 8) % n] = (uint8_t)(x >> 3);
            }
            (void)image_decode(ctx, name, bytes, n, 1 + 2 * (round % 2), &im);
            ctx_clear(ctx);
            image_deinit(ctx, &im);
        }
        mem_free(ctx, bytes);
    }
    golden_close(&pack);
}

static void files_are_checked_by_content(void **state) {
    (void)state;
    arena a;
    arena_init(&a, ctx, 0);
    image_info info;
    uint8_t *bytes;
    size_t n;
    assert_int_equal(image_check_file(ctx, FOLDER "turned6.jpg", &info), OL_OK);
    assert_int_equal(info.height, 19);
    assert_int_equal(info.orientation, 6);
    assert_int_equal(image_check_file(ctx, FOLDER "turned6.tif", &info), OL_OK);
    assert_int_equal(info.width, 13);
    const char *path = arena_printf(&a, "%s/wrong suffix \xC3\xA9.png", TESTS_BUILD_DIR);
    read_file("420.jpg", &bytes, &n);
    assert_int_equal(file_write_atomic(ctx, path, bytes, n), OL_OK);
    assert_int_equal(image_check_file(ctx, path, &info), OL_OK);
    assert_int_equal(info.format, IMAGE_FORMAT_JPEG);
    assert_int_equal(file_write_atomic(ctx, path, bytes, n - 1), OL_OK);
    expect_message(path, image_check_file(ctx, path, &info), OL_ERROR_FORMAT, "image file is truncated");
    assert_int_equal(file_write_atomic(ctx, path, bytes, 0), OL_OK);
    expect_message(path, image_check_file(ctx, path, &info), OL_ERROR_FORMAT, "empty");
    mem_free(ctx, bytes);
    unlink(path);
    expect_message(path, image_check_file(ctx, path, &info), OL_ERROR_NOT_FOUND, "cannot open");
    arena_deinit(&a);
}

/* A long block before the frame header: the size probe of a file must read past its first piece. */
static void headers_may_be_long(void **state) {
    (void)state;
    arena a;
    arena_init(&a, ctx, 0);
    uint8_t *bytes, *big = calloc(1, 300000);
    size_t n, at = 2;
    image_info info;
    read_file("turned6.jpg", &bytes, &n);
    memcpy(big, bytes, 2);
    for (int i = 0; i < 4; i++, at += 60002) memcpy(big + at, "\xFF\xE2\xEA\x60", 4);
    memcpy(big + at, bytes + 2, n - 2);
    const char *path = arena_printf(&a, "%s/test_image_long.jpg", TESTS_BUILD_DIR);
    assert_int_equal(file_write_atomic(ctx, path, big, at + n - 2), OL_OK);
    assert_int_equal(image_check_file(ctx, path, &info), OL_OK);
    assert_int_equal(info.width, 13);
    unlink(path);
    free(big);
    mem_free(ctx, bytes);
    arena_deinit(&a);
}

static void encoders_come_back(void **state) {
    (void)state;
    image im = {0}, back = {0};
    for (int channels = 1; channels <= 3; channels += 2) {
        assert_int_equal(image_reserve(ctx, &im, 37, 53, channels), OL_OK);
        for (size_t i = 0; i < image_bytes(&im); i++) im.pixels[i] = (uint8_t)(i * 255 / image_bytes(&im));
        uint8_t *bytes;
        size_t n;
        assert_int_equal(image_encode_png(ctx, &im, &bytes, &n), OL_OK);
        assert_int_equal(image_decode(ctx, "x", bytes, n, channels, &back), OL_OK);
        assert_memory_equal(im.pixels, back.pixels, image_bytes(&im));
        mem_free(ctx, bytes);
        const image_jpeg_options options = {.quality = 98, .full_chroma = true};
        assert_int_equal(image_encode_jpeg(ctx, &im, &options, &bytes, &n), OL_OK);
        assert_int_equal(image_decode(ctx, "x", bytes, n, channels, &back), OL_OK);
        for (size_t i = 0; i < image_bytes(&im); i++) assert_true(abs(im.pixels[i] - back.pixels[i]) <= 8);
        mem_free(ctx, bytes);
    }
    expect_message("x.gif", image_write(ctx, "x.gif", &im), OL_ERROR_ARGUMENT, ".jpg or .png");
    image_deinit(ctx, &im);
    image_deinit(ctx, &back);
}

typedef struct rationed {
    int left;  /* allocations that still succeed */
    int alive; /* blocks */
} rationed;

static void *ration(void *user, void *block, size_t bytes) {
    rationed *r = user;
    if (bytes == 0) {
        free(block);
        r->alive -= block != NULL;
        return NULL;
    }
    if (r->left-- <= 0) return NULL;
    void *grown = realloc(block, bytes);
    r->alive += block == NULL;
    return grown;
}

/* Fails the first, second, third … allocation of decoding and encoding: a clean failure each time, and nothing leaks.
 */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    golden_pack pack = golden_open("images/images");
    for (size_t i = 0; i < pack.index->as.list.count; i++) {
        const char *name = value_get(pack.index->as.list.items[i], "name")->as.string;
        uint8_t *bytes;
        size_t n;
        read_file(name, &bytes, &n);
        for (int allowed = 0, done = 0; done < 2; allowed++) { /* 3 channels, then 1 */
            rationed r = {.left = 1};
            const ol_context_options options = {
                .struct_bytes = sizeof options, .realloc_block = ration, .realloc_user = &r};
            ol_context *poor = NULL;
            image im = {0};
            uint8_t *jpeg = NULL, *png = NULL;
            size_t n_jpeg, n_png;
            assert_int_equal(ol_context_create(&options, &poor), OL_OK);
            r.left = allowed;
            ol_status status = image_decode(poor, name, bytes, n, done == 0 ? 3 : 1, &im);
            if (status == OL_OK) status = image_encode_jpeg(poor, &im, NULL, &jpeg, &n_jpeg);
            if (status == OL_OK) status = image_encode_png(poor, &im, &png, &n_png);
            if (status != OL_OK && strstr(ol_context_message(poor), "memory") == NULL)
                fail_msg("%s, allocation %d: %s", name, allowed, ol_context_message(poor));
            if (status == OL_OK) done++, allowed = -1;
            image_deinit(poor, &im);
            mem_free(poor, jpeg);
            mem_free(poor, png);
            ol_context_destroy(poor);
            assert_int_equal(r.alive, 0);
        }
        mem_free(ctx, bytes);
    }
    golden_close(&pack);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_and_sizes_equal_opencv), cmocka_unit_test(alpha_is_dropped_not_applied),
        cmocka_unit_test(cut_files_are_refused),         cmocka_unit_test(hostile_headers_cost_nothing),
        cmocka_unit_test(what_is_no_picture_is_named),   cmocka_unit_test(headers_of_unsupported_kinds_are_refused),
        cmocka_unit_test(damaged_bytes_never_crash),     cmocka_unit_test(files_are_checked_by_content),
        cmocka_unit_test(headers_may_be_long),           cmocka_unit_test(encoders_come_back),
        cmocka_unit_test(memory_may_run_out_anywhere)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
