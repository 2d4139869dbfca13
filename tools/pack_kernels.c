/* Packs device code into one archive: pack_kernels OUT ROOT ROOT/target/module…
 * Layout, little endian: "OLKERN01", u32 entries, u32 frames, entries {char target[16], module[16]; u32 frame,
 * reserved; u64 offset, bytes}, frames {u64 offset in the file, compressed bytes, bytes}, then the frames. Objects of
 * one family of architectures (the first four letters and digits of the target) share a frame, since they are almost
 * equal. Each object is followed by a NUL, so that PTX is a string. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

typedef struct entry {
    char target[16], module[16];
    uint32_t frame, reserved;
    uint64_t offset, bytes;
} entry;

typedef struct frame {
    uint64_t offset, packed_bytes, bytes;
} frame;

typedef struct pool {
    char family[16];
    unsigned char *bytes, *packed;
    size_t length, packed_length;
} pool;

static void die(const char *what, const char *name) {
    fprintf(stderr, "pack_kernels: %s %s\n", what, name);
    exit(1);
}

static void append_file(pool *p, const char *path, entry *e) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) die("cannot open", path);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    const size_t start = (p->length + 15) / 16 * 16, bytes = (size_t)size;
    unsigned char *grown = realloc(p->bytes, start + bytes + 1);
    if (size < 0 || grown == NULL) die("cannot read", path);
    memset(grown + p->length, 0, start - p->length);
    if (fread(grown + start, 1, bytes, file) != bytes) die("cannot read", path);
    fclose(file);
    grown[start + bytes] = 0;
    p->bytes = grown;
    p->length = start + bytes + 1;
    e->offset = start;
    e->bytes = bytes;
}

static void compress(pool *p) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    if (c == NULL) die("no memory for", p->family);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 19);
    ZSTD_CCtx_setParameter(c, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 24);
    const size_t room = ZSTD_compressBound(p->length);
    p->packed = malloc(room);
    if (p->packed == NULL) die("no memory for", p->family);
    p->packed_length = ZSTD_compress2(c, p->packed, room, p->bytes, p->length);
    if (ZSTD_isError(p->packed_length)) die("cannot compress", p->family);
    ZSTD_freeCCtx(c);
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage: pack_kernels OUT ROOT", "OBJECT…");
    const size_t root = strlen(argv[2]) + 1, n = (size_t)(argc - 3);
    entry *entries = calloc(n + 1, sizeof *entries);
    pool *pools = calloc(n + 1, sizeof *pools);
    if (entries == NULL || pools == NULL) die("no memory", "");
    size_t n_pools = 0;
    for (size_t i = 0; i < n; i++) {
        const char *path = argv[3 + i], *slash = strrchr(path, '/');
        if (slash == NULL || (size_t)(slash - path) < root) die("not ROOT/target/module:", path);
        snprintf(entries[i].target, sizeof entries[i].target, "%.*s", (int)(slash - path - (long)root), path + root);
        snprintf(entries[i].module, sizeof entries[i].module, "%s", slash + 1);
        char family[16];
        /* gfx90a -> gfx9, gfx1100 -> gfx11, gfx1201 -> gfx12 */
        const char *target = entries[i].target;
        snprintf(family, sizeof family, "%.*s", strncmp(target, "gfx1", 4) == 0 ? 5 : 4, target);
        size_t at = 0;
        while (at < n_pools && strcmp(pools[at].family, family) != 0) at++;
        if (at == n_pools) memcpy(pools[n_pools++].family, family, sizeof family);
        entries[i].frame = (uint32_t)at;
        append_file(&pools[at], path, &entries[i]);
    }
    FILE *out = fopen(argv[1], "wb");
    if (out == NULL) die("cannot write", argv[1]);
    const uint32_t counts[2] = {(uint32_t)n, (uint32_t)n_pools};
    uint64_t at = 8 + sizeof counts + n * sizeof *entries + n_pools * sizeof(frame);
    fwrite("OLKERN01", 1, 8, out);
    fwrite(counts, sizeof counts, 1, out);
    fwrite(entries, sizeof *entries, n, out);
    for (size_t i = 0; i < n_pools; i++) {
        compress(&pools[i]);
        const frame f = {at, pools[i].packed_length, pools[i].length};
        fwrite(&f, sizeof f, 1, out);
        at += pools[i].packed_length;
    }
    for (size_t i = 0; i < n_pools; i++) {
        fwrite(pools[i].packed, 1, pools[i].packed_length, out);
        free(pools[i].packed);
        free(pools[i].bytes);
    }
    free(pools);
    free(entries);
    if (fclose(out) != 0) die("cannot write", argv[1]);
    printf("device code: %zu objects in %zu frames, %.2f MB\n", n, n_pools, (double)at / 1e6);
    return 0;
}
