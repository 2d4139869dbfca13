#include "onelook.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        printf("%s\n", ol_version());
        return 0;
    }
    fprintf(stderr, "ERROR: unknown command\n");
    return 1;
}
