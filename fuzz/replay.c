/* Runs a fuzz target over the files of a corpus folder: what `make test` does with every target, without a fuzzer.
 * usage: replay_<target> FOLDER */
#include "base/file.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int main(int argc, char **argv) {
    ol_context *ctx = NULL;
    arena a;
    char **paths;
    size_t n_paths = 0;
    if (argc != 2 || ol_context_create(NULL, &ctx) != OL_OK) return 2;
    arena_init(&a, ctx, 0);
    if (folder_list(&a, argv[1], true, &paths, &n_paths) != OL_OK || n_paths == 0) {
        fprintf(stderr, "no corpus in %s\n", argv[1]);
        return 1;
    }
    for (size_t i = 0; i < n_paths; i++) {
        char *bytes;
        size_t n_bytes;
        if (file_read(ctx, paths[i], 0, &bytes, &n_bytes) != OL_OK) return 1;
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, n_bytes);
        mem_free(ctx, bytes);
    }
    printf("%zu inputs\n", n_paths);
    arena_deinit(&a);
    ol_context_destroy(ctx);
    return 0;
}
