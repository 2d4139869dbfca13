#include "device/gpu/drivers/entries.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>

static void *library_load(const char *name) {
    return (void *)LoadLibraryA(name);
}

static void *library_symbol(void *library, const char *name) {
    FARPROC address = GetProcAddress((HMODULE)library, name);
    void *p = NULL;
    memcpy(&p, &address, sizeof p);
    return p;
}

/* Why the last load failed; `absent` when there is no such file at all. */
static void library_complaint(const char *name, bool *absent, char *out, size_t out_bytes) {
    const DWORD error = GetLastError();
    (void)name;
    *absent = error == ERROR_MOD_NOT_FOUND;
    snprintf(out, out_bytes, "error %lu", (unsigned long)error);
}

void gpu_library_close(void *library) {
    (void)library; /* drivers start threads of their own: once loaded they stay */
}
#else
#include <dlfcn.h>
#include <unistd.h>

static void *library_load(const char *name) {
    /* drivers start threads of their own: once loaded they stay */
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

static void library_complaint(const char *name, bool *absent, char *out, size_t out_bytes) {
    const char *said = dlerror();
    const size_t n = strlen(name);
    /* The words are in the user's language; whose they are is not: of a file that was found they begin with its path,
     * of one that it lacks with that one's name. */
    const bool is_own = said != NULL && strncmp(said, name, n) == 0 && said[n] == ':';
    *absent = is_own && (strchr(name, '/') == NULL || access(name, F_OK) != 0);
    snprintf(out, out_bytes, "%s", said != NULL ? said : "?");
}

void gpu_library_close(void *library) {
    dlclose(library);
}
#endif

/* ISO C has no cast from an object pointer to a function pointer; both systems promise the representation. */
bool gpu_library_entry(void *library, const char *name, void *to) {
    void *address = library_symbol(library, name);
    memcpy(to, &address, sizeof address);
    return address != NULL;
}

void *gpu_library_open(ol_context *ctx, const char *const *names, const char *what, char *opened, size_t opened_bytes) {
    text tried, absent; /* those that complain, those that are not there */
    text_init(&tried, ctx);
    text_init(&absent, ctx);
    for (; *names != NULL; names++) {
        void *library = library_load(*names);
        if (library != NULL) {
            snprintf(opened, opened_bytes, "%s", *names);
            text_deinit(&tried);
            text_deinit(&absent);
            return library;
        }
        /* a library that is there but does not load (a missing dependency, say) is worth more than "not found" */
        char complaint[512];
        bool is_absent = false;
        library_complaint(*names, &is_absent, complaint, sizeof complaint);
        if (is_absent)
            text_printf(&absent, "%s%s", absent.length > 0 ? ", " : "", *names);
        else
            text_printf(&tried, "%s%s: %s", tried.length > 0 ? "; " : "", *names, complaint);
    }
    if (tried.length > 0)
        ctx_fail(ctx, OL_ERROR_NOT_FOUND, "%s does not load (%s)", what, text_c(&tried));
    else
        ctx_fail(ctx, OL_ERROR_NOT_FOUND, "%s is not installed (not found: %s)", what, text_c(&absent));
    text_deinit(&tried);
    text_deinit(&absent);
    return NULL;
}
