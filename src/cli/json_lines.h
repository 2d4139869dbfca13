/* Results of predict as JSON lines on stdout. */
#ifndef CLI_JSON_LINES_H
#define CLI_JSON_LINES_H

#include "onelook.h"

/* An ol_result_fn: {"path":…,"shape":[h,w],"boxes":[{"name":…,"class":…,"confidence":…,"box":{"x1":…}}],"speed":{…}}
 * and a newline, numbers with five decimals as the field's JSON has them. */
ol_status json_line_print(void *user, const ol_result *result);

#endif
