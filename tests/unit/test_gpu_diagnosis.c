/* Why there is no GPU: each cause on a made-up machine, that is a folder with sys, dev, proc and etc in it. */
#include "base/file.h"
#include "device/gpu/diagnosis.h"
#include "device/gpu/kernel_archive.h"
#include "golden.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_PARTS 14

/* "path" with content makes a file, "path -> target" a link, "path/" a folder; "path mode" in octal sets the mode. */
typedef struct machine_case {
    const char *expected; /* ids in order, separated by blanks */
    const char *words;    /* that what or remedy of the first holds */
    const char *parts[MAX_PARTS];
    const char *environment[4];
    bool in_group; /* the user is in the group of the device files */
    bool has_cuda, has_hip;
    const char *message; /* of the library that is there */
    device_entry device; /* shown when it has a name */
} machine_case;

#define AMD_CARD     "sys/bus/pci/devices/0000:03:00.0/vendor=0x1002", "sys/bus/pci/devices/0000:03:00.0/class=0x030000"
#define AMD_BOUND    AMD_CARD, "sys/bus/pci/devices/0000:03:00.0/driver->../../drivers/amdgpu", "sys/module/amdgpu/"
#define AMD_OPEN     "dev/kfd@666=", "dev/dri/renderD128@666="
#define NVIDIA_CARD  "sys/bus/pci/devices/0000:41:00.0/vendor=0x10de", "sys/bus/pci/devices/0000:41:00.0/class=0x030200"
#define NVIDIA_BOUND NVIDIA_CARD, "sys/module/nvidia/", "dev/nvidiactl@666="
#define HIP_EMPTY    .has_hip = true, .message = "libamdhip64.so.6 finds no AMD GPU (hipErrorNoDevice)"
#define CUDA_EMPTY   .has_cuda = true, .message = "libcuda.so.1 finds no NVIDIA GPU (no CUDA-capable device is detected)"

