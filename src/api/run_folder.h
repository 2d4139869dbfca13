/* Where a run writes: <runs_dir>/<task>/<project>/<name>, numbered when it exists. */
#ifndef API_RUN_FOLDER_H
#define API_RUN_FOLDER_H

#include "base/settings.h"

/* Chooses the folder by the arguments project, name and exist_ok (model document, section 6.4), absolute; sets
 * s->save_dir. Nothing is created. `name` when the argument is not set. */
ol_status run_folder_choose(settings *s, const char *name);

#endif
