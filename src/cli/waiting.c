#define _POSIX_C_SOURCE 200809L /* setenv, execv */

#include "commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool names_a_mode(int argc, char **argv) {
    static const char *const modes[] = {"train", "val", "predict", "export"};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "mode=", 5) == 0) return true;
        for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++)
            if (strcmp(argv[i], modes[k]) == 0) return true;
    }
    return false;
}

void threads_wait_asleep(int argc, char **argv) {
    if (!names_a_mode(argc, argv) || getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0) execv("/proc/self/exe", argv);
    /* Where that fails the threads spin, which is slower and nothing else. */
}
