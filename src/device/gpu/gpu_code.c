/* The device code that a program uses. Machine code is loaded module by module when first asked for. PTX, which the
 * driver has to compile, waits until something is launched: then all kernels asked for so far, and only those, go to
 * the driver as one text, which it compiles on several threads where it can. */
#include "device/gpu/gpu.h"
#include "device/gpu/ptx.h"

#include <stdio.h>
#include <string.h>

static ol_status module_add(gpu_device *g, const char *name, const void *image) {
    void *block = g->modules, *handle = NULL;
    ol_status status = mem_grow(g->base.ctx, &block, &g->module_capacity, g->n_modules + 1, sizeof *g->modules);
    g->modules = block;
    if (status == OL_OK)
        status = gpu_check(g, g->driver->call.module_load(g->driver, &handle, image), "loading device code");
    if (status != OL_OK) return status;
    gpu_module *m = &g->modules[g->n_modules++];
    *m = (gpu_module){.handle = handle};
    snprintf(m->name, sizeof m->name, "%s", name);
    return OL_OK;
}

static ol_status handle_get(gpu_device *g, gpu_function *f, void *module) {
    const int error = g->driver->call.function_get(g->driver, &f->handle, module, f->name);
    if (error == 0) return OL_OK;
    char what[64];
    snprintf(what, sizeof what, "finding kernel %s", f->name);
    f->handle = NULL;
    return gpu_check(g, error, what);
}

/* From a module of machine code, which is loaded when it is not there yet. */
static ol_status function_load(gpu_device *g, gpu_function *f, const void *image) {
    size_t at = 0;
    while (at < g->n_modules && strcmp(g->modules[at].name, f->module) != 0) at++;
    const ol_status status = at == g->n_modules ? module_add(g, f->module, image) : OL_OK;
    return status == OL_OK ? handle_get(g, f, g->modules[at].handle) : status;
}

static bool is_pending(const void *user, const char *kernel) {
    const gpu_device *g = user;
    for (size_t i = 0; i < g->n_functions; i++)
        if (g->functions[i].handle == NULL && strcmp(g->functions[i].name, kernel) == 0) return true;
    return false;
}

/* Whether an earlier function that waits brings the module along. */
static bool is_repeated(const gpu_device *g, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (g->functions[i].handle == NULL && strcmp(g->functions[i].module, g->functions[at].module) == 0) return true;
    return false;
}

ol_status gpu_functions_load(gpu_device *g) {
    if (g->n_waiting == 0) return OL_OK;
    text all;
    text_init(&all, g->base.ctx);
    ol_status status = OL_OK;
    for (size_t i = 0; i < g->n_functions && status == OL_OK; i++) {
        const void *image = NULL;
        if (g->functions[i].handle != NULL || is_repeated(g, i)) continue;
        status = kernel_archive_object(&g->archive, g->target, g->functions[i].module, &image);
        if (status == OL_OK) ptx_append(&all, image, is_pending, g);
    }
    if (status == OL_OK && all.failed) status = OL_ERROR_MEMORY;
    if (status == OL_OK) status = module_add(g, "", text_c(&all));
    for (size_t i = 0; i < g->n_functions && status == OL_OK; i++)
        if (g->functions[i].handle == NULL)
            status = handle_get(g, &g->functions[i], g->modules[g->n_modules - 1].handle);
    if (status == OL_OK) g->n_waiting = 0;
    text_deinit(&all);
    return status;
}

/* A card may refuse another's machine code of the same generation: then the driver compiles. */
static bool becomes_portable(gpu_device *g) {
    const char *ptx = kernel_archive_portable(&g->archive);
    if (g->n_modules > 0 || strncmp(g->target, "sm_", 3) != 0 || ptx == NULL) return false;
    ctx_clear(g->base.ctx);
    g->target = ptx;
    return true;
}

ol_status gpu_function_want(gpu_device *g, const char *module, const char *name, size_t *index) {
    for (*index = 0; *index < g->n_functions; (*index)++)
        if (strcmp(g->functions[*index].name, name) == 0) return OL_OK;
    void *block = g->functions;
    const void *image = NULL;
    ol_status status = mem_grow(g->base.ctx, &block, &g->function_capacity, g->n_functions + 1, sizeof *g->functions);
    g->functions = block;
    if (status == OL_OK) status = kernel_archive_object(&g->archive, g->target, module, &image);
    if (status != OL_OK) return status;
    gpu_function f = {0};
    snprintf(f.module, sizeof f.module, "%s", module);
    snprintf(f.name, sizeof f.name, "%s", name);
    if (!ptx_is(image)) status = function_load(g, &f, image);
    if (status == OL_ERROR_DEVICE && becomes_portable(g)) status = OL_OK;
    if (status != OL_OK) return status;
    if (f.handle == NULL) g->n_waiting++;
    g->functions[g->n_functions++] = f;
    return OL_OK;
}

ol_status gpu_function_find(gpu_device *g, const char *module, const char *name, void **handle) {
    size_t index = 0;
    ol_status status = gpu_function_want(g, module, name, &index);
    if (status == OL_OK && g->functions[index].handle == NULL) status = gpu_functions_load(g);
    if (status == OL_OK) *handle = g->functions[index].handle;
    return status;
}

static void keep_most(int *most, char most_of[32], int value, const char *name) {
    if (value <= *most) return;
    *most = value;
    snprintf(most_of, 32, "%s", name);
}

bool gpu_code_look(device *dev, device_code *out) {
    gpu_device *g = (gpu_device *)dev;
    device_code c = {0};
    if (g->driver->call.function_info == NULL || g->driver->call.bind(g->driver, g->index) != 0) return false;
    for (size_t i = 0; i < g->n_functions; i++) {
        const gpu_function *f = &g->functions[i];
        gpu_function_info info;
        if (f->handle == NULL) continue;
        if (g->driver->call.function_info(g->driver, f->handle, &info) != 0) return false;
        keep_most(&c.registers, c.registers_of, info.registers, f->name);
        keep_most(&c.spilled_bytes, c.spilled_of, info.local_bytes, f->name);
        keep_most(&c.shared_bytes, c.shared_of, info.shared_bytes, f->name);
        c.n_kernels++;
    }
    *out = c;
    return c.n_kernels > 0;
}

void gpu_code_destroy(gpu_device *g) {
    mem_free(g->base.ctx, g->functions);
    mem_free(g->base.ctx, g->modules);
    kernel_archive_deinit(&g->archive);
}