static const machine_case cases[] = {
    {.expected = "no-card", .words = "neither an AMD nor an NVIDIA card"},
    {.expected = "no-card", .words = "this container can see", .parts = {".dockerenv="}},
    /* AMD */
    {.expected = "amd-no-library", .words = "0000:03:00.0", .parts = {AMD_BOUND, AMD_OPEN}},
    {.expected = "amd-no-library", .words = "libamdhip64-5", .parts = {AMD_BOUND, AMD_OPEN}},
    {.expected = "amd-no-module amd-no-library", .words = "modprobe amdgpu", .parts = {AMD_CARD}},
    {.expected = "amd-no-module",
     .words = "nomodeset",
     .parts = {AMD_CARD, AMD_OPEN, "proc/cmdline=quiet nomodeset"},
     HIP_EMPTY},
    {.expected = "amd-no-kfd", .words = "CONFIG_HSA_AMD", .parts = {AMD_BOUND, "dev/dri/renderD128@666="}, HIP_EMPTY},
    {.expected = "amd-no-render", .words = "renderD* is missing", .parts = {AMD_BOUND, "dev/kfd@666="}, HIP_EMPTY},
    {.expected = "amd-kfd-closed amd-render-closed",
     .words = "usermod -aG render,video",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@660="},
     HIP_EMPTY},
    {.expected = "amd-kfd-closed",
     .words = "group render (id ",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@666=", "etc/group=root:x:999:\nrender:x:{GID}:\n"},
     HIP_EMPTY},
    {.expected = "amd-kfd-closed",
     .words = "this login is older",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@666=", "etc/group=render:x:{GID}:bert,anna\n"},
     .environment = {"USER=anna"},
     HIP_EMPTY},
    {.expected = "amd-kfd-closed",
     .words = "which this user is not in",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@666=", "etc/group=render:x:{GID}:annabert,ann\n"},
     .environment = {"USER=anna"},
     HIP_EMPTY},
    {.expected = "amd-render-closed",
     .words = "keeps it from the group",
     .parts = {AMD_BOUND, "dev/kfd@666=", "dev/dri/renderD128@600="},
     .in_group = true,
     HIP_EMPTY},
    {.expected = "amd-unexplained",
     .words = "older than the card",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@660="},
     .in_group = true,
     HIP_EMPTY},
    {.expected = "amd-kfd-closed",
     .words = "--group-add {GID}",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@666=", ".dockerenv="},
     HIP_EMPTY},
    {.expected = "amd-hidden",
     .words = "HIP_VISIBLE_DEVICES=4 limits",
     .parts = {AMD_BOUND, AMD_OPEN},
     .environment = {"HIP_VISIBLE_DEVICES=4"},
     HIP_EMPTY},
    {.expected = "amd-hidden",
     .words = "CUDA_VISIBLE_DEVICES= limits",
     .parts = {AMD_BOUND, AMD_OPEN},
     .environment = {"CUDA_VISIBLE_DEVICES="},
     HIP_EMPTY},
    {.expected = "amd-hidden",
     .words = "can hide every card",
     .parts = {AMD_BOUND, AMD_OPEN},
     .environment = {"HIP_VISIBLE_DEVICES=1", "ROCR_VISIBLE_DEVICES=1"},
     HIP_EMPTY},
    {.expected = "amd-no-library", /* nothing is hidden where nothing can look */
     .words = "libamdhip64-5",
     .parts = {AMD_BOUND, AMD_OPEN},
     .environment = {"HIP_VISIBLE_DEVICES=0"}},
    {.expected = "amd-kfd-closed amd-hidden", /* what certainly stands in the way comes first */
     .words = "usermod -aG",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@666="},
     .environment = {"HIP_VISIBLE_DEVICES=0"},
     HIP_EMPTY},
    {.expected = "amd-container amd-hidden",
     .words = "--device /dev/kfd",
     .parts = {AMD_BOUND, ".dockerenv="},
     .environment = {"ROCR_VISIBLE_DEVICES=GPU-0123456789abcdef"},
     HIP_EMPTY},
    {.expected = "amd-kfd-closed amd-no-library",
     .words = "libamdhip64-5",
     .parts = {AMD_BOUND, "dev/kfd@660=", "dev/dri/renderD128@666="}},
    {.expected = "amd-unexplained", /* one of two cards is open */
     .words = "older than the card",
     .parts = {AMD_BOUND, AMD_OPEN, "dev/dri/renderD129@600="},
     HIP_EMPTY},
    {.expected = "amd-render-closed",
     .words = "/dev/dri/renderD12",
     .parts = {AMD_BOUND, "dev/kfd@666=", "dev/dri/renderD128@660=", "dev/dri/renderD129@600="},
     HIP_EMPTY},
    {.expected = "amd-kfd-closed", /* readable is not enough */
     .words = "mode 664",
     .parts = {AMD_BOUND, "dev/kfd@664=", "dev/dri/renderD128@666="},
     HIP_EMPTY},
    {.expected = "amd-part-hidden amd-called-cuda",
     .words = "HIP_VISIBLE_DEVICES=0: 1 of 2 AMD cards",
     .parts = {AMD_BOUND, AMD_OPEN, "sys/bus/pci/devices/0000:04:00.0/vendor=0x1002",
               "sys/bus/pci/devices/0000:04:00.0/class=0x120000"},
     .environment = {"HIP_VISIBLE_DEVICES=0"},
     .device = {"hip:0", "AMD Instinct MI300X", "gfx942", "", 1ull << 37, 1ull << 36, false, true, false, 0}},
    {.expected = "amd-called-cuda",
     .words = "PyTorch calls",
     .parts = {AMD_BOUND, AMD_OPEN},
     .environment = {"HIP_VISIBLE_DEVICES=0"},
     .device = {"hip:0", "AMD Instinct MI300X", "gfx942", "", 1ull << 37, 1ull << 36, false, true, false, 0}},
    {.expected = "nvidia-part-hidden",
     .words = "CUDA_VISIBLE_DEVICES=1: 1 of 2 NVIDIA cards",
     .parts = {NVIDIA_BOUND, "sys/bus/pci/devices/0000:42:00.0/vendor=0x10de",
               "sys/bus/pci/devices/0000:42:00.0/class=0x030200"},
     .environment = {"CUDA_VISIBLE_DEVICES=1"},
     .device = {"cuda:0", "NVIDIA H200", "sm_90", "", 1ull << 37, 1ull << 36, false, true, false, 0}},
    {.expected = "amd-container",
     .words = "--device /dev/kfd --device /dev/dri",
     .parts = {AMD_BOUND, ".dockerenv="},
     HIP_EMPTY},
    {.expected = "amd-container",
     .words = "renderD* is missing",
     .parts = {AMD_BOUND, "dev/kfd@666=", "proc/1/cgroup=0::/kubepods/besteffort\n"},
     HIP_EMPTY},
    {.expected = "amd-wsl nvidia-wsl nvidia-no-library",
     .words = "HSA_ENABLE_DXG_DETECTION=1",
     .parts = {"dev/dxg="},
     HIP_EMPTY},
    {.expected = "amd-wsl amd-no-library nvidia-wsl nvidia-no-library",
     .words = "Windows driver",
     .parts = {"dev/dxg="}},
    {.expected = "amd-wsl", .words = "wsl --update", .parts = {"proc/version=Linux 4.4 Microsoft"}, HIP_EMPTY},
    {.expected = "amd-given-away amd-no-module",
     .words = "virtual machines",
     .parts = {AMD_CARD, "sys/bus/pci/devices/0000:03:00.0/driver->../../drivers/vfio-pci", AMD_OPEN},
     HIP_EMPTY},
    {.expected = "amd-container", /* whose host has the module: it cannot be seen here */
     .words = "/dev/kfd is missing",
     .parts = {AMD_CARD, "run/.containerenv="},
     HIP_EMPTY},
    {.expected = "amd-container",
     .words = "/dev/kfd is missing",
     .parts = {AMD_CARD, "proc/1/cgroup=12:pids:/libpod-0123456789"},
     HIP_EMPTY},
    {.expected = "amd-container",
     .words = "/dev/kfd is missing",
     .parts = {AMD_CARD},
     .environment = {"container=systemd-nspawn"},
     HIP_EMPTY},
    {.expected = "amd-no-module",
     .words = "forbids it",
     .parts = {AMD_CARD, AMD_OPEN, "proc/cmdline=root=/dev/sda1 modprobe.blacklist=amdgpu quiet"},
     HIP_EMPTY},
    {.expected = "amd-unexplained nvidia-wsl nvidia-no-library", /* WSL with AMD's files of a later kind */
     .words = "may be older than the card",
     .parts = {"dev/dxg=", AMD_BOUND, AMD_OPEN},
     HIP_EMPTY},
    {.expected = "amd-wsl nvidia-wsl nvidia-no-library", /* device files are not missed in WSL */
     .words = "Windows driver",
     .parts = {"dev/dxg=", "sys/module/amdgpu/"},
     HIP_EMPTY},
    {.expected = "amd-given-away amd-no-module",
     .words = "(pci-stub)",
     .parts = {AMD_CARD, "sys/bus/pci/devices/0000:03:00.0/driver->../../drivers/pci-stub", AMD_OPEN},
     HIP_EMPTY},
    {.expected = "amd-no-library", /* an accelerator is no display */
     .words = "0000:03:00.0",
     .parts = {"sys/bus/pci/devices/0000:03:00.0/vendor=0x1002", "sys/bus/pci/devices/0000:03:00.0/class=0x120000",
               "sys/module/amdgpu/", AMD_OPEN}},
    {.expected = "no-card", /* AMD makes other things too */
     .words = "neither an AMD nor an NVIDIA card",
     .parts = {"sys/bus/pci/devices/0000:00:00.0/vendor=0x1022", "sys/bus/pci/devices/0000:00:00.0/class=0x030000",
               "sys/bus/pci/devices/0000:00:01.0/vendor=0x1002", "sys/bus/pci/devices/0000:00:01.0/class=0x040300"}},
    {.expected = "amd-no-library", /* the card hides behind its device file */
     .words = "an AMD card is here, but AMD's HIP runtime",
     .parts = {AMD_OPEN}},
    {.expected = "nvidia-no-library", .words = "an NVIDIA card is here, but", .parts = {"dev/nvidiactl@666="}},
    {.expected = "amd-unexplained",
     .words = "the kernel lists an gfx90a",
     .parts = {AMD_BOUND, AMD_OPEN, "sys/class/kfd/kfd/topology/nodes/1/properties=gfx_target_version 90010\n"},
     HIP_EMPTY},
    {.expected = "amd-given-away",
     .words = "SR-IOV functions are on",
     .parts = {AMD_BOUND, AMD_OPEN, "sys/bus/pci/devices/0000:03:00.0/sriov_numvfs=4"},
     HIP_EMPTY},
    {.expected = "amd-virtual",
     .words = "share of a physical one",
     .parts = {AMD_BOUND, AMD_OPEN, "sys/bus/pci/devices/0000:03:00.0/physfn->../0000:00:01.0"},
     HIP_EMPTY},
    {.expected = "amd-no-module amd-other-module",
     .words = "modprobe",
     .parts = {AMD_CARD, AMD_OPEN, "sys/bus/pci/devices/0000:03:00.0/driver->../../drivers/radeon"},
     HIP_EMPTY},
    {.expected = "amd-too-old",
     .words = "update AMD's HIP runtime",
     .parts = {AMD_BOUND, AMD_OPEN},
     .has_hip = true,
     .message = "libamdhip64.so.4 has no hipInit: it is older than HIP 5; update ROCm"},
    {.expected = "amd-unexplained architecture",
     .words = "the kernel lists an gfx803",
     .parts = {AMD_BOUND, AMD_OPEN,
               "sys/class/kfd/kfd/topology/nodes/0/properties=cpu_cores_count 8\ngfx_target_version 0\n",
               "sys/class/kfd/kfd/topology/nodes/1/properties=simd_count 144\ngfx_target_version 80003\n"},
     HIP_EMPTY},
    {.expected = "hsa-override",
     .words = "unset it",
     .parts = {NULL},
     .environment = {"HSA_OVERRIDE_GFX_VERSION=10.3.0"},
     .device = {"cuda:0", "NVIDIA H200", "sm_90", "", 1ull << 37, 1ull << 36, false, true, false, 0}},
    {.expected = "amd-called-cuda",
     .words = "PyTorch calls",
     .parts = {AMD_BOUND, AMD_OPEN},
     .device = {"hip:0", "AMD Instinct MI300X", "gfx942", "", 1ull << 37, 1ull << 36, false, true, false, 0}},
    {.expected = "amd-partition amd-called-cuda",
     .words = "divided (CPX)",
     .parts = {AMD_BOUND, AMD_OPEN, "sys/bus/pci/devices/0000:03:00.0/current_compute_partition=CPX\n"},
     .device = {"hip:0", "AMD Instinct MI300X", "gfx942", "", 1ull << 35, 1ull << 34, false, true, false, 0}},
    {.expected = "amd-called-cuda architecture",
     .words = "PyTorch calls",
     .parts = {AMD_BOUND, AMD_OPEN},
     .device = {"hip:0", "AMD Radeon RX 580", "gfx803", "", 1ull << 33, 1ull << 32, false, false, false, 0}},
    {.expected = "amd-called-cuda igpu-memory",
     .words = "PyTorch calls",
     .parts = {AMD_BOUND, AMD_OPEN},
     .device = {"hip:0", "AMD Radeon 680M", "gfx942", "", 1536ull << 20, 256ull << 20, true, true, false, 0}},
    {.expected = "amd-called-cuda", /* what is called silent has said nothing of its memory */
     .words = "PyTorch calls",
     .parts = {AMD_BOUND, AMD_OPEN, "sys/bus/pci/devices/0000:03:00.0/current_compute_partition=SPX\n",
               "sys/class/kfd/kfd/topology/nodes/1/properties=gfx_target_version 80003\n"},
     .device = {"hip:0", "AMD Instinct MI300X", "gfx942", "", 1ull << 37, 0, false, true, true, 0}},
    {.expected = "amd-called-cuda free-unknown",
     .words = "PyTorch calls",
     .parts = {"dev/dxg="},
     .device = {"hip:0", "AMD Radeon RX 9060 XT", "gfx942", "", 1ull << 34, 0, false, true, false, 0}},
    {.expected = "amd-no-library",
     .words = "libfmt.so.9: cannot open. install what the message names",
     .parts = {AMD_BOUND, AMD_OPEN},
     .message = "the AMD HIP runtime does not load (libamdhip64.so.6: libfmt.so.9: cannot open"},
    /* NVIDIA */
    {.expected = "nvidia-no-library", .words = "CUDA toolkit is not needed", .parts = {NVIDIA_BOUND}},
    {.expected = "nvidia-no-library", .words = "--gpus all", .parts = {NVIDIA_CARD, "run/.containerenv="}},
    {.expected = "nvidia-hidden",
     .words = "CUDA_VISIBLE_DEVICES=-1",
     .parts = {NVIDIA_BOUND},
     .environment = {"CUDA_VISIBLE_DEVICES=-1"},
     CUDA_EMPTY},
    {.expected = "nvidia-nouveau", .words = "nouveau", .parts = {NVIDIA_CARD, "sys/module/nouveau/"}, CUDA_EMPTY},
    {.expected = "nvidia-no-module", .words = "secure boot", .parts = {NVIDIA_CARD}, CUDA_EMPTY},
    {.expected = "nvidia-no-module",
     .words = "vfio-pci",
     .parts = {NVIDIA_CARD, "sys/bus/pci/devices/0000:41:00.0/driver->../../drivers/vfio-pci"},
     CUDA_EMPTY},
    {.expected = "nvidia-container",
     .words = "nvidiactl",
     .parts = {NVIDIA_CARD, "sys/module/nvidia/", ".dockerenv="},
     CUDA_EMPTY},
    {.expected = "nvidia-closed",
     .words = "/dev/nvidiactl",
     .parts = {NVIDIA_CARD, "sys/module/nvidia/", "dev/nvidiactl@660="},
     CUDA_EMPTY},
    {.expected = "nvidia-too-old",
     .words = "driver 440.33.01 is older",
     .parts = {NVIDIA_BOUND,
               "proc/driver/nvidia/version=NVRM version: NVIDIA UNIX x86_64 Kernel Module  440.33.01  Wed\n"},
     CUDA_EMPTY},
    {.expected = "nvidia-too-old",
     .words = "driver 450.80.02 is older than 455",
     .parts = {NVIDIA_BOUND, "proc/driver/nvidia/version=NVRM version: NVIDIA UNIX Kernel Module  450.80.02  Wed\n"},
     CUDA_EMPTY},
    {.expected = "nvidia-unexplained",
     .words = "dmesg",
     .parts = {NVIDIA_BOUND, "proc/driver/nvidia/version=NVRM version: NVIDIA UNIX Kernel Module  455.23.04  Wed\n"},
     CUDA_EMPTY},
    {.expected = "nvidia-no-module nvidia-hidden",
     .words = "modprobe nvidia",
     .parts = {NVIDIA_CARD},
     .environment = {"CUDA_VISIBLE_DEVICES=0"},
     CUDA_EMPTY},
    {.expected = "nvidia-unexplained", /* both modules: nouveau drives another card */
     .words = "dmesg",
     .parts = {NVIDIA_BOUND, "sys/module/nouveau/"},
     CUDA_EMPTY},
    {.expected = "nvidia-wsl amd-called-cuda",
     .words = "and none here",
     .parts = {"dev/dxg=", ".dockerenv="},
     CUDA_EMPTY,
     .device = {"hip:0", "AMD Radeon RX 9060 XT", "gfx942", "", 1ull << 34, 1ull << 33, false, true, false, 0}},
    {.expected = "nvidia-mismatch",
     .words = "module 535.104.05 are of different versions",
     .parts = {NVIDIA_BOUND,
               "proc/driver/nvidia/version=NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat\n"},
     .has_cuda = true,
     .message = "libcuda.so.1 finds no NVIDIA GPU (system has unsupported display driver / cuda driver mismatch)"},
    {.expected = "nvidia-mig",
     .words = "nvidia-smi -L",
     .parts = {NVIDIA_BOUND, "proc/driver/nvidia/capabilities/gpu0/mig/gi13/access=x"},
     CUDA_EMPTY},
    {.expected = "nvidia-unexplained", .words = "dmesg", .parts = {NVIDIA_BOUND}, CUDA_EMPTY},
    {.expected = "architecture",
     .words = "sm_80",
     .parts = {NVIDIA_BOUND},
     .device = {"cuda:0", "Tesla V100", "sm_70", "", 1ull << 34, 1ull << 33, false, false, false, 0}},
};

