/* Which device code goes to the driver: kernels out of PTX modules, and the target of an architecture. */
#include "device/gpu/kernel_archive.h"
#include "device/gpu/ptx.h"
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER      "//\n// Generated\n//\n\n.version 7.1\n.target sm_80\n.address_size 64\n\n"
#define SHARED_TILE ".shared .align 16 .b8 tile[64];\n"
#define KERNEL(name)                                                                                                   \
    ".visible .entry " name                                                                                            \
    "(\n\t.param .align 8 .b8 p[160]\n)\n.maxntid 256, 1, 1\n{\n\t.reg .pred %p<2>;\n\t{ // inner\n"                   \
    "\t}\n$L__BB0_1:\n\tret;\n}\n"
#define SPACE "\t// -- End function\n"

static bool is_listed(const void *user, const char *kernel) {
    const char *const *names = user;
    for (; *names != NULL; names++)
        if (strcmp(*names, kernel) == 0) return true;
    return false;
}

static void taken(text *out, const char *module, const char *const *names) {
    ptx_append(out, module, is_listed, names);
    assert_false(out->failed);
}

static void wanted_kernels_are_taken_whole_and_no_others(void **state) {
    static const char module[] = HEADER KERNEL("add_f16") SPACE KERNEL("add_f32") SPACE KERNEL("add");
    static const struct {
        const char *names[4], *expected;
    } cases[] = {
        {{"add_f32", NULL}, ".version 7.1\n.target sm_80\n.address_size 64\n" KERNEL("add_f32")},
        {{"add", NULL}, ".version 7.1\n.target sm_80\n.address_size 64\n" KERNEL("add")},
        {{"add", "add_f16", NULL}, ".version 7.1\n.target sm_80\n.address_size 64\n" KERNEL("add_f16") KERNEL("add")},
        {{"add_f", NULL}, ".version 7.1\n.target sm_80\n.address_size 64\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text out;
        text_init(&out, *state);
        taken(&out, module, cases[i].names);
        assert_string_equal(text_c(&out), cases[i].expected);
        text_deinit(&out);
    }
}

static void modules_follow_each_other_under_one_header(void **state) {
    static const char first[] = HEADER KERNEL("a") KERNEL("b"), second[] = HEADER SHARED_TILE KERNEL("c");
    static const char *const names[] = {"b", "c", NULL};
    text out;
    text_init(&out, *state);
    taken(&out, first, names);
    taken(&out, second, names);
    assert_string_equal(text_c(&out),
                        ".version 7.1\n.target sm_80\n.address_size 64\n" KERNEL("b") SHARED_TILE KERNEL("c"));
    text_deinit(&out);
}

static void a_text_that_ends_early_is_read_to_its_end(void **state) {
    static const char module[] = HEADER KERNEL("a") KERNEL("b");
    static const char *const names[] = {"b", NULL};
    for (size_t n = 0; n < sizeof module; n++) {
        char *cut = malloc(n + 1);
        assert_non_null(cut);
        memcpy(cut, module, n);
        cut[n] = '\0';
        text out;
        text_init(&out, *state);
        ptx_append(&out, cut, is_listed, names);
        assert_false(out.failed);
        assert_true(out.length <= n);
        text_deinit(&out);
        free(cut);
    }
}

/* As tools/pack_kernels.c writes them. */
typedef struct entry {
    char target[16], module[16];
    uint32_t frame, reserved;
    uint64_t offset, bytes;
} entry;

static void the_nearest_machine_code_is_chosen_else_ptx(void **state) {
    static const char *const targets[] = {"ptx", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx1100"};
    enum { N = sizeof targets / sizeof *targets };
    static const struct {
        const char *arch, *with, *without; /* machine code for NVIDIA's cards */
    } cases[] = {{"sm_80", "sm_80", "ptx"},   {"sm_86", "sm_86", "ptx"},
                 {"sm_87", "sm_86", "ptx"},   {"sm_89", "sm_86", "ptx"},
                 {"sm_90", "sm_90", "ptx"},   {"sm_100", "sm_100", "ptx"},
                 {"sm_103", "sm_100", "ptx"}, {"sm_110", "ptx", "ptx"},
                 {"sm_120", "sm_120", "ptx"}, {"sm_121", "sm_120", "ptx"},
                 {"sm_75", NULL, NULL},       {"gfx90a", "gfx90a", "gfx90a"},
                 {"gfx942", NULL, NULL},      {"gfx1100", "gfx1100", "gfx1100"}};
    static unsigned char bytes[16 + N * sizeof(entry)];
    const kernel_archive all = {.ctx = *state, .bytes = bytes, .n_bytes = sizeof bytes, .n_entries = N};
    for (size_t c = 0; c < 2 * sizeof cases / sizeof *cases; c++) {
        const bool with = c % 2 == 0;
        const char *expected = with ? cases[c / 2].with : cases[c / 2].without;
        for (size_t i = 0; i < N; i++) {
            entry e = {.module = "map"};
            const bool is_machine_code = strncmp(targets[i], "sm_", 3) == 0;
            snprintf(e.target, sizeof e.target, "%s", is_machine_code && !with ? "gfx906" : targets[i]);
            memcpy(bytes + 16 + i * sizeof e, &e, sizeof e);
        }
        const char *found = kernel_archive_target(&all, cases[c / 2].arch);
        if (expected == NULL)
            assert_null(found);
        else if (found == NULL || strcmp(found, expected) != 0)
            fail_msg("%s %s machine code: %s instead of %s", cases[c / 2].arch, with ? "with" : "without",
                     found != NULL ? found : "nothing", expected);
    }
}

static int context_open(void **state) {
    *state = test_context();
    return 0;
}

static int context_close(void **state) {
    ol_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wanted_kernels_are_taken_whole_and_no_others),
        cmocka_unit_test(modules_follow_each_other_under_one_header),
        cmocka_unit_test(a_text_that_ends_early_is_read_to_its_end),
        cmocka_unit_test(the_nearest_machine_code_is_chosen_else_ptx),
    };
    return cmocka_run_group_tests(tests, context_open, context_close);
}
