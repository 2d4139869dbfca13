#include "train/trainer.h"

#include "base/file.h"
#include "ops/detect_loss.h"
#include "train/run.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- an epoch's batches --- */

/* In a run with a time budget the clock is looked at after optimizer steps. */
static bool time_is_up(const train_run_state *r) {
    return !isnan(r->s->time) && r->stepped && r->seconds_before + run_clock() - r->started > r->s->time * 3600.0;
}

/* Passes over the batches that a resumed epoch has behind it. */
static ol_status batches_skip(train_run_state *r) {
    for (int i = 0; i < r->batch; i++) {
        const batch *b = NULL;
        const ol_status status = loader_next(r->setup->loader, &b);
        if (status != OL_OK || !b) return status;
    }
    return OL_OK;
}

static ol_status epoch_train(train_run_state *r) {
    loader_give_recipes(r->setup->loader, true);
    ol_status status = loader_start(r->setup->loader, r->epoch);
    if (status == OL_OK) status = batches_skip(r);
    r->epoch_started = run_clock();
    r->n_pictures = 0;
    run_report_header(r);
    while (status == OL_OK && !r->timed_out && !r->interrupted) {
        const batch *b = NULL;
        status = loader_next(r->setup->loader, &b);
        if (status != OL_OK || !b) break;
        status = run_batch(r, b);
        if (status != OL_OK) break;
        run_report_progress(r, false);
        r->timed_out = time_is_up(r);
        r->interrupted = ctx_interrupted(r->ctx);
    }
    loader_report_wait(r->setup->loader);
    if (status == OL_ERROR_INTERRUPTED) { /* the loader was asked to stop */
        ctx_clear(r->ctx);
        r->interrupted = true;
        status = OL_OK;
    }
    if (status == OL_OK) status = run_batches_finish(r);
    return status;
}

/* --- its end --- */

static ol_status epoch_validate(train_run_state *r) {
    train_metrics m = {0};
    ol_status status = param_store_read(r->store, PARAM_EMA, &r->average);
    if (status != OL_OK) return status;
    float *gains = r->gains[1];
    gains[LOSS_GAIN_BRANCH] = gains[LOSS_GAIN_IMAGES] = 1.0f;
    status = r->setup->validate(r->setup->user, &r->average, gains, &m);
    if (status == OL_ERROR_MEMORY && step_plans_drop(r->plans)) { /* those of other batch sizes are only kept */
        ctx_clear(r->ctx);
        status = r->setup->validate(r->setup->user, &r->average, gains, &m);
    }
    if (status != OL_OK) return status;
    double *const means[] = {&m.precision, &m.recall, &m.map50, &m.map50_95};
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i++)
        if (isnan(*means[i])) *means[i] = 0.0; /* a mean over no class */
    r->metrics = m;
    r->fitness = results_round(m.map50_95);
    return OL_OK;
}

/* Early stop (section 6.3): true when patience has run out. `forced`: the next epoch would be the last. */
static bool stopper_judge(train_run_state *r, bool *forced) {
    const int epoch = r->epoch + 1, patience = r->s->patience;
    if (r->stopper_epoch == 0 || r->fitness > r->stopper_fitness || r->stopper_fitness == 0.0) {
        r->stopper_fitness = r->fitness;
        r->stopper_epoch = epoch;
    }
    const int since = epoch - r->stopper_epoch;
    *forced = patience > 0 && since >= patience - 1;
    return patience > 0 && since >= patience;
}

static bool should_validate(const train_run_state *r, bool forced) {
    return r->setup->validate && (r->s->val || forced || r->timed_out || r->epoch + 1 >= r->epochs);
}

static ol_status epoch_record(train_run_state *r, bool validated, bool is_best) {
    const int n = r->batch > 0 ? r->batch : 1;
    train_epoch e = {.epoch = r->epoch + 1,
                     .epochs = r->epochs,
                     .seconds = r->seconds_before + run_clock() - r->started,
                     .metrics = r->metrics,
                     .n_groups = r->store->n_groups,
                     .fitness = r->fitness,
                     .is_best = is_best,
                     .validated = validated};
    for (int k = 0; k < LOSS_ITEM_COUNT; k++) e.train_losses[k] = r->loss_sums[k] / n;
    for (int g = 0; g < r->store->n_groups; g++) e.lr[g] = r->opt->lr[g];
    ol_status status = results_add(&r->results, &e);
    if (status == OL_OK && r->csv_path) status = results_write(&r->results, r->csv_path);
    if (status == OL_OK && r->setup->on_epoch) r->setup->on_epoch(r->setup->user, &e);
    return status;
}

