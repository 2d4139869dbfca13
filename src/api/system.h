/* What this machine is: for the first line of a run and for bug reports. */
#ifndef API_SYSTEM_H
#define API_SYSTEM_H

#include "base/text.h"

/* "AMD EPYC": the model name as the system gives it. */
void system_cpu_name(text *out);
/* "Onelook 0.1.0 🚀 oneDNN-2.6.0 CPU (AMD EPYC)" */
void system_device_line(text *out);

#endif