/* Replaces "{GID}" by the group of files made here. */
static void with_gid(const char *from, char *to, size_t to_bytes) {
    const char *at = strstr(from, "{GID}");
    if (at == NULL)
        snprintf(to, to_bytes, "%s", from);
    else
        snprintf(to, to_bytes, "%.*s%u%s", (int)(at - from), from, (unsigned)getegid(), at + 5);
}

static void part_make(scratch *s, const char *part) {
    char text[512], name[256];
    with_gid(part, text, sizeof text);
    const char *link = strstr(text, "->"), *equals = strchr(text, '='), *mode = strchr(text, '@');
    const size_t n = link != NULL ? (size_t)(link - text) : strcspn(text, "@=");
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (link != NULL) {
        scratch_text(s, "made", ""); /* the folder of the link was made by files beside it */
        assert_int_equal(symlink(link + 2, scratch_path(s, name)), 0);
    } else if (name[n - 1] == '/') {
        assert_int_equal(folder_create(s->ctx, scratch_path(s, name)), OL_OK);
    } else {
        const char *path = scratch_text(s, name, equals + 1);
        if (mode != NULL && mode < equals) assert_int_equal(chmod(path, (mode_t)strtoul(mode + 1, NULL, 8)), 0);
    }
}

typedef struct seen {
    char ids[256], words[4096];
} seen;

