#define _POSIX_C_SOURCE 200809L /* setenv, execv */

#include "commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Some tens of microseconds. A run has a hundred short parallel loops: to sleep at once cost a prediction on two idle
 * cores 4 ms of 36; beside a busy neighbour it took 61 ms asleep at once, 70 with this, 95 with five times as many. */
#define SPIN_TURNS "1000"

static bool names_a_mode(int argc, char **argv) {
    static const char *const modes[] = {"train", "val", "predict", "export"};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "mode=", 5) == 0) return true;
        for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++)
            if (strcmp(argv[i], modes[k]) == 0) return true;
    }
    return false;
}

void threads_wait_briefly(int argc, char **argv) {
    if (!names_a_mode(argc, argv) || getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL) return;
    /* by its own path where that is readable: a program started as /proc/self/exe is called "exe" by ps and top */
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || setenv("GOMP_SPINCOUNT", SPIN_TURNS, 1) != 0) return;
    path[n] = '\0';
    execv(path, argv);
    execv("/proc/self/exe", argv); /* the file was replaced meanwhile */
    /* Where that fails the threads spin long, which is slower beside other work and nothing else. */
}
