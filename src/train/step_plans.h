/* Training graphs of one model made ready for a device, one for each batch size and picture size, bound to one
 * optimizer and its param_store. Owns graphs and plans; the least recently used goes when there are too many. One
 * thread at a time. */
#ifndef TRAIN_STEP_PLANS_H
#define TRAIN_STEP_PLANS_H

#include "model/build.h"
#include "train/optimizer.h"

typedef struct step_plan {
    int n, h, w;
    graph *graph;
    plan *plan;
    model_graph_refs refs;
    int64_t last_use;
} step_plan;

typedef struct step_plans step_plans;

/* `max_targets`: rows a picture in the targets input; `compute`: as model_graph_options has it. Everything is borrowed
 * and must outlive it. */
ol_status step_plans_create(ol_context *ctx, device *dev, const model *m, const optimizer *opt, int max_targets,
                            dtype compute, step_plans **out);
void step_plans_destroy(step_plans *p);
/* Frees all plans, which are made anew when they are asked for; false when there were none. */
bool step_plans_drop(step_plans *p);
/* Whether that plan is there already: making another may free it. */
bool step_plans_has(const step_plans *p, int n, int h, int w);
/* Forward, loss, backward and the optimizer's step for n pictures of h x w; valid until one is made that was not there.
 */
ol_status step_plans_get(step_plans *p, int n, int h, int w, step_plan **out);
/* What the plan for n pictures of h x w takes of the device's memory, without taking it. The optimizer is not used. */
ol_status step_plans_measure(const step_plans *p, int n, int h, int w, size_t *bytes);

#endif