static void on_finding(void *user, const char *id, const char *what, const char *remedy) {
    seen *s = user;
    assert_true(strlen(what) > 10 && strlen(remedy) > 10);
    assert_null(strchr(what, '\n'));
    assert_null(strchr(remedy, '\n'));
    snprintf(s->ids + strlen(s->ids), sizeof s->ids - strlen(s->ids), "%s%s", s->ids[0] != '\0' ? " " : "", id);
    snprintf(s->words + strlen(s->words), sizeof s->words - strlen(s->words), "%s. %s. ", what, remedy);
}

static void survey_fill(const machine_case *c, devices_survey *s) {
    if (c->device.name[0] != '\0') {
        const bool hip = c->device.name[0] == 'h';
        devices_driver *d = hip ? &s->hip : &s->cuda;
        s->list[s->n++] = c->device;
        *d = (devices_driver){.found = true, .n_devices = 1};
    }
    s->cuda.found = s->cuda.found || c->has_cuda;
    s->hip.found = s->hip.found || c->has_hip;
    if (c->message != NULL)
        snprintf(c->has_cuda ? s->cuda.message : s->hip.message, sizeof s->hip.message, "%s", c->message);
}

/* The cases name gfx942 as an architecture with code. */
static bool has_code(void) {
    ol_context *ctx = test_context();
    kernel_archive a;
    const bool found = kernel_archive_init(&a, ctx) == OL_OK;
    const bool known = found && kernel_archive_target(&a, "gfx942") != NULL;
    if (found) kernel_archive_deinit(&a);
    ctx_clear(ctx);
    ol_context_destroy(ctx);
    return known;
}

