#include "device/gpu/ptx.h"

#include <string.h>

#define KERNEL_NAME_BYTES 128

bool ptx_is(const void *image) {
    static const unsigned char elf[4] = {0x7F, 'E', 'L', 'F'};
    return memcmp(image, elf, sizeof elf) != 0;
}

static const char *line_end(const char *line) {
    const char *end = strchr(line, '\n');
    return end != NULL ? end + 1 : line + strlen(line);
}

static bool starts(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

/* The kernel that begins with this line; false when none does. */
static bool entry_name(const char *line, char name[KERNEL_NAME_BYTES]) {
    static const char opening[] = ".visible .entry ";
    if (!starts(line, opening)) return false;
    const char *from = line + sizeof opening - 1;
    const size_t n = strcspn(from, "(\n ");
    if (n >= KERNEL_NAME_BYTES) return false;
    memcpy(name, from, n);
    name[n] = '\0';
    return true;
}

/* Behind the kernel that begins here: its body ends with a brace at the start of a line. */
static const char *entry_end(const char *line) {
    while (*line != '\0' && *line != '}') line = line_end(line);
    return line_end(line);
}

/* What a text of several modules must not hold twice. */
static bool is_header(const char *line) {
    return starts(line, ".version ") || starts(line, ".target ") || starts(line, ".address_size ");
}

void ptx_append(text *out, const char *module, bool (*wanted)(const void *user, const char *kernel), const void *user) {
    const bool first = out->length == 0;
    for (const char *line = module; *line != '\0';) {
        char name[KERNEL_NAME_BYTES];
        const bool is_entry = entry_name(line, name);
        const char *end = is_entry ? entry_end(line) : line_end(line);
        const bool is_comment = !is_entry && (starts(line, "//") || starts(line, "\t//") || *line == '\n');
        if (!is_comment && (is_entry ? wanted(user, name) : first || !is_header(line)))
            text_append(out, line, (size_t)(end - line));
        line = end;
    }
}
