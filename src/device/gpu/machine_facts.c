#include "device/gpu/machine_facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512

static void path_of(const machine_facts *f, const char *name, char out[PATH_BYTES]) {
    size_t n = strlen(f->q->root);
    while (n > 0 && f->q->root[n - 1] == '/') n--;
    snprintf(out, PATH_BYTES, "%.*s/%s", (int)n, f->q->root, name);
}

static bool exists(const machine_facts *f, const char *name) {
    char path[PATH_BYTES];
    struct stat s;
    path_of(f, name, path);
    return lstat(path, &s) == 0;
}

/* The file's beginning as text; false when it cannot be read. */
static bool read_text(const machine_facts *f, const char *name, char *out, size_t out_bytes) {
    char path[PATH_BYTES];
    path_of(f, name, path);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    const size_t n = fread(out, 1, out_bytes - 1, file);
    out[n] = '\0';
    fclose(file);
    return true;
}

/* Calls `each` with every name of a folder that begins with `prefix`. */
static void folder_each(machine_facts *f, const char *folder, const char *prefix,
                        void (*each)(machine_facts *f, const char *name)) {
    char path[PATH_BYTES];
    path_of(f, folder, path);
    DIR *d = opendir(path);
    if (d == NULL) return;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0) each(f, e->d_name);
    closedir(d);
}

const char *machine_environment(const machine_facts *f, const char *name) {
    if (f->q->environment == NULL) return getenv(name);
    const size_t n = strlen(name);
    for (const char *const *e = f->q->environment; *e != NULL; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') return *e + n + 1;
    return NULL;
}

/* --- device files --- */

/* Is `user` among "anna,bert"? */
static bool is_listed(const char *members, const char *user) {
    const size_t n = user != NULL ? strlen(user) : 0;
    for (; n > 0 && *members != '\0'; members += strcspn(members, ","), members += *members == ',')
        if (strncmp(members, user, n) == 0 && (members[n] == ',' || members[n] == '\0')) return true;
    return false;
}

/* "render" for 109 from etc/group; the number when it has no name here (containers). Is the user written there? */
static void group_look_up(const machine_facts *f, device_file *d) {
    char all[32768];
    snprintf(d->group, sizeof d->group, "%u", d->gid);
    if (!read_text(f, "etc/group", all, sizeof all)) return;
    char *rest = all;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char name[40];
        unsigned id = 0;
        int end = 0;
        if (sscanf(line, "%39[^:]:%*[^:]:%u:%n", name, &id, &end) != 2 || id != d->gid) continue;
        snprintf(d->group, sizeof d->group, "%s", name);
        d->listed = end > 0 && is_listed(line + end, machine_environment(f, "USER"));
    }
}

static bool is_member(const gpu_diagnosis_question *q, gid_t gid) {
    gid_t own[256];
    const int n = q->groups == NULL ? getgroups(256, own) : 0;
    for (int i = 0; i < n; i++)
        if (own[i] == gid) return true;
    for (size_t i = 0; q->groups != NULL && i < q->n_groups; i++)
        if (q->groups[i] == gid) return true;
    return q->groups == NULL && getegid() == gid;
}

static bool is_open_to(const gpu_diagnosis_question *q, const struct stat *s, const char *path) {
    if (q->groups == NULL) {
        const int file = open(path, O_RDWR | O_CLOEXEC);
        if (file < 0) return errno != EACCES && errno != EPERM;
        close(file);
        return true;
    }
    if ((s->st_mode & 06) == 06) return true;
    return (s->st_mode & 060) == 060 && is_member(q, s->st_gid);
}

static void device_file_add(machine_facts *f, device_file *d, const char *name) {
    char path[PATH_BYTES];
    struct stat s;
    path_of(f, name, path);
    if (stat(path, &s) != 0) return;
    d->n++;
    if (is_open_to(f->q, &s, path)) return;
    if (d->n_closed++ > 0) return;
    snprintf(d->path, sizeof d->path, "/%.46s", name);
    d->gid = (unsigned)s.st_gid;
    d->mode = (unsigned)s.st_mode & 0777;
    d->member = is_member(f->q, s.st_gid);
    group_look_up(f, d);
}

static void render_add(machine_facts *f, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "dev/dri/%.48s", name);
    device_file_add(f, &f->render, path);
}

/* --- the PCI bus --- */

static unsigned long read_number(const machine_facts *f, const char *folder, const char *name) {
    char path[PATH_BYTES / 2], value[64];
    snprintf(path, sizeof path, "%.128s/%.48s", folder, name);
    return read_text(f, path, value, sizeof value) ? strtoul(value, NULL, 0) : 0;
}

static void driver_name(const machine_facts *f, const char *folder, char out[32]) {
    char link[PATH_BYTES / 2], path[PATH_BYTES], target[PATH_BYTES];
    snprintf(link, sizeof link, "%.128s/driver", folder);
    path_of(f, link, path);
    const ssize_t n = readlink(path, target, sizeof target - 1);
    out[0] = '\0';
    if (n <= 0) return;
    target[n] = '\0';
    const char *last = strrchr(target, '/');
    snprintf(out, 32, "%.31s", last != NULL ? last + 1 : target);
}

