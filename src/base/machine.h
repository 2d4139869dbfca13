/* What the machine has to spare right now. Any thread. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdint.h>

/* Bytes that may still be used without swapping, within the limits of the process's control group; 0 when not known. */
uint64_t machine_free_memory(void);
/* Bytes that may still be written below the folder; 0 when it does not exist. */
uint64_t machine_free_disk(const char *folder);

#endif
