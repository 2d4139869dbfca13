#include "device/gpu/diagnosis.h"

#include "device/gpu/kernel_archive.h"
#include "device/gpu/machine_facts.h"

#include <string.h>

enum { NVIDIA_OLDEST = 455 /* CUDA 11.1 */ };
#define SMALL_MEMORY (2ull << 30)

typedef struct report {
    ol_context *ctx;
    machine_facts facts;
    text what, remedy;
    gpu_finding_fn found;
    void *user;
    int n;
} report;

static void tell(report *r, const char *id) {
    r->found(r->user, id, text_c(&r->what), text_c(&r->remedy));
    text_clear(&r->what);
    text_clear(&r->remedy);
    r->n++;
}

static const char *env(const report *r, const char *name) {
    return machine_environment(&r->facts, name);
}

/* A rule writes cause and remedy and answers true when it applies. */
typedef bool (*rule_fn)(report *r);
typedef struct rule {
    const char *id;
    rule_fn applies;
} rule;

/* --- AMD: cards or their software are here, but no device is shown --- */

static const char *const amd_variables[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                                            "GPU_DEVICE_ORDINAL"};

/* Begins the finding with those that are set; false when none is. */
static bool variables_named(report *r, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (env(r, names[i]) != NULL)
            text_printf(&r->what, "%s%s=%s", r->what.length > 0 ? " and " : "", names[i], env(r, names[i]));
    return r->what.length > 0;
}

static bool amd_hidden(report *r) {
    const char *hip = env(r, "HIP_VISIBLE_DEVICES"), *rocr = env(r, "ROCR_VISIBLE_DEVICES");
    if (!r->facts.q->survey.hip.found) return false;
    if (!variables_named(r, amd_variables, sizeof amd_variables / sizeof *amd_variables)) return false;
    if (hip != NULL && rocr != NULL) {
        text_printf(&r->what, " are set together: the first numbers what the second leaves, so they can hide "
                              "every card");
        text_printf(&r->remedy, "keep one of them: unset ROCR_VISIBLE_DEVICES");
    } else {
        text_printf(&r->what, " limits which cards a program sees");
        text_printf(&r->remedy, "unset it, or set it to the number of a card that exists, as in 0");
    }
    return true;
}

static bool amd_wsl(report *r) {
    const machine_facts *f = &r->facts;
    if (!f->wsl || f->kfd.n > 0) return false;
    text_printf(&r->what, "this is WSL: a card comes from the Windows driver through /dev/dxg%s",
                f->dxg ? "" : ", which is missing here");
    text_printf(&r->remedy,
                f->dxg ? "install AMD's current driver in Windows and AMD's ROCm packages for WSL here, then set "
                         "HSA_ENABLE_DXG_DETECTION=1%s"
                       : "run 'wsl --update' in Windows and make sure that the distribution is of version 2 "
                         "('wsl --list --verbose')",
                env(r, "HSA_ENABLE_DXG_DETECTION") != NULL ? " (it is set)" : "");
    return true;
}

/* A library that is there but lacks another one says so in its message. */
static bool library_broken(report *r, const devices_driver *d, const char *vendor, const pci_cards *cards) {
    if (strstr(d->message, "does not load") == NULL) return false;
    text_printf(&r->what, "an %s card is here%s%s, but %s", vendor, cards->n > 0 ? " at " : "", cards->address,
                d->message);
    text_printf(&r->remedy, "install what the message names, or install the library's package anew");
    return true;
}

static bool amd_no_library(report *r) {
    const devices_driver *hip = &r->facts.q->survey.hip;
    if (hip->found) return false;
    if (library_broken(r, hip, "AMD", &r->facts.amd)) return true;
    text_printf(&r->what, "an AMD card is here%s%s, but AMD's HIP runtime is not installed",
                r->facts.amd.n > 0 ? " at " : "", r->facts.amd.address);
    text_printf(&r->remedy, "install it: Ubuntu and Debian 'sudo apt install libamdhip64-5', Fedora 'sudo dnf install "
                            "rocm-hip', Arch 'sudo pacman -S hip-runtime-amd', or AMD's own package "
                            "'hip-runtime-amd'; no other part of ROCm is needed");
    return true;
}

