#include "golden.h"

#include "base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void print_line(void *user, ol_log_level level, const char *line) {
    (void)user;
    if (level == OL_LOG_WARNING || level == OL_LOG_ERROR) fprintf(stderr, "%s\n", line);
}

ol_context *test_context(void) {
    const ol_context_options options = {.struct_bytes = sizeof options, .log = print_line};
    ol_context *ctx = NULL;
    if (ol_context_create(&options, &ctx) != OL_OK) abort();
    return ctx;
}

const char *test_device_name(void) {
    const char *named = getenv("ONELOOK_TEST_DEVICE");
    return named != NULL ? named : "cpu";
}

dtype test_compute(void) {
    const char *named = getenv("ONELOOK_TEST_COMPUTE");
    if (named == NULL || strcmp(test_device_name(), "cpu") == 0) return DTYPE_F32;
    return strcmp(named, "f16") == 0 ? DTYPE_F16 : strcmp(named, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
}

void test_choose(void) {
    cmocka_set_test_filter(getenv("ONELOOK_TEST_ONLY"));
    cmocka_set_skip_filter(getenv("ONELOOK_TEST_SKIP"));
}

static ol_status read_whole(arena *a, const char *path, const unsigned char **bytes, size_t *n) {
    char *raw = NULL;
    ol_status status = file_read(a->ctx, path, 0, &raw, n);
    if (status != OL_OK) return status;
    unsigned char *copy = arena_alloc(a, *n + 1, 1);
    if (copy != NULL) memcpy(copy, raw, *n + 1);
    mem_free(a->ctx, raw);
    *bytes = copy;
    return copy != NULL ? OL_OK : OL_ERROR_MEMORY;
}

const value *golden_json(arena *a, const char *path) {
    const char *full = arena_printf(a, "%s/%s", TESTS_GOLDEN_DIR, path);
    const unsigned char *bytes = NULL;
    const value *v = NULL;
    size_t n = 0;
    if (read_whole(a, full, &bytes, &n) != OL_OK || json_parse(a, full, (const char *)bytes, n, &v) != OL_OK)
        fail_msg("%s", ol_context_message(a->ctx));
    return v;
}

golden_pack golden_open(const char *stem) {
    golden_pack p = {0};
    arena_init(&p.arena, test_context(), 0);
    char *blob = arena_printf(&p.arena, "%s/%s.bin", TESTS_GOLDEN_DIR, stem);
    size_t n = 0;
    p.typed = file_exists(blob);
    if (p.typed) {
        p.index = golden_json(&p.arena, arena_printf(&p.arena, "%s.idx", stem));
        if (read_whole(&p.arena, blob, &p.bytes, &n) != OL_OK) fail_msg("cannot read %s", blob);
        return p;
    }
    const value *json = golden_json(&p.arena, arena_printf(&p.arena, "%s.json", stem));
    p.meta = value_get(json, "meta");
    p.index = value_get(json, "arrays");
    if (read_whole(&p.arena, arena_printf(&p.arena, "%s/%s.npy", TESTS_GOLDEN_DIR, stem), &p.bytes, &n) != OL_OK)
        fail_msg("cannot read %s.npy", stem);
    p.bytes += 10 + (p.bytes[8] | p.bytes[9] << 8); /* NPY 1.0: magic, version, header length, header */
    return p;
}

void golden_close(golden_pack *p) {
    ol_context *ctx = p->arena.ctx;
    arena_deinit(&p->arena);
    ol_context_destroy(ctx);
}

static const value *find(const golden_pack *p, const char *name) {
    for (size_t i = 0; i < p->index->as.list.count; i++) {
        const value *entry = p->index->as.list.items[i];
        if (strcmp(value_get(entry, "name")->as.string, name) == 0) return entry;
    }
    return NULL;
}

bool golden_has(const golden_pack *p, const char *name) {
    return find(p, name) != NULL;
}

tensor golden_tensor(const golden_pack *p, const char *name) {
    const value *entry = find(p, name);
    if (entry == NULL) fail_msg("no golden array '%s'", name);
    const value *dims = value_get(entry, "shape"), *type = value_get(entry, "dtype");
    shape s = {.rank = (int)dims->as.list.count};
    for (int i = 0; i < s.rank; i++) s.dim[i] = dims->as.list.items[i]->as.integer;
    dtype t = DTYPE_F32;
    if (type != NULL) {
        const char *word = type->as.string;
        t = strcmp(word, "u8") == 0    ? DTYPE_U8
            : strcmp(word, "i32") == 0 ? DTYPE_I32
            : strcmp(word, "f64") == 0 ? DTYPE_F64
                                       : DTYPE_F32;
    }
    const size_t offset = (size_t)value_get(entry, "offset")->as.integer * (p->typed ? 1 : sizeof(float));
    return tensor_view(t, s, (void *)(uintptr_t)(p->bytes + offset));
}

void golden_hash(const char *tag, float *out, size_t n, double lo, double hi) {
    uint64_t h = 0xCBF29CE484222325u;
    for (const char *c = tag; *c != '\0'; c++) h = (h ^ (unsigned char)*c) * 0x100000001B3u;
    for (size_t i = 0; i < n; i++) {
        uint64_t z = h + (i + 1) * 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        out[i] = (float)(lo + (double)(z >> 40) * 0x1p-24 * (hi - lo));
    }
}

const char *shared_folder(void) {
    const char *named = getenv("ONELOOK_SHARED");
    if (named != NULL) return file_is_folder(named) ? named : NULL;
    static const char beside[] = TESTS_SOURCE_DIR "/../shared";
    return file_is_folder(beside) ? beside : NULL;
}

void skip_without(const char *path, const char *what) {
    if (path != NULL) return;
    printf("skipped: %s is not here\n", what);
    exit(77);
}

void assert_close(const char *what, const float *a, const float *b, size_t n, double absolute, double relative) {
    double worst = 0.0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const double limit = absolute + relative * fabs((double)b[i]), error = fabs((double)a[i] - (double)b[i]);
        const double excess = isnan(error) ? INFINITY : limit > 0 ? error / limit : error > 0 ? INFINITY : 0.0;
        if (excess > worst) {
            worst = excess;
            at = i;
        }
    }
    if (worst > 1.0)
        fail_msg("%s: element %zu of %zu is %.9g, expected %.9g (%.2f times the tolerance)", what, at, n, (double)a[at],
                 (double)b[at], worst);
}
