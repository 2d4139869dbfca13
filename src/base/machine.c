#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* The first number of a one-number file; UINT64_MAX when there is none ("max"). */
static uint64_t read_number(const char *path) {
    unsigned long long x = UINT64_MAX;
    FILE *file = fopen(path, "r");
    if (file == NULL) return UINT64_MAX;
    if (fscanf(file, "%llu", &x) != 1) x = UINT64_MAX;
    fclose(file);
    return x;
}

static uint64_t memory_available(void) {
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(file);
    return kib * 1024;
}

uint64_t machine_free_memory(void) {
    static const char *const groups[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    uint64_t free_bytes = memory_available();
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const uint64_t limit = read_number(groups[i][0]), used = read_number(groups[i][1]);
        if (limit == UINT64_MAX || used == UINT64_MAX) continue;
        const uint64_t left = limit > used ? limit - used : 0;
        if (free_bytes == 0 || left < free_bytes) free_bytes = left;
    }
    return free_bytes;
}

uint64_t machine_free_disk(const char *folder) {
    struct statvfs st;
    if (statvfs(folder, &st) != 0) return 0;
    return (uint64_t)st.f_bavail * st.f_frsize;
}
