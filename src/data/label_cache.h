/* Remembers what scanning found, so that the next run does not open unchanged files again. Lies outside the data set.
 * Every record carries the stamps of its two files and counts only while both are unchanged, so it cannot be stale; a
 * damaged, foreign or unwritable cache costs a scan and at most a message. Read-only once loaded (any thread). */
#ifndef DATA_LABEL_CACHE_H
#define DATA_LABEL_CACHE_H

#include "data/scan.h"

typedef struct label_cache {
    arena arena; /* records point into it */
    void *slots; /* hash table of records by path, private */
    scan_record *records;
    size_t n, n_slots;
} label_cache;

/* `key` names everything that decides a record besides the files: the label rules. An absent or unusable file gives an
 * empty cache. Fails only for want of memory. */
ol_status label_cache_load(ol_context *ctx, const char *path, uint64_t key, label_cache *out);
void label_cache_deinit(label_cache *c);
/* The record of that picture when both of its files are unchanged, else NULL. */
const scan_record *label_cache_find(const label_cache *c, const char *path, const char *label_path);
/* Writes the records whose files were unchanged for a while before `now_ns` (others are scanned again next time).
 * Atomic. */
ol_status label_cache_write(ol_context *ctx, const char *path, uint64_t key, const scan_record *records, size_t n,
                            int64_t now_ns);

#endif
