#include "train/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

double schedule_factor(bool cosine, double lrf, int epoch, int epochs) {
    if (cosine) return fmax((1.0 - cos(epoch * pi / epochs)) / 2.0, 0.0) * (lrf - 1.0) + 1.0;
    return fmax(1.0 - (double)epoch / epochs, 0.0) * (1.0 - lrf) + lrf;
}

static int nominal_accumulation(const schedule *s) {
    const double n = rint((double)s->nbs / s->batch);
    return n > 1.0 ? (int)n : 1;
}

void schedule_derive(schedule *s) {
    const double warm = fmin(s->warmup_epochs, fmax(s->epochs - 1, 0));
    const int64_t total = (int64_t)s->batches * s->epochs;
    s->warmup = warm > 0.0 ? (int64_t)rint(warm * s->batches) : 0;
    s->accumulate = nominal_accumulation(s);
    if (!s->timed && s->accumulate > total) s->accumulate = (int)total;
}

double schedule_weight_decay(const schedule *s, double weight_decay) {
    return weight_decay * s->batch * nominal_accumulation(s) / s->nbs;
}

bool schedule_is_warm_up(const schedule *s, int64_t iteration) {
    return s->warmup > 0 && iteration <= s->warmup;
}

static double between(double from, double to, double t) {
    return from + (to - from) * t;
}

int schedule_accumulate(const schedule *s, int64_t iteration) {
    if (!schedule_is_warm_up(s, iteration)) return s->accumulate;
    const double n = rint(between(1.0, s->accumulate, (double)iteration / (double)s->warmup));
    return n > 1.0 ? (int)n : 1;
}

double schedule_lr(const schedule *s, int64_t iteration, int epoch, double initial_lr, bool is_bias) {
    const double target = initial_lr * schedule_factor(s->cosine, s->lrf, epoch, s->epochs);
    if (!schedule_is_warm_up(s, iteration)) return target;
    return between(is_bias ? s->warmup_bias_lr : 0.0, target, (double)iteration / (double)s->warmup);
}

double schedule_momentum(const schedule *s, int64_t iteration, double current) {
    if (!schedule_is_warm_up(s, iteration)) return current;
    return between(s->warmup_momentum, s->momentum, (double)iteration / (double)s->warmup);
}

void schedule_branch_weights(int epoch, int epochs, double *one_to_many, double *one_to_one) {
    const double last = epochs > 1 ? epochs - 1 : 1;
    *one_to_many = epoch == 0 ? 0.8 : fmax(1.0 - epoch / last, 0.0) * (0.8 - 0.1) + 0.1;
    *one_to_one = fmax(1.0 - *one_to_many, 0.0);
}

schedule_auto schedule_auto_choice(int64_t n_images, int batch, int nbs, int epochs, int nc) {
    const double iterations = ceil((double)n_images / (batch > nbs ? batch : nbs)) * epochs;
    if (iterations > 10000.0) return (schedule_auto){.musgd = true, .lr0 = 0.01, .momentum = 0.9};
    return (schedule_auto){.lr0 = rint(0.002 * 5.0 / (4.0 + nc) * 1e6) / 1e6, .momentum = 0.9};
}
