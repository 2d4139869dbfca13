/* Console lines of a run. Columns as the field knows them (model document, section 6.2), then speed and time left. */
#include "train/run.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define PROGRESS_SECONDS 0.2

double run_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void run_report_header(train_run_state *r) {
    ctx_log(r->ctx, OL_LOG_INFO, "%s", "");
    ctx_log(r->ctx, OL_LOG_INFO, "%11s%11s%11s%11s%11s%11s%11s", "Epoch", "Memory", "box_loss", "cls_loss", "l1_loss",
            "Instances", "Size");
}

/* Largest resident size of the process so far. */
static double peak_gigabytes(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss / (1024.0 * 1024.0) : 0.0;
}

static void duration_print(double seconds, char *buffer, size_t bytes) {
    const long s = seconds > 0.0 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(buffer, bytes, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buffer, bytes, "%ld:%02ld", s / 60, s % 60);
}

/* Seconds until the last epoch's training is done, at the pace of the run so far (validation included once one is
 * behind). */
static double seconds_left(const train_run_state *r, double now) {
    const double in_epoch = (double)r->batch / r->schedule.batches;
    const double paced = r->first_epoch < r->epoch ? (now - r->started) / (r->epoch - r->first_epoch + in_epoch)
                                                   : (now - r->epoch_started) / (in_epoch > 0.0 ? in_epoch : 1.0);
    return paced * (r->epochs - r->epoch - in_epoch);
}

void run_report_progress(train_run_state *r, bool last) {
    const double now = run_clock();
    if (!last && now - r->last_progress < PROGRESS_SECONDS) return;
    r->last_progress = now;
    char at[32], memory[32], left[32];
    const int n = r->batch > 0 ? r->batch : 1;
    snprintf(at, sizeof at, "%d/%d", r->epoch + 1, r->epochs);
    snprintf(memory, sizeof memory, "%.3gG", peak_gigabytes());
    duration_print(seconds_left(r, now), left, sizeof left);
    const double spent = now - r->epoch_started;
    ctx_log(r->ctx, last ? OL_LOG_INFO : OL_LOG_PROGRESS,
            "%11s%11s%11.4g%11.4g%11.4g%11lld%11d  %d/%d  %.1f img/s  left %s", at, memory, r->loss_sums[0] / n,
            r->loss_sums[1] / n, r->loss_sums[2] / n, (long long)r->n_objects, r->width, r->batch, r->schedule.batches,
            spent > 0.0 ? (double)r->n_pictures / spent : 0.0, left);
}