static bool amd_too_old(report *r) {
    const devices_driver *hip = &r->facts.q->survey.hip;
    if (!hip->found || strstr(hip->message, "older") == NULL) return false;
    text_printf(&r->what, "%s", hip->message);
    text_printf(&r->remedy, "update AMD's HIP runtime to version 5 or later (5.5 for the RX 7000 series, 6.4 for the "
                            "RX 9000 series)");
    return true;
}

static bool amd_given_away(report *r) {
    const pci_cards *c = &r->facts.amd;
    if (strcmp(c->driver, "vfio-pci") != 0 && strcmp(c->driver, "pci-stub") != 0 && !c->gives_away) return false;
    text_printf(&r->what, "the card at %s is given to virtual machines (%s)", c->address,
                c->gives_away ? "SR-IOV functions are on" : c->driver);
    text_printf(&r->remedy, "run Onelook inside the machine that has the card, or give it back to amdgpu");
    return true;
}

static bool amd_virtual(report *r) {
    const pci_cards *c = &r->facts.amd;
    if (c->n_virtual == 0) return false;
    text_printf(&r->what, "the card at %s is a share of a physical one (SR-IOV)", c->address);
    text_printf(&r->remedy, "the driver here must be of the series that the host's supports; ask who runs the host");
    return true;
}

static bool amd_no_module(report *r) {
    const machine_facts *f = &r->facts;
    if (f->amd.n == 0 || f->module_amdgpu || f->container) return false;
    text_printf(&r->what, "there is an AMD card at %s, but the kernel module amdgpu is not loaded%s", f->amd.address,
                f->nomodeset ? ": the kernel's command line forbids it (nomodeset, or a blacklist)" : "");
    if (f->nomodeset)
        text_printf(&r->remedy, "take nomodeset and the blacklist out of the boot loader's configuration and restart");
    else
        text_printf(&r->remedy, "sudo modprobe amdgpu; where it is unknown install the kernel's extra modules "
                                "(Ubuntu: linux-modules-extra-$(uname -r)) and linux-firmware");
    return true;
}

static bool amd_other_module(report *r) {
    const pci_cards *c = &r->facts.amd;
    if (c->n == 0 || strcmp(c->driver, "radeon") != 0) return false;
    text_printf(&r->what, "the card at %s runs on the old module radeon, which computes nothing", c->address);
    text_printf(&r->remedy, "cards of that age (before GCN 4) cannot be used; use device=cpu");
    return true;
}

static bool amd_container(report *r) {
    const machine_facts *f = &r->facts;
    if (!f->container || f->wsl || (f->kfd.n > 0 && f->render.n > 0)) return false;
    text_printf(&r->what, "this container was started without the card's device files (%s)",
                f->kfd.n == 0 ? "/dev/kfd is missing" : "/dev/dri/renderD* is missing");
    text_printf(&r->remedy, "start it with: docker run --device /dev/kfd --device /dev/dri --group-add "
                            "$(stat -c %%g /dev/kfd) …");
    return true;
}

static bool amd_no_kfd(report *r) {
    const machine_facts *f = &r->facts;
    if (f->container || f->wsl || f->kfd.n > 0 || !f->module_amdgpu) return false;
    text_printf(&r->what, "/dev/kfd is missing although amdgpu is loaded: this kernel or card has no compute support");
    text_printf(&r->remedy, "use a kernel built with CONFIG_HSA_AMD (all usual distributions' are) and look for 'kfd' "
                            "in the output of 'sudo dmesg'; cards before GCN 4 and slots without PCIe atomics are "
                            "refused there");
    return true;
}

