#include "api/run_folder.h"

#include "api/preferences.h"
#include "base/file.h"

#include <string.h>

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
