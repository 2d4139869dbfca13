/* Which arguments count in which mode. Says so, once a call, for those that were set and do not. */
#ifndef API_EFFECT_H
#define API_EFFECT_H

#include "base/settings.h"

/* One warning for each argument that differs from its default and that `mode` does not look at: whoever set it where it
 * never counts; where it would count in another mode, only when the caller gave it himself (a cfg file may serve all
 * modes). */
ol_status effect_warn(ol_context *ctx, const settings *s, const char *mode);

#endif