static void every_cause_is_told(void **state) {
    (void)state;
    const bool full_build = has_code();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const machine_case *c = &cases[i];
        if (!full_build && (c->device.name[0] != '\0' || strstr(c->expected, "architecture") != NULL)) continue;
        scratch s = scratch_create(NULL, NULL);
        for (int k = 0; k < MAX_PARTS && c->parts[k] != NULL; k++) part_make(&s, c->parts[k]);
        const unsigned group = c->in_group ? (unsigned)getegid() : (unsigned)getegid() + 1;
        const gpu_diagnosis_question filled = {
            .root = s.folder, .environment = c->environment, .groups = &group, .n_groups = 1};
        gpu_diagnosis_question q = filled;
        survey_fill(c, &q.survey);
        seen found = {.ids = ""};
        char words[256];
        gpu_diagnose(s.ctx, &q, on_finding, &found);
        with_gid(c->words, words, sizeof words);
        if (strcmp(found.ids, c->expected) != 0)
            fail_msg("case %zu: found '%s' instead of '%s': %s", i, found.ids, c->expected, found.words);
        if (strstr(found.words, words) == NULL) fail_msg("case %zu: '%s' is not in: %s", i, words, found.words);
        scratch_destroy(&s);
    }
}

/* That a build has no code at all matters where there is a card for it. */
static void absent_code_is_told_where_a_card_is(void **state) {
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        scratch s = scratch_create(NULL, NULL);
        gpu_diagnosis_question q = {.root = s.folder, .environment = (const char *const[]){NULL}};
        snprintf(q.survey.no_code, sizeof q.survey.no_code, "this build carries no GPU code");
        q.survey.n = n;
        q.survey.cuda = (devices_driver){.found = n > 0, .n_devices = (int)n};
        q.survey.list[0] = (device_entry){.name = "cuda:0", .title = "NVIDIA H200", .arch = "sm_90", .free_bytes = 1};
        seen found = {.ids = ""};
        gpu_diagnose(s.ctx, &q, on_finding, &found);
        assert_int_equal(strstr(found.ids, "no-code") != NULL, n > 0);
        scratch_destroy(&s);
    }
}

