#include "api/run_folder.h"

#include "api/preferences.h"
#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ol_status run_folder_choose(settings *s, const char *name) {
    arena a;
    arena_init(&a, s->memory.ctx, 0);
    preferences p;
    ol_status status = preferences_read(&a, &p);
    if (status == OL_OK) {
        const char *parent = s->project;
        if (parent == NULL || !path_is_absolute(parent)) {
            const char *of_task = path_join(&a, p.runs_dir, s->task);
            parent = of_task != NULL && parent != NULL ? path_join(&a, of_task, parent) : of_task;
        }
        const char *wanted = parent != NULL ? path_join(&a, parent, s->name != NULL ? s->name : name) : NULL;
        const char *whole = wanted != NULL ? path_absolute(&a, wanted) : NULL;
        if (whole != NULL && !s->exist_ok) whole = path_numbered(&a, whole);
        status = whole != NULL ? settings_set_save_dir(s, whole) : OL_ERROR_MEMORY;
    }
    arena_deinit(&a);
    return status;
}

/* How many folders of the path are not there yet. */
static int count_new(const settings *s) {
    arena a;
    arena_init(&a, s->memory.ctx, 0);
    int n = 0;
    for (const char *at = s->save_dir; at != NULL && !file_exists(at) && strcmp(at, "/") != 0 && strcmp(at, ".") != 0;
         n++)
        at = path_parent(&a, at);
    arena_deinit(&a);
    return n;
}

/* *taken: another run has made the folder since it was chosen. */
static ol_status create(const settings *s, bool *taken) {
    arena a;
    arena_init(&a, s->memory.ctx, 0);
    const char *parent = path_parent(&a, s->save_dir);
    ol_status status = parent != NULL ? folder_create(s->memory.ctx, parent) : OL_ERROR_MEMORY;
    arena_deinit(&a);
    *taken = false;
    if (status != OL_OK || mkdir(s->save_dir, 0777) == 0) return status;
    *taken = errno == EEXIST && !s->exist_ok;
    return *taken ? OL_OK : folder_create(s->memory.ctx, s->save_dir); /* it exists, or the message tells why not */
}

ol_status run_folder_create(settings *s, const char *name, int *n_created) {
    for (bool taken = true; taken;) {
        *n_created = count_new(s);
        ol_status status = create(s, &taken);
        if (status == OL_OK && taken) status = run_folder_choose(s, name);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

void run_folder_abandon(const settings *s, int n_created) {
    arena a;
    arena_init(&a, s->memory.ctx, 0);
    static const char *const inner[] = {"labels", "crops", "weights"};
    for (size_t i = 0; n_created > 0 && i < sizeof inner / sizeof *inner; i++) {
        const char *path = path_join(&a, s->save_dir, inner[i]);
        if (path != NULL) rmdir(path);
    }
    const char *at = s->save_dir;
    for (int i = 0; i < n_created && at != NULL && rmdir(at) == 0; i++) at = path_parent(&a, at);
    arena_deinit(&a);
}