static bool amd_no_render(report *r) {
    const machine_facts *f = &r->facts;
    if (f->container || f->wsl || f->render.n > 0 || f->kfd.n == 0) return false;
    text_printf(&r->what, "/dev/dri/renderD* is missing although /dev/kfd is there");
    text_printf(&r->remedy, "restart after installing the driver; look for 'amdgpu' in the output of 'sudo dmesg'");
    return true;
}

static bool closed_file(report *r, const device_file *d) {
    if (d->n == 0 || d->n_closed < d->n) return false;
    text_printf(&r->what, "%s may not be opened: it belongs to group %s (id %u, mode %03o), which this user is %s",
                d->path, d->group, d->gid, d->mode,
                d->member   ? "in, but that mode or a device rule keeps it from the group"
                : d->listed ? "listed in, but this login is older than that"
                            : "not in");
    if (d->member)
        text_printf(&r->remedy,
                    r->facts.container ? "let the container have the device (--device %s)"
                                       : "sudo chmod g+rw %s; a udev rule keeps it so",
                    d->path);
    else if (d->listed)
        text_printf(&r->remedy, "log out and in again (or try 'newgrp %s')", d->group);
    else if (r->facts.container)
        text_printf(&r->remedy, "start the container with --group-add %u", d->gid);
    else
        text_printf(&r->remedy, "sudo usermod -aG render,video $USER, then log out and in again");
    return true;
}

static bool amd_kfd_closed(report *r) {
    return closed_file(r, &r->facts.kfd);
}

static bool amd_render_closed(report *r) {
    return closed_file(r, &r->facts.render);
}

static bool amd_unexplained(report *r) {
    const machine_facts *f = &r->facts;
    if (r->n > 0) return false;
    text_printf(&r->what, "the runtime shows no device (%s)", f->q->survey.hip.message);
    if (f->amd_arch[0] != '\0') text_printf(&r->what, "; the kernel lists an %s", f->amd_arch);
    text_printf(&r->remedy, "%s",
                f->amd.n > 0 || f->amd_arch[0] != '\0'
                    ? "the installed runtime may be older than the card: update it, then look at 'sudo dmesg | grep "
                      "amdgpu'"
                    : "no AMD card is on the PCI bus: check that it is seated and powered, or use device=cpu");
    return true;
}

/* What certainly stands in the way comes before what may: batch systems set the variables to cards that are there. */
static const rule amd_rules[] = {{"amd-too-old", amd_too_old},
                                 {"amd-wsl", amd_wsl},
                                 {"amd-given-away", amd_given_away},
                                 {"amd-no-module", amd_no_module},
                                 {"amd-other-module", amd_other_module},
                                 {"amd-container", amd_container},
                                 {"amd-no-kfd", amd_no_kfd},
                                 {"amd-no-render", amd_no_render},
                                 {"amd-kfd-closed", amd_kfd_closed},
                                 {"amd-render-closed", amd_render_closed},
                                 {"amd-no-library", amd_no_library},
                                 {"amd-hidden", amd_hidden},
                                 {"amd-virtual", amd_virtual},
                                 {"amd-unexplained", amd_unexplained}};

/* --- NVIDIA likewise --- */

static bool nvidia_hidden(report *r) {
    const char *visible = env(r, "CUDA_VISIBLE_DEVICES");
    if (visible == NULL || !r->facts.q->survey.cuda.found) return false;
    text_printf(&r->what, "CUDA_VISIBLE_DEVICES=%s limits which cards a program sees", visible);
    text_printf(&r->remedy, "unset it, or set it to the number of a card that exists, as in 0");
    return true;
}

static bool nvidia_wsl(report *r) {
    const machine_facts *f = &r->facts;
    if (!f->wsl) return false;
    text_printf(&r->what, "this is WSL: a card comes from the Windows driver through /dev/dxg%s",
                f->dxg ? "" : ", which is missing here");
    text_printf(&r->remedy, "install NVIDIA's driver in Windows and none here (libcuda.so.1 then lies in "
                            "/usr/lib/wsl/lib); 'wsl --update' where that is missing");
    return true;
}

