#include "data/file_stamp.h"

#include <sys/stat.h>
#include <time.h>

#define SECOND_NS  INT64_C(1000000000)
#define SETTLED_NS (2 * SECOND_NS) /* the coarsest time stamps in use (FAT, some network file systems) */

static int64_t nanoseconds(struct timespec t) {
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

file_stamp file_stamp_get(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) return (file_stamp){0};
    return (file_stamp){1, (uint64_t)st.st_size, (uint64_t)st.st_ino, nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
}

bool file_stamp_equal(const file_stamp *a, const file_stamp *b) {
    return a->exists == b->exists && a->size == b->size && a->inode == b->inode && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

bool file_stamp_settled(const file_stamp *s, int64_t now_ns) {
    return !s->exists || (s->modified_ns < now_ns - SETTLED_NS && s->changed_ns < now_ns - SETTLED_NS);
}

int64_t clock_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return nanoseconds(t);
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}
