/* The `device` argument: which device a run uses, or why it cannot (data document, section 7). */
#ifndef API_DEVICE_CHOICE_H
#define API_DEVICE_CHOICE_H

#include "base/settings.h"

/* OL_OK when the argument asks for the CPU or leaves the choice open. A GPU is OL_ERROR_DEVICE with the reason and the
 * remedy; anything else OL_ERROR_ARGUMENT. */
ol_status device_choose(ol_context *ctx, const settings *s);

/* One line a kind of device: present, or why not. */
void device_report(ol_report_fn line, void *user);

#endif
