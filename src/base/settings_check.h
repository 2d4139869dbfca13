/* Type and range of one argument (model document, section 8; data document, section 6). Internal to the base room. */
#ifndef BASE_SETTINGS_CHECK_H
#define BASE_SETTINGS_CHECK_H

#include "base/settings.h"

/* *tidy is `v` (sharing its texts and lists), an integral float of an int kind made an int. Fails with
 * OL_ERROR_ARGUMENT. */
ol_status setting_check(ol_context *ctx, const setting_info *info, const value *v, value *tidy);

#endif