static bool nvidia_no_library(report *r) {
    if (r->facts.q->survey.cuda.found) return false;
    if (library_broken(r, &r->facts.q->survey.cuda, "NVIDIA", &r->facts.nvidia)) return true;
    text_printf(&r->what, "an NVIDIA card is here%s%s, but the library of NVIDIA's driver is not",
                r->facts.nvidia.n > 0 ? " at " : "", r->facts.nvidia.address);
    text_printf(&r->remedy, "%s",
                r->facts.container
                    ? "start the container with: docker run --gpus all … (needs the NVIDIA container toolkit)"
                    : "install the driver: Ubuntu 'sudo ubuntu-drivers install', Debian 'sudo apt install "
                      "nvidia-driver', Fedora 'akmod-nvidia' of RPM Fusion, Arch 'nvidia'; the CUDA toolkit is not "
                      "needed");
    return true;
}

static bool nvidia_nouveau(report *r) {
    if (!r->facts.module_nouveau || r->facts.module_nvidia) return false;
    text_printf(&r->what, "the card runs on the module nouveau, which computes nothing");
    text_printf(&r->remedy, "install NVIDIA's driver and restart; it puts nouveau aside");
    return true;
}

static bool nvidia_no_module(report *r) {
    const machine_facts *f = &r->facts;
    if (f->nvidia.n == 0 || f->module_nvidia || f->module_nouveau || f->container || f->wsl) return false;
    if (strcmp(f->nvidia.driver, "vfio-pci") == 0) {
        text_printf(&r->what, "the card at %s is given to virtual machines (vfio-pci)", f->nvidia.address);
        text_printf(&r->remedy, "run Onelook inside the machine that has the card");
        return true;
    }
    text_printf(&r->what, "there is an NVIDIA card at %s, but the kernel module nvidia is not loaded",
                f->nvidia.address);
    text_printf(&r->remedy, "sudo modprobe nvidia; after a kernel update the module must be built anew (dkms "
                            "autoinstall), and with secure boot its key enrolled");
    return true;
}

static bool nvidia_container(report *r) {
    const machine_facts *f = &r->facts;
    if (!f->container || f->wsl || f->nvidiactl.n > 0 || !f->q->survey.cuda.found) return false;
    text_printf(&r->what, "this container was started without the card's device files (/dev/nvidiactl is missing)");
    text_printf(&r->remedy, "start it with: docker run --gpus all … (needs the NVIDIA container toolkit)");
    return true;
}

static bool nvidia_closed(report *r) {
    return closed_file(r, &r->facts.nvidiactl);
}

static bool nvidia_too_old(report *r) {
    const machine_facts *f = &r->facts;
    const bool by_name = strstr(f->q->survey.cuda.message, "older") != NULL && f->q->survey.cuda.found;
    if (!by_name && (f->nvidia_version == 0 || f->nvidia_version >= NVIDIA_OLDEST)) return false;
    text_printf(&r->what, "the NVIDIA driver %s is older than %d (CUDA 11.1)", f->nvidia_version_text, NVIDIA_OLDEST);
    text_printf(&r->remedy, "update the driver");
    return true;
}

static bool nvidia_mismatch(report *r) {
    if (strstr(r->facts.q->survey.cuda.message, "mismatch") == NULL) return false;
    text_printf(&r->what, "the driver's library and its kernel module%s%s are of different versions",
                r->facts.nvidia_version_text[0] != '\0' ? " " : "", r->facts.nvidia_version_text);
    text_printf(&r->remedy, "restart the machine (the driver was updated while it ran); in a container update the "
                            "host's driver");
    return true;
}

static bool nvidia_mig(report *r) {
    if (!r->facts.mig) return false;
    text_printf(&r->what, "the card is divided by MIG");
    text_printf(&r->remedy, "name an instance: CUDA_VISIBLE_DEVICES=MIG-… as 'nvidia-smi -L' lists them");
    return true;
}

