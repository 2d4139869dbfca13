/* The optimizer step's decisions, on the device: the loss scale into the losses, the gradients' norm in a fixed order,
 * whether there is a step and by which numbers. The arithmetic of ops/optim.c and ops/loss_scaler.c; powers are taken
 * by repeated multiplication, which depends on base and exponent alone. */
#include "args.h"
#include "gpu.h"

/* Every rounding is the reference's. */
#pragma clang fp contract(off)

enum { KIND_ADAM = 2, KIND_ADAMW, KIND_ADAMAX, KIND_NADAM, KIND_RADAM }; /* of optimizer_kind */

/* gains[IMAGES] of both branches = pictures * loss scale. */
KERNEL(256) step_scale(step_args a) {
    const step_board &board = *(const step_board *)a.board;
    const u32 branch = thread_x();
    if (branch < 2 && a.gains[branch])
        ((float *)a.gains[branch])[a.gain_at] = (float)(board.orders.images * board.state.scale);
}

/* partial[block] = sum of squares of its share; a fixed number of blocks, so the order never changes. */
KERNEL(256) step_squares(step_args a) {
    SHARED double scratch[256];
    step_board &board = *(step_board *)a.board;
    if (!board.orders.take || board.state.stopped) return;
    const u32 t = thread_x();
    const float *x = (const float *)a.grads;
    double sum = 0.0;
    for (u64 i = (u64)block_x() * 256 + t; i < a.n_trained; i += (u64)STEP_PARTIALS * 256)
        sum += (double)x[i] * (double)x[i];
    scratch[t] = sum;
    barrier();
    for (u32 step = 128; step > 0; step >>= 1) {
        if (t < step) scratch[t] += scratch[t + step];
        barrier();
    }
    if (t == 0) board.partial[block_x()] = scratch[0];
}

DEVICE double power(double x, i64 n) {
    double product = 1.0;
    for (; n > 0; n >>= 1) {
        if (n & 1) product *= x;
        x *= x;
    }
    return product;
}

/* beta1 * (1 - 0.5 * 0.96^(0.004 t)) */
DEVICE double nadam_mu(double beta1, i64 t) {
    return beta1 * (1.0 - 0.5 * power(0.99983672535267527842, t));
}

/* 0.9999 * (1 - e^(-updates/2000)) */
DEVICE double ema_decay(i64 updates) {
    return 0.9999 * (1.0 - power(0.99950012497916927057, updates));
}

DEVICE board_rule rule_of(i32 kind, double lr, double decay, double mu, double beta2, i64 step, double mu_product) {
    const double t = (double)step, left2 = power(beta2, step), bias1 = 1.0 - power(mu, step), bias2 = 1.0 - left2;
    board_rule r = {};
    r.lr = (float)lr;
    r.decay = (float)decay;
    r.shrink = 1.0f;
    r.mu = (float)mu;
    r.one_minus_mu = (float)(1.0 - mu);
    r.beta2 = (float)beta2;
    r.one_minus_beta2 = (float)(1.0 - beta2);
    r.muon_rate = (float)(lr * 0.2);
    r.step_size = (float)(lr / bias1);
    r.root2 = (float)__builtin_sqrt(bias2);
    if (kind == KIND_ADAMW) {
        r.decay = 0.0f;
        r.shrink = (float)(1.0 - lr * decay);
    } else if (kind == KIND_NADAM) {
        const double now = nadam_mu(mu, step), next = nadam_mu(mu, step + 1);
        r.grad_size = (float)(lr * (1.0 - now) / (1.0 - mu_product));
        r.step_size = (float)(lr * next / (1.0 - mu_product * next));
    } else if (kind == KIND_RADAM) {
        const double r_inf = 2.0 / (1.0 - beta2) - 1.0, r_t = r_inf - 2.0 * t * left2 / bias2;
        r.rectified = r_t > 5.0;
        if (r.rectified)
            r.step_size =
                (float)(lr / bias1 *
                        __builtin_sqrt((r_t - 4.0) * (r_t - 2.0) * r_inf / ((r_inf - 4.0) * (r_inf - 2.0) * r_t)) *
                        __builtin_sqrt(bias2));
    }
    return r;
}

DEVICE bool items_take(const step_args &a, board_outcome &out) {
    bool finite = true;
    for (i32 branch = 0; branch < 2; branch++)
        for (i32 k = 0; k < STEP_ITEMS; k++) {
            const float item = a.items[branch] ? ((const float *)a.items[branch])[k] : 0.0f;
            out.items[branch][k] = item;
            finite = finite && __builtin_isfinite(item);
        }
    return finite;
}

/* What becomes of gradients whose squares sum up to `sum`. */
DEVICE i32 step_judge(step_board &board, const step_args &a, double sum) {
    board_state &s = board.state;
    const double norm = __builtin_sqrt(sum) / s.scale;
    board.outcome.norm = norm;
    if (!__builtin_isfinite(norm)) {
        board.outcome.skipped = 1;
        if (!s.skips || ++s.n_skipped >= a.most_skips) {
            s.stopped = 1;
            return STEP_REST;
        }
        if (s.scaled) s.scale *= (double)a.scale_backoff;
        s.n_good = 0;
        return STEP_CLEAR;
    }
    const float clip = a.clip_norm / ((float)norm + 1e-6f);
    board.decision.factor = (float)((double)(clip < 1.0f ? clip : 1.0f) / s.scale);
    s.n_skipped = 0;
    if (s.scaled && ++s.n_good >= a.scale_interval) {
        s.scale *= (double)a.scale_growth;
        s.n_good = 0;
    }
    s.step++;
    if (a.kind == KIND_NADAM) s.mu_product *= nadam_mu(board.orders.momentum[0], s.step);
    s.ema_updates++;
    board.decision.ema_rest = (float)(1.0 - ema_decay(s.ema_updates));
    return STEP_MOVE;
}

/* One block: the first thread decides, one a group then works out its numbers. */
KERNEL(256) step_decide(step_args a) {
    SHARED double partial[STEP_PARTIALS];
    step_board &board = *(step_board *)a.board;
    const board_orders &orders = board.orders;
    const u32 t = thread_x();
    partial[t] = board.partial[t];
    barrier();
    if (t == 0) {
        board_outcome &out = board.outcome;
        out.norm = 0.0;
        out.scale = board.state.scale;
        out.skipped = 0;
        if (!items_take(a, out)) board.state.stopped = 1;
        i32 mode = STEP_REST;
        if (orders.take && !board.state.stopped) {
            double sum = 0.0;
            for (i32 i = 0; i < STEP_PARTIALS; i++) sum += partial[i];
            mode = step_judge(board, a, sum);
        }
        board.decision.mode = mode;
        out.state = board.state;
    }
    barrier_global();
    if ((i32)t < a.n_groups && board.decision.mode == STEP_MOVE)
        board.decision.rules[t] = rule_of(a.kind, orders.lr[t], orders.decay[t], orders.momentum[t], orders.beta2,
                                          board.state.step, board.state.mu_product);
}
