#include "data/file_stamp.h"

#include <string.h>
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

/* One round over eight bytes: a bijection of `lane` for every word and of the word for every lane. */
static inline uint64_t hash_word(uint64_t lane, const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    lane = (lane ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return lane << 29 | lane >> 35;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *at = bytes, *end = at + n;
    uint64_t lanes[4] = {hash, hash + 1, hash + 2, hash + 3}; /* so that the multiplications overlap */
    const bool wide = n >= 32;
    for (; end - at >= 32; at += 32)
        for (int i = 0; i < 4; i++) lanes[i] = hash_word(lanes[i], at + 8 * i);
    for (int i = 0; i < 4 && wide; i++) hash = hash_word(hash, (const unsigned char *)&lanes[i]);
    for (; end - at >= 8; at += 8) hash = hash_word(hash, at);
    for (; at < end; at++) hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}
