/* Tells whether a file is still the one that was read before: size, both times and inode. Keeps no state; any thread.
 */
#ifndef DATA_FILE_STAMP_H
#define DATA_FILE_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero for a file that does not exist. The change time catches an edit that keeps the size and puts the
 * modification time back; the inode catches a file that was swapped for another. */
typedef struct file_stamp {
    uint64_t exists, size, inode;
    int64_t modified_ns, changed_ns;
} file_stamp;

file_stamp file_stamp_get(const char *path);
bool file_stamp_equal(const file_stamp *a, const file_stamp *b);
/* False when the file changed so shortly before `now_ns` (CLOCK_REALTIME) that a later change might leave the same
 * stamp. */
bool file_stamp_settled(const file_stamp *s, int64_t now_ns);
int64_t clock_now_ns(void);

/* A 64-bit checksum, continued from `hash`; start with HASH_START. Against accidents, not against attackers; its value
 * depends on byte order, so it stays on the machine. */
#define HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);

#endif