static void pci_add(machine_facts *f, const char *address) {
    enum { AMD = 0x1002, NVIDIA = 0x10de, DISPLAY = 0x03, ACCELERATOR = 0x12 };
    char folder[160], path[224], driver[32], partition[16] = "";
    snprintf(folder, sizeof folder, "sys/bus/pci/devices/%.100s", address);
    const unsigned long vendor = read_number(f, folder, "vendor"), class = read_number(f, folder, "class") >> 16;
    if ((vendor != AMD && vendor != NVIDIA) || (class != DISPLAY && class != ACCELERATOR)) return;
    pci_cards *cards = vendor == AMD ? &f->amd : &f->nvidia;
    driver_name(f, folder, driver);
    snprintf(path, sizeof path, "%s/physfn", folder);
    cards->n_virtual += exists(f, path) ? 1 : 0;
    cards->gives_away = cards->gives_away || read_number(f, folder, "sriov_numvfs") > 0;
    snprintf(path, sizeof path, "%s/current_compute_partition", folder);
    if (read_text(f, path, partition, sizeof partition)) partition[strcspn(partition, "\n ")] = '\0';
    if (partition[0] != '\0') snprintf(cards->partition, sizeof cards->partition, "%s", partition);
    cards->n_unbound += driver[0] == '\0' ? 1 : 0;
    if (cards->n++ > 0) return;
    snprintf(cards->address, sizeof cards->address, "%.31s", address);
    snprintf(cards->driver, sizeof cards->driver, "%s", driver);
}

/* "gfx_target_version 90010" is gfx90a: the last two places are one hexadecimal digit. Node 0 of most machines is the
 * processor, with 0 here. */
static void topology_add(machine_facts *f, const char *node) {
    char path[128], all[8192];
    snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%.20s/properties", node);
    if (f->amd_arch[0] != '\0' || !read_text(f, path, all, sizeof all)) return;
    const char *at = strstr(all, "gfx_target_version ");
    const unsigned long v = at != NULL ? strtoul(at + 19, NULL, 10) : 0;
    if (v > 0) snprintf(f->amd_arch, sizeof f->amd_arch, "gfx%lu%lx%lx", v / 10000 % 100, v / 100 % 100, v % 100);
}

static void mig_add(machine_facts *f, const char *gpu) {
    char path[128];
    for (int instance = 0; instance < 16 && !f->mig; instance++) {
        snprintf(path, sizeof path, "proc/driver/nvidia/capabilities/%.40s/mig/gi%d", gpu, instance);
        f->mig = exists(f, path);
    }
}

static void nvidia_version_find(machine_facts *f) {
    char all[1024];
    if (!read_text(f, "proc/driver/nvidia/version", all, sizeof all)) return;
    const char *at = strstr(all, "Kernel Module");
    if (at == NULL) return;
    at += strcspn(at, "0123456789\n");
    snprintf(f->nvidia_version_text, sizeof f->nvidia_version_text, "%.*s",
             (int)(strspn(at, "0123456789.") < 24 ? strspn(at, "0123456789.") : 24), at);
    f->nvidia_version = atoi(f->nvidia_version_text);
}

static bool text_holds(const machine_facts *f, const char *name, const char *const *words) {
    char all[4096];
    if (!read_text(f, name, all, sizeof all)) return false;
    for (; *words != NULL; words++)
        if (strstr(all, *words) != NULL) return true;
    return false;
}

static void surroundings_find(machine_facts *f) {
    static const char *const wsl[] = {"microsoft", "Microsoft", NULL};
    static const char *const cgroups[] = {"docker", "kubepods", "containerd", "libpod", "/lxc", NULL};
    static const char *const nomodeset[] = {"nomodeset", "blacklist=amdgpu", NULL};
    f->dxg = exists(f, "dev/dxg");
    f->wsl = f->dxg || text_holds(f, "proc/version", wsl);
    f->container = exists(f, ".dockerenv") || exists(f, "run/.containerenv") ||
                   text_holds(f, "proc/1/cgroup", cgroups) || machine_environment(f, "container") != NULL;
    f->nomodeset = text_holds(f, "proc/cmdline", nomodeset);
}

void machine_facts_gather(machine_facts *f, const gpu_diagnosis_question *q) {
    *f = (machine_facts){.q = q};
    folder_each(f, "sys/bus/pci/devices", "", pci_add);
    folder_each(f, "sys/class/kfd/kfd/topology/nodes", "", topology_add);
    folder_each(f, "proc/driver/nvidia/capabilities", "gpu", mig_add);
    folder_each(f, "dev/dri", "renderD", render_add);
    device_file_add(f, &f->kfd, "dev/kfd");
    device_file_add(f, &f->nvidiactl, "dev/nvidiactl");
    f->module_amdgpu = exists(f, "sys/module/amdgpu");
    f->module_nvidia = exists(f, "sys/module/nvidia");
    f->module_nouveau = exists(f, "sys/module/nouveau");
    surroundings_find(f);
    nvidia_version_find(f);
}
