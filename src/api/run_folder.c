#include "api/run_folder.h"

#include "api/preferences.h"
#include "base/file.h"

#include <string.h>
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

ol_status run_folder_create(const settings *s, int *n_created) {
    arena a;
    arena_init(&a, s->memory.ctx, 0);
    int n = 0;
    for (const char *at = s->save_dir; at != NULL && !file_exists(at) && strcmp(at, "/") != 0 && strcmp(at, ".") != 0;
         n++)
        at = path_parent(&a, at);
    arena_deinit(&a);
    ol_status status = folder_create(s->memory.ctx, s->save_dir);
    *n_created = n;
    return status;
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
