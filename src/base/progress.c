#include "base/progress.h"

#include <math.h>
#include <time.h>

#define CELLS 12

double progress_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_duration(text *out, double seconds) {
    if (!(seconds > 0)) seconds = 0;
    if (seconds < 60) {
        text_printf(out, "%.1fs", seconds);
        return;
    }
    long s = lround(fmin(seconds, 1e8));
    if (s < 3600)
        text_printf(out, "%ld:%02ld", s / 60, s % 60);
    else
        text_printf(out, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

static void append_rate(text *out, double per_s) {
    if (per_s >= 1000)
        text_printf(out, " %.1fKit/s", per_s / 1000);
    else if (per_s >= 1)
        text_printf(out, " %.1fit/s", per_s);
    else if (per_s > 0)
        text_printf(out, " %.1fs/it", 1 / per_s);
}

void progress_bar(text *out, int64_t done, int64_t total, double elapsed_s) {
    double share = total > 0 ? (double)done / (double)total : 1;
    int halves = (int)(share * CELLS * 2), full = halves / 2;
    text_printf(out, ": %d%% ", (int)(share * 100));
    for (int i = 0; i < CELLS; i++) text_printf(out, "%s", i < full ? "━" : i == full && halves % 2 ? "╸" : "─");
    text_printf(out, " %lld/%lld", (long long)done, (long long)total);
    double per_s = elapsed_s > 0 ? (double)done / elapsed_s : 0;
    append_rate(out, per_s);
    text_printf(out, " ");
    progress_duration(out, elapsed_s);
    if (done < total && per_s > 0) {
        text_printf(out, "<");
        progress_duration(out, (double)(total - done) / per_s);
    }
}