static bool nvidia_unexplained(report *r) {
    if (r->n > 0) return false;
    text_printf(&r->what, "the driver shows no device (%s)", r->facts.q->survey.cuda.message);
    text_printf(&r->remedy, "%s",
                r->facts.nvidia.n > 0 ? "look at 'nvidia-smi' and 'sudo dmesg | grep NVRM'; restart after an update"
                                      : "no NVIDIA card is on the PCI bus: check that it is seated and powered, or use "
                                        "device=cpu");
    return true;
}

static const rule nvidia_rules[] = {{"nvidia-too-old", nvidia_too_old},        {"nvidia-wsl", nvidia_wsl},
                                    {"nvidia-nouveau", nvidia_nouveau},        {"nvidia-no-module", nvidia_no_module},
                                    {"nvidia-container", nvidia_container},    {"nvidia-closed", nvidia_closed},
                                    {"nvidia-no-library", nvidia_no_library},  {"nvidia-mismatch", nvidia_mismatch},
                                    {"nvidia-hidden", nvidia_hidden},          {"nvidia-mig", nvidia_mig},
                                    {"nvidia-unexplained", nvidia_unexplained}};

/* --- whatever was found --- */

static bool no_card(report *r) {
    const machine_facts *f = &r->facts;
    if (f->q->survey.n > 0 || f->amd.n > 0 || f->nvidia.n > 0 || f->kfd.n > 0 || f->nvidiactl.n > 0 || f->wsl ||
        f->q->survey.hip.found || f->q->survey.cuda.found)
        return false;
    text_printf(&r->what, "there is neither an AMD nor an NVIDIA card on this machine%s",
                f->container ? " (as far as this container can see)" : "");
    text_printf(&r->remedy, "device=cpu is used; in a virtual machine ask for a card to be passed through");
    return true;
}

static bool no_code_at_all(report *r) {
    if (r->facts.q->survey.no_code[0] == '\0' || r->facts.q->survey.n == 0) return false;
    text_printf(&r->what, "%s", r->facts.q->survey.no_code);
    text_printf(&r->remedy, "take a released binary, or build with clang-19 and lld-19 installed");
    return true;
}

static bool override_set(report *r) {
    const char *value = env(r, "HSA_OVERRIDE_GFX_VERSION");
    if (value == NULL) return false;
    text_printf(&r->what, "HSA_OVERRIDE_GFX_VERSION=%s makes the driver report another architecture than the card's",
                value);
    text_printf(&r->remedy, "unset it: Onelook carries code for the cards that other programs need it for");
    return true;
}

static bool partitioned(report *r) {
    const pci_cards *c = &r->facts.amd;
    if (c->partition[0] == '\0' || strcmp(c->partition, "SPX") == 0) return false;
    text_printf(&r->what, "the AMD accelerator at %s is divided (%s): each part is a device of its own", c->address,
                c->partition);
    text_printf(&r->remedy, "nothing is wrong; for the whole card at once: sudo amd-smi set --compute-partition SPX");
    return true;
}

static bool called_cuda(report *r) {
    const devices_survey *s = &r->facts.q->survey;
    if (s->hip.n_devices == 0 || s->cuda.n_devices > 0) return false;
    text_printf(&r->what, "an AMD card answers to hip:0, but also to cuda:0 and plain 0: PyTorch calls AMD's cards "
                          "cuda, and scripts written for it keep working");
    text_printf(&r->remedy, "nothing is wrong; the line at the start of each run names the card itself");
    return true;
}

/* Some cards are shown and others are not. */
static bool part_hidden(report *r, const pci_cards *cards, const devices_driver *d, const char *vendor,
                        const char *const *names, size_t n) {
    if (d->n_devices == 0 || d->n_devices >= cards->n || !variables_named(r, names, n)) return false;
    text_printf(&r->what, ": %d of %d %s cards can be seen", d->n_devices, cards->n, vendor);
    text_printf(&r->remedy, "nothing is wrong; unset it for all of them");
    return true;
}

static bool amd_part_hidden(report *r) {
    return part_hidden(r, &r->facts.amd, &r->facts.q->survey.hip, "AMD", amd_variables,
                       sizeof amd_variables / sizeof *amd_variables);
}

