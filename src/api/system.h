/* What this machine is: for the first line of a run and for bug reports. */
#ifndef API_SYSTEM_H
#define API_SYSTEM_H

#include "base/text.h"
#include "graph/plan.h"

/* "AMD EPYC": the model name as the system gives it. */
void system_cpu_name(text *out);
/* "Onelook 0.1.0 🚀 oneDNN-2.6.0 CPU (AMD EPYC)", or "… CUDA:0 (NVIDIA H200, sm_90, 143156MiB, CUDA driver 13.0)" */
void system_device_line(text *out, const device *dev);

#endif
