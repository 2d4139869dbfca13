/* Update rules of the optimizers over flat float32 ranges (model document, section 5.3), gradient norm and scaling,
 * moving average. Plain C, OpenMP over blocks; results do not depend on the number of threads. No allocation. */
#ifndef OPS_OPTIM_H
#define OPS_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum optimizer_kind {
    OPTIMIZER_SGD,
    OPTIMIZER_MUSGD,
    OPTIMIZER_ADAM,
    OPTIMIZER_ADAMW,
    OPTIMIZER_ADAMAX,
    OPTIMIZER_NADAM,
    OPTIMIZER_RADAM,
    OPTIMIZER_RMSPROP,
    OPTIMIZER_COUNT
} optimizer_kind;

#define OPTIMIZER_MAX_STATES 2

/* What distinguishes an optimizer for storage and checkpoints. */
typedef struct optimizer_info {
    const char *name;                              /* "AdamW" */
    int n_states;                                  /* float ranges kept beside each parameter */
    const char *state_names[OPTIMIZER_MAX_STATES]; /* as a torch state_dict calls them */
    bool has_step;                                 /* keeps a step count in its state */
    bool has_momentum;                             /* its groups have a `momentum` entry, which the warm-up moves */
} optimizer_info;
const optimizer_info *optimizer_info_of(optimizer_kind kind);
/* Case-insensitive; false for an unknown name ("auto" is none of these). */
bool optimizer_by_name(const char *name, optimizer_kind *kind);

typedef struct optim_step {
    double lr, weight_decay;
    double momentum;   /* SGD, MuSGD, RMSprop momentum; beta1 of the others */
    double beta2;      /* Adam family */
    int64_t step;      /* t of this step, from 1 */
    double mu_product; /* NAdam: product of mu_1..mu_t, see optim_nadam_mu */
} optim_step;

/* NAdam's mu_t = beta1 * (1 - 0.5 * 0.96^(0.004 t)). */
double optim_nadam_mu(double beta1, int64_t t);

/* The numbers of one step, rounded once to float32: what the update of an element needs. */
typedef struct optim_rule {
    float lr, decay, shrink; /* shrink: 1 - lr*wd (AdamW) */
    float mu, one_minus_mu, beta2, one_minus_beta2;
    float step_size, root2; /* step_size: the rule's factor of its numerator; root2 = sqrt(1 - beta2^t) */
    float grad_size;        /* NAdam: factor of g */
    bool rectified;         /* RAdam */
} optim_rule;
optim_rule optim_rule_of(optimizer_kind kind, const optim_step *s);

/* One step of `kind` on n parameters: p and the states move, g is read. state[i] per optimizer_info (NULL beyond).
 * For MUSGD this is the SGD rule on state[1]; the orthogonalised part is optim_muon_*. */
void optim_update(optimizer_kind kind, const optim_step *s, float *p, const float *g,
                  float *const state[OPTIMIZER_MAX_STATES], size_t n, int n_threads);

/* Muon part, step 1: m <- mu*m + (1-mu)*g; u = mu*m + (1-mu)*g. */
void optim_muon_momentum(double mu, const float *g, float *m, float *u, size_t n, int n_threads);
/* Step 3: p <- p - lr*0.2*scale*o. */
void optim_muon_apply(double lr, double scale, const float *o, float *p, size_t n);

/* Sum of squares in double, in a fixed order. */
double optim_sum_squares(const float *x, size_t n, int n_threads);
/* Coefficient of clipping the total L2 norm to `limit`: min(1, limit/(norm + 1e-6)). */
float optim_clip_coefficient(double norm, double limit);
void optim_scale(float *x, float factor, size_t n, int n_threads);

/* EMA decay after `updates` updates: 0.9999 * (1 - e^(-updates/2000)). */
double optim_ema_decay(int64_t updates);
/* ema <- ema + (1-decay)*(x-ema). */
void optim_ema_update(double decay, const float *x, float *ema, size_t n, int n_threads);

#endif
