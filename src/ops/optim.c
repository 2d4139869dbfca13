#include "ops/optim.h"

#include "ops/vector_math.h"

#include <math.h>
#include <strings.h>

#define ADAM_EPS     1e-8f
#define RMSPROP_RHO  0.99f
#define RMSPROP_REST 0.01f           /* 1 - 0.99 in double, then rounded */
#define MUON_SHARE   0.2             /* weight of the orthogonalised step */
#define OPTIM_BLOCK  ((size_t)16384) /* elements a thread takes at once */
#define SUM_LANES    16
#define SUM_PARTS    ((size_t)64)

static const optimizer_info infos[OPTIMIZER_COUNT] = {
    [OPTIMIZER_SGD] = {"SGD", 1, {"momentum_buffer"}, false, true},
    [OPTIMIZER_MUSGD] = {"MuSGD", 2, {"momentum_buffer", "momentum_buffer_SGD"}, false, true},
    [OPTIMIZER_ADAM] = {"Adam", 2, {"exp_avg", "exp_avg_sq"}, true, false},
    [OPTIMIZER_ADAMW] = {"AdamW", 2, {"exp_avg", "exp_avg_sq"}, true, false},
    [OPTIMIZER_ADAMAX] = {"Adamax", 2, {"exp_avg", "exp_inf"}, true, false},
    [OPTIMIZER_NADAM] = {"NAdam", 2, {"exp_avg", "exp_avg_sq"}, true, false},
    [OPTIMIZER_RADAM] = {"RAdam", 2, {"exp_avg", "exp_avg_sq"}, true, false},
    [OPTIMIZER_RMSPROP] = {"RMSProp", 2, {"square_avg", "momentum_buffer"}, true, true},
};

const optimizer_info *optimizer_info_of(optimizer_kind kind) {
    return &infos[kind];
}

bool optimizer_by_name(const char *name, optimizer_kind *kind) {
    for (int k = 0; k < OPTIMIZER_COUNT; k++)
        if (strcasecmp(name, infos[k].name) == 0) {
            *kind = (optimizer_kind)k;
            return true;
        }
    return false;
}

double optim_nadam_mu(double beta1, int64_t t) {
    return beta1 * (1.0 - 0.5 * pow(0.96, 0.004 * (double)t));
}

typedef void (*rule_fn)(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                        float *restrict b, size_t n);

VECTOR_CLONES
static void sgd_block(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                      float *restrict b, size_t n) {
    (void)b;
    for (size_t i = 0; i < n; i++) {
        const float d = g[i] + r->decay * p[i];
        a[i] = r->mu * a[i] + d;
        p[i] -= r->lr * (d + r->mu * a[i]);
    }
}

/* Adam and AdamW; the decay is either in the gradient or in `shrink`. */
VECTOR_CLONES
static void adam_block(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                       float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float q = p[i] * r->shrink, d = g[i] + r->decay * p[i];
        a[i] += (d - a[i]) * r->one_minus_mu;
        b[i] = b[i] * r->beta2 + r->one_minus_beta2 * d * d;
        p[i] = q - r->step_size * (a[i] / (sqrtf(b[i]) / r->root2 + ADAM_EPS));
    }
}

VECTOR_CLONES
static void adamax_block(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                         float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float d = g[i] + r->decay * p[i];
        a[i] += (d - a[i]) * r->one_minus_mu;
        const float kept = b[i] * r->beta2, now = fabsf(d) + ADAM_EPS;
        b[i] = kept > now ? kept : now;
        p[i] -= r->step_size * (a[i] / b[i]);
    }
}

VECTOR_CLONES
static void nadam_block(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                        float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float d = g[i] + r->decay * p[i];
        a[i] += (d - a[i]) * r->one_minus_mu;
        b[i] = b[i] * r->beta2 + r->one_minus_beta2 * d * d;
        const float root = sqrtf(b[i]) / r->root2 + ADAM_EPS;
        p[i] = p[i] - r->grad_size * (d / root) - r->step_size * (a[i] / root);
    }
}

VECTOR_CLONES
static void radam_block(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                        float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float d = g[i] + r->decay * p[i];
        a[i] += (d - a[i]) * r->one_minus_mu;
        b[i] = b[i] * r->beta2 + r->one_minus_beta2 * d * d;
        p[i] -= r->step_size * (r->rectified ? a[i] / (sqrtf(b[i]) + ADAM_EPS) : a[i]);
    }
}

VECTOR_CLONES
static void rmsprop_block(const optim_rule *r, float *restrict p, const float *restrict g, float *restrict a,
                          float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float d = g[i] + r->decay * p[i];
        a[i] = a[i] * RMSPROP_RHO + RMSPROP_REST * d * d;
        b[i] = r->mu * b[i] + d / (sqrtf(a[i]) + ADAM_EPS);
        p[i] -= r->lr * b[i];
    }
}

static const rule_fn rules[OPTIMIZER_COUNT] = {
    [OPTIMIZER_SGD] = sgd_block,     [OPTIMIZER_MUSGD] = sgd_block,       [OPTIMIZER_ADAM] = adam_block,
    [OPTIMIZER_ADAMW] = adam_block,  [OPTIMIZER_ADAMAX] = adamax_block,   [OPTIMIZER_NADAM] = nadam_block,
    [OPTIMIZER_RADAM] = radam_block, [OPTIMIZER_RMSPROP] = rmsprop_block,
};

