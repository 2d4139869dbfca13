/* A checkpoint as the reference package lays it out: model document, sections 6.5 and 9.5. */
#include "formats/checkpoint.h"
#include "formats/module_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct writer {
    ol_context *ctx;
    arena a;
    pickle_writer w;
    const checkpoint *c;
    const model *m;
    bool half, resumable;
    float stride_values[OP_MAX_LEVELS];
    tensor stride;
} writer;

/* --- optimizer --- */

static void put_state_key(pickle_writer *w, const char *name, const tensor *t) {
    pickle_string(w, strchr(name, '/') + 1);
    pickle_tensor(w, t, false);
}

/* Entries of one parameter are neighbours in the list. */
static ol_status put_optimizer_state(writer *wr) {
    const tensor_list *state = &wr->c->optimizer.state;
    pickle_writer *w = &wr->w;
    pickle_op(w, '}');
    pickle_op(w, '(');
    for (size_t i = 0; i < state->count;) {
        char *end;
        const long index = strtol(state->items[i].name, &end, 10);
        const size_t prefix = (size_t)(end - state->items[i].name) + 1;
        if (*end != '/' || index < 0)
            return ctx_fail(wr->ctx, OL_ERROR_INTERNAL, "optimizer state '%s' is not named index/key",
                            state->items[i].name);
        pickle_int(w, index);
        pickle_op(w, '}');
        pickle_op(w, '(');
        const char *first = state->items[i].name;
        for (; i < state->count && strncmp(state->items[i].name, first, prefix) == 0; i++)
            put_state_key(w, state->items[i].name, &state->items[i].t);
        pickle_op(w, 'u');
    }
    pickle_op(w, 'u');
    return OL_OK;
}

static void put_group(pickle_writer *w, const checkpoint_group *group) {
    const value *options = group->options;
    pickle_op(w, '}');
    pickle_op(w, '(');
    for (size_t i = 0; options != NULL && i < options->as.map.count; i++) {
        pickle_value(w, options->as.map.keys[i]);
        pickle_value(w, options->as.map.items[i]);
    }
    pickle_string(w, "params");
    pickle_op(w, ']');
    pickle_op(w, '(');
    for (size_t i = 0; i < group->n_params; i++) pickle_int(w, group->params[i]);
    pickle_op(w, 'e');
    pickle_op(w, 'u');
}

static ol_status put_optimizer(writer *wr) {
    const checkpoint_optimizer *o = &wr->c->optimizer;
    pickle_writer *w = &wr->w;
    pickle_string(w, "optimizer");
    if (!wr->resumable || !wr->c->has_optimizer) {
        pickle_none(w);
        return OL_OK;
    }
    pickle_op(w, '}');
    pickle_op(w, '(');
    pickle_string(w, "state");
    const ol_status status = put_optimizer_state(wr);
    if (status != OL_OK) return status;
    pickle_string(w, "param_groups");
    pickle_op(w, ']');
    pickle_op(w, '(');
    for (size_t i = 0; i < o->n_groups; i++) put_group(w, &o->groups[i]);
    pickle_op(w, 'e');
    pickle_op(w, 'u');
    return OL_OK;
}

/* --- the rest --- */

static void put_number(pickle_writer *w, const char *key, double x, bool none) {
    if (none || isnan(x))
        pickle_entry_none(w, key);
    else
        pickle_entry_float(w, key, x);
}

static void put_date(writer *wr) {
    char now[40];
    const time_t t = time(NULL);
    struct tm utc;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S+00:00", gmtime_r(&t, &utc));
    pickle_entry_string(&wr->w, "date", wr->c->date != NULL ? wr->c->date : now);
}

static void put_own(writer *wr) {
    pickle_writer *w = &wr->w;
    const tensor_list *live = &wr->c->live;
    if (!wr->resumable || (live->count == 0 && wr->c->extra == NULL)) return;
    pickle_string(w, "onelook");
    pickle_op(w, '}');
    pickle_op(w, '(');
    pickle_string(w, "model");
    pickle_op(w, '}');
    pickle_op(w, '(');
    for (size_t i = 0; i < live->count; i++) {
        pickle_string(w, live->items[i].name);
        pickle_tensor(w, &live->items[i].t, false);
    }
    pickle_op(w, 'u');
    pickle_entry_value(w, "state", wr->c->extra);
    pickle_op(w, 'u');
}

static ol_status names_of(writer *wr, const value **out) {
    value *names = value_map(&wr->a);
    ol_status status = names != NULL ? OL_OK : OL_ERROR_MEMORY;
    for (int i = 0; status == OL_OK && i < wr->m->desc.nc; i++)
        status = value_set_key(&wr->a, names, value_int(&wr->a, i), value_string(&wr->a, wr->m->names[i]));
    *out = names;
    return status;
}

static ol_status put_model(writer *wr) {
    pickle_writer *w = &wr->w;
    const value *names = NULL;
    ol_status status = names_of(wr, &names);
    if (status != OL_OK) return status;
    wr->stride = tensor_view(DTYPE_F32, shape_1d(wr->m->n_levels), wr->stride_values);
    for (int i = 0; i < wr->m->n_levels; i++) wr->stride_values[i] = (float)wr->m->strides[i];
    pickle_entry_none(w, wr->resumable ? "model" : "ema");
    pickle_string(w, wr->resumable ? "ema" : "model");
    return module_write_model(w, wr->m, &wr->c->weights, names, &wr->stride, wr->half);
}

static ol_status put_checkpoint(writer *wr) {
    const checkpoint *c = wr->c;
    pickle_writer *w = &wr->w;
    pickle_op(w, '}');
    pickle_op(w, '(');
    pickle_entry_int(w, "epoch", wr->resumable ? c->epoch : -1);
    put_number(w, "best_fitness", c->best_fitness, !wr->resumable);
    pickle_entry_value(w, "stopper", wr->resumable ? c->stopper : NULL);
    ol_status status = put_model(wr);
    if (status != OL_OK) return status;
    if (wr->resumable && c->updates >= 0)
        pickle_entry_int(w, "updates", c->updates);
    else
        pickle_entry_none(w, "updates");
    status = put_optimizer(wr);
    if (status != OL_OK) return status;
    value *off = value_map(&wr->a); /* AMP off: an empty state */
    if (off == NULL) return OL_ERROR_MEMORY;
    pickle_entry_value(w, "scaler", !wr->resumable ? NULL : c->scaler != NULL ? c->scaler : off);
    pickle_entry_value(w, "train_args", c->train_args != NULL ? c->train_args : off);
    pickle_entry_value(w, "train_metrics", c->train_metrics);
    pickle_entry_value(w, "train_results", c->train_results);
    put_date(wr);
    pickle_entry_string(w, "version", c->version != NULL ? c->version : ol_version());
    put_own(wr);
    pickle_op(w, 'u');
    return w->status;
}

ol_status checkpoint_write(ol_context *ctx, const char *path, const checkpoint *c, const model *m, bool half) {
    writer wr = {.ctx = ctx, .c = c, .m = m, .half = half, .resumable = c->epoch >= 0};
    arena_init(&wr.a, ctx, 0);
    pickle_writer_init(&wr.w, ctx);
    ol_status status = put_checkpoint(&wr);
    if (status == OL_OK) status = pickle_writer_save(&wr.w, path);
    pickle_writer_deinit(&wr.w);
    arena_deinit(&wr.a);
    return status;
}
