/* The `device` argument: which device a run uses, or why it cannot (data document, section 7). */
#ifndef API_DEVICE_CHOICE_H
#define API_DEVICE_CHOICE_H

#include "base/settings.h"

/* The device that the argument names, as device_open takes it ("cpu", "cuda:0", "hip:0"). Without an argument: the
 * first GPU that this build has code for, else the CPU (export: the CPU). "0", "cuda:0" and "cuda" mean the first GPU
 * of whatever vendor, "hip:0" the first of AMD's, "-1" the one with most free memory. OL_ERROR_DEVICE with the reason
 * and the remedy when there is no such device; OL_ERROR_ARGUMENT for what is not a device. */
ol_status device_choose(ol_context *ctx, const settings *s, char name[16]);

/* The same for the argument as text. */
ol_status device_choose_text(ol_context *ctx, const char *typed, bool on_cpu_by_default, char name[16]);

/* "cpu" in one of its spellings, which needs no GPU to be there. */
bool device_names_cpu(ol_context *ctx, const char *typed);

/* One line a device, one a driver that shows none, and what can be done about it. */
void device_report(ol_context *ctx, ol_report_fn line, void *user);

#endif