/* Another name for what was just written: files are only ever replaced as a whole, so the content behind the old name
 * stays. A user's own link is followed, as its other name would follow every later file too. Where the file system has
 * no links, or `path` is one, it is written again. */
static ol_status save_as(train_run_state *r, const char *path) {
    const char *link_path = arena_printf(&r->arena, "%s.link", path);
    if (!link_path) return OL_ERROR_MEMORY;
    unlink(link_path);
    struct stat st;
    const bool leads_on = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    const bool linked = !leads_on && linkat(AT_FDCWD, r->last_path, AT_FDCWD, link_path, AT_SYMLINK_FOLLOW) == 0 &&
                        rename(link_path, path) == 0;
    unlink(link_path);
    return linked ? OL_OK : run_save(r, path);
}

static ol_status epoch_save(train_run_state *r, bool is_best, bool is_last) {
    if (!r->last_path || !(r->s->save || is_last)) return OL_OK;
    ol_status status = run_save(r, r->last_path);
    if (status == OL_OK && is_best) status = save_as(r, r->best_path);
    if (status == OL_OK && r->s->save_period > 0 && r->epoch % r->s->save_period == 0) {
        const char *path = arena_printf(&r->arena, "%s/weights/epoch%d.pt", r->s->save_dir, r->epoch);
        status = path ? save_as(r, path) : OL_ERROR_MEMORY;
    }
    return status;
}

/* A time budget sets the number of epochs anew from the pace so far. */
static void epochs_estimate(train_run_state *r) {
    if (isnan(r->s->time)) return;
    const double mean = (r->seconds_before + run_clock() - r->started) / (r->epoch + 1);
    const double epochs = ceil(r->s->time * 3600.0 / mean);
    r->epochs = epochs < r->epoch + 1 ? r->epoch + 1 : epochs > 1e6 ? 1000000 : (int)epochs;
    r->schedule.epochs = r->epochs; /* the warm-up keeps its length */
}

/* Validation, record, early stop, files. *stop: this was the last epoch. */
static ol_status epoch_finish(train_run_state *r, bool *forced, bool *stop) {
    const bool validated = should_validate(r, *forced);
    run_report_progress(r, true);
    if (validated) {
        const ol_status status = epoch_validate(r);
        if (status == OL_ERROR_INTERRUPTED) r->interrupted = true;
        if (status != OL_OK) return status;
    }
    const bool out_of_patience = validated ? stopper_judge(r, forced) : false;
    if (isnan(r->best_fitness) || r->fitness > r->best_fitness) r->best_fitness = r->fitness;
    const bool is_best = r->fitness == r->best_fitness;
    *stop = out_of_patience || r->timed_out || r->epoch + 1 >= r->epochs;
    r->stopped_early = out_of_patience && r->epoch + 1 < r->epochs;
    r->epoch_done = 1;
    ol_status status = epoch_record(r, validated, is_best);
    if (status == OL_OK) status = epoch_save(r, is_best, *stop);
    if (status == OL_OK && out_of_patience)
        ctx_log(r->ctx, OL_LOG_INFO,
                "Training stopped early as no improvement was seen in the last %d epochs. Best results were seen at "
                "epoch %d.",
                r->s->patience, r->stopper_epoch);
    epochs_estimate(r);
    return status;
}

/* Leaves a last.pt from which the run goes on exactly where it was left. */
static ol_status stop_on_request(train_run_state *r) {
    const ol_status status = r->last_path ? run_save(r, r->last_path) : OL_OK;
    if (status != OL_OK) return status;
    if (!r->last_path)
        return ctx_fail(r->ctx, OL_ERROR_INTERRUPTED, "training was interrupted in epoch %d of %d", r->epoch + 1,
                        r->epochs);
    return ctx_fail(
        r->ctx, OL_ERROR_INTERRUPTED,
        "training was interrupted in epoch %d of %d after %d of %d batches; go on with resume=True model=%s",
        r->epoch + 1, r->epochs, r->batch, r->schedule.batches, r->last_path);
}