/* Files of /sys may hold anything. */
static void strange_files_do_no_harm(void **state) {
    (void)state;
    scratch s = scratch_create(NULL, NULL);
    char *noise = malloc(100000);
    memset(noise, 'x', 99999);
    noise[99999] = '\0';
    static const char *const names[] = {"sys/bus/pci/devices/0000:03:00.0/vendor",
                                        "sys/bus/pci/devices/0000:03:00.0/class",
                                        "sys/class/kfd/kfd/topology/nodes/1/properties",
                                        "proc/driver/nvidia/version",
                                        "proc/cmdline",
                                        "etc/group",
                                        "proc/version"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) scratch_text(&s, names[i], i % 2 ? "" : noise);
    scratch_text(&s, "sys/class/kfd/kfd/topology/nodes/2/properties", "gfx_target_version 18446744073709551615");
    scratch_text(&s, "proc/driver/nvidia/version", "Kernel Module");
    const gpu_diagnosis_question q = {.root = s.folder, .environment = (const char *const[]){NULL}};
    seen found = {.ids = ""};
    gpu_diagnose(s.ctx, &q, on_finding, &found);
    free(noise);
    scratch_destroy(&s);
}

/* The machine that the test runs on: whatever it is, the answer is whole sentences. */
/* An AMD card is not sent to NVIDIA's code, which it cannot run. */
static void nearest_code_is_of_the_same_maker(void **state) {
    (void)state;
    enum { HEADER = 16, ENTRY = 56 };
    static const char *const names[] = {"gfx1100", "gfx90a", "ptx"};
    unsigned char bytes[HEADER + 3 * ENTRY] = {0};
    for (size_t i = 0; i < 3; i++) memcpy(bytes + HEADER + i * ENTRY, names[i], strlen(names[i]));
    kernel_archive all = {.bytes = bytes, .n_bytes = sizeof bytes, .n_entries = 3}, ptx = all;
    char remedy[256];
    kernel_archive_remedy(&all, "gfx909", remedy, sizeof remedy);
    assert_non_null(strstr(remedy, "gfx90a"));
    ptx.bytes += 2 * ENTRY;
    ptx.n_entries = 1;
    kernel_archive_remedy(&ptx, "gfx909", remedy, sizeof remedy);
    assert_null(strstr(remedy, "ptx"));
}

static void this_machine_is_answered(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    gpu_diagnosis_question q = {.root = "/"};
    seen found = {.ids = ""};
    devices_look(ctx, true, &q.survey);
    gpu_diagnose(ctx, &q, on_finding, &found);
    if (q.survey.n == 0) assert_true(found.ids[0] != '\0');
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cause_is_told),      cmocka_unit_test(absent_code_is_told_where_a_card_is),
        cmocka_unit_test(strange_files_do_no_harm), cmocka_unit_test(nearest_code_is_of_the_same_maker),
        cmocka_unit_test(this_machine_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
