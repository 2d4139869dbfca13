/* Version and names: the parts of the public interface that need nothing else. */
#include "onelook.h"

const char *ol_version(void) {
    return "0.1.0";
}

const char *ol_status_name(ol_status status) {
    static const char *const names[] = {"ok",          "argument", "not found", "io",          "format",  "memory",
                                        "unsupported", "numeric",  "device",    "interrupted", "internal"};
    return (size_t)status < sizeof names / sizeof names[0] ? names[status] : "unknown";
}