static bool nvidia_part_hidden(report *r) {
    return part_hidden(r, &r->facts.nvidia, &r->facts.q->survey.cuda, "NVIDIA", &amd_variables[2], 1);
}

static const rule general_rules[] = {{"no-card", no_card},
                                     {"amd-part-hidden", amd_part_hidden},
                                     {"nvidia-part-hidden", nvidia_part_hidden},
                                     {"no-code", no_code_at_all},
                                     {"hsa-override", override_set},
                                     {"amd-partition", partitioned},
                                     {"amd-called-cuda", called_cuda}};

static void judge_architecture(report *r, const char *name, const char *title, const char *arch) {
    kernel_archive archive;
    if (kernel_archive_init(&archive, r->ctx) != OL_OK) {
        ctx_clear(r->ctx);
        return;
    }
    if (kernel_archive_target(&archive, arch) == NULL) {
        char remedy[256];
        kernel_archive_remedy(&archive, arch, remedy, sizeof remedy);
        text_printf(&r->what, "%s (%s) has architecture %s, for which this build carries no code", name, title, arch);
        text_printf(&r->remedy, "%s", remedy);
        tell(r, "architecture");
    }
    kernel_archive_deinit(&archive);
}

static void judge_devices(report *r) {
    const devices_survey *s = &r->facts.q->survey;
    for (size_t i = 0; i < s->n; i++) {
        const device_entry *e = &s->list[i];
        const unsigned long long mib = (unsigned long long)(e->memory_bytes >> 20);
        judge_architecture(r, e->name, e->title, e->arch);
        if (e->integrated && e->memory_bytes < SMALL_MEMORY) {
            text_printf(&r->what, "%s shares the main memory, and the BIOS gives it only %llu MiB", e->name, mib);
            text_printf(&r->remedy, "raise 'UMA frame buffer size' (or 'iGPU memory') in the BIOS to 4 GiB or more, or "
                                    "use device=cpu");
            tell(r, "igpu-memory");
        }
        if (e->free_bytes == 0 && e->memory_bytes > 0 && !e->silent) {
            text_printf(&r->what, "%s reports no free memory (seen in WSL); the total, %llu MiB, is used instead",
                        e->name, mib);
            text_printf(&r->remedy, "give batch= a number if memory runs out");
            tell(r, "free-unknown");
        }
    }
    /* the kernel knows a card that the runtime does not show */
    if (s->hip.n_devices == 0 && r->facts.amd_arch[0] != '\0')
        judge_architecture(r, "the AMD card", r->facts.amd.address, r->facts.amd_arch);
}

static void rules_apply(report *r, const rule *rules, size_t n) {
    r->n = 0;
    for (size_t i = 0; i < n; i++)
        if (rules[i].applies(r)) tell(r, rules[i].id);
}

void gpu_diagnose(ol_context *ctx, const gpu_diagnosis_question *question, gpu_finding_fn found, void *user) {
    report r = {.ctx = ctx, .found = found, .user = user};
    text_init(&r.what, ctx);
    text_init(&r.remedy, ctx);
    machine_facts *f = &r.facts;
    machine_facts_gather(f, question);
    const devices_survey *s = &question->survey;
    if (s->hip.n_devices == 0 && (f->amd.n > 0 || f->kfd.n > 0 || s->hip.found || (f->dxg && s->cuda.n_devices == 0)))
        rules_apply(&r, amd_rules, sizeof amd_rules / sizeof *amd_rules);
    if (s->cuda.n_devices == 0 &&
        (f->nvidia.n > 0 || f->nvidiactl.n > 0 || s->cuda.found || (f->dxg && s->hip.n_devices == 0)))
        rules_apply(&r, nvidia_rules, sizeof nvidia_rules / sizeof *nvidia_rules);
    rules_apply(&r, general_rules, sizeof general_rules / sizeof *general_rules);
    judge_devices(&r);
    text_deinit(&r.what);
    text_deinit(&r.remedy);
}
