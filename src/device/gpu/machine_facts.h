/* What /sys, /dev, /proc and the environment tell about GPUs, gathered once for the rules of diagnosis.c. Internal to
 * src/device/gpu. */
#ifndef DEVICE_GPU_MACHINE_FACTS_H
#define DEVICE_GPU_MACHINE_FACTS_H

#include "device/gpu/diagnosis.h"

/* A device file, or the first that is closed of several. */
typedef struct device_file {
    int n, n_closed;
    char path[48];  /* "/dev/dri/renderD128" */
    char group[48]; /* "render", or the number */
    unsigned gid, mode;
    bool member, listed; /* this process is in the group; its user is written down as a member */
} device_file;

/* The cards of one vendor on the PCI bus. */
typedef struct pci_cards {
    int n, n_unbound;   /* without a driver */
    int n_virtual;      /* functions of a shared card (SR-IOV) */
    char address[32];   /* of the first: "0000:03:00.0" */
    char driver[32];    /* of the first; "" */
    char partition[16]; /* "CPX" */
    bool gives_away;    /* it has virtual functions switched on */
} pci_cards;

typedef struct machine_facts {
    const gpu_diagnosis_question *q;
    pci_cards amd, nvidia;
    device_file kfd, render, nvidiactl;
    bool dxg, wsl, container, nomodeset, mig;
    bool module_amdgpu, module_nvidia, module_nouveau;
    char amd_arch[16];  /* of the kernel's own list: "gfx1100"; "" */
    int nvidia_version; /* 535; 0: unknown */
    char nvidia_version_text[32];
} machine_facts;

void machine_facts_gather(machine_facts *f, const gpu_diagnosis_question *q);
/* NULL when it is not set. */
const char *machine_environment(const machine_facts *f, const char *name);

#endif