optim_rule optim_rule_of(optimizer_kind kind, const optim_step *s) {
    const double t = (double)s->step;
    const double bias1 = 1.0 - pow(s->momentum, t), bias2 = 1.0 - pow(s->beta2, t);
    optim_rule r = {.lr = (float)s->lr,
                    .decay = (float)s->weight_decay,
                    .shrink = 1.0f,
                    .mu = (float)s->momentum,
                    .one_minus_mu = (float)(1.0 - s->momentum),
                    .beta2 = (float)s->beta2,
                    .one_minus_beta2 = (float)(1.0 - s->beta2)};
    switch (kind) {
    case OPTIMIZER_ADAMW:
        r.decay = 0.0f;
        r.shrink = (float)(1.0 - s->lr * s->weight_decay);
        r.step_size = (float)(s->lr / bias1);
        r.root2 = (float)sqrt(bias2);
        break;
    case OPTIMIZER_ADAM:
        r.step_size = (float)(s->lr / bias1);
        r.root2 = (float)sqrt(bias2);
        break;
    case OPTIMIZER_ADAMAX:
        r.step_size = (float)(s->lr / bias1);
        break;
    case OPTIMIZER_NADAM: {
        const double mu = optim_nadam_mu(s->momentum, s->step), mu_next = optim_nadam_mu(s->momentum, s->step + 1);
        r.grad_size = (float)(s->lr * (1.0 - mu) / (1.0 - s->mu_product));
        r.step_size = (float)(s->lr * mu_next / (1.0 - s->mu_product * mu_next));
        r.root2 = (float)sqrt(bias2);
        break;
    }
    case OPTIMIZER_RADAM: {
        const double r_inf = 2.0 / (1.0 - s->beta2) - 1.0, r_t = r_inf - 2.0 * t * pow(s->beta2, t) / bias2;
        r.rectified = r_t > 5.0;
        r.step_size = (float)(s->lr / bias1);
        if (r.rectified)
            r.step_size =
                (float)(s->lr / bias1 *
                        sqrt((r_t - 4.0) * (r_t - 2.0) * r_inf / ((r_inf - 4.0) * (r_inf - 2.0) * r_t)) * sqrt(bias2));
        break;
    }
    default:
        break;
    }
    return r;
}

void optim_update(optimizer_kind kind, const optim_step *s, float *p, const float *g,
                  float *const state[OPTIMIZER_MAX_STATES], size_t n, int n_threads) {
    const optim_rule r = optim_rule_of(kind, s);
    const rule_fn run = rules[kind];
    float *const a = kind == OPTIMIZER_MUSGD ? state[1] : state[0], *const b = state[1];
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (size_t i = 0; i < n; i += OPTIM_BLOCK)
        run(&r, p + i, g + i, a + i, b && b != a ? b + i : NULL, n - i < OPTIM_BLOCK ? n - i : OPTIM_BLOCK);
}

VECTOR_CLONES
static void muon_momentum_block(float mu, const float *restrict g, float *restrict m, float *restrict u, size_t n) {
    const float rest = 1.0f - mu;
    for (size_t i = 0; i < n; i++) {
        m[i] = mu * m[i] + rest * g[i];
        u[i] = mu * m[i] + rest * g[i];
    }
}

void optim_muon_momentum(double mu, const float *g, float *m, float *u, size_t n, int n_threads) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (size_t i = 0; i < n; i += OPTIM_BLOCK)
        muon_momentum_block((float)mu, g + i, m + i, u + i, n - i < OPTIM_BLOCK ? n - i : OPTIM_BLOCK);
}

void optim_muon_apply(double lr, double scale, const float *o, float *p, size_t n) {
    const float factor = (float)(lr * MUON_SHARE * scale);
    for (size_t i = 0; i < n; i++) p[i] -= factor * o[i];
}

VECTOR_CLONES
static double sum_squares_block(const float *x, size_t n) {
    double lane[SUM_LANES] = {0}, sum = 0.0;
    size_t i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (size_t k = 0; k < SUM_LANES; k++) lane[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t k = 0; i < n; i++, k++) lane[k] += (double)x[i] * (double)x[i];
    for (size_t k = 0; k < SUM_LANES; k++) sum += lane[k];
    return sum;
}

double optim_sum_squares(const float *x, size_t n, int n_threads) {
    double part[SUM_PARTS], sum = 0.0;
    const size_t length = (n + SUM_PARTS - 1) / SUM_PARTS;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (size_t k = 0; k < SUM_PARTS; k++) {
        const size_t begin = k * length < n ? k * length : n;
        part[k] = sum_squares_block(x + begin, n - begin < length ? n - begin : length);
    }
    for (size_t k = 0; k < SUM_PARTS; k++) sum += part[k];
    return sum;
}

float optim_clip_coefficient(double norm, double limit) {
    const float coefficient = (float)limit / ((float)norm + 1e-6f);
    return coefficient < 1.0f ? coefficient : 1.0f;
}

void optim_scale(float *x, float factor, size_t n, int n_threads) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

double optim_ema_decay(int64_t updates) {
    return 0.9999 * (1.0 - exp(-(double)updates / 2000.0));
}

void optim_ema_update(double decay, const float *x, float *ema, size_t n, int n_threads) {
    const float rest = (float)(1.0 - decay);
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (size_t i = 0; i < n; i++) ema[i] += rest * (x[i] - ema[i]);
}
