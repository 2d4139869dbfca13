/* Where a run writes: <runs_dir>/<task>/<project>/<name>, numbered when it exists. */
#ifndef API_RUN_FOLDER_H
#define API_RUN_FOLDER_H

#include "base/settings.h"

/* Chooses the folder by the arguments project, name and exist_ok (model document, section 6.4), absolute; sets
 * s->save_dir. Nothing is created. `name` when the argument is not set. */
ol_status run_folder_choose(settings *s, const char *name);

/* Creates s->save_dir and its parents. *n_created is how many folders of the path were new. Unless exist_ok says so the
 * folder becomes this run's alone: when another run has made it since it was chosen, the next number is taken and
 * s->save_dir changes. */
ol_status run_folder_create(settings *s, const char *name, int *n_created);
/* After a failure: removes those of the new folders that are still empty. */
void run_folder_abandon(const settings *s, int n_created);

#endif
