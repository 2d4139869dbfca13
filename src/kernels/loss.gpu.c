/* Detection loss of one branch with its gradients: assignment, then terms; the same rules as ops/assign.c and
 * ops/detect_loss.c, which are the reference. Candidates are kept as entries, topk a target; entries are settled in
 * place, so that every sum runs over them in one fixed order and two runs give the same bits. */
#include "args.h"
#include "gpu.h"

/* Cell boundaries and the class term depend on the rounding of single operations. */
#pragma clang fp contract(off)

struct loss_entry {
    i32 anchor, target; /* anchor -1: none */
    float overlap, metric, score;
    i32 pad[3];
};

DEVICE void atomic_add_i32(i32 *p, i32 v) {
    __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
DEVICE void atomic_min_i32(i32 *p, i32 v) {
    __scoped_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
DEVICE void atomic_max_u32(u32 *p, u32 v) {
    __scoped_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
DEVICE void atomic_max_u64(u64 *p, u64 v) {
    __scoped_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

/* ---- scalar functions ---- */

/* ln(1+e) for 0 <= e <= 1, exact to a few units also for tiny e: 2 atanh(e / (2 + e)). */
DEVICE float log1p_unit(float e) {
    const float s = e / (2.0f + e), q = s * s;
    float p = 1.0f / 13.0f;
    p = p * q + 1.0f / 11.0f;
    p = p * q + 1.0f / 9.0f;
    p = p * q + 1.0f / 7.0f;
    p = p * q + 0.2f;
    p = p * q + 1.0f / 3.0f;
    return 2.0f * s + 2.0f * s * q * p;
}
struct logit_terms {
    float sigmoid, log_sigmoid;
    DEVICE_MEMBER logit_terms(float z) {
        const float e = exp_f(-abs_f(z));
        log_sigmoid = (z < 0.0f ? z : 0.0f) - log1p_unit(e);
        sigmoid = (z < 0.0f ? e : 1.0f) / (1.0f + e);
    }
};
DEVICE float bce(float z, float target) {
    return (1.0f - target) * z - logit_terms(z).log_sigmoid;
}

DEVICE float atan_f(float x) {
    const float a = abs_f(x);
    const bool large = a > 1.0f;
    const float t = large ? 1.0f / a : a, s = t * t;
    float p = 0.0027817077934741974f;
    p = fma_f(p, s, -0.01579383574426174f);
    p = fma_f(p, s, 0.042241036891937256f);
    p = fma_f(p, s, -0.07465779036283493f);
    p = fma_f(p, s, 0.10622653365135193f);
    p = fma_f(p, s, -0.14198920130729675f);
    p = fma_f(p, s, 0.1999201774597168f);
    p = fma_f(p, s, -0.3333304524421692f);
    p = fma_f(p, s, 1.0f) * t;
    const float y = large ? 1.57079637f - p : p;
    return x < 0.0f ? -y : y;
}

#define CIOU_EPS             1e-7f
#define FOUR_OVER_PI_SQUARED 0.405284734569351f

DEVICE float positive_part(float x) {
    return x < 0.0f ? 0.0f : x;
}
DEVICE float share_of_min(float x, float y) {
    return x < y ? 1.0f : x == y ? 0.5f : 0.0f;
}

struct ciou_terms {
    float w1, h1, w2, h2, overlap_w, overlap_h, inter, unite, cw, ch, c2, dx, dy, rho2, angle, alpha, value;
    DEVICE_MEMBER ciou_terms(const float a[4], const float b[4]) {
        w1 = a[2] - a[0];
        h1 = a[3] - a[1] + CIOU_EPS;
        w2 = b[2] - b[0];
        h2 = b[3] - b[1] + CIOU_EPS;
        overlap_w = min_f(a[2], b[2]) - max_f(a[0], b[0]);
        overlap_h = min_f(a[3], b[3]) - max_f(a[1], b[1]);
        inter = positive_part(overlap_w) * positive_part(overlap_h);
        unite = w1 * h1 + w2 * h2 - inter + CIOU_EPS;
        const float iou = inter / unite;
        cw = max_f(a[2], b[2]) - min_f(a[0], b[0]);
        ch = max_f(a[3], b[3]) - min_f(a[1], b[1]);
        c2 = cw * cw + ch * ch + CIOU_EPS;
        dx = b[0] + b[2] - a[0] - a[2];
        dy = b[1] + b[3] - a[1] - a[3];
        rho2 = (dx * dx + dy * dy) / 4.0f;
        angle = atan_f(w2 / h2) - atan_f(w1 / h1);
        const float v = FOUR_OVER_PI_SQUARED * (angle * angle);
        alpha = v / (v - iou + (1.0f + CIOU_EPS));
        value = iou - (rho2 / c2 + v * alpha);
    }
    DEVICE_MEMBER void gradient(const float a[4], const float b[4], float grad[4]) const {
        const float square = unite * unite, d_inter = (unite + inter) / square, d_area = -inter / square;
        const float d_w = overlap_w >= 0.0f ? d_inter * positive_part(overlap_h) : 0.0f;
        const float d_h = overlap_h >= 0.0f ? d_inter * positive_part(overlap_w) : 0.0f;
        const float d_c2 = rho2 / (c2 * c2), d_cw = d_c2 * 2.0f * cw, d_ch = d_c2 * 2.0f * ch;
        const float d_dx = -dx / (2.0f * c2), d_dy = -dy / (2.0f * c2);
        const float d_atan = 2.0f * FOUR_OVER_PI_SQUARED * angle * alpha, size2 = w1 * w1 + h1 * h1;
        const float d_w1 = d_area * h1 + d_atan * h1 / size2, d_h1 = d_area * w1 - d_atan * w1 / size2;
        grad[0] = -d_w1 - d_w * share_of_min(b[0], a[0]) - d_cw * share_of_min(a[0], b[0]) - d_dx;
        grad[1] = -d_h1 - d_h * share_of_min(b[1], a[1]) - d_ch * share_of_min(a[1], b[1]) - d_dy;
        grad[2] = d_w1 + d_w * share_of_min(a[2], b[2]) + d_cw * share_of_min(b[2], a[2]) - d_dx;
        grad[3] = d_h1 + d_h * share_of_min(a[3], b[3]) + d_ch * share_of_min(b[3], a[3]) - d_dy;
    }
};

/* ---- geometry ---- */

struct anchor_at {
    i32 level;
    float x, y, stride;
    DEVICE_MEMBER anchor_at(const loss_args &a, i32 anchor) {
        level = 0;
        while (level + 1 < a.n_levels && anchor >= a.level_h[level] * a.level_w[level]) {
            anchor -= a.level_h[level] * a.level_w[level];
            level++;
        }
        x = (float)(anchor % a.level_w[level]) + 0.5f;
        y = (float)(anchor / a.level_w[level]) + 0.5f;
        stride = (float)a.level_stride[level];
    }
};

DEVICE float image_width(const loss_args &a) {
    return (float)(a.level_w[0] * a.level_stride[0]);
}
DEVICE float image_height(const loss_args &a) {
    return (float)(a.level_h[0] * a.level_stride[0]);
}

DEVICE void target_corners(const loss_args &a, const float *row, float c[4]) {
    const float cx = row[1] * image_width(a), cy = row[2] * image_height(a);
    const float half_w = row[3] * image_width(a) / 2.0f, half_h = row[4] * image_height(a) / 2.0f;
    c[0] = cx - half_w;
    c[1] = cy - half_h;
    c[2] = cx + half_w;
    c[3] = cy + half_h;
}

struct target_region {
    float corners[4], lt_x, lt_y, rb_x, rb_y;
    i32 cls;
    bool valid;
    DEVICE_MEMBER target_region(const loss_args &a, i32 image, i32 target) {
        const float *row = (const float *)a.targets + ((i64)image * a.max_targets + target) * 5;
        target_corners(a, row, corners);
        const float *c = corners;
        valid = c[0] + c[1] + c[2] + c[3] > 0.0f && row[0] >= 0.0f && row[0] < (float)a.nc;
        cls = valid ? (i32)row[0] : 0;
        float w = c[2] - c[0], h = c[3] - c[1];
        const float cx = (c[0] + c[2]) / 2.0f, cy = (c[1] + c[3]) / 2.0f;
        w = w < 16.0f ? 16.0f : w; /* the second stride: small objects get a region of this side */
        h = h < 16.0f ? 16.0f : h;
        lt_x = cx - w / 2.0f;
        lt_y = cy - h / 2.0f;
        rb_x = cx + w / 2.0f;
        rb_y = cy + h / 2.0f;
    }
    DEVICE_MEMBER bool has(float px, float py) const {
        return px - lt_x > 1e-9f && py - lt_y > 1e-9f && rb_x - px > 1e-9f && rb_y - py > 1e-9f;
    }
};

DEVICE float overlap_of(const loss_args &a, const target_region &r, i32 image, i32 anchor, const anchor_at &p) {
    const float *b = (const float *)a.boxes + (i64)image * 4 * a.anchors + anchor;
    const float box[4] = {(p.x - b[0]) * p.stride, (p.y - b[a.anchors]) * p.stride, (p.x + b[2 * a.anchors]) * p.stride,
                          (p.y + b[3 * a.anchors]) * p.stride};
    const float o = ciou_terms(r.corners, box).value;
    return o > 0.0f ? o : 0.0f;
}
/* s^0.5 * o^6: the host lets other exponents run on the CPU. */
DEVICE float metric_of(const loss_args &a, i32 image, i32 cls, i32 anchor, float overlap) {
    if (!(overlap > 0.0f)) return 0.0f;
    const float z = ((const float *)a.scores)[((i64)image * a.nc + cls) * a.anchors + anchor];
    const float o2 = overlap * overlap;
    return sqrt_exact(logit_terms(z).sigmoid) * (o2 * o2 * o2);
}

DEVICE i32 target_count(const loss_args &a, i32 image) {
    const i32 n = ((const i32 *)a.counts)[image];
    return n < 0 ? 0 : n > a.max_targets ? a.max_targets : n;
}
DEVICE loss_entry *entries_of(const loss_args &a, i32 image) {
    return (loss_entry *)a.entries + (i64)image * a.max_targets * a.topk;
}

/* ---- assignment ---- */

enum { MAX_TOPK = 16 };

/* One block a (target, image): the topk anchors of its region by metric, the earlier anchor on ties. */
KERNEL(256) loss_candidates(loss_args a) {
    SHARED u64 keys[256 + MAX_TOPK];
    SHARED u64 best[MAX_TOPK];
    SHARED float wave_wants[256 / WAVE];
    const i32 t = (i32)thread_x(), target = (i32)block_x(), image = (i32)block_y();
    loss_entry *out = entries_of(a, image) + target * a.topk;
    const target_region r(a, image, target);
    if (target >= target_count(a, image) || !r.valid) {
        if (t < a.topk) out[t].anchor = -1;
        return;
    }
    if (t < MAX_TOPK) best[t] = 0;
    barrier();
    i32 first = 0;
    for (i32 level = 0; level < a.n_levels; level++) {
        const i32 lw = a.level_w[level], lh = a.level_h[level];
        const float stride = (float)a.level_stride[level];
        /* a generous bracket of the cells; the exact test follows */
        const i32 x0 = (i32)max_f(r.lt_x / stride - 2.0f, 0.0f), y0 = (i32)max_f(r.lt_y / stride - 2.0f, 0.0f);
        const i32 x1 = (i32)min_f(max_f(r.rb_x / stride + 2.0f, 0.0f), (float)lw),
                  y1 = (i32)min_f(max_f(r.rb_y / stride + 2.0f, 0.0f), (float)lh);
        const i32 nx = x1 - x0, cells = nx > 0 && y1 > y0 ? nx * (y1 - y0) : 0;
        for (i32 from = 0; from < cells; from += 256) {
            const i32 cell = from + t;
            u64 key = 0;
            if (cell < cells) {
                const i32 cx = x0 + cell % nx, cy = y0 + cell / nx, anchor = first + cy * lw + cx;
                const anchor_at p(a, anchor);
                if (r.has(p.x * p.stride, p.y * p.stride)) {
                    const float m = metric_of(a, image, r.cls, anchor, overlap_of(a, r, image, anchor, p));
                    key = (u64) __builtin_bit_cast(u32, m) << 32 | (0xFFFFFFFFu - (u32)anchor);
                }
            }
            /* most rounds beat none of the best: then nothing is merged */
            const float wants = wave_max(key > best[a.topk - 1] ? 1.0f : 0.0f);
            if (lane_id() == 0) wave_wants[t / WAVE] = wants;
            barrier();
            bool merge = false;
            for (i32 q = 0; q < 256 / WAVE; q++) merge = merge || wave_wants[q] > 0.0f;
            barrier();
            if (!merge) continue;
            keys[t] = key;
            if (t < a.topk) keys[256 + t] = best[t];
            barrier();
            /* keys differ (each holds its anchor), so ranks do: each of the topk largest writes its own place */
            for (i32 i = t; i < 256 + a.topk; i += 256) {
                const u64 mine = keys[i];
                i32 rank = 0;
                for (i32 q = 0; q < 256 + a.topk; q++) rank += keys[q] > mine;
                if (mine != 0 && rank < a.topk) best[rank] = mine;
            }
            barrier();
        }
        first += lw * lh;
    }
    barrier();
    if (t >= a.topk) return;
    loss_entry e = {-1, target, 0.0f, 0.0f, 0.0f, {0, 0, 0}};
    if (best[t] != 0) {
        e.anchor = (i32)(0xFFFFFFFFu - (u32)best[t]);
        e.overlap = overlap_of(a, r, image, e.anchor, anchor_at(a, e.anchor));
        e.metric = __builtin_bit_cast(float, (u32)(best[t] >> 32));
        atomic_add_i32((i32 *)a.chosen + (i64)image * a.anchors + e.anchor, 1);
        atomic_min_i32((i32 *)a.first + (i64)image * a.anchors + e.anchor, target * a.topk + t);
    }
    out[t] = e;
}

/* One thread an entry from here on: block x over the entries of image block y. */
struct entry_thread {
    i32 image, index;
    loss_entry *entry;
    bool live;
    DEVICE_MEMBER entry_thread(const loss_args &a) {
        image = (i32)block_y();
        index = (i32)(block_x() * 256 + thread_x());
        entry = entries_of(a, image) + index;
        live = index < target_count(a, image) * a.topk && entry->anchor >= 0;
    }
};

/* An anchor chosen by several targets goes to the target of largest overlap among all whose region has it; its first
 * entry stays. */
KERNEL(256) loss_settle(loss_args a) {
    const entry_thread w(a);
    if (!w.live) return;
    loss_entry e = *w.entry;
    const i64 at = (i64)w.image * a.anchors + e.anchor;
    if (((const i32 *)a.chosen)[at] <= 1) return;
    if (((const i32 *)a.first)[at] != w.index) {
        w.entry->anchor = -1;
        return;
    }
    const anchor_at p(a, e.anchor);
    const i32 n = target_count(a, w.image);
    e.target = 0;
    e.overlap = e.metric = 0.0f;
    i32 cls = 0;
    for (i32 t = 0; t < n; t++) {
        const target_region r(a, w.image, t);
        if (!r.valid || !r.has(p.x * p.stride, p.y * p.stride)) continue;
        const float o = overlap_of(a, r, w.image, e.anchor, p);
        if (o > e.overlap) {
            e.target = t;
            e.overlap = o;
            cls = r.cls;
        }
    }
    e.metric = metric_of(a, w.image, cls, e.anchor, e.overlap);
    *w.entry = e;
}

/* Second top-k of one: the positive of largest metric of each target, the earlier anchor on ties. */
DEVICE u64 entry_key(const loss_entry &e) {
    return (u64) __builtin_bit_cast(u32, e.metric) << 32 | (0xFFFFFFFFu - (u32)e.anchor);
}
KERNEL(256) loss_second(loss_args a) {
    const entry_thread w(a);
    if (w.live) atomic_max_u64((u64 *)a.kept + (i64)w.image * a.max_targets + w.entry->target, entry_key(*w.entry));
}
KERNEL(256) loss_drop(loss_args a) {
    const entry_thread w(a);
    if (w.live && ((const u64 *)a.kept)[(i64)w.image * a.max_targets + w.entry->target] != entry_key(*w.entry))
        w.entry->anchor = -1;
}
/* Largest metric and overlap of each target; both are not negative, so their bits order like integers. */
KERNEL(256) loss_best(loss_args a) {
    const entry_thread w(a);
    if (!w.live) return;
    const i64 at = (i64)w.image * a.max_targets + w.entry->target;
    atomic_max_u32((u32 *)a.best_metric + at, __builtin_bit_cast(u32, w.entry->metric));
    atomic_max_u32((u32 *)a.best_overlap + at, __builtin_bit_cast(u32, w.entry->overlap));
}

/* ---- terms ---- */

/* Sum of v over the block in a fixed order, in every thread. */
DEVICE double block_sum(double v, double *scratch) {
    const i32 t = (i32)thread_x();
    barrier();
    scratch[t] = v;
    barrier();
    for (i32 step = 128; step > 0; step >>= 1) {
        if (t < step) scratch[t] += scratch[t + step];
        barrier();
    }
    return scratch[0];
}

/* One block an image: soft scores, and their sum. */
KERNEL(256) loss_scores(loss_args a) {
    SHARED double scratch[256];
    const i32 image = (i32)block_x(), n = target_count(a, image) * a.topk;
    loss_entry *entries = entries_of(a, image);
    double sum = 0.0;
    for (i32 i = (i32)thread_x(); i < n; i += 256) {
        loss_entry *e = &entries[i];
        if (e->anchor < 0) continue;
        const i64 at = (i64)image * a.max_targets + e->target;
        e->score = e->metric * ((const float *)a.best_overlap)[at] / (((const float *)a.best_metric)[at] + 1e-9f);
        sum += (double)e->score;
    }
    sum = block_sum(sum, scratch);
    if (thread_x() == 0) ((double *)a.sums)[image * 4] = sum;
}

DEVICE float normal_of(const loss_args &a) {
    double total = 0.0;
    for (i32 i = 0; i < a.n; i++) total += ((const double *)a.sums)[i * 4];
    return max_f((float)total, 1.0f);
}

/* One block an image: box and L1 terms of the positives with their gradients. */
KERNEL(256) loss_boxes(loss_args a) {
    SHARED double scratch[256];
    const i32 image = (i32)block_x(), n = target_count(a, image) * a.topk;
    const float *gains = (const float *)a.gains;
    const float normal = normal_of(a), outer = gains[3] * gains[4], box_scale = outer * gains[0] / normal,
                l1_scale = outer * gains[2] / normal;
    const loss_entry *entries = entries_of(a, image);
    double box = 0.0, l1 = 0.0;
    for (i32 i = (i32)thread_x(); i < n; i += 256) {
        const loss_entry e = entries[i];
        if (e.anchor < 0) continue;
        const anchor_at p(a, e.anchor);
        float corners[4], grad[4], distance = 0.0f;
        target_corners(a, (const float *)a.targets + ((i64)image * a.max_targets + e.target) * 5, corners);
#pragma unroll
        for (int k = 0; k < 4; k++) corners[k] /= p.stride;
        const i64 at = (i64)image * 4 * a.anchors + e.anchor;
        const float *raw = (const float *)a.boxes + at;
        const float predicted[4] = {p.x - raw[0], p.y - raw[a.anchors], p.x + raw[2 * a.anchors],
                                    p.y + raw[3 * a.anchors]};
        const ciou_terms c(predicted, corners);
        c.gradient(predicted, corners, grad);
        box += (double)((1.0f - c.value) * e.score);
        const float wished[4] = {p.x - corners[0], p.y - corners[1], corners[2] - p.x, corners[3] - p.y};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float side = k % 2 == 0 ? image_width(a) : image_height(a);
            const float d = raw[(i64)k * a.anchors] * p.stride / side - wished[k] * p.stride / side;
            distance += abs_f(d);
            const float corner = k < 2 ? grad[k] : -grad[k], sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
            ((float *)a.grad_boxes)[at + (i64)k * a.anchors] =
                e.score * (corner * box_scale + sign * (p.stride / side) * 0.25f * l1_scale);
        }
        l1 += (double)(distance * 0.25f * e.score);
    }
    box = block_sum(box, scratch);
    l1 = block_sum(l1, scratch);
    if (thread_x() != 0) return;
    ((double *)a.sums)[image * 4 + 1] = box;
    ((double *)a.sums)[image * 4 + 2] = l1;
}

/* All class entries as background: block (anchors, class, image), 1024 anchors a block; partial sums times the class
 * weight. */
KERNEL(256) loss_classes(loss_args a) {
    SHARED double scratch[256];
    const i32 cls = (i32)block_y(), image = (i32)block_z();
    const float *gains = (const float *)a.gains;
    const float weight = gains[5 + cls], scale = gains[3] * gains[4] * gains[1] / normal_of(a) * weight;
    const i64 row = ((i64)image * a.nc + cls) * a.anchors;
    float sum = 0.0f;
    for (i32 q = 0; q < 4; q++) {
        const i32 anchor = (i32)(block_x() * 1024 + q * 256 + thread_x());
        if (anchor >= a.anchors) break;
        const float z = ((const float *)a.scores)[row + anchor];
        const logit_terms l(z);
        sum += z - l.log_sigmoid;
        ((float *)a.grad_scores)[row + anchor] = l.sigmoid * scale;
    }
    const double total = block_sum((double)sum, scratch);
    if (thread_x() == 0)
        ((double *)a.class_sums)[((i64)image * a.nc + cls) * a.class_blocks + block_x()] = total * (double)weight;
}

/* One block an image: class terms of the positives put right. */
KERNEL(256) loss_positives(loss_args a) {
    SHARED double scratch[256];
    const i32 image = (i32)block_x(), n = target_count(a, image) * a.topk;
    const float *gains = (const float *)a.gains;
    const float scale = gains[3] * gains[4] * gains[1] / normal_of(a);
    const loss_entry *entries = entries_of(a, image);
    double sum = 0.0;
    for (i32 i = (i32)thread_x(); i < n; i += 256) {
        const loss_entry e = entries[i];
        if (e.anchor < 0 || e.score == 0.0f) continue;
        const i32 cls = (i32)((const float *)a.targets)[((i64)image * a.max_targets + e.target) * 5];
        const i64 at = ((i64)image * a.nc + cls) * a.anchors + e.anchor;
        const float z = ((const float *)a.scores)[at], weight = gains[5 + cls];
        sum += ((double)bce(z, e.score) - (double)bce(z, 0.0f)) * (double)weight;
        ((float *)a.grad_scores)[at] = (logit_terms(z).sigmoid - e.score) * (scale * weight);
    }
    sum = block_sum(sum, scratch);
    if (thread_x() == 0) ((double *)a.sums)[image * 4 + 3] = sum;
}

/* One block: the three items after gains. */
KERNEL(256) loss_items(loss_args a) {
    SHARED double scratch[256];
    const float *gains = (const float *)a.gains;
    const float normal = normal_of(a);
    const i32 partials = a.n * a.nc * a.class_blocks;
    double cls = 0.0, box = 0.0, l1 = 0.0;
    for (i32 i = (i32)thread_x(); i < partials; i += 256) cls += ((const double *)a.class_sums)[i];
    for (i32 i = (i32)thread_x(); i < a.n; i += 256) {
        const double *s = (const double *)a.sums + i * 4;
        box += s[1];
        l1 += s[2];
        cls += s[3];
    }
    cls = block_sum(cls, scratch);
    box = block_sum(box, scratch);
    l1 = block_sum(l1, scratch);
    if (thread_x() != 0) return;
    float *items = (float *)a.items;
    items[0] = (float)box / normal * gains[0];
    items[1] = (float)cls / normal * gains[1];
    items[2] = (float)l1 / normal * gains[2];
}
