#include "device/gpu/drivers/driver.h"

#include "base/text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *gpu_library_open(ol_context *ctx, const char *const *names, const char *what, char *opened, size_t opened_bytes) {
    text tried, absent; /* those that complain, those that are not there */
    text_init(&tried, ctx);
    text_init(&absent, ctx);
    for (; *names != NULL; names++) {
        /* drivers start threads of their own: once loaded they stay */
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library != NULL) {
            snprintf(opened, opened_bytes, "%s", *names);
            text_deinit(&tried);
            text_deinit(&absent);
            return library;
        }
        const char *complaint = dlerror();
        /* a library that is there but does not load (a missing dependency, say) is worth more than "not found" */
        if (complaint != NULL && strstr(complaint, "cannot open shared object file") != NULL &&
            strncmp(complaint, *names, strlen(*names)) == 0)
            text_printf(&absent, "%s%s", absent.length > 0 ? ", " : "", *names);
        else
            text_printf(&tried, "%s%s: %s", tried.length > 0 ? "; " : "", *names, complaint != NULL ? complaint : "?");
    }
    if (tried.length > 0)
        ctx_fail(ctx, OL_ERROR_NOT_FOUND, "%s does not load (%s)", what, text_c(&tried));
    else
        ctx_fail(ctx, OL_ERROR_NOT_FOUND, "%s is not installed (not found: %s)", what, text_c(&absent));
    text_deinit(&tried);
    text_deinit(&absent);
    return NULL;
}
