#include "train/fit.h"

#include "train/schedule.h"

#include <string.h>

enum { LARGEST_BATCH = 1024 };

static optimizer_kind kind_of(const train_fit *f, int batch) {
    optimizer_kind kind = OPTIMIZER_MUSGD;
    const settings *s = f->settings;
    if (s == NULL) return kind;
    if (strcmp(s->optimizer, "auto") == 0)
        return schedule_auto_choice(f->n_images, batch, s->nbs, s->epochs, f->model->desc.nc).musgd ? OPTIMIZER_MUSGD
                                                                                                    : OPTIMIZER_ADAMW;
    optimizer_by_name(s->optimizer, &kind); /* a name that is none is refused by the run */
    return kind;
}

static uint64_t padded(int64_t n) {
    return ((uint64_t)n + 7) / 8 * 8;
}

/* What devices work on matrices with: two of a matrix's size and two squares of its shorter side, in half precision,
 * each at a place that is a multiple of 256 bytes. */
static uint64_t matrices_bytes(const model *m) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->state.count; i++) {
        const shape *s = &m->state.items[i].t.shape;
        if (!model_is_param(m, i) || m->frozen[i] || (s->rank != 2 && s->rank != 4)) continue;
        const uint64_t rows = padded(s->dim[0]), columns = padded(shape_elements(s) / s->dim[0]);
        const uint64_t least = rows < columns ? rows : columns;
        bytes += 2 * (rows * columns + least * least) * sizeof(uint16_t) + 4 * (uint64_t)256;
    }
    return bytes;
}

/* Values, averages, gradients and states of the optimizer, and batch-norm statistics with them; validation's folded
 * weights; MuSGD's directions and matrices. */
static uint64_t fixed_bytes(const train_fit *f, int batch) {
    const optimizer_kind kind = kind_of(f, batch);
    const bool muon = kind == OPTIMIZER_MUSGD;
    const uint64_t n = 4 + (uint64_t)optimizer_info_of(kind)->n_states + (muon ? 1 : 0);
    return (uint64_t)model_parameter_count(f->model) * n * sizeof(float) + (muon ? matrices_bytes(f->model) : 0);
}

static uint64_t pictures_bytes(const train_fit *f, int batch) {
    if (f->loader == NULL) return 0;
    const size_t pixels = loader_recipe_pixels(f->loader, f->model->desc.channels, batch);
    return pixels > 0 ? device_pictures_bytes(f->dev, PICTURES_SAMPLES, batch, pixels) : 0;
}

static ol_status validation_bytes(const train_fit *f, int n, size_t *bytes) {
    const model_graph_options options = {.mode = MODEL_EVAL,
                                         .batch = n,
                                         .height = f->size + f->stride,
                                         .width = f->size + f->stride,
                                         .compute = f->compute,
                                         .image_u8 = true,
                                         .branches = f->model->has_one2one ? MODEL_ONE2ONE : MODEL_ONE2MANY,
                                         .decode = true,
                                         .loss = true,
                                         .max_targets = f->max_targets};
    model_graph_refs refs;
    graph *g = NULL;
    ol_status status = graph_create(f->ctx, &g);
    if (status == OL_OK) status = model_build(f->model, g, &options, &refs);
    if (status == OL_OK) status = plan_measure(f->ctx, f->dev, g, bytes);
    graph_destroy(g);
    return status;
}

ol_status train_fit_bytes(const train_fit *f, int batch, uint64_t *bytes) {
    step_plans *plans = NULL;
    size_t step = 0, last = 0, validation = 0, validation_last = 0;
    const int rest = batch < f->n_images ? f->n_images % batch : 0;
    ol_status status = step_plans_create(f->ctx, f->dev, f->model, NULL, f->max_targets, f->compute, &plans);
    if (status == OL_OK) status = step_plans_measure(plans, batch, f->size, f->size, &step);
    if (status == OL_OK && rest > 0) status = step_plans_measure(plans, rest, f->size, f->size, &last);
    const int together = f->n_validation > 0 && f->n_validation < 2 * batch ? f->n_validation : 2 * batch;
    if (status == OL_OK) status = validation_bytes(f, together, &validation);
    if (status == OL_OK && f->n_validation % together > 0)
        status = validation_bytes(f, f->n_validation % together, &validation_last);
    step_plans_destroy(plans);
    if (status == OL_OK)
        *bytes = fixed_bytes(f, batch) + pictures_bytes(f, batch) + step + last + validation + validation_last;
    return status;
}

/* Memory grows with the batch but for the rest's plan: doubles until it is too much, then halves the distance. */
ol_status train_fit_batch(const train_fit *f, uint64_t budget, int *batch) {
    const int largest = f->n_images < LARGEST_BATCH ? f->n_images : LARGEST_BATCH;
    int fits = 0, next = 1, too_many = largest + 1;
    while (too_many - fits > 1) {
        uint64_t bytes = 0;
        const ol_status status = train_fit_bytes(f, next, &bytes);
        if (status == OL_ERROR_MEMORY && next > 1) { /* more than the device's kernels can count */
            ctx_clear(f->ctx);
            bytes = UINT64_MAX;
        } else if (status != OL_OK) {
            return status;
        }
        if (bytes <= budget)
            fits = next;
        else
            too_many = next;
        const int doubled = 2 * next;
        next = too_many > largest && doubled <= largest ? doubled : fits + (too_many - fits) / 2;
        if (too_many <= largest && too_many - fits <= fits / 32) break; /* near enough */
    }
    *batch = fits;
    return OL_OK;
}
