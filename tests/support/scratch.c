#include "scratch.h"

#include "base/file.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

scratch scratch_create(ol_log_fn log, void *user) {
    const ol_context_options options = {.struct_bytes = sizeof options, .log = log, .log_user = user};
    char template[] = "/tmp/onelook-test-XXXXXX";
    scratch s = {0};
    if (ol_context_create(&options, &s.ctx) != OL_OK || mkdtemp(template) == NULL) fail_msg("no scratch folder");
    arena_init(&s.arena, s.ctx, 0);
    s.folder = arena_strdup(&s.arena, template);
    return s;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk) {
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

void scratch_destroy(scratch *s) {
    nftw(s->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    arena_deinit(&s->arena);
    ol_context_destroy(s->ctx);
}

const char *scratch_path(scratch *s, const char *name) {
    return path_join(&s->arena, s->folder, name);
}

const char *scratch_bytes(scratch *s, const char *name, const void *bytes, size_t n) {
    const char *path = scratch_path(s, name);
    if (folder_create(s->ctx, path_parent(&s->arena, path)) != OL_OK) fail_msg("%s", ol_context_message(s->ctx));
    FILE *file = fopen(path, "wb");
    if (file == NULL || (n > 0 && fwrite(bytes, 1, n, file) != n) || fclose(file) != 0)
        fail_msg("cannot write %s", path);
    return path;
}

const char *scratch_text(scratch *s, const char *name, const char *text) {
    return scratch_bytes(s, name, text, strlen(text));
}