static ol_status run_epochs(train_run_state *r) {
    bool stop = false, forced = false, closed = false;
    while (!stop) {
        if (!closed && r->s->close_mosaic > 0 && r->epoch >= r->epochs - r->s->close_mosaic) {
            ctx_log(r->ctx, OL_LOG_INFO, "Closing dataloader mosaic");
            loader_close_mosaic(r->setup->loader);
            closed = true;
        }
        ol_status status = epoch_train(r);
        if (status != OL_OK) return status;
        const bool unfinished = r->interrupted && r->batch < r->schedule.batches;
        if (!unfinished) status = epoch_finish(r, &forced, &stop);
        if (status != OL_OK && status != OL_ERROR_INTERRUPTED) return status;
        if (ctx_interrupted(r->ctx)) r->interrupted = true;
        if (unfinished || status == OL_ERROR_INTERRUPTED || (r->interrupted && !stop)) {
            ctx_clear(r->ctx);
            return stop_on_request(r);
        }
        if (stop) break;
        r->epoch++;
        r->batch = r->epoch_done = 0;
        memset(r->loss_sums, 0, sizeof r->loss_sums);
    }
    return OL_OK;
}

static double file_megabytes(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 ? (double)s.st_size / 1e6 : 0.0;
}

/* Strips last.pt and best.pt to weights; best.pt takes the whole run's results along. */
static ol_status files_finish(train_run_state *r, train_outcome *out) {
    const char *const paths[2] = {r->last_path, r->best_path};
    char *const names[2] = {out->last, out->best};
    const value *rows = NULL;
    ol_status status = results_to_value(&r->arena, &r->results, &rows);
    for (int i = 0; status == OL_OK && i < 2; i++) {
        if (!paths[i] || !file_exists(paths[i])) continue;
        snprintf(names[i], sizeof out->last, "%s", paths[i]);
        status = run_strip(r, paths[i], i == 1 ? rows : NULL);
        if (status == OL_OK)
            ctx_log(r->ctx, OL_LOG_INFO, "Optimizer stripped from %s, %.1fMB", paths[i], file_megabytes(paths[i]));
    }
    return status;
}

/* Files are written whole or not at all, so what the last epoch left can be resumed. */
static ol_status device_lost(train_run_state *r) {
    char message[768];
    ctx_message(r->ctx, message, sizeof message);
    if (!run_can_resume(r)) return OL_ERROR_DEVICE;
    ctx_clear(r->ctx);
    return ctx_fail(r->ctx, OL_ERROR_DEVICE,
                    "%s. The run stopped in epoch %d of %d; what the last finished epoch left is whole: go on with "
                    "resume=True model=%s",
                    message, r->epoch + 1, r->epochs, r->last_path);
}

ol_status train_run(const train_setup *setup, train_outcome *out) {
    train_run_state r;
    train_outcome result = {.best_fitness = NAN};
    ol_status status = run_init(&r, setup);
    if (status != OL_OK) goto fail;
    if (r.last_path) ctx_log(r.ctx, OL_LOG_INFO, "Logging results to %s", r.s->save_dir);
    ctx_log(r.ctx, OL_LOG_INFO, "Starting training for %d epochs...", r.epochs);
    if ((status = run_epochs(&r)) != OL_OK) goto fail;
    result.epochs_done = r.epoch + 1;
    result.best_fitness = r.best_fitness;
    result.seconds = r.seconds_before + run_clock() - r.started;
    result.timed_out = r.timed_out;
    result.stopped_early = r.stopped_early;
    ctx_log(r.ctx, OL_LOG_INFO, "%s", "");
    ctx_log(r.ctx, OL_LOG_INFO, "%d epochs completed in %.3f hours.", r.epoch - r.first_epoch + 1,
            (run_clock() - r.started) / 3600.0);
    if ((status = files_finish(&r, &result)) != OL_OK) goto fail;
    if ((status = param_store_read(r.store, PARAM_EMA, &r.average)) != OL_OK) goto fail;
    if ((status = model_load_state(setup->model, &r.average)) != OL_OK) goto fail;
    *out = result;
fail:
    if (status == OL_ERROR_DEVICE) status = device_lost(&r);
    run_deinit(&r);
    return status;
}
